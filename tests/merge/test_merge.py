"""Merging branches: outcomes, conflicts, and how they are settled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import MergeConflicts, NotFound, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.merge.conflicts import read_resolutions, write_resolutions
from tests.merge.graphs import content, edges, make, people, run


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = make(tmp_path)
    made.branches.create("draft")
    return made


def conflicts(graph: Graph, source: str = "draft", **options: Any) -> list[tuple[Any, ...]]:
    with pytest.raises(MergeConflicts) as caught:
        graph.merge(source, **options)
    return [
        (c.kind, c.type, c.id, c.property, c.base, c.ours, c.theirs) for c in caught.value.conflicts
    ]


# --- outcomes ---


def test_different_properties_of_one_entity_merge_without_conflict(graph):
    run(graph, 'update Person set { age: 37 } where name = "ada"', "draft")
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    result = graph.merge("draft", actor="eve", message="review")
    assert result.outcome == "merged"
    assert people(graph)["ada"] == (37, "Oslo")
    assert (result.commit.actor, result.commit.message) == ("eve", "review")
    assert result.commit.parents == (result.commit.parents[0], graph.snapshot("draft").commit)
    assert graph.commits()[1].id == result.commit.parents[0]
    assert graph.check().problems == ()


def test_a_branch_without_changes_of_its_own_is_moved_forward_and_reads_no_fork(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'delete Person where name = "bob"', "draft")
    result = graph.merge("draft")
    assert result.outcome == "fast_forward"
    assert content(graph) == content(graph, "draft")
    before = content(graph)
    graph.branches.delete("draft")
    assert content(graph) == before
    assert len(result.commit.parents) == 2


def test_merging_again_is_already_up_to_date(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    graph.merge("draft")
    head = graph.snapshot().commit
    again = graph.merge("draft")
    assert (again.outcome, again.commit, again.tables) == ("already_up_to_date", None, {})
    assert graph.snapshot().commit == head
    run(graph, 'insert Person { name: "eva" }')
    assert graph.merge("draft").outcome == "already_up_to_date"


def test_edits_that_cancel_out_merge_to_nothing_and_are_recorded(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 36 } where name = "ada"', "draft")
    run(graph, 'insert Person { name: "dan" }')
    before = content(graph)
    result = graph.merge("draft")
    assert (result.outcome, result.tables) == ("merged", {})
    assert result.commit.parents[1] == graph.snapshot("draft").commit
    assert result.commit.changes == {}
    assert content(graph) == before
    assert graph.merge("draft").outcome == "already_up_to_date"
    with open(graph.location) as other:
        assert content(other) == before


def test_a_branch_can_be_merged_into_another_branch_that_has_no_tables_of_its_own(graph):
    graph.branches.create("review")
    run(graph, 'insert Person { name: "dan" }', "draft")
    assert graph.merge("draft", into="review").outcome == "fast_forward"
    assert "dan" in people(graph, "review") and "dan" not in people(graph)
    assert graph.check().problems == ()


def test_a_commit_or_a_tag_can_be_merged_instead_of_a_head(graph):
    first = run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'insert Person { name: "eva" }', "draft")
    graph.merge(first)
    assert "dan" in people(graph) and "eva" not in people(graph)


def test_a_dry_run_changes_nothing_and_predicts_exactly(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    run(graph, 'delete Person where name = "cy"', "draft")
    run(graph, 'insert Person { name: "eva" }')
    before, head = content(graph), graph.snapshot().commit
    with open(graph.location, mode="r") as reader:
        planned = reader.merge("draft", dry_run=True)
    assert (content(graph), graph.snapshot().commit) == (before, head)
    done = graph.merge("draft")
    assert (planned.outcome, planned.tables, planned.bases) == (
        done.outcome, done.tables, done.bases
    )  # fmt: skip
    assert planned.commit is None


def test_a_dry_run_returns_the_conflicts_that_the_merge_would_raise(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    planned = graph.merge("draft", dry_run=True)
    assert planned.outcome == "conflicts"
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    assert caught.value.conflicts == planned.conflicts


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("nothing", {}, NotFound),
        ("draft", {"into": "nothing"}, NotFound),
        ("main", {}, UsageError),
        ("draft", {"granularity": "table"}, UsageError),
        ("draft", {"prefer": "mine"}, UsageError),
        ("draft", {"resolutions": "missing.yaml"}, NotFound),
        ("draft", {"resolutions": [{"kind": "Odd", "resolution": "ours"}]}, UsageError),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(graph, source, options, error):
    with pytest.raises(error):
        graph.merge(source, **options)


def test_a_name_that_is_almost_that_of_a_branch_gets_a_suggestion(graph):
    for call in (graph.merge, partial(graph.diff, "main")):
        with pytest.raises(NotFound, match="no branch, commit or tag `drft`; did you mean `draft`"):
            call("drft")


def test_a_snapshot_of_another_graph_is_refused(graph, tmp_path):
    with init(tmp_path / "other", "node Thing { name: String @key }") as other:
        for call in (graph.merge, partial(graph.diff, "main")):
            with pytest.raises(UsageError, match="another graph"):
                call(other.snapshot())


# --- histories ---


def test_two_branches_that_both_merged_a_third_do_not_conflict_on_it(graph):
    graph.branches.create("third")
    run(graph, 'update Person set { age: 50 } where name = "ada"', "third")
    run(graph, 'insert Person { name: "dan", age: 1 }', "third")
    run(graph, 'insert Person { name: "eva" }')
    graph.merge("third")
    graph.merge("third", into="draft")
    run(graph, 'update Person set { age: 51 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "dan"')
    result = graph.merge("draft")
    assert result.bases == (graph.snapshot("third").commit,)
    assert people(graph)["ada"][0] == 51
    assert people(graph)["dan"][0] == 2


def test_a_criss_cross_history_has_a_base_of_both_ancestors(graph):
    """Two branches that merged the same two others, in either order."""
    for name in ("one", "two", "left", "right"):
        graph.branches.create(name)
    run(graph, 'update Person set { age: 1 } where name = "ada"', "one")
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"', "two")
    run(graph, 'insert Person { name: "dan", age: 5 }', "two")
    for into, order in (("left", ("one", "two")), ("right", ("two", "one"))):
        for source in order:
            graph.merge(source, into=into)
    run(graph, 'update Person set { age: 2 } where name = "ada"', "left")
    run(graph, 'update Person set { city: "Bern" } where name = "ada"', "right")
    run(graph, 'update Person set { age: 6 } where name = "dan"', "right")
    result = graph.merge("right", into="left")
    assert len(result.bases) == 2
    assert people(graph, "left")["ada"] == (2, "Bern")
    assert people(graph, "left")["dan"] == (6, None)
    assert graph.merge("left", into="right").outcome == "fast_forward"
    assert content(graph, "left") == content(graph, "right")


def test_what_a_criss_cross_settled_differently_is_a_conflict(graph):
    for name in ("one", "two", "left", "right"):
        graph.branches.create(name)
    run(graph, 'update Person set { age: 1 } where name = "ada"', "one")
    run(graph, 'update Person set { age: 2 } where name = "ada"', "two")
    run(graph, 'delete Person where name = "cy"', "one")
    run(graph, 'update Person set { age: 3 } where name = "cy"', "two")
    graph.merge("one", into="left")
    graph.merge("two", into="left", prefer="ours")
    graph.merge("two", into="right")
    graph.merge("one", into="right", prefer="ours")
    found = conflicts(graph, "right", into="left")
    assert [(kind, id, ours, theirs) for kind, _, id, _, _, ours, theirs in found] == [
        ("DivergentUpdate", "ada", 1, 2),
        ("DeleteVsUpdate", "cy", None, {"name": "cy", "age": 3, "city": None, "email": None}),
    ]
    found = conflicts(graph, "left", into="right")
    assert [(kind, id) for kind, _, id, *_ in found] == [
        ("DivergentUpdate", "ada"),
        ("DeleteVsUpdate", "cy"),
    ]


def test_a_branch_that_is_merged_again_and_again_conflicts_only_with_what_is_new(graph):
    for turn in range(4):
        run(graph, f'update Person set {{ age: {turn} }} where name = "ada"', "draft")
        run(graph, f'update Person set {{ city: "{turn}" }} where name = "ada"')
        graph.merge("draft")
        assert people(graph)["ada"] == (turn, str(turn))
    graph.merge("main", into="draft")
    assert content(graph) == content(graph, "draft")


def test_a_deleted_edge_stays_deleted_and_no_edge_is_doubled(graph):
    run(graph, 'insert Knows { from: "ada", to: "cy" }', "draft")
    run(graph, 'delete Knows where from = "ada"')
    graph.merge("draft")
    assert edges(graph) == [("ada", "cy")]
    graph.merge("main", into="draft")
    assert edges(graph, "draft") == [("ada", "cy")]
    run(graph, 'insert Person { name: "dan" }', "draft")
    graph.merge("draft")
    assert edges(graph) == [("ada", "cy")]


def test_an_id_that_was_deleted_and_inserted_again_is_an_update(graph):
    run(graph, 'delete Person where name = "cy"', "draft")
    run(graph, 'insert Person { name: "cy", age: 9 }', "draft")
    run(graph, 'update Person set { city: "Oslo" } where name = "cy"')
    graph.merge("draft")
    assert people(graph)["cy"] == (9, "Oslo")


def test_a_deleted_third_branch_gives_way_to_an_older_base(graph):
    graph.branches.create("third")
    run(graph, 'update Person set { age: 50 } where name = "ada"', "third")
    run(graph, 'insert Person { name: "eva" }')
    graph.merge("third")
    graph.merge("third", into="draft")
    graph.branches.delete("third")
    run(graph, 'insert Person { name: "fay" }', "draft")
    assert graph.merge("draft").outcome == "merged"
    assert people(graph)["ada"][0] == 50


# --- conflicts ---


def test_one_property_changed_differently_is_one_conflict_with_three_values(graph):
    run(graph, 'update Person set { age: 1, city: "Oslo" } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    before = content(graph)
    assert conflicts(graph) == [("DivergentUpdate", "Person", "ada", "age", 36, 2, 1)]
    assert content(graph) == before
    assert graph.merge("draft", prefer="theirs").outcome == "merged"
    assert people(graph)["ada"] == (1, "Oslo")


def test_with_rows_as_the_grain_the_whole_entity_is_the_conflict(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    ((kind, _, id, property, base, ours, theirs),) = conflicts(graph, granularity="row")
    assert (kind, id, property) == ("DivergentUpdate", "ada", None)
    assert (base["age"], ours["city"], theirs["age"]) == (36, "Oslo", 1)
    graph.merge("draft", granularity="row", prefer="theirs")
    assert people(graph)["ada"] == (1, "Rome")


def test_all_conflicts_of_all_kinds_are_found_at_once(graph):
    run(graph, 'insert Note { text: "one" }')
    (note,) = content(graph)["Note"]
    graph.merge("main", into="draft")
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    run(graph, 'delete Person where name = "bob"', "draft")
    run(graph, 'update Person set { age: 3 } where name = "bob"')
    run(graph, 'insert Person { name: "dan", age: 4, email: "d" }', "draft")
    run(graph, 'insert Person { name: "dan", age: 5, email: "d" }')
    run(graph, 'insert Person { name: "eva", email: "e" }')
    run(graph, 'insert Person { name: "fay", email: "e" }', "draft")
    run(graph, 'delete Person where name = "cy"', "draft")
    run(graph, 'insert Knows { from: "ada", to: "cy" }')
    for branch in ("main", "draft"):
        run(graph, f'insert Wrote {{ from: "ada", to: "{note}" }}', branch)
    run(graph, f'insert Wrote {{ from: "ada", to: "{note}" }}', "draft")
    found = conflicts(graph)
    kinds = sorted((kind, id if type != "Knows" else "") for kind, type, id, *_ in found)
    assert kinds == [
        ("CardinalityViolation", "ada"),
        ("DeleteVsUpdate", "bob"),
        ("DivergentInsert", "dan"),
        ("DivergentUpdate", "ada"),
        ("OrphanEdge", ""),
        ("UniqueViolation", "fay"),
    ]
    for side in ("ours", "theirs"):
        planned = graph.merge("draft", prefer=side, dry_run=True)
        assert (planned.outcome, len(planned.settled)) == ("merged", 6)
    graph.merge("draft", prefer="theirs")
    assert people(graph, "main", "age")["ada"] == (1,)
    assert graph.check().problems == ()
    assert content(graph)["Person"] == content(graph, "draft")["Person"]


def test_hundreds_of_conflicts_are_all_listed(tmp_path):
    names = [f"p{number:03}" for number in range(300)]
    graph = make(tmp_path, start=" ".join(f'insert Person {{ name: "{n}" }}' for n in names))
    graph.branches.create("draft")
    run(graph, " ".join(f'insert Knows {{ from: "p000", to: "{n}" }}' for n in names))
    run(graph, 'delete Person where name != "p000"', "draft")
    found = conflicts(graph)
    assert len(found) == 299
    assert {kind for kind, *_ in found} == {"OrphanEdge"}
    graph.merge("draft", prefer="theirs")
    assert edges(graph) == [("p000", "p000")]


@pytest.mark.parametrize(
    ("side", "nodes", "left"),
    [("ours", {"ada", "bob", "cy"}, [("ada", "bob"), ("bob", "cy")]),
     ("theirs", {"ada", "bob"}, [("ada", "bob")])],
)  # fmt: skip
def test_an_edge_to_a_node_that_the_other_side_deleted(graph, side, nodes, left):
    run(graph, 'delete Person where name = "cy"', "draft")
    run(graph, 'insert Knows { from: "bob", to: "cy" }')
    ((kind, type, _, property, base, ours, theirs),) = conflicts(graph)
    assert (kind, type, property) == ("OrphanEdge", "Knows", "to")
    assert (base, ours, theirs) == (None, "cy", None)
    graph.merge("draft", prefer=side)
    assert set(people(graph)) == nodes
    assert edges(graph) == left
    assert graph.check().problems == ()


def test_an_edge_that_comes_to_a_node_that_is_gone_is_settled_by_either_side(graph):
    run(graph, 'insert Knows { from: "bob", to: "cy" }', "draft")
    run(graph, 'delete Person where name = "cy"')
    assert [kind for kind, *_ in conflicts(graph)] == ["OrphanEdge"]
    assert graph.merge("draft", prefer="ours", dry_run=True).tables == {}
    graph.merge("draft", prefer="theirs")
    assert edges(graph) == [("ada", "bob"), ("bob", "cy")]
    assert "cy" in people(graph)


def test_a_settled_edge_leaves_other_changes_of_nodes_alone(graph):
    """Only the end that the edge has on the side that wins is taken from it."""
    run(graph, 'insert Knows { from: "cy", to: "cy" }')
    graph.merge("main", into="draft")
    run(graph, 'update Knows set { to: "bob" } where from = "cy"', "draft")
    run(graph, 'update Person set { age: 9 } where name = "cy"')
    run(graph, 'delete Person where name = "bob"')
    run(graph, 'update Person set { city: "Oslo" } where name = "cy"', "draft")
    graph.merge("draft", prefer="theirs")
    assert people(graph)["cy"] == (9, "Oslo")
    assert ("cy", "bob") in edges(graph)


def test_a_settled_number_of_edges_leaves_the_node_alone(graph):
    run(graph, 'insert Note { text: "one" }')
    (note,) = content(graph)["Note"]
    graph.merge("main", into="draft")
    for branch in ("main", "draft"):
        for _ in range(2):
            run(graph, f'insert Wrote {{ from: "ada", to: "{note}" }}', branch)
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    before = content(graph)["Wrote"]
    result = graph.merge("draft", prefer="ours")
    assert [c.kind for c in result.settled] == ["CardinalityViolation"]
    assert content(graph)["Wrote"] == before
    assert people(graph)["ada"] == (1, "Oslo")


def test_a_new_node_with_too_few_edges_on_the_side_that_wins_goes_with_them(tmp_path):
    schema = """
    node Person { name: String @key }
    node Team { name: String @key }
    edge In: Person -> Team @card(1..1)
    """
    start = 'insert Team { name: "a" } insert Team { name: "b" }'
    with make(tmp_path, schema, start) as graph:
        graph.branches.create("draft")
        run(graph, 'insert Person { name: "eva" } insert In { from: "eva", to: "a" }', "draft")
        run(graph, 'delete Team where name = "a"')
        assert [kind for kind, *_ in conflicts(graph)] == ["OrphanEdge"]
        # Without the edge, the person would be in no team.
        graph.merge("draft", prefer="ours", dry_run=True)
        graph.merge("draft", prefer="ours")
        assert content(graph)["Person"] == {}
        assert content(graph)["In"] == {}
        assert graph.check().problems == ()


# --- resolution files ---


def test_a_resolution_file_settles_conflicts_by_side_and_by_value(graph, tmp_path):
    run(graph, 'update Person set { age: 1, city: "A" } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2, city: "B" } where name = "ada"')
    run(graph, 'insert Person { name: "eva", email: "e" }')
    run(graph, 'insert Person { name: "fay", email: "e" }', "draft")
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    file = tmp_path / "conflicts.yaml"
    write_resolutions(file, caught.value.conflicts)
    assert read_resolutions(file) == {}
    text = file.read_text()
    assert text.count("resolution: null") == 3
    for choice in ("{value: 40}", "theirs", "{value: f}"):
        text = text.replace("resolution: null", f"resolution: {choice}", 1)
    file.write_text(text)
    result = graph.merge("draft", resolutions=file)
    assert len(result.settled) == 3
    assert people(graph)["ada"] == (40, "A")
    assert people(graph, "main", "email")["fay"] == ("f",)


def test_conflicts_without_a_resolution_stay_conflicts(graph):
    run(graph, 'update Person set { age: 1, city: "A" } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2, city: "B" } where name = "ada"')
    first: dict[str, Any] = {"kind": "DivergentUpdate", "type": "Person", "id": "ada"}
    age = {**first, "property": "age", "resolution": "base"}
    assert [c[3] for c in conflicts(graph, resolutions=[age])] == ["city"]
    graph.merge("draft", resolutions=[age], prefer="ours")
    assert people(graph)["ada"] == (36, "B")


def test_a_value_that_does_not_fit_or_breaks_a_rule_is_refused(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 2 } where name = "ada"')
    given: dict[str, Any] = {
        "kind": "DivergentUpdate", "type": "Person", "id": "ada", "property": "age"
    }  # fmt: skip
    with pytest.raises(UsageError, match="age"):
        graph.merge("draft", resolutions=[{**given, "resolution": {"value": "old"}}])
    with pytest.raises(UsageError, match="resolution"):
        graph.merge("draft", resolutions=[{**given, "resolution": "mine"}])


# --- in company ---


def overtaken(action: Callable[[], Any]) -> AbstractContextManager[None]:
    """Do something once a merge is prepared, and before it is written."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            action()

    return failpoints.active("merge.combined", once)


