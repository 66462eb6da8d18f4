"""`Graph.branch`: a branch in one's hand, with all calls that take a branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import AlreadyExists, MergeConflicts, NotFound, UsageError
from omnigraph.graph import Graph
from tests.merge.graphs import make, people, run

AGE = 'query q() { match { $p: Person { name: "ada" } } return { $p.age as a } }'


def set_age(age: int) -> str:
    return f'query q() {{ update Person set {{ age: {age} }} where name = "ada" }}'


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def test_reads_and_writes_go_to_the_branch(graph: Graph) -> None:
    main = graph.snapshot().commit
    draft = graph.branch("draft", create=True)
    assert (draft.name, draft.head) == ("draft", main)
    made = draft.mutate(set_age(1), actor="bot", message="why").commit
    assert made is not None and draft.head == made.id
    assert draft.query(AGE).scalar() == 1
    assert graph.query(AGE).scalar() == 36
    assert draft.explain(AGE).commit == made.id
    draft.load([{"name": "dee"}], type="Person")
    assert draft.snapshot().count("Person") == 4
    page = draft.changes(start=f"after:{made.id}")
    assert [(c.operation, c.id) for c in page.commits[0].changes] == [("insert", "dee")]
    assert [c.id for c in draft.commits(actor="bot", limit=1)] == [made.id]
    assert graph.snapshot().commit == main


def test_it_is_made_only_when_that_is_wanted(graph: Graph) -> None:
    with pytest.raises(NotFound, match="no branch `draft`"):
        graph.branch("draft")
    first = graph.branch("draft", create=True)
    first.mutate(set_age(1))
    assert graph.branch("draft", create=True).head == first.head
    assert graph.branch("inner", create=True, source="draft").head == first.head
    assert graph.branch("main", create=True).name == "main"
    with pytest.raises(AlreadyExists, match="one name may not be the folder of another"):
        graph.branch("draft/x", create=True)


def test_merging_and_deleting(graph: Graph) -> None:
    draft = graph.branch("draft", create=True)
    draft.mutate(set_age(1))
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    assert draft.merge_into(dry_run=True, delete_branch=True).outcome == "conflicts"
    with pytest.raises(MergeConflicts):
        draft.merge_into("main", delete_branch=True)
    with pytest.raises(UsageError, match="ours or theirs"):
        draft.merge_into(ours=True, theirs=True)
    assert "draft" in [b.name for b in graph.branches]
    assert draft.merge_into(theirs=True, delete_branch=True, actor="ada").outcome == "merged"
    assert people(graph)["ada"][0] == 1
    assert "draft" not in [b.name for b in graph.branches]
    with pytest.raises(NotFound, match="no branch `draft`"):
        draft.query(AGE)


def test_our_side_wins_if_asked_for(graph: Graph) -> None:
    draft = graph.branch("draft", create=True)
    draft.mutate(set_age(1))
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    assert draft.merge_into(ours=True).outcome == "merged"
    assert people(graph)["ada"][0] == 2
    draft.delete()
