"""Real processes that write to a graph and die where a test tells them to."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["omnigraph.graph", "tests.crash.scenarios"])

KILLED = -9


def start_child(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a function in a process of its own, which does not outlive the test."""
    process = _context.Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def run_child(work: Callable[..., None], *arguments: Any, timeout: float = PATIENCE) -> int:
    """Run a function in a process of its own; gives the exit code (-9 when it was killed)."""
    process = start_child(work, *arguments)
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError("the child hangs")
    assert process.exitcode is not None
    return process.exitcode


def wait_until_stopped(process: BaseProcess, seconds: float = PATIENCE) -> bool:
    """Wait until a process has stopped; False when it came to its end instead."""
    deadline = time.monotonic() + seconds
    while process.is_alive():
        try:
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state == "T":
            return True
        assert time.monotonic() < deadline, "the child neither stops nor ends"
        time.sleep(0.01)
    process.join()
    return False
