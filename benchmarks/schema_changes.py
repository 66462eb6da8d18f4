"""What changes of the schema cost on a table of a million rows, beside a commit of one row.

Each change alternates with a one-row insert into the same table, in the same run. Adding a property
that is null, renaming it and dropping it write no rows, and may take three times as long as that.
What gives rows values is measured, too; its cost follows the rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness import Record, emit
from omnigraph.graph import Graph, init

ROWS, QUICK = 1_000_000, 10_000
ROUNDS = 9
#: A change of columns may take so many times as long as an insert of one row.
MOST = 3.0
PLAIN = "node Person { name: String @key  age: I32?  @index(age) }"
ADDED = "node Person { name: String @key  age: I32?  extra: String?  @index(age) }"
RENAMED = """node Person {
  name: String @key  age: I32?  more: String? @rename_from("extra")  @index(age)
}"""
FILLED = "node Person { name: String @key  age: I32?  score: F64 @default(1.5)  @index(age) }"
WIDER = "node Person { name: String @key  age: I64?  @index(age) }"
INSERT = "query q($n: String) { insert Person { name: $n, age: 7 } }"

_numbers = count()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def insert(graph: Graph) -> None:
    graph.mutate(INSERT, params={"n": f"new{next(_numbers)}"})


def apply(graph: Graph, text: str) -> None:
    assert graph.schema.apply(text, allow_data_loss=True).commit is not None


def run(place: Path, rows: int) -> None:
    with init(place, PLAIN) as graph:
        names = pa.array([f"p{n}" for n in range(rows)])
        ages = pa.array(np.arange(rows) % 100, pa.int32())
        graph.load({"Person": pa.table({"name": names, "age": ages})})
        steps = {
            "add a property": ADDED,
            "rename a property": RENAMED,
            "drop a property": PLAIN,
        }
        seconds: dict[str, list[float]] = {name: [] for name in steps}
        inserts: list[float] = []
        insert(graph)
        for _ in range(ROUNDS):
            for name, text in steps.items():
                inserts.append(timed(lambda: insert(graph)))
                seconds[name].append(timed(lambda text=text: apply(graph, text)))  # type: ignore[misc]
        one_row = statistics.median(inserts)
        for name, measured in seconds.items():
            middle = statistics.median(measured)
            emit(Record("schema", name, middle, MOST * one_row, "insert a row", one_row))
        for name, text in {"add a filled property": FILLED, "widen a property": WIDER}.items():
            emit(
                Record(
                    "schema", name, timed(lambda text=text: apply(graph, text)),  # type: ignore[misc]
                    None, "insert a row", one_row,
                )
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder) / "graph", QUICK if arguments.quick else ROWS)


if __name__ == "__main__":
    main()
