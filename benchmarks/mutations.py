"""What mutations cost beside raw Lance, and beside themselves on a graph of a hundredth the size.

The peer is Lance doing bare upserts of the same rows into tables of the same rows with the same
indexes, in the same run: no check of a rule, no commit across tables, no recovery, no history.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from harness import Record, emit
from omnigraph.graph import Graph, init
from omnigraph.language.schema.arrow import table_schema
from omnigraph.maintenance.indexes import ensure_indices

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""
SMALL, LARGE = 10_000, 1_000_000
EDGES_PER_NODE = 5
ROUNDS = 15
WARM_UP = 3
FEW_ROUNDS = 5
BATCH = 10_000

INSERT_NODE = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
INSERT_EDGE = "query q($f: String, $t: String) { insert Knows { from: $f, to: $t } }"
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DELETE = "query q($n: String) { delete Person where name = $n }"


@dataclass(frozen=True)
class Pair:
    """A graph and raw tables with the same rows."""

    nodes: int
    graph: Graph
    people: str
    knows: str

    def edges_at(self, name: str) -> pa.Table:
        """The edges that go when a person does."""
        table = lance.dataset(self.knows)
        return table.to_table(filter=f"src = '{name}' or dst = '{name}'")


def name_of(number: int) -> str:
    return f"person-{number:09}"


def people(schema: pa.Schema, first: int, count: int) -> pa.Table:
    names = [name_of(n) for n in range(first, first + count)]
    ages = pa.array(np.arange(count) % 90, pa.int32())
    return pa.table({"id": names, "name": names, "age": ages}, schema=schema)


def edges(schema: pa.Schema, nodes: int) -> pa.Table:
    chance = np.random.default_rng(7)
    count = nodes * EDGES_PER_NODE
    names = pa.array([name_of(n) for n in range(nodes)])
    return pa.table(
        {
            "id": [f"edge-{n:012}" for n in range(count)],
            "src": names.take(pa.array(chance.integers(0, nodes, count))),
            "dst": names.take(pa.array(chance.integers(0, nodes, count))),
            "since": pa.array(chance.integers(1990, 2026, count), pa.int32()),
        },
        schema=schema,
    )


def build(folder: Path, nodes: int) -> Pair:
    """Make a graph, and raw tables of the same rows with the same indexes."""
    graph = init(folder / "graph", SCHEMA)
    catalog = graph.catalog
    persons = people(table_schema(catalog.nodes["Person"]), 0, nodes)
    knows = edges(table_schema(catalog.edges["Knows"]), nodes)
    begun = time.perf_counter()
    graph.write_batches({"Person": ("append", persons), "Knows": ("append", knows)})
    print(f"loaded {nodes:,} nodes in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    ensure_indices(graph._repository, "main")
    raw = []
    for name, rows, columns in (
        ("people", persons, ["id"]),
        ("knows", knows, ["id", "src", "dst"]),
    ):
        path = str(folder / name)
        table = lance.write_dataset(
            rows, path, data_storage_version="2.2", enable_stable_row_ids=True
        )
        for column in columns:
            table.create_scalar_index(column, "BTREE")
        raw.append(path)
    return Pair(nodes, graph, *raw)


def upsert(path: str, rows: pa.Table) -> None:
    """What raw Lance does."""
    merge = lance.dataset(path).merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)


def timed(
    ours: Callable[[int], Any], theirs: Callable[[int], Any], rounds: int = ROUNDS
) -> tuple[float, float]:
    """Medians of both, taken in turns after a few rounds to warm up."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(WARM_UP + rounds):
        for work, times in zip((ours, theirs), taken, strict=True):
            begun = time.perf_counter()
            work(number)
            if number >= WARM_UP:
                times.append(time.perf_counter() - begun)
    return statistics.median(taken[0]), statistics.median(taken[1])


def measure(pair: Pair) -> dict[str, tuple[float, float]]:
    """Each kind of mutation: our median and that of raw Lance."""
    graph, size = pair.graph, pair.nodes
    person = table_schema(graph.catalog.nodes["Person"])
    knows = table_schema(graph.catalog.edges["Knows"])
    far = 100_000_000

    def insert_node(number: int) -> None:
        graph.mutate(INSERT_NODE, params={"n": name_of(far + number), "a": 7})

    def insert_edge(number: int) -> None:
        ends = {"f": name_of(number), "t": name_of(size - 1 - number)}
        graph.mutate(INSERT_EDGE, params=ends)

    def update(number: int) -> None:
        graph.mutate(UPDATE, params={"n": name_of(size // 2 + number), "a": 8})

    def delete(number: int) -> None:
        graph.mutate(DELETE, params={"n": name_of(size // 3 + number)})

    # Few rounds: on the small graph each of them doubles the table, or nearly so.
    rounds = range(WARM_UP + FEW_ROUNDS)
    batches = [people(person, 2 * far + n * BATCH, BATCH) for n in rounds]
    more = [people(person, 3 * far + n * BATCH, BATCH) for n in rounds]
    values = [[{"n": name, "a": 7} for name in table["name"].to_pylist()] for table in more]

    def raw_edge(number: int) -> None:
        ends = {"src": [name_of(number)], "dst": [name_of(size - 1 - number)]}
        row = {"id": [f"new-{number}"], **ends, "since": pa.nulls(1, pa.int32())}
        upsert(pair.knows, pa.table(row, schema=knows))

    doomed = {
        n: (people(person, size // 3 + n, 1), pair.edges_at(name_of(size // 3 + n)))
        for n in range(WARM_UP + ROUNDS)
    }

    def raw_delete(number: int) -> None:
        node, incident = doomed[number]
        upsert(pair.people, node)
        upsert(pair.knows, incident)

    return {
        "insert one node": timed(
            insert_node, lambda n: upsert(pair.people, people(person, far + n, 1))
        ),
        "insert one edge": timed(insert_edge, raw_edge),
        "update one row by key": timed(
            update, lambda n: upsert(pair.people, people(person, size // 2 + n, 1))
        ),
        "delete one node and its edges": timed(delete, raw_delete),
        f"insert a table of {BATCH:,} rows": timed(
            lambda n: graph.write_batches({"Person": ("merge", batches[n])}),
            lambda n: upsert(pair.people, batches[n]),
            FEW_ROUNDS,
        ),
        f"insert {BATCH:,} rows": timed(
            lambda n: graph.mutate(INSERT_NODE, params=values[n]),
            lambda n: upsert(pair.people, more[n]),
            FEW_ROUNDS,
        ),
    }


def main() -> None:
    """Measure and print one record per line."""
    with tempfile.TemporaryDirectory() as folder:
        small = measure(build(Path(folder) / "small", SMALL))
        large = measure(build(Path(folder) / "large", LARGE))
    for name, (seconds, raw) in large.items():
        limit = 3.0 if name.endswith("rows") else 4.0
        at = f"{name}, {LARGE:,} nodes"
        emit(Record("mutations", at, seconds, limit * raw, "lance", raw))
        before = small[name][0]
        label = f"{name}, growth"
        emit(Record("mutations", label, seconds, 2 * before, f"{SMALL:,} nodes", before))


if __name__ == "__main__":
    main()
