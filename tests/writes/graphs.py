"""Graphs to mutate, and what they hold, in a form that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnigraph.graph import Graph, init
from omnigraph.writes.mutate import MutationResult

SOCIAL = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Note { text: String  stars: I64 @default(1)  @range(stars, 0..5) }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""

PEOPLE = """
query people() {
  insert Person { name: "Alice", age: 30 }
  insert Person { name: "Bob", age: 25 }
  insert Person { name: "Charlie", age: 35 }
  insert Person { name: "Dana", age: 28 }
  insert Knows { from: "Alice", to: "Bob" }
  insert Knows { from: "Alice", to: "Charlie" }
  insert Knows { from: "Bob", to: "Charlie" }
}
"""


def make(place: Path, schema: str = SOCIAL) -> Graph:
    return init(place / "graph", schema)


def run(graph: Graph, *statements: str, **options: Any) -> MutationResult:
    """Run statements as one query."""
    head = options.pop("head", "")
    return graph.mutate(f"query q({head}) {{ {' '.join(statements)} }}", **options)


def rows(graph: Graph, type: str, *columns: str, branch: str = "main") -> list[Any]:
    """The rows of a type, sorted: tuples of columns, or the values of a single one."""
    found = graph.snapshot(branch).read(type, list(columns)).to_pylist()
    values = [tuple(row.values()) if len(columns) > 1 else row[columns[0]] for row in found]
    return sorted(
        values, key=lambda v: [(x is not None, x) for x in (v if isinstance(v, tuple) else (v,))]
    )


def versions(graph: Graph, branch: str = "main") -> dict[str, int]:
    return {table.name: table.version for table in graph.snapshot(branch).tables}
