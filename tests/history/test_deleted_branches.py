"""What a deleted branch had can be read by the ids of its commits, until a cleanup."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import NotFound
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, open
from tests.crash.children import KILLED, run_child
from tests.history.children import delete_and_die
from tests.merge.graphs import make, people, run

NOW = timedelta(0)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def ages(graph: Graph, commit: str) -> dict[str, int | None]:
    found = graph.snapshot(commit=commit).read("Person", ["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in found}


def written(graph: Graph, branch: str, age: int, source: str = "main") -> str:
    if branch not in [known.name for known in graph.branches]:
        graph.branches.create(branch, source=source)
    return run(graph, f'update Person set {{ age: {age} }} where name = "ada"', branch)


def test_its_commits_read_as_before_also_in_another_process(graph: Graph) -> None:
    first, second = written(graph, "draft", 1), written(graph, "draft", 2)
    held = graph.snapshot("draft")
    graph.branches.delete("draft")
    third = written(graph, "draft", 3)
    with open(graph.location, mode="r") as other:
        for each in (graph, other):
            assert [ages(each, c)["ada"] for c in (first, second, third)] == [1, 2, 3]
            assert each.commit(second).branch == "draft"
            query = 'query q() { match { $p: Person { name: "ada" } } return { $p.age as a } }'
            assert each.query(query, commit=second).to_rows() == [{"a": 2}]
            assert str(each.diff(first, second).summary()) == "~1 Person"
            assert str(each.diff(second, "main").summary()) == "~1 Person"
    assert held.read("Person", ["age"], "name = 'ada'")["age"].to_pylist() == [2]
    assert graph.check().problems == ()


def test_also_those_of_a_branch_of_a_branch(graph: Graph) -> None:
    outer = written(graph, "outer", 1)
    inner = written(graph, "inner", 2, source="outer")
    graph.branches.delete("inner")
    assert [ages(graph, c)["ada"] for c in (outer, inner)] == [1, 2]
    graph.branches.delete("outer")
    assert [ages(graph, c)["ada"] for c in (outer, inner)] == [1, 2]
    assert graph.cleanup(confirm=True, leftovers_older_than=NOW).branches == ("inner", "outer")


def test_a_cleanup_ends_it_a_day_later(graph: Graph) -> None:
    gone = written(graph, "draft", 1)
    kept = written(graph, "other", 5)
    graph.branches.delete("draft")
    assert graph.cleanup(confirm=True).branches == ()
    assert ages(graph, gone)["ada"] == 1
    shown = graph.cleanup(leftovers_older_than=NOW)
    assert shown.branches == ("draft",) and shown.files
    assert ages(graph, gone)["ada"] == 1
    done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert (done.branches, done.places) == (shown.branches, shown.places)
    with pytest.raises(NotFound, match=f"no commit or tag `{gone}`"):
        ages(graph, gone)
    assert ages(graph, kept)["ada"] == 5
    assert graph.cleanup(confirm=True, leftovers_older_than=NOW).branches == ()
    assert graph.check().problems == ()


def test_a_tag_keeps_them(graph: Graph) -> None:
    old = written(graph, "draft", 1)
    graph.branches.delete("draft")
    graph.tags.create("v1", old)
    assert graph.cleanup(confirm=True, leftovers_older_than=NOW).branches == ()
    assert ages(graph, "v1")["ada"] == 1
    graph.tags.delete("v1")
    assert graph.cleanup(confirm=True, leftovers_older_than=NOW).branches == ("draft",)


def test_what_is_merged_stays_when_the_branch_is_cleaned_up(graph: Graph) -> None:
    written(graph, "draft", 1)
    graph.merge("draft")
    graph.branches.delete("draft")
    graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert people(graph)["ada"] == (1, "Rome")
    assert graph.check().problems == ()


def test_a_base_on_a_deleted_branch_is_a_base(graph: Graph) -> None:
    """Two branches that both merged a third one do not conflict on it, though it is gone."""
    graph.branches.create("one")
    graph.branches.create("two")
    written(graph, "third", 7)
    for branch in ("one", "two"):
        graph.merge("third", into=branch)
    graph.branches.delete("third")
    run(graph, 'update Person set { age: 8 } where name = "ada"', "two")
    assert graph.merge("two", into="one").outcome == "merged"
    assert people(graph, "one")["ada"][0] == 8


def test_a_deleted_branch_can_be_merged_by_its_last_commit(graph: Graph) -> None:
    last = written(graph, "draft", 1)
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    graph.branches.delete("draft")
    assert graph.merge(last).outcome == "merged"
    assert people(graph)["ada"] == (1, "Oslo")
    assert graph.merge(last).outcome == "already_up_to_date"


@pytest.mark.parametrize("point", ["branch.archived", "branch.deleted"])
def test_a_process_that_dies_while_it_deletes_a_branch(graph: Graph, point: str) -> None:
    commit = written(graph, "draft", 1)
    assert run_child(delete_and_die, graph.location, point) == KILLED
    with open(graph.location) as again:
        assert ages(again, commit)["ada"] == 1
        is_there = "draft" in [branch.name for branch in again.branches]
        assert is_there == (point == "branch.archived")
        # What is still there is not cleaned up.
        done = again.cleanup(confirm=True, leftovers_older_than=NOW).branches
        assert done == (() if is_there else ("draft",))
        if is_there:
            newer = written(again, "draft", 2)
            again.branches.delete("draft")
            assert [ages(again, c)["ada"] for c in (commit, newer)] == [1, 2]
        assert again.check().problems == ()


def test_a_deletion_that_fails_leaves_the_branch(graph: Graph) -> None:
    commit = written(graph, "draft", 1)
    with failpoints.active("branch.archived", "raise"), pytest.raises(FailpointError):
        graph.branches.delete("draft")
    assert graph.snapshot("draft").commit == commit
    assert graph.commits("draft")[0].id == commit
