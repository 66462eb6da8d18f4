"""Versions that nobody published: put back if an interrupted write explains them, else refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import RecoveryRequired
from omnigraph.failpoints import FailpointError
from omnigraph.graph import Graph, open
from omnigraph.writes.fencing import ACTOR
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import batches, cities, content, make_graph, people, scenario_write


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A graph in which a write of two tables was rolled back."""
    place = str(tmp_path / "graph")
    make_graph(place)
    with open(place) as made:
        with failpoints.active("write.table_committed", "raise"), pytest.raises(FailpointError):
            made.write_batches(batches(made, "two_tables"))
        assert [r.kind for r in made.recoveries()] == ["RolledBack"]
        yield made


def bring_back(graph: Graph, name: str, version: int, transaction_id: str) -> None:
    """Restore an old version of a table, as a recovery does that comes too late."""
    tables = graph._repository.tables
    (table,) = [t for t in graph.snapshot().tables if t.name == name]
    staged = tables.stage_restore(table.ref, version)
    tables.commit_staged(replace(staged, transaction_id=transaction_id))
    assert [p.rule for p in graph.check().problems] == ["head"]


@pytest.mark.parametrize("end", ["0", "0.restore-1", "restore-2"])
def test_what_a_resolved_write_still_does_is_undone_by_the_next_writer(
    graph: Graph, end: str
) -> None:
    before = content(graph, "main")
    bring_back(graph, "Person", 1, f"{graph.recoveries()[0].operation_id}.{end}")
    assert content(graph, "main") == before
    graph.write_batches({"Person": ("append", people(graph, {"eve": 5}))})
    assert graph.check().problems == ()
    before["Person"] = sorted([*before["Person"], ("eve", "eve", 5)])
    assert content(graph, "main") == before
    undone, _ = graph.recoveries()
    assert (undone.kind, undone.commit) == ("StrayUndone", graph.commits(actor=ACTOR)[0].id)
    assert [t["table"] for t in undone.tables] == ["node:Person"]


def test_several_tables_are_put_back_in_one_commit(graph: Graph) -> None:
    operation = graph.recoveries()[0].operation_id
    before = content(graph, "main")
    bring_back(graph, "Person", 1, f"{operation}.0.restore-1")
    tables = graph._repository.tables
    (city,) = [t for t in graph.snapshot().tables if t.name == "City"]
    tables.commit_staged(
        replace(tables.stage_restore(city.ref, 1), transaction_id=f"{operation}.1.restore-1")
    )
    commits = len(graph.commits())
    graph.write_batches(batches(graph, "two_tables"))
    assert len(graph.commits()) == commits + 2
    assert graph.check().problems == ()
    assert content(graph, "main") != before


@pytest.mark.parametrize(
    "id", ["0f8fad5b-d9cb-469f-a165-70867728950e", "01ARZ3NDEKTSV4RRFFQ69G5FAV.0", "it's"]
)
def test_what_no_interrupted_write_explains_is_refused(graph: Graph, id: str) -> None:
    bring_back(graph, "Person", 1, id)
    commits = graph.commits()
    with pytest.raises(RecoveryRequired, match="node:Person is at version"):
        graph.write_batches({"Person": ("append", people(graph, {"eve": 5}))})
    assert graph.commits() == commits
    graph.write_batches({"City": ("append", cities(graph, ["Oslo"]))})


@pytest.mark.parametrize(
    "point",
    [
        "recovery.table_restoring",
        "recovery.table_restored",
        "recovery.publishing",
        "recovery.published",
    ],
)
def test_whoever_puts_back_may_die(graph: Graph, point: str) -> None:
    before = content(graph, "main")
    bring_back(graph, "City", 1, f"{graph.recoveries()[0].operation_id}.1.restore-1")
    place = graph.location
    code = run_child(scenario_write, str(place), "delete", "main", point, "kill", 0)
    assert code == KILLED
    with open(place) as again:
        assert content(again, "main") == before
        again.write_batches({"City": ("append", cities(again, ["Oslo"]))})
        assert again.check().problems == ()
        before["City"] = sorted([*before["City"], ("Oslo", "Oslo")])
        assert content(again, "main") == before
