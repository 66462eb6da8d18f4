"""Bulk loads, beside DuckDB and Ladybug in the same run, and merges beside Lance itself.

All checks are on: types, ids, and the ends of edges. Spark is started before; the peers turn the
same JSON lines into Parquet (DuckDB) and load that (Ladybug). With `--large` an input of ten times
the size is loaded as well, and the memory of all processes is looked at.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness import Record, emit
from load_data import SCHEMA, write_lines

PERSONS, EDGES = 500_000, 2_000_000
RUNS = 3
MERGED, INTO = 10_000, 1_000_000


def load(folder: Path, source: Path, spark: Any) -> float:
    """Load into a new graph; gives the seconds."""
    from omnigraph.graph import init

    place = folder / "graph"
    shutil.rmtree(place, ignore_errors=True)
    graph = init(place, SCHEMA)
    begun = time.perf_counter()
    made = graph.load(source, mode="append", engine="spark", spark=spark, indexes=False)
    taken = time.perf_counter() - begun
    assert made.commit is not None
    return taken


def to_parquet(source: Path, folder: Path) -> float:
    """DuckDB turns the lines into a Parquet file per type; gives the seconds."""
    import duckdb

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    begun = time.perf_counter()
    connection = duckdb.connect()
    columns = (
        "{type: 'VARCHAR', edge: 'VARCHAR', \"from\": 'VARCHAR', \"to\": 'VARCHAR', data:"
        " 'STRUCT(name VARCHAR, age INTEGER, city VARCHAR, score DOUBLE, since INTEGER)'}"
    )
    connection.execute(
        f"CREATE TABLE lines AS FROM read_json('{source}', format='newline_delimited',"
        f" columns={columns})"
    )
    connection.execute(
        "COPY (SELECT data.name AS name, data.age AS age, data.city AS city, data.score AS score"
        f" FROM lines WHERE type IS NOT NULL) TO '{folder}/Person.parquet' (FORMAT parquet)"
    )
    connection.execute(
        'COPY (SELECT "from", "to", data.since AS since FROM lines WHERE edge IS NOT NULL)'
        f" TO '{folder}/Knows.parquet' (FORMAT parquet)"
    )
    return time.perf_counter() - begun


def copy(folder: Path, place: Path) -> float:
    """Ladybug loads the Parquet files; gives the seconds."""
    import ladybug

    for old in place.parent.glob(f"{place.name}*"):
        shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()
    connection = ladybug.Connection(ladybug.Database(str(place)))
    begun = time.perf_counter()
    connection.execute(
        "CREATE NODE TABLE Person(name STRING, age INT32, city STRING, score DOUBLE,"
        " PRIMARY KEY (name))"
    )
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
    connection.execute(f"COPY Person FROM '{folder}/Person.parquet'")
    connection.execute(f"COPY Knows FROM '{folder}/Knows.parquet'")
    return time.perf_counter() - begun


def measure_merge(folder: Path) -> None:
    """Merge some rows into many, half of them new, beside the same merge by Lance alone."""
    import lance

    from omnigraph.graph import init

    def rows(start: int, count: int, score: float) -> pa.Table:
        numbers = range(start, start + count)
        return pa.table(
            {
                "name": [f"person-{n}" for n in numbers],
                "age": pa.array([30] * count, pa.int32()),
                "city": ["somewhere"] * count,
                "score": [score] * count,
            }
        )

    graph = init(folder / "merged", SCHEMA)
    graph.load(rows(0, INTO, 0.0), type="Person", mode="append", engine="local")
    named = rows(0, INTO, 0.0)
    raw = lance.write_dataset(named.append_column("id", named["name"]), str(folder / "raw"))
    raw.create_scalar_index("id", "BTREE")
    ours, theirs = [], []
    for run in range(RUNS):
        some = rows(INTO - MERGED // 2 + run, MERGED, float(run))
        begun = time.perf_counter()
        graph.load(some, type="Person", mode="merge", engine="local", indexes=False)
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        merge = lance.dataset(str(folder / "raw")).merge_insert("id")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        merge.execute(some.append_column("id", some["name"]))
        theirs.append(time.perf_counter() - begun)
    name = f"merge {MERGED:,} rows into {INTO:,}"
    emit(Record("load", name, min(ours), 3 * min(theirs), "lance", min(theirs)))


class Memory:
    """The most memory that this process and all below it have used, in bytes."""

    def __enter__(self) -> Memory:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.most = max(self.most, _memory(os.getpid()))


def _memory(process: int) -> int:
    """The memory of a process and of those that it started: shared pages are counted in part."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True).stdout
    below: dict[int, list[int]] = {}
    for line in listed.splitlines()[1:]:
        pid, parent = map(int, line.split())
        below.setdefault(parent, []).append(pid)
    family, total = [process], 0
    for pid in family:
        family += below.get(pid, [])
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            continue
    return total


def main() -> int:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="load ten times as much as well")
    options = parser.parse_args()
    from omnigraph.pipeline.spark.session import session

    folder = Path(tempfile.mkdtemp(prefix="omnigraph-load-"))
    try:
        lines = folder / "network.jsonl"
        size = write_lines(lines, PERSONS, EDGES)
        spark = session()
        load(folder, lines, spark)
        taken: dict[str, list[float]] = {"json": [], "parquet": [], "duckdb": [], "ladybug": []}
        parquet = folder / "parquet"
        for _ in range(RUNS):
            taken["duckdb"].append(to_parquet(lines, parquet))
            taken["ladybug"].append(copy(parquet, folder / "ladybug"))
            taken["json"].append(load(folder, lines, spark))
            taken["parquet"].append(load(folder, parquet, spark))
        best = {name: min(times) for name, times in taken.items()}
        both = best["duckdb"] + best["ladybug"]
        name = f"{PERSONS:,} nodes, {EDGES:,} edges"
        emit(Record("load", f"JSON lines: {name}", best["json"], 2 * both, "duckdb+ladybug", both))
        peer = best["ladybug"]
        emit(Record("load", f"Parquet: {name}", best["parquet"], 1.5 * peer, "ladybug", peer))
        measure_merge(folder)
        if options.large:
            measure_large(folder, lines, size, spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def measure_large(folder: Path, lines: Path, size: int, spark: Any) -> None:
    """Load ten times as much: the time and the memory, beside those of the small input."""
    with Memory() as small:
        once = load(folder, lines, spark)
    large = folder / "large.jsonl"
    write_lines(large, 10 * PERSONS, 10 * EDGES)
    with Memory() as most:
        taken = load(folder, large, spark)
    emit(Record("load", "ten times as much", taken, 11 * once, "once", once))
    mib, limit = most.most / 2**20, 1.5 * small.most / 2**20
    print(f"memory {mib:,.0f} MiB, at most {limit:,.0f} MiB ({size:,} bytes once)", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
