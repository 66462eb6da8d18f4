"""Budgets hold while rows are ordered, grouped and returned, and long computations can be left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.graph import Graph, init
from omnigraph.query import budget as budgets
from omnigraph.query.budget import Budget
from omnigraph.query.operators import group, sort_keys

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
PEOPLE, FRIENDS = 3_000, 12
ORDERED = """query q() {
  match { $a knows $b  $b knows $c  $c knows $d }
  return { $a.name as a, $d.name as d } order { $d.age, $a.name }
}"""
ONE_HOP = "query q() { match { $a knows $b } return { $a, $b } order { $b.age } }"
GROUPED = "query q() { match { $a knows $b } return { $a.age as a, $b.age as b, count($a) as n } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("budgets") / "g", SCHEMA)
    names = [f"person {number:05}" for number in range(PEOPLE)]
    ages = pa.array([number % 90 for number in range(PEOPLE)], pa.int32())
    sources = np.repeat(np.arange(PEOPLE), FRIENDS)
    targets = (sources * 7 + np.tile(np.arange(FRIENDS), PEOPLE) * 31) % PEOPLE
    edges = pa.table({"from": [names[n] for n in sources], "to": [names[n] for n in targets]})
    graph.write_batches(
        {
            "Person": ("append", pa.table({"name": names, "age": ages})),
            "Knows": ("append", edges),
        }
    )
    return graph


@pytest.fixture
def blocked() -> Iterator[Any]:
    """A function that does not return before the test is over."""
    over = threading.Event()

    def wait(*arguments: Any) -> Any:
        over.wait()

    yield wait
    over.set()


def test_an_answer_that_is_too_large_says_how_to_get_it(graph: Graph) -> None:
    with pytest.raises(ResourceLimit, match="the answer takes more than 16 MiB") as caught:
        graph.query(ORDERED, memory_limit=16)
    for way in ("limit", "query_batches", "export", "more memory"):
        assert way in str(caught.value)


def added_memory(graph: Graph, work: str) -> int:
    """How many MiB some statements add to a process that has read the graph."""
    code = f"""
import omnigraph
from pathlib import Path

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) >> 10

graph = omnigraph.open({graph.location!r}, mode="r")
graph.query({ORDERED[:-1] + " limit 9 }"!r}, memory_limit=32)
before = resident("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
{work}
print(resident("VmHWM") - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_an_ordered_query_over_its_memory_uses_little_more_than_that(graph: Graph) -> None:
    # Such a query used more than twice its budget.
    work = f"""
try:
    graph.query({ORDERED!r}, memory_limit=64)
    raise SystemExit("the answer fits")
except omnigraph.ResourceLimit:
    pass
"""
    assert added_memory(graph, work) < 64 * 1.5


def test_a_large_ordered_answer_is_streamed_in_little_memory(graph: Graph) -> None:
    text = ORDERED.replace("$c knows $d", "$c knows $d  $a.age < 20")
    rows = PEOPLE * FRIENDS**3 * 20 // 90
    work = f"""
rows = sum(batch.num_rows for batch in graph.query_batches({text!r}, memory_limit=32))
assert abs(rows - {rows}) < {rows} // 10, rows
"""
    # The rows alone are 50 MB, and what they are ordered by as much again.
    assert added_memory(graph, work) < 80


def test_a_long_computation_is_left_when_the_time_is_over(blocked: Any) -> None:
    with pytest.raises(ResourceLimit, match=r"longer than 0\.1 s, in: order"):
        Budget(0.1).apart("order", 1 << 20, blocked)


def test_a_long_computation_is_left_when_the_user_interrupts(blocked: Any) -> None:
    def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        blocked()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Budget().apart("order", 1 << 20, interrupted)
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_goes_wrong_in_a_long_computation_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        Budget().apart("order", 1 << 20, lambda: 1 // 0)
    assert Budget().apart("order", 1 << 20, lambda: "done") == "done"


@pytest.mark.parametrize(
    ("module", "function", "text", "operator"),
    [
        (sort_keys, "ordered", ONE_HOP, "order"),
        (group, "combined", GROUPED, "group"),
    ],
)
def test_ordering_and_grouping_stop_when_the_time_is_over(
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
    blocked: Any,
    module: Any,
    function: str,
    text: str,
    operator: str,
) -> None:
    # The time is over as soon as the operator is at work, however long the steps before it took.
    now = time.monotonic()

    def hang(*arguments: Any) -> Any:
        nonlocal now
        now += 100
        return blocked(*arguments)

    monkeypatch.setattr(budgets, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(module, function, hang)
    monkeypatch.setattr(budgets, "_LONG", 1)
    monkeypatch.setattr(budgets, "BLOCK_ROWS", 1 << 12)
    with pytest.raises(ResourceLimit, match=f"longer than 2 s, in: {operator}"):
        graph.query(text, time_limit=2)


def test_groups_that_do_not_fit_are_refused(graph: Graph) -> None:
    text = """query q() {
      match { $a knows $b  $b knows $c } return { $a.name as a, $c.name as c, count($b) as n }
    }"""
    with pytest.raises(ResourceLimit, match="more than 4 MiB, in: group"):
        graph.query(text, memory_limit=4)


def test_memory_that_is_not_used_any_more_does_not_count(graph: Graph) -> None:
    # Each block has the same few groups and pairs.
    text = """query q() {
      match { $a knows $b  $b knows $c  $c knows $d }
      return { $a.age as age, count(distinct $d.age) as n }
    }"""
    assert len(graph.query(text, memory_limit=8)) == 90
    text = text.replace("count(distinct $d.age)", "$d.age").replace("return", "return distinct")
    assert len(graph.query(text, memory_limit=8)) == 90 * 90
