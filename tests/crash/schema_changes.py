"""Changes of the schema to be interrupted, and what a graph holds, its schema included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init, open
from omnigraph.history.schemas import Schemas

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key }
node Gone { name: String @key }
edge LivesIn: Person -> City
"""
CHANGED = """
node Human @rename_from("Person") {
  name: String @key
  years: I64? @rename_from("age")
  score: F64 @default(1.5)
}
node City { name: String @key  country: String? }
node Pet { name: String @key }
edge LivesIn: Human -> City
edge Owns: Human -> Pet
"""
#: How many tables change and come.
CHANGES, CREATES = 2, 2
BRANCHES = ("main", "draft")


def make_graph(place: str) -> None:
    with init(place, SCHEMA) as graph:
        graph.mutate(
            """query q() {
              insert Person { name: "ada", age: 36, nick: "a" }
              insert Person { name: "bob" }
              insert City { name: "Rome" }
              insert Gone { name: "x" }
              insert LivesIn { from: "ada", to: "Rome" }
            }"""
        )
        graph.branches.create("draft")


def change(graph: Graph, branch: str) -> None:
    graph.schema.apply(CHANGED, branch=branch, allow_data_loss=True, actor="child")


def change_with(place: str, branch: str, point: str, action: str, skip: int) -> None:
    """What the child does: one change of the schema with one active failpoint."""
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            change(graph, branch)
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def content(graph: Graph) -> dict[str, Any]:
    """Everything on all branches, with their schemas, in a form that can be compared."""
    found: dict[str, Any] = {}
    for branch in BRANCHES:
        snapshot = graph.snapshot(branch)
        found[branch] = (
            snapshot.catalog.shape_hash,
            {
                table.name: snapshot.read(table.name).drop_columns("id").to_pylist()
                for table in snapshot.tables
            },
        )
        assert {table.name for table in snapshot.tables} == {
            type.name for type in snapshot.catalog.tables()
        }
    return found


def assert_shown(graph: Graph) -> None:
    """The files beside the manifest show the schema of main, and belong together."""
    shown = Schemas(graph._repository.location)._shown()
    assert shown.catalog == graph.catalog
    assert shown.text == graph.schema.show().text


def table_folders(place: str) -> set[str]:
    return {
        str(folder.relative_to(place))
        for kind in ("nodes", "edges")
        for folder in Path(place, kind).iterdir()
    }
