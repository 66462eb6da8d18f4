"""Queries of a large table that indexes answer: values, beginnings, elements of lists, and words.

Each is asked in a new process, whose first query is measured from its first statement on, with all
imports, and then a few times more. The same is asked on a graph without indexes, which reads all
rows. Answers have to be equal, and `explain` has to name the index.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness import Record, emit, environment

ROWS, QUICK_ROWS = 1_000_000, 100_000
WORDS, WORDS_PER_TEXT, WARM = 20_000, 8, 15
#: What the first search for words of a new process may take, and later ones.
FIRST, LATER = 1.0, 0.02
FIELDS = "slug: String @key  name: String  tags: [String]  size: I64  body: String"
INDEXED = "@index(name) @index(tags) @index(size) @index(body)"
#: By name the filter and the index that answers it.
QUERIES = {
    "equality": ('$d.name = "name 77777"', "name_btree"),
    "prefix": ('$d.name starts_with "name 7777"', "name_btree"),
    "range": ("$d.size >= 500 $d.size < 510", "size_btree"),
    "contains": ('$d.tags contains "tag 777"', "tags_label_list"),
    "words": ('search($d.body, "word777 word888")', "body_full_text"),
    "phrase": ('match_text($d.body, "word777 word3")', "body_full_text"),
}


def text(name: str) -> str:
    """A query."""
    where = QUERIES[name][0]
    return f"query q() {{ match {{ $d: Doc {where} }} return {{ $d.slug as slug }} }}"


def rows(count: int) -> pa.Table:
    """The rows of both graphs."""
    chance = np.random.default_rng(3)
    numbers = np.arange(count)
    # Few words are frequent, and most are rare.
    drawn = (WORDS * chance.random((count, WORDS_PER_TEXT)) ** 3).astype(int)
    words = np.array([f"word{n}" for n in range(WORDS)], object)
    bodies = words[drawn]
    tags = np.array([f"tag {n}" for n in range(20_000)], object)[
        chance.integers(0, 20_000, 3 * count)
    ]
    return pa.table(
        {
            "slug": [f"d{n}" for n in numbers],
            "name": [f"name {n}" for n in chance.permutation(count)],
            "tags": pa.ListArray.from_arrays(
                pa.array(np.arange(0, 3 * count + 1, 3), pa.int32()), pa.array(tags, pa.string())
            ),
            "size": chance.integers(0, 1_000_000, count),
            "body": [" ".join(words) for words in bodies],
        }
    )


def make(place: Path, table: pa.Table, indexed: bool) -> None:
    """A graph with or without indexes."""
    from omnigraph.graph import init

    graph = init(place, f"node Doc {{ {FIELDS} {INDEXED if indexed else ''} }}")
    for start in range(0, len(table), 100_000):
        graph.write_batches({"Doc": ("append", table.slice(start, 100_000))})
    if indexed:
        begun = time.perf_counter()
        graph.ensure_indices()
        emit(Record("indexed_queries", "build", time.perf_counter() - begun))


def child(place: str, name: str, times: int) -> None:
    """Ask in this new process; prints what it took."""
    begun = time.perf_counter()
    from omnigraph.graph import open

    graph = open(place, mode="r")
    answer = graph.query(text(name)).to_rows()
    seconds = [time.perf_counter() - begun]
    for _ in range(times):
        begun = time.perf_counter()
        graph.query(text(name)).to_rows()
        seconds.append(time.perf_counter() - begun)
    with open(place, mode="r") as again:
        plan = str(again.explain(text(name)))
    slugs = sorted(row["slug"] for row in answer)
    print(json.dumps({"seconds": seconds, "slugs": slugs, "plan": plan}))


def ask(place: Path, name: str, times: int = WARM) -> dict[str, Any]:
    """What a new process answers, and what that took."""
    command = [sys.executable, __file__, "--child", str(place), name, str(times)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def main() -> int:
    """Run the benchmark."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        table = rows(QUICK_ROWS if options.quick else ROWS)
        indexed, plain = Path(folder) / "indexed.omni", Path(folder) / "plain.omni"
        make(indexed, table, indexed=True)
        make(plain, table, indexed=False)
        for name, (_, index) in QUERIES.items():
            ours, scan = ask(indexed, name), ask(plain, name, 1)
            if ours["slugs"] != scan["slugs"]:
                print(f"{name}: the answers differ", file=sys.stderr)
                missed = True
            if index not in ours["plan"]:
                print(f"{name}: explain does not name {index}\n{ours['plan']}", file=sys.stderr)
                missed = True
            is_search = index == "body_full_text"
            first = Record(
                "indexed_queries",
                f"{name}, new process",
                ours["seconds"][0],
                FIRST if is_search else None,
                "scan",
                scan["seconds"][0],
            )
            later = Record(
                "indexed_queries",
                f"{name}, warm",
                statistics.median(ours["seconds"][1:]),
                LATER if is_search else None,
                "scan",
                scan["seconds"][1],
            )
            for record in (first, later):
                emit(record)
                missed |= not record.passed
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
