"""What ten thousand small commits cost: the last ones beside the first, and beside raw Lance.

After every commit another process, which is told by a pipe, asks for the row that was written. The
peer is Lance appending the same row to a table of its own, with no history, no rules and no merges
of fragments. With `--quick` there are fewer commits, so that ratios say less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from harness import Record, emit, emit_amount, resident_bytes
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
"""
COMMITS = {
    "insert": 10_000,
    "three types": 10_000,
    "update": 5_000,
    "update of many": 5_000,
    "insert and delete": 5_000,
}
QUICK = 600
#: The commits that count as the first ones, and how many as the last ones.
EARLY, LATE = slice(50, 150), 100
UPDATED_ROWS = 1_000

INSERT = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
INSERT_THREE = """query q($n: String, $c: String) {
  insert Person { name: $n, age: 7 }
  insert City { name: $c }
  insert LivesIn { from: $n, to: $c }
}"""
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DELETE = "query q($n: String) { delete Person where name = $n }"
POINT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"

_processes = multiprocessing.get_context("spawn")


@dataclass
class Costs:
    """What each commit of a run cost."""

    commits: list[float]
    cpu: list[float]
    reads: list[float]
    raw: list[float]
    writer_bytes: list[int]
    reader_bytes: list[int]
    folder_bytes: int


def name_of(number: int) -> str:
    return f"person-{number:09}"


def read_after_commits(place: str, pipe: Connection) -> None:
    """The reader: answers every name with the rows found, the time taken and its memory."""
    with open_graph(place, mode="r") as graph:
        while (name := pipe.recv()) is not None:
            begun = time.perf_counter()
            rows = graph.query(POINT, params={"n": name}).to_rows()
            pipe.send((rows, time.perf_counter() - begun, resident_bytes()))


@contextmanager
def reader(place: Path) -> Iterator[Callable[[str], tuple[Any, float, int]]]:
    """Another process that reads; calling it waits for its answer."""
    ours, theirs = _processes.Pipe()
    process = _processes.Process(target=read_after_commits, args=(str(place), theirs), daemon=True)
    process.start()

    def ask(name: str) -> tuple[Any, float, int]:
        ours.send(name)
        rows, seconds, memory = ours.recv()
        return rows, seconds, memory

    try:
        yield ask
    finally:
        ours.send(None)
        process.join()


def step(graph: Graph, kind: str, number: int) -> tuple[str, bool]:
    """One commit; returns a name to ask for, and whether it should be there."""
    name = name_of(number)
    match kind:
        case "insert":
            graph.mutate(INSERT, params={"n": name, "a": 7})
        case "three types":
            graph.mutate(INSERT_THREE, params={"n": name, "c": f"city-{number:09}"})
        case "update" | "update of many":
            name = name_of(7 if kind == "update" else number * 7919 % UPDATED_ROWS)
            graph.mutate(UPDATE, params={"n": name, "a": number % 90})
        case "insert and delete":
            name = name_of(number // 2)
            if number % 2:
                graph.mutate(DELETE, params={"n": name})
                return name, False
            graph.mutate(INSERT, params={"n": name, "a": 7})
    return name, True


def run(folder: Path, kind: str, commits: int) -> tuple[Costs, tuple[float, float]]:
    """Make many commits; returns what they cost, and a first query after few and after all."""
    place = folder / "graph"
    graph = init(place, SCHEMA)
    if kind.startswith("update"):
        names = [name_of(n) for n in range(UPDATED_ROWS)]
        graph.write_batches({"Person": ("append", pa.table({"name": names}))})
    raw = str(folder / "raw")
    row = pa.table({"id": ["x"], "name": ["x"], "age": pa.array([7], pa.int32())})
    lance.write_dataset(row, raw, data_storage_version="2.2", enable_stable_row_ids=True)
    costs = Costs([], [], [], [], [], [], 0)
    early = 0.0
    with reader(place) as ask:
        for number in range(commits):
            begun, worked = time.perf_counter(), time.process_time()
            name, there = step(graph, kind, number)
            costs.cpu.append(time.process_time() - worked)
            costs.commits.append(time.perf_counter() - begun)
            rows, seconds, memory = ask(name)
            assert len(rows) == there, (name, rows)
            costs.reads.append(seconds)
            costs.reader_bytes.append(memory)
            costs.writer_bytes.append(resident_bytes())
            if number in range(*EARLY.indices(commits)):
                begun = time.perf_counter()
                lance.write_dataset(row, raw, mode="append")
                costs.raw.append(time.perf_counter() - begun)
            if number == EARLY.stop:
                early = first_query(place, name)
            if number % 1000 == 999:
                print(f"{kind}: {number + 1:,} commits", file=sys.stderr)
    graph.close()
    costs.folder_bytes = sum(p.stat().st_size for p in place.rglob("*") if p.is_file())
    return costs, (early, first_query(place, name))


def first_query(place: Path, name: str) -> float:
    """Open the graph in a new process and ask for a row; returns the best of some times."""
    command = [sys.executable, __file__, "--first-query", str(place), name]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(done.stdout) for done in runs)


