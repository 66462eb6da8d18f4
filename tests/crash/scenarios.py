"""Writes to be interrupted: each says what the graph holds before and after it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init, open
from omnigraph.language.schema.arrow import table_schema
from omnigraph.writes.batches import Batches

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""

Content = dict[str, dict[str, int | None]]


@dataclass(frozen=True)
class Scenario:
    """A write: on which branch, what, and what the branch holds afterwards."""

    name: str
    branch: str
    tables: int
    forks: int = 0


SCENARIOS = (
    Scenario("one_table", "main", 1),
    Scenario("two_tables", "main", 2),
    Scenario("delete", "main", 1),
    Scenario("overwrite_and_edges", "main", 2),
    Scenario("first_touch", "draft", 2, forks=2),
    Scenario("owned_and_first_touch", "working", 2, forks=1),
)


def people(graph: Graph, ages: dict[str, int]) -> pa.Table:
    schema = table_schema(graph.catalog.nodes["Person"])
    return pa.table(
        {"id": list(ages), "name": list(ages), "age": pa.array(list(ages.values()), pa.int32())},
        schema=schema,
    )


def cities(graph: Graph, names: list[str]) -> pa.Table:
    return pa.table({"id": names, "name": names}, schema=table_schema(graph.catalog.nodes["City"]))


def knows(graph: Graph, pairs: list[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {
            "id": [f"{a}-{b}" for a, b in pairs],
            "src": [a for a, _ in pairs],
            "dst": [b for _, b in pairs],
        },
        schema=table_schema(graph.catalog.edges["Knows"]),
    )


def make_graph(place: str) -> None:
    """A graph with something on every branch that a scenario writes to."""
    with init(place, SCHEMA, actor="setup") as graph:
        graph.write_batches(
            {"Person": ("merge", people(graph, {"ada": 36, "bob": 40})),
             "City": ("append", cities(graph, ["Paris"])),
             "Knows": ("append", knows(graph, [("ada", "bob")]))}
        )  # fmt: skip
        graph.branches.create("draft")
        graph.branches.create("working")
        graph.write_batches({"Person": ("merge", people(graph, {"cy": 1}))}, branch="working")


def batches(graph: Graph, name: str) -> Batches:
    match name:
        case "one_table":
            return {"Person": ("merge", people(graph, {"ada": 37, "eve": 5}))}
        case "two_tables" | "first_touch" | "owned_and_first_touch":
            return {
                "Person": ("merge", people(graph, {"ada": 37, "eve": 5})),
                "City": ("append", cities(graph, ["Rome"])),
            }
        case "delete":
            return {"City": ("delete", "id = 'Paris'")}
        case "overwrite_and_edges":
            return {
                "Person": ("overwrite", people(graph, {"zoe": 9})),
                "Knows": ("overwrite", knows(graph, [("zoe", "zoe")])),
            }
    raise KeyError(name)


def scenario_write(place: str, name: str, branch: str, point: str, action: str, skip: int) -> None:
    """What the child does: one write with one active failpoint."""
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            graph.write_batches(
                batches(graph, name), branch=branch, actor="child", message="the write"
            )
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def open_with(place: str, point: str, action: str) -> None:
    """Open a graph for writing with an active failpoint: recovery runs in the open."""
    with failpoints.active(point, action):
        open(place)


def init_with(place: str, point: str, action: str, skip: int) -> None:
    with failpoints.active(point, action, skip=skip):
        init(place, SCHEMA)


def branch_with(place: str, verb: str, point: str, action: str) -> None:
    with open(place) as graph, failpoints.active(point, action):
        if verb == "create":
            graph.branches.create("new")
        else:
            graph.branches.delete("working")


def content(graph: Graph, branch: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything on a branch, in a form that can be compared."""
    snapshot = graph.snapshot(branch)
    found = {}
    for table in snapshot.tables:
        rows = snapshot.read(table.name).to_pylist()
        found[table.name] = sorted(tuple(row.values()) for row in rows)
        assert len(rows) == table.rows
    return found
