"""Timing work so that a busy machine and a full heap change little."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

#: Long enough to be measured once.
_ENOUGH = 0.1


def cpu_seconds(work: Callable[[], object], times: int = 3) -> float:
    """The least processor time of a few runs, without the collection of garbage.

    Collecting garbage costs what the whole process holds, not what the work costs.
    """
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            started = time.process_time()
            work()
            best = min(best, time.process_time() - started)
            if best > _ENOUGH:
                break
    finally:
        gc.enable()
    return best
