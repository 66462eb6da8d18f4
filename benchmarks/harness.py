"""What every benchmark shares: timing and one JSON record per measurement."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement.

    Attributes:
        seconds: The best of several runs.
        limit: The most it may take, in seconds; None when only the ratio matters.
        peer: Who did the same in the same run.
        peer_seconds: What it took there; None when the peer is not installed.
        memory: The most memory that it used, in bytes; None when nobody looked.
        memory_limit: The most it may use, in bytes.
        peer_memory: What the peer used.
    """

    benchmark: str
    name: str
    seconds: float
    limit: float | None = None
    peer: str | None = None
    peer_seconds: float | None = None
    memory: int | None = None
    memory_limit: int | None = None
    peer_memory: int | None = None

    @property
    def passed(self) -> bool:
        """False when a limit was missed."""
        fast = self.limit is None or self.seconds <= self.limit
        return fast and (self.memory or 0) <= (self.memory_limit or float("inf"))


def best_of(work: Callable[[], object], times: int) -> float:
    """The shortest of several runs, in seconds."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def emit(record: Record) -> None:
    """Print a record as JSON on stdout, and for people on stderr."""
    ratio = record.seconds / record.peer_seconds if record.peer_seconds else None
    plain = {
        "benchmark": record.benchmark,
        "name": record.name,
        "seconds": record.seconds,
        "limit": record.limit,
        "passed": record.passed,
        "peer": record.peer,
        "peer_seconds": record.peer_seconds,
        "ratio": ratio,
    }
    if record.memory is not None:
        plain |= {
            "memory": record.memory,
            "memory_limit": record.memory_limit,
            "peer_memory": record.peer_memory,
        }
    print(json.dumps(plain), flush=True)
    shown = f"{record.name:<34} {_span(record.seconds):>10}"
    if record.limit is not None:
        shown += f"   limit {_span(record.limit):>8} {'ok' if record.passed else 'MISSED'}"
    if record.peer_seconds and ratio is not None:
        shown += f"   {record.peer} {_span(record.peer_seconds)} ({ratio:.2g}x)"
    if record.memory is not None:
        shown += f"   {record.memory / 2**30:.2f} GiB"
    print(shown, file=sys.stderr)


def _span(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
