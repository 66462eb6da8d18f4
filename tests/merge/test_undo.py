"""Reverting commits, and picking them onto other branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import MergeConflicts, NotFound, PreconditionFailed, UsageError
from omnigraph.graph import Graph, init, open
from tests.merge.graphs import content, edges, make, people, run


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = make(tmp_path)
    made.branches.create("draft")
    return made


def conflicts(call: Any, *arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
    with pytest.raises(MergeConflicts) as caught:
        call(*arguments, **options)
    return [
        (c.kind, c.type, c.id, c.property, c.base, c.ours, c.theirs) for c in caught.value.conflicts
    ]


# --- reverting ---


@pytest.mark.parametrize(
    "statements",
    [
        'insert Person { name: "dan", age: 1 } insert Knows { from: "dan", to: "ada" }',
        'update Person set { age: 1, city: null } where name = "ada"',
        'delete Person where name = "bob"',
        'delete Knows where from = "ada"',
        'insert Note { text: "hi" }',
    ],
)
def test_reverting_the_newest_commit_restores_what_was_before(graph, statements):
    before = content(graph)
    made = run(graph, statements)
    after = content(graph)
    result = graph.revert(made, actor="eve")
    assert (result.outcome, result.source, result.into) == ("reverted", made, "main")
    assert result.bases == (made,)
    assert content(graph) == before
    commit = graph.commits()[0]
    assert commit.id == result.commit.id
    assert (commit.parents, commit.actor, commit.message) == ((made,), "eve", f"revert {made}")
    # A revert can be reverted, too.
    assert graph.revert(commit.id).outcome == "reverted"
    assert content(graph) == after
    assert graph.check().problems == ()


def test_reverting_an_older_commit_keeps_what_came_later(graph):
    first = run(graph, 'update Person set { age: 1 } where name = "ada"')
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    run(graph, 'insert Person { name: "dan" }')
    graph.revert(first)
    assert people(graph)["ada"] == (36, "Oslo")
    assert "dan" in people(graph)


def test_what_was_changed_differently_since_is_a_conflict(graph):
    first = run(graph, 'update Person set { age: 1 } where name = "ada"')
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    before, head = content(graph), graph.snapshot().commit
    found = conflicts(graph.revert, first)
    assert found == [("DivergentUpdate", "Person", "ada", "age", 1, 2, 36)]
    planned = graph.revert(first, dry_run=True)
    assert (planned.outcome, len(planned.conflicts), planned.commit) == ("conflicts", 1, None)
    assert (content(graph), graph.snapshot().commit) == (before, head)
    with pytest.raises(MergeConflicts, match=f"reverting {first} on `main`: 1 conflict;"):
        graph.revert(first)
    settled = [{**planned.conflicts[0].to_dict(), "resolution": {"value": 7}}]
    assert graph.revert(first, resolutions=settled).outcome == "reverted"
    assert people(graph)["ada"][0] == 7
    assert graph.revert(first, prefer="theirs").outcome == "reverted"
    assert people(graph)["ada"][0] == 36


def test_settled_with_ours_there_is_nothing_left_to_do(graph):
    first = run(graph, 'update Person set { age: 1 } where name = "ada"')
    head = run(graph, 'update Person set { age: 2 } where name = "ada"')
    result = graph.revert(first, prefer="ours")
    assert (result.outcome, result.commit, len(result.settled)) == ("already_up_to_date", None, 1)
    assert graph.snapshot().commit == head


def test_rows_as_a_whole_conflict_when_asked_for(graph):
    first = run(graph, 'update Person set { age: 1 } where name = "ada"')
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    found = conflicts(graph.revert, first, granularity="row")
    assert [each[:4] for each in found] == [("DivergentUpdate", "Person", "ada", None)]


def test_an_insert_cannot_be_undone_under_a_later_edge_unless_that_is_settled(graph):
    made = run(graph, 'insert Person { name: "dan" }')
    run(graph, 'insert Knows { from: "bob", to: "dan" }')
    (edge,) = graph.snapshot().read("Knows", ["id"], "dst = 'dan'")["id"].to_pylist()
    assert [c[:4] for c in conflicts(graph.revert, made)] == [("OrphanEdge", "Knows", edge, "to")]
    graph.revert(made, prefer="theirs")
    assert "dan" not in people(graph)
    assert edges(graph) == [("ada", "bob")]
    assert graph.check().problems == ()


def test_a_deleted_edge_comes_back_once_and_a_deleted_end_is_a_conflict(graph):
    (edge,) = graph.snapshot().read("Knows", ["id"])["id"].to_pylist()
    gone = run(graph, 'delete Knows where from = "ada"')
    run(graph, 'delete Person where name = "bob"')
    assert [c[:4] for c in conflicts(graph.revert, gone)] == [("OrphanEdge", "Knows", edge, "to")]
    graph.revert(graph.commits()[0].id)
    graph.revert(gone)
    assert graph.snapshot().read("Knows", ["id"])["id"].to_pylist() == [edge]
    assert graph.revert(gone).outcome == "already_up_to_date"
    assert graph.check().problems == ()


def test_reverting_twice_changes_nothing_the_second_time(graph):
    made = run(graph, 'insert Person { name: "dan" }')
    head = graph.revert(made).commit.id
    for dry_run in (True, False):
        again = graph.revert(made, dry_run=dry_run)
        assert (again.outcome, again.commit, again.tables) == ("already_up_to_date", None, {})
    assert graph.snapshot().commit == head


def test_reverting_a_merge_takes_out_what_it_brought_and_merging_again_brings_only_what_is_new(
    graph,
):
    run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'insert Person { name: "eva" }')
    before = content(graph)
    merged = graph.merge("draft").commit.id
    after = content(graph)
    undone = graph.revert(merged)
    assert (undone.outcome, undone.commit.parents) == ("reverted", (merged,))
    assert content(graph) == before
    assert graph.merge("draft").outcome == "already_up_to_date"
    run(graph, 'insert Person { name: "flo" }', "draft")
    graph.merge("draft")
    assert {"flo", "eva"} < set(people(graph)) and "dan" not in people(graph)
    graph.revert(undone.commit.id)
    assert {name: row for name, row in people(graph).items() if name != "flo"} == {
        id: (row["age"], row["city"]) for id, row in after["Person"].items()
    }
    assert graph.check().problems == ()


def test_the_first_commit_of_a_graph_cannot_be_reverted_or_picked(graph):
    first = graph.commits()[-1].id
    for call in (graph.revert, graph.cherry_pick):
        with pytest.raises(UsageError, match="it is the first commit of the graph"):
            call(first)


def test_a_commit_that_only_built_indexes_has_nothing_to_revert(graph):
    made = graph.ensure_indices().commit
    assert made is not None
    assert graph.revert(made.id).outcome == "already_up_to_date"


def test_a_revert_on_a_branch_changes_that_branch_alone(graph):
    made = graph.commits()[0].id
    before = content(graph)
    result = graph.revert(made, branch="draft")
    assert (result.outcome, result.into) == ("reverted", "draft")
    assert people(graph, "draft") == {}
    assert content(graph) == before
    # The first commit that a branch wrote to a table is told from its source.
    again = graph.revert(result.commit.id, branch="draft")
    assert again.outcome == "reverted"
    assert content(graph, "draft") == before
    assert graph.check().problems == ()


def test_blobs_come_back_with_their_content(tmp_path):
    graph = init(tmp_path / "graph", "node Doc { title: String @key  file: Blob?  proof: Blob? }")

    def put(file: bytes | None, proof: bytes | None) -> str:
        rows = pa.table({"title": ["d"], "file": [file], "proof": [proof]})
        made = graph.write_batches({"Doc": ("merge", rows)}).commit
        assert made is not None
        return made.id

    def file() -> bytes:
        with graph.read_blob("node", "Doc", "d", "file") as value:
            return value.read()

    put(b"one" * 9000, b"p")
    second = put(b"two", b"p")
    put(b"two", b"q")
    graph.revert(second)
    assert file() == b"one" * 9000
    assert graph.stat_blob("node", "Doc", "d", "proof").size == 1
    graph.revert(run(graph, 'delete Doc where title = "d"'))
    assert file() == b"one" * 9000


# --- picking ---


def test_picking_a_commit_brings_what_it_changed_and_nothing_else(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    made = run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'insert Person { name: "eva" }', "draft")
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    head = graph.snapshot().commit
    planned = graph.cherry_pick(made, dry_run=True)
    assert graph.snapshot().commit == head
    result = graph.cherry_pick(made)
    assert (result.outcome, result.source, result.into) == ("picked", made, "main")
    assert (planned.outcome, planned.tables, planned.bases) == (
        result.outcome, result.tables, result.bases
    )  # fmt: skip
    assert people(graph)["ada"] == (1, "Oslo")
    assert {"dan", "eva"}.isdisjoint(people(graph))
    commit = graph.commits()[0]
    assert (commit.parents, commit.message) == ((head,), f"cherry-pick {made}")
    assert graph.cherry_pick(made).outcome == "already_up_to_date"


def test_a_picked_commit_does_not_conflict_with_the_merge_of_its_branch(graph):
    made = run(graph, 'insert Person { name: "dan", age: 1 }', "draft")
    run(graph, 'insert Knows { from: "dan", to: "ada" }', "draft")
    graph.cherry_pick(made)
    assert graph.merge("draft").outcome == "merged"
    assert people(graph)["dan"] == (1, None)
    assert edges(graph) == [("ada", "bob"), ("dan", "ada")]


def test_picking_an_edge_without_its_end_is_a_conflict(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    made = run(graph, 'insert Knows { from: "dan", to: "ada" }', "draft")
    assert [c[:2] for c in conflicts(graph.cherry_pick, made)] == [("OrphanEdge", "Knows")]
    with pytest.raises(MergeConflicts, match=f"picking {made} onto `main`"):
        graph.cherry_pick(made)
    graph.cherry_pick(made, prefer="theirs")
    assert ("dan", "ada") in edges(graph)


def test_a_pick_conflicts_with_what_the_branch_has_changed_differently(graph):
    made = run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    found = conflicts(graph.cherry_pick, made)
    assert found == [("DivergentUpdate", "Person", "ada", "age", 36, 2, 1)]


def test_a_merge_is_picked_as_all_that_it_brought(graph):
    graph.branches.create("review")
    run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'insert Person { name: "eva" }')
    merged = graph.merge("draft").commit
    result = graph.cherry_pick(merged.id, onto="review")
    assert result.commit.parents == (graph.commits("review")[1].id,)
    assert "dan" in people(graph, "review") and "eva" not in people(graph, "review")


# --- conditions ---


def test_a_tag_names_what_is_reverted_or_picked(graph):
    made = run(graph, 'insert Person { name: "dan" }', "draft")
    graph.tags.create("v1", made)
    assert graph.cherry_pick("v1").source == made
    assert graph.revert("v1").source == made
    assert "dan" not in people(graph)


def test_what_makes_no_sense_is_refused(graph):
    head = graph.snapshot().commit
    for call in (graph.revert, graph.cherry_pick):
        with pytest.raises(NotFound, match="no commit or tag `nope`"):
            call("nope")
        with pytest.raises(UsageError, match="granularity is"):
            call(head, granularity="cell")
        with pytest.raises(UsageError, match="prefer is"):
            call(head, prefer="mine")
        with pytest.raises(PreconditionFailed):
            call(head, if_commit=graph.commits()[1].id)
    with pytest.raises(NotFound, match="no branch `drafd`"):
        graph.revert(head, branch="drafd")
    with pytest.raises(NotFound, match="no branch `drafd`"):
        graph.cherry_pick(head, onto="drafd")
    with open(graph.location, mode="r") as reader:
        assert reader.revert(head, dry_run=True).outcome == "reverted"
        for call in (reader.revert, reader.cherry_pick):
            with pytest.raises(UsageError, match="reading only"):
                call(head)


def test_a_repeated_idempotency_key_gives_the_first_answer_and_belongs_to_one_request(graph):
    first = run(graph, 'insert Person { name: "dan" }')
    second = run(graph, 'update Person set { age: 1 } where name = "ada"')
    drafted = run(graph, 'insert Person { name: "eva" }', "draft")
    undone = graph.revert(first, idempotency_key="r")
    again = graph.revert(first, idempotency_key="r")
    assert (again.commit.id, again.outcome) == (undone.commit.id, "reverted")
    for call in (
        lambda: graph.revert(second, idempotency_key="r"),
        lambda: graph.revert(first, idempotency_key="r", prefer="theirs"),
        lambda: graph.cherry_pick(first, idempotency_key="r"),
        lambda: graph.merge("draft", idempotency_key="r"),
    ):
        with pytest.raises(UsageError, match="belongs to another write"):
            call()
    picked = graph.cherry_pick(drafted, idempotency_key="p")
    assert graph.cherry_pick(drafted, idempotency_key="p").commit.id == picked.commit.id
    run(graph, 'insert Person { name: "flo" }', "draft")
    merged = graph.merge("draft", idempotency_key="m")
    # The source may have moved on: it is the same request.
    run(graph, 'insert Person { name: "gus" }', "draft")
    assert graph.merge("draft", idempotency_key="m").commit.id == merged.commit.id
    graph.branches.create("other")
    for options in ({"granularity": "row"}, {"prefer": "ours"}):
        with pytest.raises(UsageError, match="belongs to another write"):
            graph.merge("draft", idempotency_key="m", **options)
    with pytest.raises(UsageError, match="belongs to another write"):
        graph.merge("other", idempotency_key="m")
    assert "gus" not in people(graph)


def test_a_revert_that_others_overtake_is_made_on_the_newer_state(graph):
    made = run(graph, 'update Person set { age: 1 } where name = "ada"')

    def overtake() -> None:
        with open(graph.location) as other:
            if "dan" not in people(other):
                run(other, 'insert Person { name: "dan" }')

    with failpoints.active("merge.combined", overtake):
        assert graph.revert(made).outcome == "reverted"
    assert people(graph)["ada"][0] == 36 and "dan" in people(graph)


def test_a_revert_that_others_make_a_conflict_is_refused(graph):
    made = run(graph, 'update Person set { age: 1 } where name = "ada"')

    def overtake() -> None:
        with open(graph.location) as other:
            if people(other)["ada"][0] == 1:
                run(other, 'update Person set { age: 5 } where name = "ada"')

    with failpoints.active("merge.combined", overtake):
        found = conflicts(graph.revert, made)
    assert found == [("DivergentUpdate", "Person", "ada", "age", 1, 5, 36)]
    assert people(graph)["ada"][0] == 5
