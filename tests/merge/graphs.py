"""Graphs to merge, and what they hold, in a form that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.graph import Graph, init

SOCIAL = """
node Person { name: String @key  age: I32?  city: String?  email: String? @unique }
node Note { text: String  stars: I64?  @range(stars, 0..5) }
edge Knows: Person -> Person { since: I32? }
edge Wrote: Person -> Note @card(0..2)
"""
PEOPLE = """
insert Person { name: "ada", age: 36, city: "Rome" }
insert Person { name: "bob", age: 40 }
insert Person { name: "cy" }
insert Knows { from: "ada", to: "bob", since: 1 }
"""


def make(place: Path, schema: str = SOCIAL, start: str = PEOPLE) -> Graph:
    graph = init(place / "graph", schema)
    if start:
        run(graph, start)
    return graph


def run(graph: Graph, statements: str, branch: str = "main") -> str:
    """Run statements as one query; gives the commit."""
    made = graph.mutate(f"query q() {{ {statements} }}", branch=branch).commit
    assert made is not None
    return made.id


def people(graph: Graph, branch: str = "main", *columns: str) -> dict[str, Any]:
    """By name, the age and the city, or other columns."""
    names = columns or ("age", "city")
    found = graph.snapshot(branch).read("Person", ["id", *names]).to_pylist()
    return {row["id"]: tuple(row[name] for name in names) for row in found}


def content(graph: Graph, branch: str = "main") -> dict[str, dict[str, Any]]:
    """All rows of all types without blobs, by id."""
    snapshot = graph.snapshot(branch)
    return {
        table.name: {row["id"]: row for row in snapshot.read(table.name).to_pylist()}
        for table in snapshot.tables
    }


def edges(graph: Graph, branch: str = "main") -> list[tuple[str, str]]:
    rows = graph.snapshot(branch).read("Knows", ["src", "dst"]).to_pylist()
    return sorted((row["src"], row["dst"]) for row in rows)
