"""Many writers on one branch: processes and threads that insert rows, and loads beside commits.

Nothing is compared with other databases: the peer is always the same work done alone, in the same
run. Every process checks that its rows are there at the end. With `--quick` there are fewer commits
and rows, so that ratios say less.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness import Record, emit, emit_amount
from omnigraph.errors import ReadSetConflict
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph

SCHEMA = """
node Person { name: String @key  age: I32? }
node Company { name: String @key  age: I32? }
node Note { name: String @key  age: I32? }
"""
INSERT = "query q($n: String) { insert Note { name: $n, age: 7 } }"
WRITERS = 16
ENGINES = ("local", "spark")
#: How often another process commits while rows are loaded.
EVERY = 0.2
#: How many commits a process makes before they are measured.
WARM_UP = 40

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Sizes:
    """Commits of each writer, rows of a load, how many loads, and seconds before each."""

    commits: int
    rows: int
    loads: int
    alone: float


FULL = Sizes(commits=200, rows=2_000_000, loads=6, alone=3.0)
QUICK = Sizes(commits=10, rows=100_000, loads=1, alone=1.0)


def insert_many(graph: Graph, writer: int, commits: int) -> list[float]:
    """Insert rows one by one; returns how long each took."""
    taken = []
    for number in range(commits):
        begun = time.perf_counter()
        graph.mutate(INSERT, params={"n": f"note-{writer}-{number}"})
        taken.append(time.perf_counter() - begun)
    return taken


def writing_process(place: str, writer: int, commits: int, start: Barrier, answers: Any) -> None:
    with open_graph(place) as graph:
        insert_many(graph, 10_000 + writer, 2)
        start.wait()
        begun = time.monotonic()
        taken = insert_many(graph, writer, commits)
        answers.put((begun, time.monotonic(), taken))


def by_processes(folder: Path, writers: int, commits: int) -> tuple[float, list[float]]:
    """Commits per second of some processes together, and how long each commit took."""
    place = folder / f"processes-{writers}"
    init(place, SCHEMA).close()
    start, answers = _processes.Barrier(writers), _processes.Queue()
    processes = [
        _processes.Process(target=writing_process, args=(str(place), n, commits, start, answers))
        for n in range(writers)
    ]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    check_rows(place, "Note", writers * (commits + 2))
    return _rate(found, writers * commits)


def by_threads(folder: Path, writers: int, commits: int) -> tuple[float, list[float]]:
    """The same for threads of this process."""
    place = folder / f"threads-{writers}"
    found: list[tuple[float, float, list[float]]] = []
    with init(place, SCHEMA) as graph:
        insert_many(graph, 10_000, 2)

        def work(writer: int) -> None:
            begun = time.monotonic()
            taken = insert_many(graph, writer, commits)
            found.append((begun, time.monotonic(), taken))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_rows(place, "Note", writers * commits + 2)
    return _rate(found, writers * commits)


def _rate(found: list[tuple[float, float, list[float]]], commits: int) -> tuple[float, list[float]]:
    begun, ended = min(f[0] for f in found), max(f[1] for f in found)
    return commits / (ended - begun), [seconds for f in found for seconds in f[2]]


def check_rows(place: Path, type: str, expected: int) -> None:
    with open_graph(place, mode="r") as graph:
        count = graph.snapshot().count(type)
    assert count == expected, f"{count} of {expected} rows are there"


def measure_writers(folder: Path, sizes: Sizes) -> None:
    """One writer beside sixteen, as processes and as threads."""

    def one() -> float:
        shutil.rmtree(folder / "processes-1", ignore_errors=True)
        return by_processes(folder, 1, WRITERS * sizes.commits // 8)[0]

    for name, work in (("processes", by_processes), ("threads", by_threads)):
        # Before and after: these machines are not always equally fast.
        before = one()
        rate, taken = work(folder, WRITERS, sizes.commits)
        alone = (before + one()) / 2
        emit_amount(
            "many_writers",
            f"{WRITERS} {name} on one branch",
            rate,
            "commits/s",
            peer="one process",
            peer_value=alone,
        )
        median = statistics.median(taken)
        label = f"{WRITERS} {name}: slowest commit"
        emit(Record("many_writers", label, max(taken), None, "median", median))


# --- loads ---


def rows(count: int, first: int = 0) -> pa.Table:
    names = [f"row-{n:09}" for n in range(first, first + count)]
    return pa.table({"name": names, "age": pa.array(np.arange(count) % 90, pa.int32())})


def commit_now_and_then(place: str, stop: Event, ready: Event, answers: Any) -> None:
    """Commit every 200 ms until it is told to stop; answers with when, and how long each took."""
    found: list[tuple[float, float]] = []
    with open_graph(place) as graph:
        # The first commits of a process take longer, whatever else goes on.
        insert_many(graph, 20_000, WARM_UP)
        ready.set()
        while not stop.is_set():
            begun = time.monotonic()
            graph.mutate(INSERT, params={"n": f"then-{len(found)}"})
            taken = time.monotonic() - begun
            found.append((begun, taken))
            stop.wait(max(0.0, EVERY - taken))
    answers.put(found)


@dataclass
class Beside:
    """Work that was done, several times, while another process committed.

    Attributes:
        work: The seconds it took each time.
        before: How long commits took just before it, of all times together.
        during: How long commits took that began while it was done.
    """

    work: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)


def beside_commits(place: Path, before: float, work: Callable[[], Any], into: Beside) -> Any:
    """Do something while another process commits, and before it nothing for some seconds."""
    stop, ready, answers = _processes.Event(), _processes.Event(), _processes.Queue()
    arguments = (str(place), stop, ready, answers)
    process = _processes.Process(target=commit_now_and_then, args=arguments)
    process.start()
    ready.wait()
    time.sleep(before)
    begun = time.monotonic()
    try:
        return work()
    finally:
        ended = time.monotonic()
        stop.set()
        for when, taken in answers.get():
            if when < begun:
                into.before.append(taken)
            elif when < ended:
                into.during.append(taken)
        into.work.append(ended - begun)
        process.join()


def loaded(place: Path, source: Path, engine: str, mode: str, spark: Any, type: str) -> bool:
    """Load a file; False when other writers did not let it through."""
    with open_graph(place) as graph:
        try:
            graph.load(source, mode=mode, engine=engine, spark=spark, type=type, indexes=False)  # type: ignore[arg-type]
        except ReadSetConflict as conflict:
            print(conflict, file=sys.stderr)
            return False
    return True


def measure_loads(folder: Path, sizes: Sizes, engines: Sequence[str]) -> None:
    """Loads alone, and while another process commits every 200 ms."""
    import pyarrow.parquet as pq

    from omnigraph.pipeline.spark.session import session

    spark = session() if "spark" in engines else None
    source = folder / "rows.parquet"
    pq.write_table(rows(sizes.rows), source)
    few = folder / "few.parquet"
    pq.write_table(rows(1000), few)

    def fresh(mode: str) -> Path:
        """A graph to load into: with half of the rows if they are to be merged."""
        place = folder / "graph"
        shutil.rmtree(place, ignore_errors=True)
        with init(place, SCHEMA) as graph:
            if mode == "merge":
                half = rows(sizes.rows // 2)
                graph.load(half, type="Person", mode="append", engine="local", indexes=False)
        return place

    for engine in engines:
        # Spark starts its workers with the first load.
        loaded(fresh("append"), few, engine, "append", spark, "Person")
        for mode in ("append", "merge"):
            alone: list[float] = []
            beside = Beside()
            refused = ""
            # In turns, and several times: a load is over after a few commits, and these machines
            # are not always equally fast.
            for _ in range(sizes.loads):
                place = fresh(mode)
                begun = time.perf_counter()
                loaded(place, source, engine, mode, spark, "Person")
                alone.append(time.perf_counter() - begun)
                place = fresh(mode)
                work = functools.partial(loaded, place, source, engine, mode, spark, "Person")
                if beside_commits(place, sizes.alone, work, beside):
                    check_rows(place, "Person", sizes.rows)
                else:
                    refused = ": refused"
            peer, seconds = statistics.median(alone), statistics.median(beside.work)
            label = f"{mode} {sizes.rows:,} rows ({engine}) beside commits{refused}"
            limit = 0.0 if refused else 1.3 * peer
            emit(Record("many_writers", label, seconds, limit, "alone", peer))
            for what, of in (("median", 50), ("p95", 95)):
                label = f"{what} of {len(beside.during)} commits beside {mode} ({engine})"
                ours, theirs = (float(np.percentile(t, of)) for t in (beside.during, beside.before))
                limit = 2 * theirs if of == 95 else None
                emit(Record("many_writers", label, ours, limit, "without a load", theirs))
    two_loads(fresh("append"), fresh, source, sizes)


def loading_process(place: str, source: str, type: str, start: Barrier, answers: Any) -> None:
    start.wait()
    begun = time.monotonic()
    done = loaded(Path(place), Path(source), "local", "append", None, type)
    answers.put((begun, time.monotonic(), done))


def two_loads(place: Path, fresh: Callable[[str], Path], source: Path, sizes: Sizes) -> None:
    """Loads into two types at once, each in a process of its own, beside one after the other."""

    def together(types: list[str]) -> tuple[float, bool]:
        start, answers = _processes.Barrier(len(types)), _processes.Queue()
        arguments = [(str(place), str(source), type, start, answers) for type in types]
        processes = [_processes.Process(target=loading_process, args=a) for a in arguments]
        for process in processes:
            process.start()
        found = [answers.get() for _ in processes]
        for process in processes:
            process.join()
        return max(f[1] for f in found) - min(f[0] for f in found), all(f[2] for f in found)

    peer = together(["Person"])[0] + together(["Company"])[0]
    place = fresh("append")
    seconds, done = together(["Person", "Company"])
    label = f"two loads of {sizes.rows:,} rows at once"
    if done:
        for type in ("Person", "Company"):
            check_rows(place, type, sizes.rows)
    else:
        label += ": one refused"
    limit = 1.2 * peer if done else 0.0
    emit(Record("many_writers", label, seconds, limit, "one after the other", peer))


def main() -> None:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer commits and rows")
    parser.add_argument("--only", choices=("writers", "loads"), help="one part")
    parser.add_argument("--engine", choices=ENGINES, help="loads by one engine")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-writers-"))
    try:
        if options.only != "loads":
            measure_writers(folder, sizes)
        if options.only != "writers":
            measure_loads(folder, sizes, [options.engine] if options.engine else ENGINES)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