def measure_first_query(place: str, name: str) -> None:
    begun = time.perf_counter()
    with open_graph(place, mode="r") as graph:
        graph.query(POINT, params={"n": name}).to_rows()
    print(time.perf_counter() - begun)


def report(kind: str, commits: int, costs: Costs, firsts: tuple[float, float]) -> None:
    """Print what was measured."""

    def grown(what: str, values: list[float], limit: float) -> None:
        early, late = statistics.median(values[EARLY]), statistics.median(values[-LATE:])
        label = f"{kind}: {what}, last {LATE} of {commits:,}"
        emit(Record("small_commits", label, late, limit * early, "commits 50-150", early))

    grown("commit", costs.commits, 1.5)
    grown("CPU of a commit", costs.cpu, 1.5)
    grown("read after a commit", costs.reads, 1.5)
    middle = statistics.median(costs.commits)
    label = f"{kind}: slowest commit"
    emit(Record("small_commits", label, max(costs.commits[50:]), None, "median", middle))
    early, late = firsts
    label = f"{kind}: open and first query"
    emit(Record("small_commits", label, late, 2 * early, f"after {EARLY.stop} commits", early))
    if kind == "insert":
        ours, peer = statistics.median(costs.commits[EARLY]), statistics.median(costs.raw)
        label = "insert: commit of one row"
        emit(Record("small_commits", label, ours, 4 * peer, "lance append", peer))
    for who, values in (("writer", costs.writer_bytes), ("reader", costs.reader_bytes)):
        growth = (values[-1] - values[EARLY.stop]) / (commits - EARLY.stop)
        # The slope of the second half tells what goes on for ever from what warms up.
        slope = np.polyfit(range(commits - commits // 2), values[commits // 2 :], 1)[0]
        emit_amount("small_commits", f"{kind}: memory of the {who}", growth, "bytes/commit")
        emit_amount("small_commits", f"{kind}: the same, second half", slope, "bytes/commit")
    size = costs.folder_bytes / commits
    emit_amount("small_commits", f"{kind}: folder", size, "bytes/commit")


def main() -> None:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} commits of each kind")
    parser.add_argument("--only", choices=COMMITS, help="one kind of commits")
    parser.add_argument("--commits", type=int, help="how many commits of each kind")
    parser.add_argument("--first-query", nargs=2, metavar=("PLACE", "NAME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_query:
        measure_first_query(*options.first_query)
        return
    for kind, usual in COMMITS.items():
        if options.only in (None, kind):
            commits = options.commits or (QUICK if options.quick else usual)
            # A process for each, so that none begins with the memory of the one before.
            process = _processes.Process(target=measure, args=(kind, commits))
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(f"{kind} failed")


def measure(kind: str, commits: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report(kind, commits, *run(Path(folder), kind, commits))


if __name__ == "__main__":
    main()
