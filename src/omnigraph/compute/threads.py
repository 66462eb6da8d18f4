"""Work on several processors: NumPy, Arrow and Lance compute outside of Python's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of some work on each item, in the order of the items.

    The calling thread works as well. So everything is done also when no other thread can be
    started, as at the end of a process.

    Raises:
        Exception: What the work has raised; no other item is begun then.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    # Only one thread at a time takes the next number.
    numbers = iter(range(len(items)))

    def run() -> None:
        try:
            for number in numbers:
                if errors:
                    return
                results[number] = work(items[number])
        except BaseException as error:
            errors.append(error)

    helpers = []
    for _ in range(min(processors(), len(items)) - 1):
        helper = threading.Thread(target=run, name="omnigraph-work")
        try:
            helper.start()
        except RuntimeError:
            break
        helpers.append(helper)
    run()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(items))]


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
