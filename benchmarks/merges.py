"""What branches cost: to make, change, compare and merge them, in small and in large graphs.

A cost that should follow the change is compared with the same in a smaller graph, or earlier, in
the same run; the peer of a large merge is Lance appending the same rows to a table of its own. With
`--quick` graphs are smaller and there are fewer commits, so that ratios say less.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import Record, emit, emit_amount, resident_bytes
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph

SCHEMA = "node Person { name: String @key  age: I32?  city: String?  vector: Vector(128)? }"
DIMENSIONS = 128
#: Rows of a file that is loaded, written at a time.
BATCH = 50_000

UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
CHANGE = """query q($old: String, $new: String, $age: I32, $vector: Vector(128)) {
  update Person set { age: $age } where name = $old
  insert Person { name: $new, age: $age, vector: $vector }
}"""
CHANGED = 50

_processes = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Sizes:
    """How large everything is.

    Attributes:
        rows: Rows of the table that small changes are merged into, the smallest first.
        merges: How many small merges are measured in each.
        processes: In how many new processes memory is measured.
        large: Rows of the large branch.
        large_turns: How many times it is merged.
        branches: How many branches there are when another one is made.
        commits: How many commits there are when a small change is looked at, the fewest first.
        drafts: How many branches are merged one after the other, of `changes` commits each.
    """

    rows: tuple[int, ...]
    merges: int
    processes: int
    large: int
    large_turns: int
    branches: int
    commits: tuple[int, int]
    drafts: int
    changes: int

    @property
    def ends(self) -> int:
        """How many of the branches are the first ones, and the last ones."""
        return max(3, self.drafts // 10)


FULL = Sizes((10_000, 100_000, 1_000_000), 15, 5, 100_000, 9, 500, (100, 10_000), 200, 20)
QUICK = Sizes((10_000, 30_000), 3, 1, 5_000, 3, 20, (20, 100), 9, 3)


def name_of(number: int) -> str:
    return f"person-{number:09}"


def people(first: int, count: int, seed: int = 0) -> pa.Table:
    vectors = np.random.default_rng(seed + first).random((count, DIMENSIONS), np.float32)
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "name": [name_of(n) for n in numbers.tolist()],
            "age": pa.array(numbers % 90, pa.int32()),
            "city": [f"city-{n}" for n in (numbers % 97).tolist()],
            "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), DIMENSIONS),
        }
    )


def graph_of(folder: Path, rows: int) -> Path:
    """A graph that a file of many rows was loaded into."""
    place, source = folder / f"graph-{rows}", folder / "rows.parquet"
    with pq.ParquetWriter(source, people(0, 1).schema) as writer:
        for first in range(0, rows, BATCH):
            writer.write_table(people(first, min(BATCH, rows - first)))
    with init(place, SCHEMA) as graph:
        graph.load(source, type="Person", mode="append", engine="local")
    source.unlink()
    return place


def took(work: Callable[[], Any]) -> float:
    """How long something takes, in seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process."""
    ours, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_answer, args=(theirs, work, *arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise SystemExit(f"{work.__name__}{arguments} failed") from None
    finally:
        process.join()


def _answer(pipe: Connection, work: Callable[..., Any], *arguments: Any) -> None:
    pipe.send(work(*arguments))


def change(graph: Graph, branch: str, number: int) -> None:
    """A one-row commit."""
    graph.mutate(UPDATE, params={"n": name_of(number), "a": number % 89 + 200}, branch=branch)


def make_draft(graph: Graph, branch: str, number: int, rows: int) -> None:
    """Make a branch, and update and insert some rows there in one commit."""
    graph.branches.create(branch)
    first = number * CHANGED
    new = people(10**7 + first, CHANGED // 2)
    vectors = new["vector"].to_pylist()
    params = [
        {
            "old": name_of((first + each) * 7919 % (rows // 2)),
            "new": name,
            "age": 100 + each,
            "vector": vector,
        }
        for each, (name, vector) in enumerate(zip(new["name"].to_pylist(), vectors, strict=True))
    ]
    graph.mutate(CHANGE, params=params, branch=branch)


# --- a small change, merged into large tables ---


def small_merges(place: str, rows: int, merges: int, first: int) -> tuple[list[float], list[float]]:
    """Merge small changes; returns how long that took, and one-row commits between them."""
    taken, commits = [], []
    with open_graph(place) as graph:
        for number in range(first, first + merges + 2):
            branch = f"draft-{number}"
            make_draft(graph, branch, number, rows)
            # Not one of the rows that a draft changes.
            own = rows // 2 + number
            commits.append(took(lambda own=own: change(graph, "main", own)))  # type: ignore[misc]
            begun = time.perf_counter()
            result = graph.merge(branch)
            taken.append(time.perf_counter() - begun)
            assert result.outcome == "merged", result.outcome
            outcome = result.tables["Person"]
            assert outcome.inserted + outcome.replaced == CHANGED, outcome
            graph.branches.delete(branch)
    # The first ones of a process take longer.
    return taken[2:], commits[2:]


def memory_of_merge(place: str, rows: int, number: int) -> int:
    """How much more memory a process uses at most while it merges a small change."""
    branch = f"memory-{number}"
    with open_graph(place) as graph:
        make_draft(graph, branch, number, rows)
    with open_graph(place) as graph:
        change(graph, "main", rows // 2 + number)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        before = resident_bytes()
        assert graph.merge(branch).outcome == "merged"
        return peak_bytes() - before


def peak_bytes() -> int:
    """The most memory that this process used since that was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def measure_small(folder: Path, sizes: Sizes) -> None:
    """Merges of 50 rows into tables of different sizes: time and memory."""
    places = {rows: graph_of(folder, rows) for rows in sizes.rows}
    taken: dict[int, list[float]] = {rows: [] for rows in sizes.rows}
    commits: dict[int, list[float]] = {rows: [] for rows in sizes.rows}
    memory: dict[int, list[int]] = {rows: [] for rows in sizes.rows}
    # In turns: these machines are not always equally fast.
    for turn in range(3):
        for rows, place in places.items():
            first = turn * (sizes.merges + 2)
            arguments = (str(place), rows, sizes.merges, first)
            merges, ones = in_process(small_merges, *arguments)
            taken[rows] += merges
            commits[rows] += ones
    for turn in range(sizes.processes):
        for rows, place in places.items():
            number = 1000 + turn
            memory[rows].append(in_process(memory_of_merge, str(place), rows, number))
    least = sizes.rows[0]
    for rows in sizes.rows:
        seconds, one = statistics.median(taken[rows]), statistics.median(commits[rows])
        label = f"merge {CHANGED} rows into {rows:,}"
        emit(Record("merges", label, seconds, 4 * one, "one-row commit", one))
        used = statistics.median(memory[rows])
        if rows == least:
            emit_amount("merges", f"{label}: extra memory", used / 2**20, "MiB")
            continue
        peer = f"into {least:,}"
        small = statistics.median(taken[least])
        emit(Record("merges", label, seconds, 1.5 * small, peer, small))
        emit_amount(
            "merges",
            f"{label}: extra memory",
            used / 2**20,
            "MiB",
            limit=1.5 * statistics.median(memory[least]) / 2**20,
            peer=peer,
            peer_value=statistics.median(memory[least]) / 2**20,
        )


