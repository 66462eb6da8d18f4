"""Fills the caches of a graph with all kinds of derived data, and says how much memory that took.

Usage: python -m tests.query.tables.memory_child GRAPH SMALL_GRAPH MIB
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from omnigraph.settings import Settings
from omnigraph.storage import cache_files

DIMENSION = 8


def fill(place: Path, rows: int, types: int) -> None:
    """Make a graph with some node and edge types, and a branch."""
    schema = ""
    for n in range(types):
        schema += f"""
          node N{n} {{ name: String @key  number: I64  group: I64  text: String
            v: Vector({DIMENSION}) }}
          edge E{n}: N{n} -> N{n}"""
    chance = np.random.default_rng(1)
    names = [f"name {n}" for n in range(rows)]
    tables = {}
    for n in range(types):
        tables[f"N{n}"] = with_values(names, chance)
        ends = chance.integers(0, rows, (2, 2 * rows))
        tables[f"E{n}"] = pa.table(
            {"from": [names[e] for e in ends[0]], "to": [names[e] for e in ends[1]]}
        )
    with init(place, schema) as graph:
        graph.load(tables, mode="append", engine="local")
        graph.branches.create("draft")
        change = 'query q() { update N0 set { number: 0 } where name = "name 1" }'
        graph.mutate(change, branch="draft")


def with_values(names: list[str], chance: np.random.Generator) -> pa.Table:
    """Nodes with these names."""
    words = np.array([f"word{n}" for n in range(100)])
    rows = len(names)
    vectors = chance.random(rows * DIMENSION, np.float32)
    texts = [" ".join(part) for part in words[chance.integers(0, 100, (rows, 4))].tolist()]
    return pa.table(
        {
            "name": names,
            "number": chance.permutation(rows),
            "group": chance.integers(0, 50, rows),
            "text": texts,
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
        }
    )


def QUESTIONS(types: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Questions that need columns, orders, numbers, topologies, postings and vectors."""
    vector = {"v": [0.5] * DIMENSION}
    for n in range(types):
        yield f"query q() {{ match {{ $p: N{n} {{ number: 5 }} }} return {{ $p.name }} }}", {}
        yield (
            f"""query q() {{ match {{ $p: N{n} }} return {{ $p.group as g, count($p) as n }}
            order {{ $p.group }} }}""",
            {},
        )
        yield (
            f"""query q() {{ match {{ $p: N{n}  $p e{n} $q  $q e{n} $r }}
            return {{ count($r) as n }} }}""",
            {},
        )
        yield (
            f"""query q() {{ match {{ $p: N{n}  $p e{n} $q  $p.number < 50 }}
            return {{ $p.number as n, $q.number as m }} order {{ n, m }} }}""",
            {},
        )
        yield (
            f"""query q() {{ match {{ $p: N{n} }} return {{ $p.name,
            bm25($p.text, "word7") as s }} order {{ s desc, $p.name }} limit 5 }}""",
            {},
        )
        yield (
            f"""query q($v: Vector({DIMENSION})) {{ match {{ $p: N{n} }} return {{ $p.name }}
            order {{ nearest($p.v, $v) }} limit 5 }}""",
            vector,
        )


def resident() -> int:
    """How much memory the process uses that is not of files, in bytes."""
    gc.collect()
    # Arrow and the C library hold on to memory that nobody uses.
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    with Path("/proc/self/status").open() as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def use(place: Path, mib: int, types: int) -> dict[str, int]:
    """Ask everything, look keys up and write; returns the most that was held at a time."""
    rows = 0
    most = dict.fromkeys(("held", "ids", "lance", "files"), 0)
    with open(place, settings=Settings(cache_mib=mib)) as graph:
        for time in range(2):
            for text, params in QUESTIONS(types):
                rows += len(graph.query(text, params=params))
                graph._caches.writer.finish()
                note(graph, most)
            for n in range(types):
                # Rows that no index covers, of which writers cache the ids, and rows that Lance
                # finds by its indexes.
                names = [f"new {time} {n} {number} {'x' * 200}" for number in range(4000)]
                new = with_values(names, np.random.default_rng(n))
                graph.load({f"N{n}": new}, mode="append", engine="local", indexes=False)
                change = f"update N{n} set {{ number: 1 }} where name = $n"
                change = f"query q($n: String) {{ {change} }}"
                graph.mutate(change, params={"n": names[7]})
                graph.mutate(change, params={"n": "name 3"})
                look_up(graph, f"N{n}")
                note(graph, most)
        return {"rows": rows, "resident": resident(), **most}


def note(graph: Graph, most: dict[str, int]) -> None:
    """Note how much is cached now, if it is more than before."""
    ids = graph._repository.tables._ids.nbytes
    now = {
        "held": graph._caches.memory.bytes,
        "ids": ids,
        "lance": graph._repository.cached_bytes - ids,
        "files": disk_bytes(Path(graph.location)),
    }
    most |= {name: max(most[name], size) for name, size in now.items()}


def look_up(graph: Graph, type: str) -> None:
    """Read rows by an index of Lance all over the table."""
    tables = graph.snapshot()._revision.state.tables.values()
    table = next(table for table in tables if table.key.endswith(type))
    snapshot = graph._repository.tables.open(table.ref, table.version)
    ids = snapshot.read(["id"])["id"]
    for start in range(0, len(ids), 1000):
        assert len(snapshot.find("id", ids[start : start + 8].combine_chunks(), ["id"])) == 8


def disk_bytes(place: Path) -> int:
    """The bytes of the files in the cache."""
    return sum(p.lstat().st_size for p in (place / "__cache").rglob("*") if p.is_file())


def main(place: str, small: str, mib: int) -> None:
    """Use a graph, and print how much more memory that takes than to use a small one."""
    for name in ("OFTEN", "SOUGHT_OFTEN", "REPEATED", "LARGE_TOPOLOGY_EDGES"):
        setattr(policy, name, 0)
    cache_files.SETTLED_AFTER = 0
    # What the libraries hold, however much is asked for.
    before = use(Path(small), 0, 1)["resident"]
    answer = use(Path(place), mib, 3)
    print(json.dumps(answer | {"grown": answer["resident"] - before}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
