"""Runs a few long calls of Lance at the same time, as it builds an index on one core.

Whoever waits for them can be interrupted: the threads are left to themselves then, and what they
write is referred to by nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeVar

from omnigraph.compute.threads import processors

Result = TypeVar("Result")
#: More builds at a time than this would take too much memory.
_MOST_THREADS = 4


def run_together(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run calls, some at a time; returns their results in order.

    Raises:
        BaseException: What the first call that failed has raised; those that wait are not begun.
    """
    # One more than there are cores: while one waits for the disk, the others compute.
    count = min(len(calls), _MOST_THREADS, processors() + 1)
    if count < 2:
        return [call() for call in calls]
    waiting = deque(enumerate(calls))
    results: dict[int, Result] = {}
    #: For each call that has ended, what it raised.
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                number, call = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = call()
            except BaseException as error:
                ended.put(error)
            else:
                ended.put(None)

    for _ in range(count):
        threading.Thread(target=work, daemon=True).start()
    try:
        for _ in calls:
            if (error := ended.get()) is not None:
                raise error
    finally:
        waiting.clear()
    return [results[number] for number in range(len(calls))]
