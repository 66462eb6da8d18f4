"""Several processes at one graph: all get their turn, and each a clear answer."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import StorageError
from omnigraph.graph import Graph, init, open
from omnigraph.settings import Settings
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import scenarios, workers
from tests.crash.children import run_child, start_child, wait_until_stopped
from tests.crash.scenarios import content, make_graph, scenario_write
from tests.patience import PATIENCE


@pytest.fixture
def place(tmp_path: Path) -> str:
    path = str(tmp_path / "graph")
    make_graph(path)
    return path


def finish(processes: list[BaseProcess], seconds: float = PATIENCE) -> None:
    for process in processes:
        process.join(seconds)
        if process.is_alive():
            process.kill()
            raise AssertionError("the child hangs")
    assert [p.exitcode for p in processes] == [0] * len(processes)


def together(work: Callable[..., None], place: str, folder: Path, count: int, *rest: Any) -> list:
    """Run the same work in several processes at once; gives what they leave behind."""
    answers = [folder / f"answers-{n}.json" for n in range(count)]
    finish([start_child(work, place, str(a), n, *rest) for n, a in enumerate(answers)])
    return [json.loads(a.read_text()) for a in answers]


@contextmanager
def paused_writer(place: str, point: str) -> Iterator[None]:
    """A process that stands still in the middle of a write, with the lock held, until the end."""
    process = start_child(scenario_write, place, "two_tables", "main", point, "stop", 0)
    assert wait_until_stopped(process) and process.pid is not None
    assert workers.lock_is_held(place)
    try:
        yield
    finally:
        # Some points come once for each table.
        while wait_until_stopped(process):
            os.kill(process.pid, signal.SIGCONT)
    finish([process])


def assert_whole(graph: Graph) -> None:
    assert list_sidecars(graph._repository.objects) == []
    assert graph.check().problems == ()
    for branch in graph.branches:
        chain = graph.commits(branch.name)
        assert [c.parents for c in chain[:-1]] == [(c.id,) for c in chain[1:]]
        assert chain[-1].parents == ()


# --- writers ---


def test_processes_that_quarrel_over_branches_get_clear_answers(place: str, tmp_path: Path) -> None:
    answers = together(workers.quarrel, place, tmp_path, 2, 100)
    total: dict[str, int] = {}
    for found in answers:
        for answer, times in found.items():
            total[answer] = total.get(answer, 0) + times
    assert set(total) <= {
        "create ok",
        "create AlreadyExists",
        "delete ok",
        "delete NotFound",
        "write ok",
        "write NotFound",
    }
    for verb in ("create", "delete", "write"):
        assert total[f"{verb} ok"] > 0
    with open(place) as graph:
        assert_whole(graph)
        for branch in graph.branches:
            content(graph, branch.name)


def test_writes_of_eight_processes_all_land_exactly_once(place: str, tmp_path: Path) -> None:
    answers = together(workers.write_many, place, tmp_path, 8, 5)
    ids = {f"{worker}-{number}" for worker in range(8) for number in range(5)}
    with open(place) as graph:
        assert_whole(graph)
        snapshot = graph.snapshot()
        assert set(snapshot.read("City")["id"].to_pylist()) == {"Paris"} | ids
        assert set(snapshot.read("Person")["id"].to_pylist()) == {"ada", "bob"} | ids
        assert snapshot.count("City") == 41
        assert snapshot.count("Person") == 42
        noted = {c.id: c.message for c in graph.commits()}
    for worker, commits in enumerate(answers):
        assert [noted[id] for id in commits] == [f"{worker}-{n}" for n in range(5)]


def test_conditional_increments_of_threads_and_processes_lose_no_update(place: str) -> None:
    times = 8
    with open(place) as graph:
        graph.write_batches({"Person": ("merge", scenarios.people(graph, {"counter": 0}))})
        processes = [start_child(workers.increment_in_process, place, times) for _ in range(2)]
        threads = [threading.Thread(target=workers.increment, args=(graph, times)) for _ in "12"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        finish(processes)
        counter = graph.snapshot().read("Person", where="id = 'counter'").to_pylist()
        assert [row["age"] for row in counter] == [4 * times]
        assert_whole(graph)


def test_one_idempotency_key_used_at_once_writes_once(place: str, tmp_path: Path) -> None:
    with open(place) as graph:
        before = len(graph.commits())
        graphs = [graph, open(place), open(place)]
        found: list[str] = []

        def write(mine: Graph) -> None:
            batch = {"City": ("append", scenarios.cities(mine, ["Rome"]))}
            answer = mine.write_batches(batch, idempotency_key='it\'s "the" key\\')  # type: ignore[arg-type]
            assert answer.commit is not None
            found.append(answer.commit.id)

        threads = [threading.Thread(target=write, args=(g,)) for g in graphs * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(found) == 6
        assert len(set(found)) == 1
        assert len(graph.commits()) == before + 1
        assert graph.snapshot().count("City") == 2


def test_a_writer_with_the_lock_makes_others_wait_and_then_succeed(place: str) -> None:
    with open(place) as graph:
        batch = {"City": ("append", scenarios.cities(graph, ["Oslo"]))}
        other = threading.Thread(target=graph.write_batches, args=(batch,))
        with paused_writer(place, "write.armed"):
            other.start()
            other.join(0.5)
            assert other.is_alive()
        other.join()
        cities = set(graph.snapshot().read("City")["id"].to_pylist())
        assert cities == {"Paris", "Rome", "Oslo"}
        assert graph.recoveries() == []
        assert_whole(graph)


def test_waiting_too_long_for_the_lock_is_a_passing_error(place: str) -> None:
    hasty = Settings(lock_wait_seconds=0.2)
    with open(place, settings=hasty) as graph, paused_writer(place, "write.armed"):
        batch = {"City": ("append", scenarios.cities(graph, ["Oslo"]))}
        with pytest.raises(StorageError, match=r"lock for more than 0\.2 s .*try again") as error:
            graph.write_batches(batch)  # type: ignore[arg-type]
        assert error.value.transient
        with pytest.raises(StorageError, match="try again"):
            open(place, settings=hasty)
        with pytest.raises(StorageError, match="try again"):
            graph.branches.create("new")
    with open(place) as graph:
        assert set(graph.snapshot().read("City")["id"].to_pylist()) == {"Paris", "Rome"}
        assert_whole(graph)


def test_a_process_forked_under_the_lock_does_not_keep_it(place: str) -> None:
    assert run_child(workers.fork_under_lock, place) == 0


def test_two_processes_that_init_the_same_place_make_one_graph(tmp_path: Path) -> None:
    place = str(tmp_path / "graph")
    processes = [
        start_child(scenarios.init_with, place, "init.table_created", "pause:0.05", 0)
        for _ in range(3)
    ]
    for process in processes:
        process.join(PATIENCE)
    assert sorted(p.exitcode or 0 for p in processes) == [0, 1, 1]
    with open(place) as graph:
        assert len(graph.commits()) == 1
        assert_whole(graph)


# --- readers ---


@pytest.mark.parametrize(
    ("point", "sees"),
    [
        ("write.armed", "before"),
        ("write.table_committed", "before"),
        ("write.confirmed", "before"),
        ("write.published", "after"),
    ],
)
def test_a_reader_sees_whole_commits_and_is_never_blocked(
    point: str, sees: str, place: str
) -> None:
    early = open(place, mode="r")
    held = early.snapshot()
    before = content(early, "main")
    with paused_writer(place, point):
        during = open(place, mode="r")
        expected = before
        if sees == "after":
            expected = content(during, "main")
            assert expected != before
        for _ in range(3):
            assert content(open(place, mode="r"), "main") == expected
            assert content(early, "main") == expected
            assert content(during, "main") == expected
        # None of them waited for the writer, which goes on only now.
        assert workers.lock_is_held(place)
    assert content(early, "main") != before
    assert content(early, "main") == content(during, "main")
    assert held.count("Person") == len(before["Person"])
    assert sorted(held.read("Person")["id"].to_pylist()) == [row[0] for row in before["Person"]]


def test_readers_survive_the_compaction_of_the_manifest(tmp_path: Path) -> None:
    """A publisher compacts the manifest and trims its versions while others read it."""
    place = str(tmp_path / "graph")
    with init(place, scenarios.SCHEMA) as graph:
        graph.branches.create("early")
        graph.write_batches({"City": ("append", scenarios.cities(graph, ["x"]))}, branch="early")
        reader = open(place, mode="r")
        old = reader.snapshot()
        first = old.commit
        stop = threading.Event()
        faults: list[BaseException] = []
        reads = 0

        def read() -> None:
            nonlocal reads
            try:
                while not stop.is_set():
                    fresh = open(place, mode="r")
                    snapshot = fresh.snapshot()
                    assert snapshot.count("City") == len(snapshot.read("City"))
                    chain = fresh.commits()
                    assert chain[-1].id == first
                    reads += 1
            except BaseException as fault:
                faults.append(fault)

        thread = threading.Thread(target=read)
        thread.start()
        for number in range(150):
            graph.write_batches({"City": ("merge", scenarios.cities(graph, [f"c{number % 3}"]))})
        stop.set()
        thread.join(PATIENCE)
        assert faults == []
        assert reads > 5
        versions = list((tmp_path / "graph" / "__manifest" / "_versions").glob("*.manifest"))
        assert len(versions) < 130
        assert len(reader.commits()) == 151
        assert reader.snapshot("early").count("City") == 1
        assert len(reader.snapshot("early").read("City")) == 1
        assert len(old.read("City")) == len(reader.snapshot(commit=first).read("City")) == 0
        assert_whole(graph)
