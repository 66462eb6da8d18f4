"""Long calls at the same time: results in order, the first failure, and interrupts."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial

import pytest

from omnigraph.storage import builds
from omnigraph.storage.builds import run_together
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


def test_calls_run_at_the_same_time_and_results_are_in_order():
    together = threading.Barrier(3, timeout=PATIENCE)

    def call(number: int) -> int:
        together.wait()
        return number

    assert run_together([partial(call, n) for n in range(6)]) == list(range(6))
    assert run_together([lambda: 1]) == [1]
    assert run_together([]) == []


def test_after_a_failure_nothing_is_begun(monkeypatch):
    monkeypatch.setattr(builds, "_MOST_THREADS", 2)
    failed, begun = threading.Event(), []

    def waits() -> None:
        begun.append("waits")
        assert failed.wait(PATIENCE)

    def fails() -> None:
        raise ValueError("no")

    calls = [waits, fails, *[waits] * 20]
    with pytest.raises(ValueError, match="no"):
        run_together(calls)
    failed.set()
    # The thread of the failing call may have begun one more before the failure was seen.
    assert len(begun) <= 3


def test_who_waits_can_be_interrupted():
    free = threading.Event()

    def interrupts() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        free.wait(PATIENCE)

    with pytest.raises(KeyboardInterrupt):
        run_together([interrupts, lambda: free.wait(PATIENCE)])
    assert not free.is_set()
    free.set()
