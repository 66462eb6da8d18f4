"""Changes of the schema to be interrupted, and what a graph holds, its schema included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
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


@dataclass(frozen=True)
class Change:
    """A change of the schema: its text, how many tables it changes, and how many come."""

    text: str
    changes: int
    creates: int


#: One of each kind, and all of them at once.
KINDS = {
    "names": Change(
        """
        node Human @rename_from("Person") {
          name: String @key  years: I32? @rename_from("age")  more: String?
        }
        node City { name: String @key  country: String? }
        node Gone { name: String @key }
        edge LivesIn: Human -> City
        """,
        2,
        0,
    ),
    "rules": Change(
        """
        node Person @description("who") {
          name: String @key  age: I32? @index  nick: String? @unique
          @range(age, 0..99)
        }
        node City { name: String @key }
        node Gone { name: String @key }
        edge LivesIn: Person -> City @card(0..5)
        """,
        0,
        0,
    ),
    "values": Change(
        """
        node Person {
          name: String @key  age: I64 @default(7)  nick: String?  adult: Bool? @backfill(age > 17)
        }
        node City { name: String @key  score: F64 @default(1.5) }
        node Gone { name: String @key }
        edge LivesIn: Person -> City
        """,
        2,
        0,
    ),
    "types": Change(
        """
        node Person { name: String @key  age: I32?  nick: String? }
        node City { name: String @key }
        node Pet { name: String @key }
        edge LivesIn: Person -> City
        edge Owns: Person -> Pet
        """,
        0,
        2,
    ),
    "all": Change(
        """
        node Human @rename_from("Person") {
          name: String @key
          years: I64? @rename_from("age")
          score: F64 @default(1.5)
        }
        node City { name: String @key  country: String? }
        node Pet { name: String @key }
        edge LivesIn: Human -> City
        edge Owns: Human -> Pet
        """,
        2,
        2,
    ),
}
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


def change(graph: Graph, kind: str, branch: str) -> None:
    text = KINDS[kind].text
    graph.schema.apply(text, branch=branch, allow_data_loss=True, actor="child")


def change_with(
    place: str,
    kind: str,
    branch: str,
    point: str,
    action: str,
    skip: int,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """What the child does: one change of the schema with one active failpoint."""
    os.environ.update(environment)
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            change(graph, kind, branch)
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
