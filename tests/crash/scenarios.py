"""Writes to be interrupted: each says what the graph holds before and after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, init, open
from omnigraph.language.schema.arrow import table_schema
from omnigraph.maintenance.indexes import ensure_indices
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
    Scenario("overwrite_and_edges", "main", 3),
    Scenario("first_touch", "draft", 2, forks=2),
    Scenario("owned_and_first_touch", "working", 2, forks=1),
)
#: Writes that merge small fragments as well, on a graph that has them.
MERGES = (
    Scenario("tier_merge", "main", 1),
    Scenario("tier_merge_first_touch", "draft", 1, forks=1),
)
#: The same for mutations, on a graph with residents.
MUTATIONS = (
    Scenario("insert", "main", 3),
    Scenario("update", "main", 1),
    Scenario("cascade", "main", 3),
    Scenario("insert_first_touch", "draft", 3, forks=3),
    Scenario("update_first_touch", "draft", 1, forks=1),
    Scenario("cascade_first_touch", "draft", 3, forks=3),
)
_INSERT = """query insert() {
  insert Person { name: "eve", age: 5 }
  insert City { name: "Rome" }
  insert LivesIn { from: "eve", to: "Rome" }
  insert LivesIn { from: "bob", to: "Paris" }
}"""
_UPDATE = "query update() { update Person set { age: age + 1 } where age is not null }"
_CASCADE = 'query cascade() { delete Person where name = "ada" }'
QUERIES = {
    "insert": _INSERT,
    "update": _UPDATE,
    "cascade": _CASCADE,
    "insert_first_touch": _INSERT,
    "update_first_touch": _UPDATE,
    "cascade_first_touch": _CASCADE,
}
#: Ids of edges without a key are new ones each time.
_NEW_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


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


def make_graph(place: str, *, residents: bool = False, cities_one_by_one: bool = False) -> None:
    """A graph with something on every branch that a scenario writes to.

    Args:
        place: Where to make it.
        residents: Somebody lives in a second city.
        cities_one_by_one: There are as many cities, each in a fragment of its own, that the next
            write to them merges the fragments.
    """
    with init(place, SCHEMA, actor="setup") as graph:
        graph.write_batches(
            {"Person": ("merge", people(graph, {"ada": 36, "bob": 40})),
             "City": ("append", cities(graph, ["Paris"])),
             "Knows": ("append", knows(graph, [("ada", "bob")]))}
        )  # fmt: skip
        if residents:
            graph.write_batches(
                {"City": ("append", cities(graph, ["Bern"])),
                 "LivesIn": ("append", pa.table({"from": ["ada"], "to": ["Bern"]}))}
            )  # fmt: skip
        if cities_one_by_one:
            for name in ("Kyiv", "Lima"):
                graph.write_batches({"City": ("append", cities(graph, [name]))})
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
        case "tier_merge" | "tier_merge_first_touch":
            return {"City": ("append", cities(graph, ["Rome"]))}
        case "delete":
            return {"City": ("delete", "id = 'Paris'")}
        case "overwrite_and_edges":
            return {
                "Person": ("overwrite", people(graph, {"zoe": 9})),
                "Knows": ("overwrite", knows(graph, [("zoe", "zoe")])),
                "LivesIn": ("overwrite", pa.table({"from": ["zoe"], "to": ["Paris"]})),
            }
    raise KeyError(name)


def run_scenario(graph: Graph, name: str, branch: str, actor: str | None = None) -> None:
    """Do what a scenario is about, by a query or by batches."""
    if name in QUERIES:
        graph.mutate(QUERIES[name], branch=branch, actor=actor, message="the write")
    else:
        graph.write_batches(batches(graph, name), branch=branch, actor=actor, message="the write")


def scenario_write(place: str, name: str, branch: str, point: str, action: str, skip: int) -> None:
    """What the child does: one write with one active failpoint."""
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            run_scenario(graph, name, branch, "child")
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def overtaken_write(place: str, name: str, branch: str, point: str, action: str) -> None:
    """What the child does: a write that is prepared, overtaken by a commit, and then fails."""

    def overtake() -> None:
        waiting = failpoints._active.pop(point)
        with open(place) as other:
            ensure_indices(other._repository, branch, actor="other")
        failpoints._active[point] = waiting

    with failpoints.active("write.prepared", once(overtake)):
        scenario_write(place, name, branch, point, action, 0)


def once(work: Callable[[], None]) -> Callable[[], None]:
    """Work that is done the first time only, and not while it is done."""
    left = [work]

    def act() -> None:
        if left:
            left.pop()()

    return act


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
        found[table.name] = sorted(
            tuple("new" if _NEW_ID.fullmatch(str(v)) else v for v in row.values()) for row in rows
        )
        assert len(rows) == table.rows
    return found
