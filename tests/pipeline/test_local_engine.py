"""Tasks in threads: the order of results, what is raised, and how work that is not wanted ends."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from omnigraph.pipeline.engine import Ended, LocalEngine, Silent, check_wanted
from tests.patience import PATIENCE


class Counted(Silent):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def stage(self, label: str, total: int) -> None:
        self.seen.append((label, total))

    def advance(self, done: int) -> None:
        self.seen.append(done)


def test_tasks_run_at_the_same_time_and_results_are_in_their_order():
    together = threading.Barrier(3, timeout=PATIENCE)

    def task(number: int) -> int:
        together.wait()
        return number * 2

    progress = Counted()
    assert LocalEngine(3).map(task, [1, 2, 3], "double", progress) == [2, 4, 6]
    assert progress.seen == [("double", 3), 1, 2, 3]


@pytest.mark.parametrize("threads", [1, 3])
def test_one_task_or_thread_stays_in_the_callers_thread(threads):
    tasks = [1] if threads > 1 else [1, 2]
    found = LocalEngine(threads).map(lambda _: threading.current_thread(), tasks, "", Silent())
    assert set(found) == {threading.current_thread()}
    assert LocalEngine(threads).map(abs, [], "", Silent()) == []


def test_the_first_failure_by_the_order_of_tasks_is_raised():
    second_failed = threading.Event()

    def task(number: int) -> int:
        if number == 1:
            second_failed.set()
        else:
            assert second_failed.wait(PATIENCE)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        LocalEngine(2).map(task, [0, 1], "", Silent())


@pytest.mark.parametrize("stop", ["failure", "interrupt"])
def test_what_is_not_wanted_ends_and_what_waits_never_begins(stop):
    running = threading.Event()
    begun, ended = [], []

    def task(number: int) -> None:
        begun.append(number)
        if number == 0:
            while not running.is_set():
                time.sleep(0.001)
            if stop == "failure":
                raise MemoryError
            os.kill(os.getpid(), signal.SIGINT)
        running.set()
        try:
            while True:
                check_wanted()
                # Python's lock is for those who stop it, too.
                time.sleep(0.001)
        except Ended:
            ended.append(number)
            raise

    with pytest.raises(MemoryError if stop == "failure" else KeyboardInterrupt):
        LocalEngine(2).map(task, list(range(50)), "", Silent())
    # All threads are done by now.
    assert 1 in ended
    assert len(begun) < 50
    assert set(begun) <= {*ended, 0}


def test_outside_of_threads_everything_is_wanted():
    check_wanted()
