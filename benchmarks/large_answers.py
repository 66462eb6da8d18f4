"""Large answers and their budgets: ordered rows in batches, and queries beyond their limits.

Each measurement is a process of its own; all but the first have read the graph before. Memory is
the most that the process uses, or what the query adds to it. With `--quick` there are fewer people,
and limits of memory say nothing.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness import Record, emit, emit_amount, resident_bytes
from omnigraph.errors import ResourceLimit
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph

SCHEMA = "node Person { name: String @key  age: I32 }\nedge Knows: Person -> Person"
FRIENDS = 10
TWO_HOPS = """query q() {
  match { $a knows $b  $b knows $c }
  return { $a.name as a, $c.name as c, $c.age as age } order { $c.age, $a.name }
}"""
THREE_HOPS = TWO_HOPS.replace("$b knows $c", "$b knows $c  $c knows $d")
WARM = "query q() { match { $a knows $b } return { $a.name as a, $b.age as b } limit 100000 }"
MIB = 1 << 20

_processes = multiprocessing.get_context("spawn")


def build(place: Path, people: int) -> None:
    """People of whom each knows ten others."""
    random = np.random.default_rng(1)
    names = np.array([f"person-{number:07}" for number in random.permutation(people)])
    nodes = pa.table({"name": names, "age": random.integers(0, 90, people).astype(np.int32)})
    targets = names[random.integers(0, people, people * FRIENDS)]
    edges = pa.table({"from": np.repeat(names, FRIENDS), "to": targets})
    with init(place, SCHEMA) as graph:
        graph.write_batches({"Person": ("append", nodes), "Knows": ("append", edges)})


def peak_bytes() -> int:
    """The most memory that this process used since that was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measured(place: Path, work: Callable[[Graph], object]) -> tuple[float, int]:
    """How long some work takes, and how much memory it adds at most."""
    with open_graph(place, mode="r") as graph:
        graph.query(WARM)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = resident_bytes()
        begun = time.perf_counter()
        work(graph)
        return time.perf_counter() - begun, peak_bytes() - before


def warm(place: Path, quick: bool) -> None:
    """Leave what is read in files, as any process does that has read the graph before."""
    with open_graph(place, mode="r") as graph:
        # A version is written to files when it has been there for a moment.
        for _ in range(3):
            graph.query(WARM)
            time.sleep(2)


def stream_cold(place: Path, quick: bool) -> None:
    """All rows of two hops, in order, while nothing is known of the graph."""
    shutil.rmtree(place / "__cache", ignore_errors=True)
    begun = time.perf_counter()
    with (
        open_graph(place, mode="r") as graph,
        graph.query_batches(TWO_HOPS, memory_limit=128) as batches,
    ):
        rows = sum(batch.num_rows for batch in batches)
    seconds = time.perf_counter() - begun
    limit = None if quick else 512 * MIB
    name = f"stream {rows:,} ordered rows, cold"
    emit(Record("large_answers", name, seconds, memory=peak_bytes(), memory_limit=limit))


def stream(place: Path, quick: bool) -> None:
    """All rows of two hops, in order."""
    rows = 0

    def work(graph: Graph) -> None:
        nonlocal rows
        with graph.query_batches(TWO_HOPS, memory_limit=128) as batches:
            rows = sum(batch.num_rows for batch in batches)

    seconds, _ = measured(place, work)
    limit = None if quick else 512 * MIB
    name = f"stream {rows:,} ordered rows"
    emit(Record("large_answers", name, seconds, memory=peak_bytes(), memory_limit=limit))


def refuse(place: Path, quick: bool) -> None:
    """Three hops in order, with too little memory."""

    def work(graph: Graph) -> None:
        try:
            graph.query(THREE_HOPS, memory_limit=128)
        except ResourceLimit:
            return
        raise SystemExit("the answer fits into 128 MiB")

    seconds, memory = measured(place, work)
    name = "refuse three hops beyond 128 MiB"
    emit(Record("large_answers", name, seconds, memory=memory, memory_limit=int(1.2 * 128 * MIB)))


def stop(place: Path, quick: bool) -> None:
    """Three hops in order, with too little time."""

    def work(graph: Graph) -> None:
        try:
            for _ in graph.query_batches(THREE_HOPS, time_limit=2):
                pass
        except ResourceLimit:
            return
        raise SystemExit("the query takes less than 2 s")

    seconds, _ = measured(place, work)
    emit_amount("large_answers", "stop three hops after 2 s", seconds / 2, "x", limit=1.2)


def main() -> None:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 people instead of 100,000")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "people.omni"
        build(place, 20_000 if quick else 100_000)
        for work in (stream_cold, warm, stream, refuse, stop):
            process = _processes.Process(target=work, args=(place, quick))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"{work.__name__} failed")


if __name__ == "__main__":
    main()
