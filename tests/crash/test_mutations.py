"""Mutations of several threads and processes at once: no update is lost, no insert doubled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from omnigraph.graph import Graph, open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import start_child
from tests.crash.mutators import (
    add_one,
    insert_in_process,
    make_graph,
    set_in_process,
    set_on_what_was_read,
)
from tests.patience import PATIENCE

TIMES = 25


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "graph")
    make_graph(path)
    return path


# --- running them ---


def in_threads(work: Callable[[Graph, int], None], graphs: list[Graph], times: int) -> None:
    faults: list[BaseException] = []

    def guarded(graph: Graph) -> None:
        try:
            work(graph, times)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(graph,), daemon=True) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread hangs"
    assert faults == []


def finish(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            raise AssertionError("a child hangs")
    assert [p.exitcode for p in processes] == [0] * len(processes)


def assert_counted(graph: Graph, times: int) -> None:
    """The counter says how often it was written, and there is one commit for each time."""
    assert graph.snapshot().read("Counter", ["n"])["n"].to_pylist() == [times]
    assert len(graph.commits()) == 2 + times
    assert_whole(graph)


def assert_whole(graph: Graph) -> None:
    assert graph.check().problems == ()
    assert graph.recoveries() == []
    assert list_sidecars(graph._repository.objects) == []


# --- updates ---


@pytest.mark.parametrize("shared", [True, False], ids=["one-graph", "a-graph-each"])
@pytest.mark.parametrize("work", [set_on_what_was_read, add_one])
def test_increments_of_two_threads_are_all_counted(
    place: str, shared: bool, work: Callable[[Graph, int], None]
) -> None:
    first = open(place)
    in_threads(work, [first, first if shared else open(place)], TIMES)
    assert_counted(open(place), 2 * TIMES)


def test_increments_of_two_processes_are_all_counted(place: str) -> None:
    finish([start_child(set_in_process, place, TIMES) for _ in range(2)])
    with open(place) as graph:
        assert_counted(graph, 2 * TIMES)


# --- inserts ---


def test_inserts_of_eight_processes_all_land_exactly_once(place: str) -> None:
    workers, times = 8, 6
    finish([start_child(insert_in_process, place, worker, times) for worker in range(workers)])
    names = sorted(f"{worker}-{number}" for worker in range(workers) for number in range(times))
    with open(place) as graph:
        snapshot = graph.snapshot()
        assert sorted(snapshot.read("Person")["name"].to_pylist()) == sorted([*names, "hub"])
        assert sorted(snapshot.read("Note")["text"].to_pylist()) == names
        edges = snapshot.read("Knows", ["src", "dst", "number"]).to_pylist()
        assert sorted((e["src"], e["dst"], e["number"]) for e in edges) == sorted(
            (a, b, int(name.partition("-")[2]))
            for name in names
            for a, b in ((name, "hub"), ("hub", name))
        )
        actors = [c.actor for c in graph.commits()]
        assert [actors.count(str(worker)) for worker in range(workers)] == [times] * workers
        assert_whole(graph)


def test_an_upsert_of_the_same_key_by_two_threads_leaves_one_row(place: str) -> None:
    text = 'query q($n: I64) { insert Counter { name: "shared", n: $n } }'

    def upsert(graph: Graph, times: int) -> None:
        for number in range(times):
            graph.mutate(text, params={"n": number})

    in_threads(upsert, [open(place), open(place)], 10)
    with open(place) as graph:
        rows = graph.snapshot().read("Counter", where="id = 'shared'").to_pylist()
        assert [row["n"] for row in rows] == [9]
        assert len(graph.commits()) == 2 + 20
        assert_whole(graph)
