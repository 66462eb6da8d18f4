"""What the threads and processes of `test_mutations.py` do to one graph."""

from __future__ import annotations

import random
import time

from omnigraph.errors import ConflictError, PreconditionFailed, ReadSetConflict
from omnigraph.graph import Graph, init, open

SCHEMA = """
node Counter { name: String @key  n: I64 }
node Person { name: String @key }
node Note { text: String }
edge Knows: Person -> Person { number: I64 }
"""
SET = 'query set($n: I64) { update Counter set { n: $n } where name = "c" }'
ADD = 'query add() { update Counter set { n: n + 1 } where name = "c" }'
INSERT = """
query insert($name: String, $number: I64) {
  insert Person { name: $name }
  insert Note { text: $name }
  insert Knows { from: $name, to: "hub", number: $number }
  insert Knows { from: "hub", to: $name, number: $number }
}
"""


def make_graph(place: str) -> None:
    with init(place, SCHEMA) as graph:
        graph.mutate(
            'query q() { insert Counter { name: "c", n: 0 } insert Person { name: "hub" } }'
        )


def set_on_what_was_read(graph: Graph, times: int) -> None:
    """Read the counter, write the next number if nobody has written since, or start over."""
    while times:
        snapshot = graph.snapshot()
        (value,) = snapshot.read("Counter", ["n"])["n"].to_pylist()
        try:
            graph.mutate(SET, params={"n": value + 1}, if_commit=snapshot.commit)
            times -= 1
        except (PreconditionFailed, ConflictError):
            time.sleep(random.uniform(0, 0.01))


def add_one(graph: Graph, times: int) -> None:
    """Let the query itself compute the next number; start over when another was faster."""
    while times:
        try:
            graph.mutate(ADD)
            times -= 1
        except ReadSetConflict:
            time.sleep(random.uniform(0, 0.01))


def set_in_process(place: str, times: int) -> None:
    with open(place) as graph:
        set_on_what_was_read(graph, times)


def insert_in_process(place: str, worker: int, times: int) -> None:
    with open(place) as graph:
        for number in range(times):
            graph.mutate(
                INSERT, params={"name": f"{worker}-{number}", "number": number}, actor=str(worker)
            )
