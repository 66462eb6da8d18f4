"""Indexes of many vectors, built by the two workers of a standalone cluster, beside one process.

The same graph is indexed twice: by threads of this process, and in tasks on a cluster that is
started here, with a worker of one core for each. Both have to find as many of the nearest vectors,
and both workers have to have done some of the tasks.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness import Record, emit

sys.path.insert(0, str(Path(__file__).parents[1]))

ROWS, QUICK_ROWS, SIZE, CENTRES, QUERIES, NEAREST = 2_000_000, 100_000, 128, 2_000, 40, 10
LEAST_RECALL = 0.95
SCHEMA = f"node Doc {{ number: I64 @key  vector: Vector({SIZE}) @index }}"
CHUNK = 250_000


def make(place: Path, rows: int) -> None:
    """A graph with vectors around centres, and without indexes."""
    from omnigraph.graph import init

    chance = np.random.default_rng(7)
    centres = chance.normal(size=(CENTRES, SIZE)).astype(np.float32)
    with init(place, SCHEMA) as graph:
        for first in range(0, rows, CHUNK):
            numbers = np.arange(first, min(rows, first + CHUNK))
            noise = chance.normal(scale=0.6, size=(len(numbers), SIZE)).astype(np.float32)
            vectors = centres[chance.integers(0, CENTRES, len(numbers))] + noise
            column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), SIZE)
            table = pa.table({"number": numbers, "vector": column})
            graph.write_batches({"Doc": ("append", table)})


def index(place: Path, **where: Any) -> float:
    """Build the indexes; returns how long it took."""
    from omnigraph.graph import open

    with open(place) as graph:
        begun = time.perf_counter()
        graph.ensure_indices(**where)
        return time.perf_counter() - begun


def answers(place: Path, exact: str = "") -> tuple[list[set[int]], float]:
    """The nearest of some vectors, and how long one query takes."""
    from omnigraph.graph import open

    chance = np.random.default_rng(7)
    centres = chance.normal(size=(CENTRES, SIZE)).astype(np.float32)
    chance = np.random.default_rng(8)
    text = (
        f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.number as n }}"
        f" order {{ nearest($d.vector, $v{exact}) }} limit {NEAREST} }}"
    )
    found, seconds = [], []
    with open(place, mode="r") as graph:
        for _ in range(QUERIES):
            noise = chance.normal(scale=0.6, size=SIZE)
            vector = (centres[chance.integers(0, CENTRES)] + noise).tolist()
            begun = time.perf_counter()
            rows = graph.query(text, params={"v": vector}).to_rows()
            seconds.append(time.perf_counter() - begun)
            found.append({row["n"] for row in rows})
    return found, float(np.median(seconds))


def note_worker(folder: str, function: Any, task: Any) -> Any:
    """Do a task, and note which worker has done it, what it was, and how long it took."""
    begun = time.perf_counter()
    result = function(task)
    what = f"{type(task).__name__} {task.build.spec.name}"
    note = {"worker": Path.cwd().parts[-3], "task": what, "seconds": time.perf_counter() - begun}
    Path(folder, f"{time.time_ns()}").write_text(json.dumps(note))
    return result


def on_workers(place: Path, folder: Path) -> tuple[float, list[dict[str, Any]]]:
    """Index on the two workers of a cluster; returns the time, and what each worker did."""
    from omnigraph.maintenance import index_tasks
    from omnigraph.pipeline.engine import Silent
    from omnigraph.pipeline.spark.session import stop
    from tests.pipeline.clusters import cluster, engine_on

    notes = folder / "notes"
    for name in (notes, folder / "cluster"):
        name.mkdir()
    with cluster(folder / "cluster") as master, pytest.MonkeyPatch.context() as patch:
        engine = engine_on(master, patch)
        # Workers start, and import what they need.
        engine.map(_import, [0] * 4, "starting", Silent())
        noted = partial(note_worker, str(notes), index_tasks.run_task)
        patch.setattr(index_tasks, "run_task", noted)
        patch.setattr(index_tasks, "SMALL", 0)
        seconds = index(place, engine="spark", spark=engine.session)
        stop()
    return seconds, [json.loads(note.read_text()) for note in sorted(notes.iterdir())]


def _import(task: int) -> None:
    import omnigraph.maintenance.index_tasks  # noqa: F401

    time.sleep(2)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer vectors")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "here.omni", QUICK_ROWS if options.quick else ROWS)
        shutil.copytree(folder / "here.omni", folder / "there.omni")
        here = index(folder / "here.omni", engine="local")
        there, notes = on_workers(folder / "there.omni", folder)
        emit(Record("index_tasks", "build on two workers", there, None, "one process", here))
        for note in notes:
            print(json.dumps({"benchmark": "index_tasks", **note}), flush=True)
        exact, _ = answers(folder / "here.omni", ", exact")
        missed = {note["worker"] for note in notes} != {"worker-1", "worker-2"}
        times = {}
        for place in ("here", "there"):
            found, times[place] = answers(folder / f"{place}.omni")
            recall = sum(len(a & b) for a, b in zip(found, exact, strict=True))
            recall /= QUERIES * NEAREST
            passed = recall >= LEAST_RECALL
            missed |= not passed
            plain = {"benchmark": "index_tasks", "name": f"recall@10 of the index built {place}"}
            print(json.dumps(plain | {"recall": recall, "passed": passed}), flush=True)
        emit(Record("index_tasks", "query", times["there"], None, "one process", times["here"]))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
