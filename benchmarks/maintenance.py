"""What `optimize` and `cleanup` leave after thousands of small commits, beside a graph loaded anew.

A graph gets its rows one commit at a time; the peer is a graph that loads the same rows at once.
After `optimize`, scans and queries take as long in both; a writer beside it does not wait longer
than one commit takes; a reader that was there before goes on. After `cleanup` with ten commits to
keep, the folder has at most twice the bytes. With `--quick` there are fewer commits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from harness import Record, best_of, emit, emit_amount
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph

SCHEMA = """
node Person { name: String @key  age: I32  text: String @index }
edge Knows: Person -> Person
"""
COMMITS, QUICK = 5_000, 500
KEPT = 10
INSERT = """query q($n: String, $a: I32, $t: String, $o: String) {
  insert Person { name: $n, age: $a, text: $t }
  insert Knows { from: $n, to: $o }
}"""
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
QUERIES = {
    "scan": "query q() { match { $p: Person } return { sum($p.age) as n } }",
    "key": 'query q() { match { $p: Person { name: "p17" } } return { $p.age } }',
    "hops": "query q() { match { $p: Person $p knows $q $q knows $r } return { count($r) as n } }",
    "words": 'query q() { match { $p: Person match_text($p.text, "word7") } return { $p.name } }',
}


def main() -> int:
    """Run the benchmark; returns 1 when a limit was missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    commits = QUICK if parser.parse_args().quick else COMMITS
    with tempfile.TemporaryDirectory() as folder:
        return int(not all(_measure(Path(folder), commits)))


def _measure(folder: Path, commits: int) -> list[bool]:
    records: list[bool] = []

    def note(record: Record) -> None:
        emit(record)
        records.append(record.passed)

    small, fresh = folder / "small", folder / "fresh"
    with init(small, SCHEMA) as graph:
        one = _write_one_by_one(graph, commits)
        before = graph.snapshot()
        graph_rows = _columns(commits)
        waits = _optimize_beside_a_writer(graph, commits)
        seen = graph.query(COUNT, snapshot=before).to_arrow()
        if before.count("Person") != commits or seen["n"].to_pylist() != [commits]:
            raise AssertionError("a reader that was there before `optimize` reads something else")
    with init(fresh, SCHEMA) as graph:
        graph.write_batches({t: ("append", rows) for t, rows in graph_rows.items()})
        graph.ensure_indices()
    name = "longest wait beside optimize"
    note(Record("maintenance", name, max(waits), None, "median commit", one))
    for name, text in QUERIES.items():
        ours, theirs = _cold_and_warm(small, text), _cold_and_warm(fresh, text)
        for kind, mine, peer in zip(("cold", "warm"), ours, theirs, strict=True):
            limit = 1.2 * peer + 0.0005
            note(Record("maintenance", f"{name}, {kind}", mine, limit, "loaded at once", peer))
    with open_graph(small) as graph:
        was = _bytes(small)
        result = graph.cleanup(
            confirm=True, keep=KEPT, grace=timedelta(0), leftovers_older_than=timedelta(0)
        )
        left = _bytes(small)
        if was - left != result.bytes:
            print(f"{result.bytes:,} bytes reported, {was - left:,} gone", file=sys.stderr)
            records.append(False)
        if graph.check().problems:
            raise AssertionError("the graph is not sound after the cleanup")
    ratio = left / _bytes(fresh)
    emit_amount("maintenance", "bytes after cleanup, of loaded at once", ratio, "x", limit=2)
    records.append(ratio <= 2)
    return records


def _columns(count: int) -> dict[str, pa.Table]:
    numbers = range(count)
    names = [f"p{n}" for n in numbers]
    people = pa.table(
        {
            "name": names,
            "age": pa.array([n % 90 for n in numbers], pa.int32()),
            "text": [_text(n) for n in numbers],
        }
    )
    edges = pa.table({"src": names, "dst": [_other(n) for n in numbers]})
    return {"Person": people, "Knows": edges}


def _text(n: int) -> str:
    return f"word{n % 50} and word{n % 7} of {n}"


def _other(n: int) -> str:
    return f"p{n // 2}"


def _write(graph: Graph, n: int) -> float:
    begun = time.perf_counter()
    graph.mutate(INSERT, params={"n": f"p{n}", "a": n % 90, "t": _text(n), "o": _other(n)})
    return time.perf_counter() - begun


def _write_one_by_one(graph: Graph, commits: int) -> float:
    """Write all rows; returns what a commit takes at the end."""
    taken = sorted([_write(graph, n) for n in range(commits)][-100:])
    return taken[len(taken) // 2]


def _optimize_beside_a_writer(graph: Graph, commits: int) -> list[float]:
    """How long each commit took that was made while the graph was optimized."""
    waits: list[float] = []
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            waits.append(_write(graph, commits + len(waits)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        graph.optimize()
    finally:
        done.set()
        writer.join()
    # What was written meanwhile is not in the peer; and what it left is small again.
    extra = [f"p{n}" for n in range(commits, commits + len(waits))]
    graph.mutate("query q($n: [String]) { delete Person where name in $n }", params={"n": extra})
    graph.optimize()
    return waits


def _cold_and_warm(place: Path, text: str) -> tuple[float, float]:
    def cold() -> None:
        with open_graph(place) as graph:
            graph.query(text).to_arrow()

    first = best_of(cold, 5)
    with open_graph(place) as graph:
        warm: Callable[[], object] = lambda: graph.query(text).to_arrow()  # noqa: E731
        warm()
        return first, best_of(warm, 20)


def _bytes(place: Path) -> int:
    files = (file for file in place.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files if "__cache" not in file.parts)


if __name__ == "__main__":
    sys.exit(main())
