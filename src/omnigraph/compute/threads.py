"""Work on several processors: NumPy, Arrow and Lance compute outside of Python's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], at_once: int | None = None
) -> list[Result]:
    """The results of some work on each item, in the order of the items.

    The calling thread works as well, unless it is the main one: that waits, so that Ctrl-C can
    interrupt it. What is being worked on then goes on without it, and the process does not end
    before: Python ends threads wherever they are, and in the middle of native code that aborts
    the process. Everything is done also when no other thread can be started, as at the end of a
    process.

    Args:
        work: What is done.
        items: What it is done with.
        at_once: How many are worked on at a time; as many as there are processors by default.

    Raises:
        BaseException: What the first work that failed has raised; no other item is begun then.
    """
    results: dict[int, Result] = {}
    is_over = False
    #: For each thread that has ended, what it raised.
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    # Only one thread at a time takes the next number.
    numbers = iter(range(len(items)))

    def run() -> None:
        nonlocal is_over
        try:
            for number in numbers:
                if is_over:
                    break
                results[number] = work(items[number])
        except BaseException as error:
            is_over = True
            ended.put(error)
        else:
            ended.put(None)

    count = min(at_once or processors(), len(items))
    only_waits = count > 1 and threading.current_thread() is threading.main_thread()
    started = 0
    with suppress(RuntimeError):
        for _ in range(count if only_waits else count - 1):
            # No daemon: the process waits for it.
            threading.Thread(target=run, name="omnigraph-work").start()
            started += 1
    if not only_waits or not started:
        run()
        started += 1
    try:
        for _ in range(started):
            error = ended.get()
            if error is not None:
                raise error
    finally:
        is_over = True
    return [results[number] for number in range(len(items))]


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
