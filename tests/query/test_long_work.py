"""Whatever is read or built for the first time: time limits hold, and Ctrl-C acts meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import ResourceLimit
from omnigraph.graph import Graph, init
from omnigraph.query import budget as budgets
from omnigraph.query.search import texts, vectors
from omnigraph.query.tables import columns, policy, topology, topology_cache
from tests.patience import wait_until

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String @index  place: Vector(2)? }
edge Knows: Person -> Person
"""
READ = "query q() { match { $p: Person } return { $p.name } order { $p.age } }"
COUNTED = "query q() { match { $p: Person { age: 7 } } return { count($p) as n } }"
COMPARED = "query q() { match { $p: Person  $p.age > 3 } return { count($p) as n } }"
HOP = "query q() { match { $a knows $b } return { count($b) as n } }"
BOTH = "query q() { match { $a <knows> $b } return { $a.name, $b.name } }"
SEARCHED = """query q() {
  match { $p: Person { name: "p1" }  search($p.bio, "fox") } return { $p.name }
}"""
SCORED = 'query q() { match { $p: Person } return { $p.name } order { bm25($p.bio, "fox") } }'
NEAREST = """query q() {
  match { $p: Person } return { $p.name } order { nearest($p.place, [1.0, 0.0]) } limit 3
}"""

#: What takes long, by where it is and what it is called, and a query that comes by it.
LONG = {
    "columns": (columns.TableColumns, "_scan", READ),
    "sorted columns": (columns, "SortedColumn", COUNTED),
    "values as numbers": (columns.TableColumns, "_new_coded", COMPARED),
    "topology": (topology_cache, "build", HOP),
    "different neighbours": (topology, "_without_repeats", HOP),
    "edges from both ends": (topology.Topology, "_from_both_ends", BOTH),
    "postings of a query": (texts, "postings_for", SEARCHED),
    "postings": (texts, "build_postings", SCORED),
    "vectors": (vectors.Vectors, "of", NEAREST),
}


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    """A graph of which nothing was read, where everything counts as long."""
    monkeypatch.setattr(budgets, "_LONG", 1)
    monkeypatch.setattr(policy, "SOUGHT_OFTEN", 0)
    monkeypatch.setattr(policy, "OFTEN", 0)
    with init(tmp_path / "g", SCHEMA) as graph:
        people = [
            {"name": f"p{n}", "age": n % 9, "bio": f"fox {n}", "place": [1.0, float(n)]}
            for n in range(40)
        ]
        edges = [{"from": f"p{n % 40}", "to": f"p{n * 7 % 40}"} for n in range(80)]
        graph.load({"Person": people, "Knows": edges})
    with omnigraph.open(tmp_path / "g", mode="r") as opened:
        yield opened


class Blocked:
    """A function that says when it is called, and then waits for the end of the test."""

    def __init__(self) -> None:
        self.is_called = threading.Event()
        self.is_over = threading.Event()
        self.seconds = 0.0

    def monotonic(self) -> float:
        """A clock on which the function takes an hour."""
        return time.monotonic() + self.seconds

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.seconds = 3600.0
        self.is_called.set()
        self.is_over.wait()


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    function = Blocked()
    yield function
    function.is_over.set()


@pytest.mark.parametrize("kind", LONG)
def test_a_time_limit_holds_while_something_is_built(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, blocked: Blocked, kind: str
) -> None:
    place, name, text = LONG[kind]
    monkeypatch.setattr(place, name, blocked)
    monkeypatch.setattr(budgets, "time", blocked)
    with pytest.raises(ResourceLimit, match="ran longer than"):
        graph.query(text, time_limit=1800)
    assert blocked.is_called.is_set()
    assert budgets.is_computing()
    blocked.is_over.set()
    wait_until(lambda: not budgets.is_computing(), "the computation ends")


@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_acts_while_something_is_built(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, blocked: Blocked, kind: str
) -> None:
    place, name, text = LONG[kind]
    monkeypatch.setattr(place, name, blocked)

    def interrupt() -> None:
        blocked.is_called.wait()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    user = threading.Thread(target=interrupt)
    user.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            graph.query(text)
    finally:
        blocked.is_called.set()
        user.join()
        signal.signal(signal.SIGINT, before)


def test_another_query_is_not_held_up_longer_than_it_may_run(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, blocked: Blocked
) -> None:
    # The first one was left, but still reads.
    monkeypatch.setattr(columns.TableColumns, "_scan", blocked)
    for _ in range(2):
        with pytest.raises(ResourceLimit, match="ran longer than"):
            graph.query(READ, time_limit=0.2)


#: Leaves native code behind that is still at work when the process ends.
LEFT_BEHIND = """
import sys
import lance
from omnigraph.errors import ResourceLimit
from omnigraph.query.budget import Budget
table = lance.dataset(sys.argv[1])
try:
    Budget(seconds=0.0).apart("read", 1 << 20, lambda: [table.to_table() for _ in range(100)])
except ResourceLimit:
    sys.exit(7)
"""


def test_a_process_ends_in_order_while_a_query_is_still_computed(tmp_path: Path) -> None:
    place = str(tmp_path / "numbers.lance")
    lance.write_dataset(pa.table({"n": range(100_000)}), place)
    command = [sys.executable, "-c", LEFT_BEHIND, place]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (7, "")