# --- a large branch ---


def large_merge(folder: str, rows: int, updated: int) -> tuple[float, float]:
    """Merge a branch of many rows; returns what that took, and Lance's append of these rows.

    Args:
        folder: Where to.
        rows: How many rows the branch writes.
        updated: How many of them are in the graph before.
    """
    graph = init(Path(folder) / "graph", SCHEMA)
    graph.load(people(0, rows), type="Person", mode="append", engine="local")
    graph.branches.create("draft")
    first = rows - updated
    written = people(first, rows, seed=1)
    graph.load(written, type="Person", branch="draft", engine="local")
    change(graph, "main", 0)
    stored = written.add_column(0, "id", written["name"])
    raw = str(Path(folder) / "raw")
    options: dict[str, Any] = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    lance.write_dataset(stored.slice(0, 10), raw, **options)

    def append() -> float:
        return took(lambda: lance.write_dataset(stored, raw, mode="append"))

    # Before and after: the memory of these machines is not always equally fast.
    peers = [append() for _ in range(3)]
    begun = time.perf_counter()
    result = graph.merge("draft")
    taken = time.perf_counter() - begun
    peers += [append() for _ in range(3)]
    assert result.outcome == "merged", result.outcome
    outcome = result.tables["Person"]
    assert (outcome.inserted, outcome.replaced) == (first, updated), outcome
    graph.close()
    return taken, statistics.median(peers)


