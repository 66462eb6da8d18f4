"""Fills the caches of a graph with all kinds of derived data, and says how much memory that took.

Usage: python -m tests.query.tables.memory_child GRAPH MIB
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

from omnigraph.graph import init, open
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
    words = np.array([f"word{n}" for n in range(100)])
    names = [f"name {n}" for n in range(rows)]
    tables = {}
    for n in range(types):
        vectors = chance.random(rows * DIMENSION, np.float32)
        texts = [" ".join(part) for part in words[chance.integers(0, 100, (rows, 4))].tolist()]
        tables[f"N{n}"] = pa.table(
            {
                "name": names,
                "number": chance.permutation(rows),
                "group": chance.integers(0, 50, rows),
                "text": texts,
                "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSION),
            }
        )
        ends = chance.integers(0, rows, (2, 2 * rows))
        tables[f"E{n}"] = pa.table(
            {"from": [names[e] for e in ends[0]], "to": [names[e] for e in ends[1]]}
        )
    with init(place, schema) as graph:
        graph.load(tables, mode="append", engine="local")
        graph.branches.create("draft")
        change = 'query q() { update N0 set { number: 0 } where name = "name 1" }'
        graph.mutate(change, branch="draft")


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


def main(place: str, mib: int) -> None:
    """Ask everything, and print how much memory is used."""
    for name in ("OFTEN", "SOUGHT_OFTEN", "REPEATED"):
        setattr(policy, name, 0)
    cache_files.SETTLED_AFTER = 1e9
    rows = 0
    with open(place, mode="r", settings=Settings(cache_mib=mib)) as graph:
        for _ in range(2):
            for text, params in QUESTIONS(3):
                rows += len(graph.query(text, params=params))
        held = graph._caches.memory.bytes
        print(json.dumps({"rows": rows, "held": held, "resident": resident()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
