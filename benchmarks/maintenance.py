"""What `optimize` and `cleanup` leave after thousands of small commits, beside a graph loaded anew.

A graph gets its rows one commit at a time; the peer is a graph that loads the same rows at once.
After `optimize`, scans and queries take as long in both, also when nothing is cached; a reader that
was there before goes on. After `cleanup` with ten commits to keep, the folder has at most twice the
bytes. Beside `optimize`, a process that writes does not wait for the lock any longer than the
slowest of its commits takes without. With `--quick` there are fewer commits, and no limit of bytes:
what every graph needs counts for more then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness import Record, best_of, emit, emit_amount
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.history import repository

SCHEMA = """
node Person { name: String @key  age: I32  text: String @index }
edge Knows: Person -> Person
"""
COMMITS, QUICK = 5_000, 500
KEPT = 10
#: How long the writer is alone, and how often it is beside `optimize`.
SECONDS, TIMES = 5, 5
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
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        return _keep_writing(Path(arguments.write[0]), int(arguments.write[1]))
    commits = QUICK if arguments.quick else COMMITS
    with tempfile.TemporaryDirectory() as folder:
        return int(not all([*_measure(Path(folder), commits)]))


def _measure(folder: Path, commits: int) -> Iterator[bool]:
    small, busy, fresh = folder / "small", folder / "busy", folder / "fresh"
    with init(small, SCHEMA) as graph:
        _write_one_by_one(graph, commits)
    shutil.copytree(small, busy)
    with init(fresh, SCHEMA) as graph:
        graph.write_batches({t: ("append", rows) for t, rows in _columns(commits).items()})
        graph.ensure_indices()
    with open_graph(small) as graph:
        before = graph.snapshot()
        begun = time.perf_counter()
        graph.optimize()
        emit(Record("maintenance", "optimize", time.perf_counter() - begun))
        seen = graph.query(COUNT, snapshot=before).to_arrow()
        if before.count("Person") != commits or seen["n"].to_pylist() != [commits]:
            raise AssertionError("a reader that was there before `optimize` reads something else")
    yield from _queries(small, fresh)
    yield from _bytes_left(small, fresh, 2 if commits == COMMITS else None)
    yield from _writer_beside(busy, commits)


# --- queries ---


def _queries(small: Path, fresh: Path) -> Iterator[bool]:
    for name, text in QUERIES.items():
        for kind, timed in (("cold", _cold), ("warm", _warm)):
            # In turns, so that both meet the same machine.
            taken = [(timed(small, text), timed(fresh, text)) for _ in range(3)]
            ours, theirs = min(t[0] for t in taken), min(t[1] for t in taken)
            limit = 1.2 * theirs + 0.0005
            record = Record("maintenance", f"{name}, {kind}", ours, limit, "loaded at once", theirs)
            emit(record)
            yield record.passed


def _cold(place: Path, text: str) -> float:
    """Nothing is known of the graph; a new process would load its libraries, too."""

    def cold() -> None:
        with open_graph(place) as graph:
            graph.query(text).to_arrow()

    best = float("inf")
    for _ in range(3):
        shutil.rmtree(place / "__cache", ignore_errors=True)
        best = min(best, best_of(cold, 1))
    return best


def _warm(place: Path, text: str) -> float:
    with open_graph(place) as graph:
        warm: Callable[[], object] = lambda: graph.query(text).to_arrow()  # noqa: E731
        warm()
        return best_of(warm, 10)


# --- bytes ---


def _bytes_left(small: Path, fresh: Path, limit: int | None) -> Iterator[bool]:
    spans: dict[str, Any] = {"grace": timedelta(0), "leftovers_older_than": timedelta(0)}
    with open_graph(small) as graph:
        kept = [commit.id for commit in graph.commits(limit=KEPT)]
        was = _bytes(small)
        shown = graph.cleanup(keep=KEPT, **spans).to_dict()
        done = graph.cleanup(confirm=True, keep=KEPT, **spans).to_dict()
        left = _bytes(small)
        yield _same("bytes that are gone", done["bytes"], was - left)
        # Files of the manifest have moments and addresses in them.
        yield abs(shown["bytes"] - done["bytes"]) <= 1_000
        counts = [[(p["place"], p["files"]) for p in each["places"]] for each in (shown, done)]
        yield _same("what the preview tells", *counts)
        rows = [graph.snapshot(commit=id).count("Person") for id in kept]
        if rows != sorted(rows, reverse=True) or graph.check().problems:
            raise AssertionError("the graph is not sound after the cleanup")
    ratio = left / _bytes(fresh)
    emit_amount("maintenance", "bytes before, of loaded at once", was / _bytes(fresh), "x")
    emit_amount("maintenance", "bytes after cleanup, of loaded at once", ratio, "x", limit=limit)
    yield limit is None or ratio <= limit


def _same(what: str, told: object, real: object) -> bool:
    if told != real:
        print(f"{what}: {told} is told, it is {real}", file=sys.stderr)
    return told == real


def _bytes(place: Path) -> int:
    files = (file for file in place.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files if "__cache" not in file.parts)


# --- a writer ---


def _writer_beside(place: Path, commits: int) -> Iterator[bool]:
    """Another process writes for a while, and then beside `optimize`."""
    with _writer(place, commits) as written:
        time.sleep(SECONDS)
    alone = written[20:]
    with _writer(place, commits + 1_000_000) as written, open_graph(place) as graph:
        time.sleep(1)
        first = time.time()
        for _ in range(TIMES):
            graph.optimize()
        last = time.time()
    beside = [each for each in written if first <= each["at"] <= last]
    slowest = max(each["took"] for each in alone)
    for what, share in (("median", 0.5), ("99 of 100", 0.99), ("slowest", 1.0)):
        ours, theirs = (_share([e["took"] for e in each], share) for each in (beside, alone))
        emit(Record("maintenance", f"commit beside optimize, {what}", ours, None, "alone", theirs))
    wait = max(each["waited"] for each in beside)
    record = Record("maintenance", "longest wait for the lock", wait, slowest, "a commit", slowest)
    emit(record)
    yield record.passed
    emit_amount("maintenance", "commits beside optimize", len(beside), "commits")


def _share(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@contextmanager
def _writer(place: Path, first: int) -> Iterator[list[dict[str, float]]]:
    """A process that writes a row at a time; what it measured is there when it has ended."""
    command = [sys.executable, __file__, "--write", str(place), str(first)]
    written: list[dict[str, float]] = []
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield written
    finally:
        output, _ = child.communicate("stop\n")
        written += json.loads(output)


def _keep_writing(place: Path, first: int) -> int:
    """What that process does, until it is told to stop."""
    waits: list[float] = []
    lock = repository.effect_lock

    @contextmanager
    def timed(*arguments: Any) -> Iterator[Any]:
        begun = time.perf_counter()
        with lock(*arguments) as held:
            waits.append(time.perf_counter() - begun)
            yield held

    repository.effect_lock = timed
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
    written = []
    with open_graph(place) as graph:
        print("ready", flush=True)
        while not stopped.is_set():
            waits.clear()
            took = _write(graph, first + len(written), "p17")
            written.append({"at": time.time(), "took": took, "waited": max(waits)})
    print(json.dumps(written))
    return 0


# --- rows ---


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


def _write(graph: Graph, n: int, other: str) -> float:
    begun = time.perf_counter()
    graph.mutate(INSERT, params={"n": f"p{n}", "a": n % 90, "t": _text(n), "o": other})
    return time.perf_counter() - begun


def _write_one_by_one(graph: Graph, commits: int) -> None:
    for n in range(commits):
        _write(graph, n, _other(n))


if __name__ == "__main__":
    sys.exit(main())
