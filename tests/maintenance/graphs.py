"""Graphs that were written a row at a time, for tests of what looks after them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from omnigraph import failpoints
from omnigraph.graph import Graph, init, open
from omnigraph.history import packing
from omnigraph.maintenance import cleanup
from omnigraph.maintenance.index_tasks import build_in_tasks
from omnigraph.maintenance.indexes import ensure_indices
from omnigraph.pipeline.engine import Engine, LocalEngine, Silent
from omnigraph.storage.indices import SegmentBuild
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.request import WriteResult

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String? @index }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
INSERT = """query add($name: String, $age: I32) {
  insert Person { name: $name, age: $age, bio: "likes graphs" }
}"""
CONNECT = """query connect($from: String, $to: String, $since: I32) {
  insert Knows { from: $from, to: $to, since: $since }
}"""


def add(graph: Graph, name: str, age: int, branch: str = "main") -> None:
    graph.mutate(INSERT, params={"name": name, "age": age}, branch=branch)


def one_by_one(place: Path | str, count: int = 12) -> Graph:
    """A graph with people who came one by one, of whom some have gone or changed since."""
    graph = init(place, SCHEMA)
    for number in range(count):
        add(graph, f"p{number}", number)
    for number in range(1, count, 2):
        params = {"from": f"p{number}", "to": f"p{number - 1}", "since": number}
        graph.mutate(CONNECT, params=params)
    graph.mutate('query gone() { delete Person where name = "p2" }')
    graph.mutate("query older() { update Person set { age: age + 100 } where age < 4 }")
    return graph


def rows(graph: Graph, branch: str = "main", commit: str | None = None) -> dict[str, Any]:
    """Everything on a branch, in a form that can be compared."""
    state = graph.snapshot(branch) if commit is None else graph.snapshot(commit=commit)
    return {
        table.name: sorted(json.dumps(row) for row in state.read(table.name).to_pylist())
        for table in state.tables
    }


def table_of(graph: Graph, name: str, branch: str = "main") -> TableSnapshot:
    """The published version of a table."""
    (table,) = [t for t in graph.snapshot(branch).tables if t.name == name]
    return graph._repository.tables.open(table.ref, table.version)


def folder_of(graph: Graph, name: str) -> Path:
    """Where a table is."""
    (table,) = [t for t in graph.snapshot().tables if t.name == name]
    return Path(graph.location) / table.path


def optimize_with(place: str, point: str, skip: int) -> None:
    """What a child does: optimize, and die on the way."""
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.optimize(actor="child")


def index_in_tasks(graph: Graph, engine: Engine) -> WriteResult:
    """Build indexes in tasks, however small the tables are."""

    def build(table: TableSnapshot, builds: Sequence[SegmentBuild]) -> list[list[Any]]:
        return build_in_tasks(graph._repository, engine, table, builds, Silent())

    return ensure_indices(graph._repository, "main", build=build)


def index_in_tasks_with(place: str, point: str, skip: int) -> None:
    """What a child does: build indexes in tasks, and die on the way."""
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        index_in_tasks(graph, LocalEngine(3))


def clean_with(place: str, point: str, skip: int) -> None:
    """What a child does: remove old versions a few files at a time, and die on the way."""
    cleanup._PORTION = 5
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.cleanup(keep=2, grace=timedelta(0), confirm=True)


def trim_with(place: str, point: str, skip: int) -> None:
    """What a child does: make the manifest small, and die on the way."""
    packing._LEAST = 4
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.cleanup(keep=3, grace=timedelta(0), confirm=True)


def drop_with(place: str, folder: str) -> None:
    """What a child does: remove the table of a dropped type, and die with a part of it left."""
    cleanup._PORTION = 1

    def die() -> None:
        if not any(Path(folder).glob("_versions/*.manifest")):
            os.kill(os.getpid(), signal.SIGKILL)

    with open(place) as graph, failpoints.active("cleanup.old_removed", die):
        options = {"grace": timedelta(0), "leftovers_older_than": timedelta(0)}
        graph.cleanup(keep=2, confirm=True, **options)


def repair_with(place: str, point: str) -> None:
    """What a child does: publish what another program did, and die on the way."""
    with open(place) as graph, failpoints.active(point, "kill"):
        graph.repair(confirm=True, force=True)
