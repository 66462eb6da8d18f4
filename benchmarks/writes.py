"""What the write protocol costs beside raw Lance, and what history costs.

The peer is Lance itself, doing the bare upsert of the same rows into the same kind of table in
the same run: no commit across tables, no recovery, no history. Both tables start with the same
rows and are compacted at the same times.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

from harness import Record, emit
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.language.schema.arrow import table_schema

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
START_ROWS = 10_000
ROUNDS = 30
EARLY, LATE = 50, 5_000


def people(schema: pa.Schema, first: int, count: int) -> pa.Table:
    names = [f"person-{n:09}" for n in range(first, first + count)]
    ages = pa.array([n % 90 for n in range(count)], pa.int32())
    return pa.table({"id": names, "name": names, "age": ages}, schema=schema)


def median_seconds(work: Callable[[int], object], rounds: int) -> float:
    taken = []
    for number in range(rounds):
        start = time.perf_counter()
        work(number)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def against_raw(folder: Path) -> None:
    """Commits of 1 and of 1,000 rows, interleaved with raw upserts of the same rows."""
    graph = init(folder / "graph", SCHEMA)
    schema = table_schema(graph.catalog.nodes["Person"])
    raw = str(folder / "raw")
    start = people(schema, 0, START_ROWS)
    graph.write_batches({"Person": ("append", start)})
    lance.write_dataset(
        start, raw, schema=schema, data_storage_version="2.2", enable_stable_row_ids=True
    )

    def ours(rows: pa.Table) -> None:
        graph.write_batches({"Person": ("merge", rows)})

    def theirs(rows: pa.Table) -> None:
        merge = lance.dataset(raw).merge_insert("id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    for count, limit in ((1, 4.0), (1000, 2.0)):
        batches = [people(schema, START_ROWS + n * count, count) for n in range(ROUNDS)]
        taken: dict[str, list[float]] = {"ours": [], "theirs": []}
        for rows in batches:
            for name, work in (("ours", ours), ("theirs", theirs)):
                begun = time.perf_counter()
                work(rows)
                taken[name].append(time.perf_counter() - begun)
        mine, peer = (statistics.median(taken[n]) for n in ("ours", "theirs"))
        noun = "row" if count == 1 else "rows"
        emit(Record("writes", f"commit {count} {noun}", mine, limit * peer, "lance", peer))


def against_history(folder: Path) -> None:
    """Opening, reading a snapshot and publishing after 50 and after 5,000 commits."""
    place = folder / "history"
    graph = init(place, SCHEMA)
    schema = table_schema(graph.catalog.nodes["Person"])
    early: dict[str, float] = {}
    for number in range(1, LATE + 1):
        # Overwriting one row keeps the table small: what grows is the history alone.
        publish(graph, schema, number)
        if number == EARLY:
            early = costs(graph, place, schema)
        elif number % 1000 == 0:
            print(f"{number} commits …", flush=True, file=sys.stderr)
    for name, seconds in costs(graph, place, schema).items():
        label = f"{name} after {LATE} commits"
        emit(Record("writes", label, seconds, 2 * early[name], f"after {EARLY}", early[name]))


def publish(graph: Graph, schema: pa.Schema, number: int) -> None:
    graph.write_batches({"Person": ("overwrite", people(schema, number, 1))})


def costs(graph: Graph, place: Path, schema: pa.Schema) -> dict[str, float]:
    return {
        "open": median_seconds(lambda _: open_graph(place), 20),
        "snapshot": median_seconds(lambda _: open_graph(place, mode="r").snapshot(), 20),
        "publish": median_seconds(lambda n: publish(graph, schema, 10_000_000 + n), 40),
    }


def main() -> None:
    """Measure and print one record per line."""
    with tempfile.TemporaryDirectory() as folder:
        against_raw(Path(folder))
        against_history(Path(folder))


if __name__ == "__main__":
    main()
