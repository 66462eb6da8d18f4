"""What a backup and a restore cost beside a plain copy of the same bytes.

The peer is `cp -r` of the graph's folder while nobody writes, which knows no digests, no moment and
nothing of what it has copied before. All of them copy to the same disk in the same run, in turns.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph
from harness import Record, emit

SCHEMA = "node Person { name: String @key  age: I64  salary: F64 }\nedge Knows: Person -> Person"
ROWS, COMMITS, ROUNDS = 2_000_000, 200, 3


def make(place: Path, rows: int, commits: int) -> None:
    """A graph with many rows, and with many small commits."""
    numbers = np.random.default_rng(1)
    names = [f"person-{n:09}" for n in range(rows)]
    people = {"name": names, "age": numbers.integers(0, 90, rows), "salary": numbers.random(rows)}
    with omnigraph.init(place, SCHEMA) as graph:
        graph.write_batches({"Person": ("append", pa.table(people))})
        for number in range(commits):
            one = {"name": [f"one-{number}"], "age": [number], "salary": [0.5]}
            graph.write_batches({"Person": ("merge", pa.table(one))})


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def copied(source: Path, target: Path) -> float:
    """Copy a folder as a whole, until it is on the disk."""
    return seconds(
        lambda: subprocess.run(["sh", "-c", f"cp -r '{source}' '{target}' && sync"], check=True)
    )


def main(folder: Path, rows: int = ROWS, commits: int = COMMITS) -> None:
    """Measure, on a disk of the caller's choice."""
    place = folder / "graph"
    make(place, rows, commits)
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    print(f"{size / 2**20:,.0f} MiB", file=sys.stderr)
    first, second, back, whole = ([] for _ in range(4))
    for number in range(ROUNDS):
        target, copy, restored = (folder / f"{name}{number}" for name in ("target", "copy", "back"))
        whole.append(copied(place, copy))
        with omnigraph.open(place) as graph:
            first.append(seconds(lambda: graph.backup(target)))  # noqa: B023
            one = {"name": [f"new-{number}"], "age": [number], "salary": [0.5]}
            graph.write_batches({"Person": ("merge", pa.table(one))})
            second.append(seconds(lambda: graph.backup(target)))  # noqa: B023
        back.append(seconds(lambda: omnigraph.restore(target, restored)))  # noqa: B023
        for each in (target, copy, restored):
            shutil.rmtree(each)
    for name, times in {"first backup": first, "next backup": second, "restore": back}.items():
        emit(Record("backup", name, min(times), peer="cp -r", peer_seconds=min(whole)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as temporary:
        main(Path(temporary))
