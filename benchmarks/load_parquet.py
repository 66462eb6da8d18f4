"""A social network loaded from Parquet files, beside Ladybug's COPY of the same files.

Ours is the whole operation with all checks, as a user calls it: merging is the default, and indexes
are built. Ladybug has integer keys, which it makes from the texts that the edges have. Each load
runs in a process of its own, which has loaded something small before; the most memory that it used
is looked at as well. With `--large`, 15 million edges are loaded after 2.4 million.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness import Record, emit
from social import ENDS, SCHEMA, TYPES
from social_data import Social, generate

#: Persons, and how many times as long as Ladybug ours may take.
SMALL, LARGE = (100_000, 1.2), (300_000, 1.5)
MOST_MEMORY = 3 << 30
RUNS = 3


def write_parquet(social: Social, folder: Path) -> int:
    """Write a file per type, as both can load them; gives how many edges there are."""
    folder.mkdir()
    for name, rows in social.nodes.items():
        pq.write_table(rows, folder / f"{name}.parquet")
    for name, rows in social.edges.items():
        ends = {"from": pc.cast(rows["src"], pa.utf8()), "to": pc.cast(rows["dst"], pa.utf8())}
        pq.write_table(pa.table(ends), folder / f"{name}.parquet")
    return sum(rows.num_rows for rows in social.edges.values())


def load_ours(source: Path, place: Path) -> float:
    """Load into a new graph; gives the seconds."""
    from omnigraph.graph import init

    graph = init(place, SCHEMA)
    begun = time.perf_counter()
    made = graph.load(source, engine="local")
    taken = time.perf_counter() - begun
    assert made.tables["Follows"].inserted == pq.read_metadata(source / "Follows.parquet").num_rows
    return taken


def load_ladybug(source: Path, place: Path) -> float:
    """Copy into a new database; gives the seconds."""
    import ladybug

    connection = ladybug.Connection(ladybug.Database(str(place)))
    files = {path.stem: path for path in source.glob("*.parquet")}
    begun = time.perf_counter()
    for name in files.keys() - ENDS.keys():
        columns = ", ".join(f"{c} {TYPES[c]}" for c in pq.read_schema(files[name]).names)
        connection.execute(f"CREATE NODE TABLE {name}({columns}, PRIMARY KEY (key))")
        connection.execute(f"COPY {name} FROM '{files[name]}'")
    for name, (start, end) in ENDS.items():
        connection.execute(f"CREATE REL TABLE {name}(FROM {start} TO {end})")
        connection.execute(f"COPY {name} FROM '{files[name]}'")
    return time.perf_counter() - begun


LOADS: dict[str, Callable[[Path, Path], float]] = {
    "omnigraph": load_ours,
    "ladybug": load_ladybug,
}


def run_here(engine: str, source: Path, small: Path) -> None:
    """Load in this process, and print the seconds and the most memory of all its processes."""
    load = LOADS[engine]
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-") as folder:
        load(small, Path(folder) / "first")
        seconds = load(source, Path(folder) / "graph")
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    memory = sum(resource.getrusage(one).ru_maxrss for one in who) << 10
    print(json.dumps({"seconds": seconds, "memory": memory}))


def run_apart(engine: str, source: Path, small: Path) -> tuple[float, int]:
    """Load in another process; gives the seconds and the most memory."""
    command = [sys.executable, __file__, "--run", engine, str(source), str(small)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(printed)
    return found["seconds"], found["memory"]


def measure(folder: Path, small: Path, persons: int, times: float) -> None:
    """Load a network of some size into both, in turn."""
    source = folder / str(persons)
    edges = write_parquet(generate(persons), source)
    taken: dict[str, list[tuple[float, int]]] = {engine: [] for engine in LOADS}
    for _ in range(RUNS):
        for engine, runs in taken.items():
            runs.append(run_apart(engine, source, small))
    seconds, peer = (min(run[0] for run in taken[engine]) for engine in LOADS)
    memory, peer_memory = (max(run[1] for run in taken[engine]) for engine in LOADS)
    name = f"Parquet: {persons:,} persons, {edges:,} edges"
    record = Record(
        "load_parquet", name, seconds, times * peer, "ladybug", peer,
        memory=memory, memory_limit=MOST_MEMORY, peer_memory=peer_memory,
    )  # fmt: skip
    emit(record)


def main() -> int:
    """Measure and print one record per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="load 15 million edges as well")
    parser.add_argument("--run", nargs=3, metavar=("ENGINE", "SOURCE", "SMALL"),
                        help="load once in this process")  # fmt: skip
    options = parser.parse_args()
    if options.run:
        engine, source, small = options.run
        run_here(engine, Path(source), Path(small))
        return 0
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-") as name:
        folder = Path(name)
        write_parquet(generate(1_000), folder / "small")
        for persons, times in (SMALL, LARGE) if options.large else (SMALL,):
            measure(folder, folder / "small", persons, times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