def test_a_merge_goes_on_when_others_change_other_rows_meanwhile(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'insert Person { name: "dan" }')
    with (
        open(graph.location) as other,
        overtaken(lambda: run(other, 'update Person set { age: 7 } where name = "bob"')),
    ):
        result = graph.merge("draft")
    assert result.outcome == "merged"
    assert (people(graph)["ada"][0], people(graph)["bob"][0]) == (1, 7)


def test_a_merge_notices_a_conflict_that_came_while_it_was_prepared(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'insert Person { name: "dan" }')
    with (
        open(graph.location) as other,
        overtaken(lambda: run(other, 'update Person set { age: 7 } where name = "ada"')),
        pytest.raises(MergeConflicts),
    ):
        graph.merge("draft")
    assert people(graph)["ada"][0] == 7


def test_a_merge_notices_an_edge_that_came_to_a_node_that_it_deletes(graph):
    run(graph, 'delete Person where name = "cy"', "draft")
    run(graph, 'insert Person { name: "dan" }')
    with (
        open(graph.location) as other,
        overtaken(lambda: run(other, 'insert Knows { from: "ada", to: "cy" }')),
        pytest.raises(MergeConflicts),
    ):
        graph.merge("draft")
    assert "cy" in people(graph)


def test_the_same_merge_by_two_is_done_once(graph):
    run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
    run(graph, 'update Person set { age: 36 } where name = "ada"', "draft")
    outcomes: list[str] = []
    with (
        open(graph.location) as other,
        overtaken(lambda: outcomes.append(other.merge("draft").outcome)),
    ):
        result = graph.merge("draft")
    assert (outcomes, result.outcome) == (["fast_forward"], "already_up_to_date")
    assert len([c for c in graph.commits() if len(c.parents) > 1]) == 1