def measure_large(folder: Path, sizes: Sizes) -> None:
    """Merges of a branch of many rows: all new, all updated, and half of each."""
    rows = sizes.large
    kinds = {"new": 0, "updated": rows, "new and updated": rows // 2}
    for kind, updated in kinds.items():
        taken, peers = [], []
        for turn in range(sizes.large_turns):
            place = folder / f"large-{updated}-{turn}"
            seconds, peer = in_process(large_merge, str(place), rows, updated)
            taken.append(seconds)
            peers.append(peer)
            shutil.rmtree(place)
        seconds, peer = statistics.median(taken), statistics.median(peers)
        label = f"merge a branch of {rows:,} rows, {kind}"
        emit(Record("merges", label, seconds, 3 * peer, "lance append", peer))


# --- making branches ---


def measure_branches(folder: Path, sizes: Sizes) -> None:
    """Making a branch when there are few, and when there are many."""
    times = 10
    with init(folder / "branches", SCHEMA) as graph:
        graph.load(people(0, 1000), type="Person", mode="append", engine="local")
        graph.branches.create("first")
        taken: list[list[float]] = []
        for already in (1, sizes.branches):
            for number in range(already - 1 - len(taken) * times):
                graph.branches.create(f"branch-{already}-{number:05}")
            made = [f"more-{already}-{number}" for number in range(times)]
            taken.append([took(lambda name=name: graph.branches.create(name)) for name in made])  # type: ignore[misc]
        few, many = (statistics.median(each) for each in taken)
    label = f"make a branch beside {sizes.branches}"
    emit(Record("merges", label, many, 1.5 * few, "beside 1", few))


# --- looking at a small change ---


def warm_and_first(place: str, work: str, *arguments: Any) -> dict[str, float]:
    """How long a call takes as the first one of an open graph, and as one of many."""
    call = LOOKS[work]
    taken: dict[str, list[float]] = {}

    def timed(when: str, graph: Graph) -> None:
        worked = time.process_time()
        taken.setdefault(when, []).append(took(lambda: call(graph, *arguments)))
        taken.setdefault(f"CPU of {when}", []).append(time.process_time() - worked)

    for _ in range(7):
        with open_graph(place, mode="r") as graph:
            timed("first call", graph)
    with open_graph(place, mode="r") as graph:
        for _ in range(20):
            timed("warm call", graph)
    return {when: statistics.median(times[2:]) for when, times in taken.items()}


def look_diff(graph: Graph, name: str, commit: str, parent: str) -> None:
    (found,) = graph.diff(parent, commit)
    assert (found.id, found.operation) == (name, "update"), found


def look_commit(graph: Graph, name: str, commit: str, parent: str) -> None:
    (found,) = graph.commit_changes(commit)
    assert (found.id, found.operation) == (name, "update"), found


def look_history(graph: Graph, name: str, commit: str, parent: str) -> None:
    found = graph.history("Person", name)
    assert [version.operation for version in found] == ["update", "insert"], found
    assert found[0].commit.id == commit, found


LOOKS: dict[str, Callable[..., None]] = {
    "diff": look_diff,
    "commit changes": look_commit,
    "history": look_history,
}


def looked_at(place: Path, rows: int, commits: int) -> tuple[str, str, str]:
    """Make commits, and between them one of its own; returns its row, its id and its parent."""
    name = name_of(rows // 2)
    with open_graph(place) as graph:
        for number in range(commits):
            change(graph, "main", number % (rows // 3))
            if number == commits - min(commits, 50):
                params = {"n": name, "a": 1000}
                made = graph.mutate(UPDATE, params=params).commit
    assert made is not None
    return name, made.id, made.parents[0]


def measure_looking(folder: Path, sizes: Sizes) -> None:
    """Looking at a small change: in small and large tables, and after few and many commits."""
    few, many = sizes.commits
    least, most = sizes.rows[0], sizes.rows[-1]
    cases = {(least, few): "", (most, few): f"{most:,} rows", (least, many): f"{many:,} commits"}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (rows, commits), what in cases.items():
        place = folder / f"looked-at-{rows}-{commits}"
        graph_of(folder, rows).rename(place)
        arguments = looked_at(place, rows, commits)
        found[what] = {
            look: in_process(warm_and_first, str(place), look, *arguments) for look in LOOKS
        }
        shutil.rmtree(place)
    peer = f"{least:,} rows, {few:,} commits"
    for what in list(cases.values())[1:]:
        for look in LOOKS:
            for when, small in found[""][look].items():
                seconds = found[what][look][when]
                label = f"{look} of a small change, {what}, {when}"
                emit(Record("merges", label, seconds, 1.5 * small, peer, small))


# --- many branches, one after the other ---


def measure_many(folder: Path, sizes: Sizes) -> None:
    """Merges of many branches one after the other: the last ones beside the first."""
    for kind in ("made before", "made before, deleted after", "made one after the other"):
        place = folder / f"many-{len(kind)}"
        taken = in_process(many_merges, str(place), kind, sizes.drafts, sizes.changes)
        for part, times in taken.items():
            ends = sizes.ends
            early, late = statistics.median(times[:ends]), statistics.median(times[-ends:])
            label = f"{sizes.drafts} branches {kind}: {part}, last {ends}"
            emit(Record("merges", label, late, 1.5 * early, f"first {ends}", early))
        shutil.rmtree(place)


def many_merges(place: str, kind: str, drafts: int, changes: int) -> dict[str, list[float]]:
    """Merge branches of some one-row commits each; returns how long each step took."""
    graph = init(place, SCHEMA)
    graph.load(people(0, 10_000), type="Person", mode="append", engine="local")
    names = [f"draft-{number:04}" for number in range(drafts)]
    taken: dict[str, list[float]] = {}

    def timed(part: str, work: Callable[[], Any]) -> None:
        worked = time.process_time()
        taken.setdefault(part, []).append(took(work))
        taken.setdefault(f"CPU of {part}", []).append(time.process_time() - worked)

    def make(number: int) -> None:
        graph.branches.create(names[number])
        for each in range(changes):
            change(graph, names[number], number * changes + each)

    if kind != "made one after the other":
        for number in range(drafts):
            make(number)
    for number, name in enumerate(names):
        if kind == "made one after the other":
            timed("make and change", lambda number=number: make(number))  # type: ignore[misc]
            # Else it would be a fast-forward.
        change(graph, "main", 9_000 + number % 1000)
        timed("merge", lambda name=name: graph.merge(name))  # type: ignore[misc]
        if kind == "made before, deleted after":
            timed("delete", lambda name=name: graph.branches.delete(name))  # type: ignore[misc]
    graph.close()
    return taken


PARTS: dict[str, Callable[[Path, Sizes], None]] = {
    "small": measure_small,
    "large": measure_large,
    "branches": measure_branches,
    "looking": measure_looking,
    "many": measure_many,
}


def main() -> None:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller graphs, fewer commits")
    parser.add_argument("--only", choices=PARTS, help="one part")
    options = parser.parse_args()
    for name, measure in PARTS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="omnigraph-merges-") as folder:
                measure(Path(folder), QUICK if options.quick else FULL)


if __name__ == "__main__":
    main()
