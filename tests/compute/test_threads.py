"""Work in several threads gives what one thread would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from omnigraph.compute import threads
from omnigraph.compute.threads import in_threads
from tests.patience import PATIENCE


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_results_are_in_the_order_of_the_items(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "processors", lambda: 4)
    assert in_threads(lambda n: n * n, range(count)) == [n * n for n in range(count)]


def test_an_error_is_raised_and_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "processors", lambda: 1)
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        in_threads(work, range(5))
    assert begun == [0]


def test_all_is_done_when_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threads, "processors", lambda: 4)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert in_threads(str, range(3)) == ["0", "1", "2"]


def test_items_are_worked_on_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=PATIENCE)

    def work(number: int) -> int:
        together.wait()
        return number

    assert in_threads(work, range(6), at_once=3) == list(range(6))


def test_after_a_failure_nothing_is_begun() -> None:
    failed, begun = threading.Event(), []

    def work(number: int) -> None:
        begun.append(number)
        if number == 1:
            raise ValueError("no")
        assert failed.wait(PATIENCE)

    with pytest.raises(ValueError, match="no"):
        in_threads(work, range(20), at_once=2)
    failed.set()
    assert sorted(begun) == [0, 1]


def test_who_waits_can_be_interrupted() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    free = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        free.wait(PATIENCE)

    try:
        with pytest.raises(KeyboardInterrupt):
            in_threads(work, range(2), at_once=2)
        assert not free.is_set()
    finally:
        free.set()
        signal.signal(signal.SIGINT, before)


def test_a_process_ends_after_the_work_that_nobody_waits_for() -> None:
    program = """
import _thread, threading
from omnigraph.compute.threads import in_threads
begun, free = threading.Event(), threading.Event()
def work(number):
    if number == 0:
        _thread.interrupt_main()
        threading.main_thread().join()
        print("done", number)
try:
    in_threads(work, range(2), at_once=2)
except KeyboardInterrupt:
    print("interrupted")
"""
    command = [
        sys.executable,
        "-c",
        f"import signal\nsignal.signal(2, signal.default_int_handler)\n{program}",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["interrupted", "done 0"]
