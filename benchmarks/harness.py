"""What every benchmark shares: timing and one JSON record per measurement."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


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


def environment() -> dict[str, str]:
    """That of a new process that is measured: its modules are compiled once, as usual."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


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


def emit_amount(
    benchmark: str,
    name: str,
    value: float,
    unit: str,
    *,
    limit: float | None = None,
    peer: str | None = None,
    peer_value: float | None = None,
) -> None:
    """Print a measurement that is no time, as JSON on stdout, and for people on stderr.

    Args:
        benchmark: What it is part of.
        name: What was measured.
        value: How much it is.
        unit: Of what, such as `bytes` or `commits/s`; `x` is a ratio.
        limit: The most it may be.
        peer: What it is compared with.
        peer_value: How much it is there.
    """
    passed = limit is None or value <= limit
    ratio = value / peer_value if peer_value else None
    plain = {
        "benchmark": benchmark,
        "name": name,
        "value": value,
        "unit": unit,
        "limit": limit,
        "passed": passed,
        "peer": peer,
        "peer_value": peer_value,
        "ratio": ratio,
    }
    print(json.dumps(plain), flush=True)
    shown = f"{name:<46} {value:>12,.4g} {unit}"
    if limit is not None:
        shown += f"   limit {limit:,.4g} {'ok' if passed else 'MISSED'}"
    if peer_value and ratio is not None:
        shown += f"   {peer} {peer_value:,.4g} ({ratio:.2g}x)"
    print(shown, file=sys.stderr)


def resident_bytes() -> int:
    """How much memory this process uses now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _span(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
