"""Work in several threads gives what one thread would."""

from __future__ import annotations

import threading

import pytest

from omnigraph.compute import threads
from omnigraph.compute.threads import in_threads


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
