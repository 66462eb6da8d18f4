"""Optimize: fewer fragments, complete indexes, whoever writes meanwhile; nothing else changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.failpoints import POINTS
from omnigraph.graph import Graph, init, open
from omnigraph.storage.tiers import FAN_IN
from omnigraph.writes.sidecar import FOLDER
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import once
from tests.maintenance.graphs import add, folder_of, one_by_one, optimize_with, rows, table_of


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    with one_by_one(tmp_path / "graph") as graph:
        yield graph


def outcome(result: Any, key: str) -> Any:
    return next(table for table in result.tables if table.table == key)


def test_small_fragments_are_put_together_and_indexed_in_one_commit(graph: Graph) -> None:
    before, head = rows(graph), graph.snapshot().commit
    fragments = len(table_of(graph, "Person").fragment_ids)
    result = graph.optimize(actor="ada")
    person = outcome(result, "node:Person")
    assert person.committed and person.fragments_removed == fragments > person.fragments_added == 1
    assert {"id_btree", "age_btree", "bio_full_text"} <= set(person.indexes)
    assert not person.pending and person.skipped is None
    assert {index.uncovered for index in table_of(graph, "Person").indices()} == {0}
    (commit,) = graph.commits(limit=1)
    assert result.commit is not None
    assert (commit.id, commit.parents, commit.actor) == (result.commit.id, (head,), "ada")
    assert rows(graph) == before
    assert graph.check().problems == ()


def test_a_second_time_there_is_nothing_to_do(graph: Graph) -> None:
    graph.optimize()
    head = graph.snapshot().commit
    result = graph.optimize()
    assert result.commit is None and not result.manifest
    assert not any(table.committed for table in result.tables)
    assert outcome(result, "node:City").pending == {"id_btree": "the table is empty"}
    assert graph.snapshot().commit == head


def test_it_is_no_change_for_history_blame_diff_feed_and_merges(graph: Graph) -> None:
    graph.branches.create("draft")
    add(graph, "eve", 5, "draft")
    head = graph.snapshot().commit
    history, blame = graph.history("Person", "p1"), graph.blame("Person", "p1")
    graph.optimize()
    graph.optimize("draft")
    assert graph.history("Person", "p1") == history
    assert graph.blame("Person", "p1") == blame
    assert list(graph.diff(head, "main")) == []
    assert graph.changes(start=f"after:{head}").commits == ()
    graph.mutate('query q() { update Person set { age: 7 } where name = "p1" }')
    (change,) = graph.changes(start=f"after:{head}").commits
    assert [(c.id, c.operation) for c in change.changes] == [("p1", "update")]
    assert [c.id for c in graph.diff(head, "main")] == ["p1"]
    assert graph.merge("draft").outcome == "merged"
    assert graph.query(
        'query q() { match { $p: Person { name: "eve" } } return { $p.age } }'
    ).to_rows()
    assert graph.check().problems == ()


def test_old_states_and_pinned_readers_stay(graph: Graph) -> None:
    pinned, head = graph.snapshot(), graph.snapshot().commit
    before = rows(graph)
    graph.optimize()
    add(graph, "later", 1)
    assert pinned.count("Person") == len(before["Person"])
    assert rows(graph, commit=head) == before


def test_others_write_while_fragments_are_rewritten_and_indexes_built(graph: Graph) -> None:
    def write() -> None:
        with open(graph.location) as other:
            add(other, "eve", 5)
            for name in "abcd"[:FAN_IN]:
                other.mutate("query q($n: String) { insert City { name: $n } }", params={"n": name})

    with failpoints.active("optimize.rewritten", once(write)):
        result = graph.optimize()
    assert outcome(result, "node:Person").fragments_removed
    assert len(rows(graph)["Person"]) == 12 and len(rows(graph)["City"]) == FAN_IN
    found = graph.query('query q() { match { $p: Person { name: "eve" } } return { $p.age } }')
    assert found.to_rows() == [{"p.age": 5}]
    assert graph.check().problems == ()


def test_what_others_have_changed_is_done_in_another_round(graph: Graph) -> None:
    def write() -> None:
        with open(graph.location) as other:
            other.mutate("query q() { update Person set { age: 1 } where age >= 0 }")

    with failpoints.active("write.prepared", once(write)):
        result = graph.optimize()
    assert all(outcome(result, key).committed for key in ("node:Person", "edge:Knows"))
    assert len(table_of(graph, "Person").fragment_ids) == 1
    assert [commit.message for commit in graph.commits(limit=3)] == ["optimize", "optimize", None]
    assert {row["age"] for row in graph.snapshot().read("Person").to_pylist()} == {1}
    assert graph.check().problems == ()


def test_a_write_that_was_prepared_before_lands_after_it(graph: Graph) -> None:
    def compact() -> None:
        with open(graph.location) as other:
            assert other.optimize().commit is not None

    with failpoints.active("write.prepared", once(compact)):
        graph.mutate('query q() { update Person set { age: 50 } where name = "p7" }')
    with failpoints.active("write.prepared", once(lambda: None)):
        graph.mutate('query q() { delete Person where name = "p9" }')
    ages = {row["name"]: row["age"] for row in graph.snapshot().read("Person").to_pylist()}
    assert ages["p7"] == 50 and "p9" not in ages
    assert graph.check().problems == ()


def test_only_tables_that_the_branch_has_written_to_are_compacted(graph: Graph) -> None:
    graph.branches.create("draft")
    add(graph, "eve", 5, "draft")
    on_main = table_of(graph, "Person").fragment_ids
    result = graph.optimize("draft")
    assert outcome(result, "node:Person").committed
    assert "has not written" in outcome(result, "edge:Knows").skipped
    assert len(table_of(graph, "Person", "draft").fragment_ids) < len(on_main)
    assert table_of(graph, "Person").fragment_ids == on_main
    assert len(rows(graph, "draft")["Person"]) == len(rows(graph)["Person"]) + 1
    assert graph.check().problems == ()


def test_a_table_that_another_program_has_written_to_is_skipped(graph: Graph) -> None:
    raw = lance.dataset(str(folder_of(graph, "Person")))
    raw.optimize.compact_files()
    result = graph.optimize()
    assert "another program" in outcome(result, "node:Person").skipped
    assert outcome(result, "edge:Knows").committed
    assert len(table_of(graph, "Person").fragment_ids) > 1


def test_it_is_refused_while_an_interrupted_write_needs_a_person(graph: Graph) -> None:
    sidecar = Path(graph.location) / FOLDER / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    sidecar.parent.mkdir(exist_ok=True)
    sidecar.write_text("{}")
    head = graph.snapshot().commit
    with pytest.raises(RecoveryRequired):
        graph.optimize()
    assert graph.snapshot().commit == head


def test_deleted_rows_leave_the_files(graph: Graph) -> None:
    graph.optimize()
    graph.mutate("query q() { delete Person where age < 9 }")
    result = graph.optimize()
    assert outcome(result, "node:Person").fragments_removed == 1
    snapshot = table_of(graph, "Person")
    (state,) = snapshot.fragments().values()
    assert state.deleted is None and state.rows == snapshot.count()
    assert graph.check().problems == ()


# --- killed on the way ---


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    one_by_one(place).close()
    return place


def deaths() -> list[Any]:
    points = [(p, 0) for p in POINTS if p.startswith("optimize.")]
    points += [("optimize.indexed", 1), ("write.prepared", 0), ("write.armed", 0)]
    # Two tables, with two versions each.
    points += [("write.table_committed", skip) for skip in range(4)]
    points += [("write.confirmed", 0), ("write.published", 0)]
    points += [("manifest.rewritten", 0), ("manifest.replaced", 0)]
    soak = {("optimize.indexed", 1), ("write.prepared", 0), ("write.table_committed", 1)}
    soak |= {("optimize.committed", 0), ("manifest.replaced", 0)}
    return [
        pytest.param(*at, id=f"{at[0]}-{at[1]}", marks=[pytest.mark.soak] * (at in soak))
        for at in points
    ]


@pytest.mark.parametrize(("point", "skip"), deaths())
def test_killed_anywhere_it_is_done_or_undone(
    point: str, skip: int, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place, mode="r") as graph:
        before = rows(graph)
    assert run_child(optimize_with, place, point, skip) == KILLED
    with open(place, mode="r") as graph:
        assert rows(graph) == before
    with open(place) as graph:
        assert graph.check().problems == ()
        assert rows(graph) == before
        done = any(commit.actor == "child" for commit in graph.commits())
        is_late = point in ("write.confirmed", "write.published", "optimize.committed")
        is_late |= point.startswith("manifest.")
        assert done == (is_late or (point, skip) == ("write.table_committed", 3))
        graph.optimize()
        assert len(table_of(graph, "Person").fragment_ids) == 1
        assert {index.uncovered for index in table_of(graph, "Person").indices()} == {0}
        assert rows(graph) == before
        assert graph.check().problems == ()


def test_indexes_name_no_rows_that_were_deleted_before_a_compaction(tmp_path: Path) -> None:
    schema = "node Doc { name: String @key  text: String @index }"
    count = 120
    docs = pa.table(
        {
            "name": [f"d{n}" for n in range(count)],
            "text": [f"word{n % 10}" for n in range(count)],
        }
    )
    gone = [f"d{n}" for n in range(40, count)]
    words = 'query q() { match { $d: Doc match_text($d.text, "word7") } return { $d.name as n } }'
    with init(tmp_path / "g", schema) as graph:
        graph.write_batches({"Doc": ("append", docs)})
        graph.optimize()
        text = "query q($n: [String]) { delete Doc where name in $n }"
        graph.mutate(text, params={"n": gone})
        assert graph.optimize().commit is not None
    with open(tmp_path / "g") as graph:
        names = graph.query(words).to_arrow()["n"].to_pylist()
        assert sorted(names) == ["d17", "d27", "d37", "d7"]
        assert graph.check().problems == ()
