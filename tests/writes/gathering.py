"""Lets writes of several threads land together, in an order that a test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from omnigraph import failpoints
from omnigraph.graph import Graph
from tests.patience import PATIENCE, wait_until


def together(graph: Graph, *works: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own, so that all are prepared before the first one lands.

    Returns:
        What each has returned or raised, in their order. They wait for the lock in that order, too.
    """
    turns = graph._repository.turns
    outcomes: list[Any] = [None] * len(works)
    gathered = threading.Event()

    def run(number: int, work: Callable[[], Any]) -> None:
        try:
            outcomes[number] = work()
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=case, daemon=True) for case in enumerate(works)]

    def gather() -> None:
        gathered.wait(PATIENCE)

    with failpoints.active("write.locked", gather):
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda: len(turns.waiting()) > number, "nobody waits")  # noqa: B023
        gathered.set()
        _join(threads)
    return outcomes


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a write hangs"
