"""Comparing how long two things take, so that a busy machine and a full heap change little."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

#: How often to measure before something counts as slow.
_ROUNDS = 8
#: Less processor time than this, in seconds, says nothing.
LEAST = 0.002


def cpu_seconds(work: Callable[[], object], times: int = 1) -> float:
    """The least processor time of some runs, without the collection of garbage.

    Collecting garbage costs what the whole process holds, not what the work costs.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(times):
            started = time.process_time()
            work()
            best = min(best, time.process_time() - started)
    finally:
        gc.enable()
    return best


def is_within(
    limit: float, quick: Callable[[], object], slow: Callable[[], object], least: float = LEAST
) -> bool:
    """Whether one thing takes less than so many times the processor time of another.

    Both are measured in turns until it does: what disturbs a machine would have to disturb every
    round, whereas work that grows too fast is slow in all of them.
    """
    base = found = float("inf")
    for _ in range(_ROUNDS):
        base = min(base, cpu_seconds(quick, 3))
        found = min(found, cpu_seconds(slow))
        if found < limit * max(base, least):
            return True
    return False