def test_a_fast_forward_that_is_overtaken_is_checked_like_any_merge(graph):
    run(graph, 'insert Person { name: "fay", email: "e" }', "draft")
    with (
        open(graph.location) as other,
        overtaken(lambda: run(other, 'insert Person { name: "eva", email: "e" }')),
        pytest.raises(MergeConflicts) as caught,
    ):
        graph.merge("draft")
    assert [c.kind for c in caught.value.conflicts] == ["UniqueViolation"]


def test_a_merge_repeated_with_its_idempotency_key_is_done_once(graph):
    run(graph, 'insert Person { name: "dan" }', "draft")
    first = graph.merge("draft", idempotency_key="k")
    run(graph, 'insert Person { name: "eva" }', "draft")
    again = graph.merge("draft", idempotency_key="k")
    assert again.commit.id == first.commit.id
    assert "eva" not in people(graph)


def test_a_diff_since_the_base_is_what_a_merge_brings(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        graph.branches.create("draft")
        run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
        run(graph, 'update Person set { city: "Oslo" } where name = "bob"')
        assert [c.id for c in graph.diff("main", "draft")] == ["ada", "bob"]
        found = graph.diff("main", "draft", since_base=True)
        assert [(c.id, c.properties) for c in found] == [("ada", ("age",))]
        graph.merge("draft")
        assert list(graph.diff("main", "draft", since_base=True)) == []
        assert [c.id for c in graph.diff("draft", "main", since_base=True)] == ["bob"]
