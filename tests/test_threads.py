"""One `Graph` in many threads: queries, inserts, loads and index builds beside each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from omnigraph.graph import init
from omnigraph.maintenance.indexes import ensure_indices

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? @index(bio) }
edge Knows: Person -> Person
"""
PERSON = "query q($n: String) { insert Person { name: $n, age: 1, bio: $n } }"
KNOWS = "query q($a: String) { insert Knows { from: $a, to: $a } }"
AGE = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
COUNT = "query q() { match { $p: Person $p knows $o } return { count($o) as n } }"
ROUNDS = 8
LOADED = 2_000


def people(prefix: str) -> pa.Table:
    ages = pa.array(range(LOADED), pa.int32())
    return pa.table({"name": [f"{prefix}-{n}" for n in range(LOADED)], "age": ages})


def test_threads_share_a_graph_and_nobody_disturbs_anybody(tmp_path: Path) -> None:
    graph = init(tmp_path / "graph", SCHEMA)
    graph.load(people("first"), type="Person", mode="append")
    failures: list[BaseException] = []
    work: list[Callable[[int], object]] = [
        lambda n: graph.mutate(PERSON, params={"n": f"a{n}"}),
        lambda n: graph.mutate(PERSON, params={"n": f"b{n}"}),
        lambda n: graph.mutate(KNOWS, params={"a": f"first-{n}"}),
        lambda n: graph.load(people(f"load{n}"), type="Person", mode="merge") if n < 3 else None,
        lambda n: ensure_indices(graph._repository, "main"),
        lambda n: graph.query(AGE, params={"n": f"first-{n}"}).to_rows(),
        lambda n: graph.query(COUNT).to_rows(),
    ]

    def run(each: Callable[[int], object]) -> None:
        try:
            for number in range(ROUNDS):
                each(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert graph.snapshot().count("Person") == LOADED * 4 + 2 * ROUNDS
    assert graph.snapshot().count("Knows") == ROUNDS
    assert graph.check().problems == ()
