"""Stages of loads in which something happens to the process that a task runs in, or to another."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.merge import in_tasks
from omnigraph.pipeline.load import run as load

#: By the name of a stage, what does the work of a task of a merge.
MERGE_STAGES = {"comparing": "divide", "merging": "merge_bucket", "checking": "check_keys"}
#: The same of loads.
STAGES = {
    "reading and staging": "stage_part",
    "checking": "check_bucket",
    "finding faults": "locate",
    "merging": "merge_part",
}
Function = Callable[[Any], Any]
#: Is given what a task does and the task, and does it, or something else.
Incident = Callable[[Function, Any], Any]


def kill_once(process: int | None, marker: str, function: Function, task: Any) -> Any:
    """Do a task; the first that is done kills a process, of its own if no other is named.

    A task goes on for a while when another process was killed, as if nothing had happened.
    """
    made = function(task)
    if _is_first(marker):
        os.kill(os.getpid() if process is None else process, signal.SIGKILL)
        time.sleep(0.5)
    return made


def kill_executor_once(marker: str, function: Function, task: Any) -> Any:
    """Do a task; the first that is done kills the Java that all tasks of a machine run under."""
    made = function(task)
    if _is_first(marker):
        # Java has started a process that forks the ones that tasks run in.
        fork_server = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(fork_server.rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(1)
    return made


def hang(marker: str, function: Function, task: Any) -> Any:
    """Do a task, and come to no end."""
    made = function(task)
    Path(marker).touch()
    time.sleep(600)
    return made


def fill_the_disk(most: int, function: Function, task: Any) -> Any:
    """Do a task where no file may be larger than some bytes."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limit[1]))
    try:
        return function(task)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def _is_first(marker: str) -> bool:
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextmanager
def in_stages(incidents: Mapping[str, Incident], *, merges: bool = False) -> Iterator[None]:
    """Let something happen in stages of loads, or merges, also where Spark runs them."""
    from pyspark import cloudpickle

    import tests.crash.killing as this

    cloudpickle.register_pickle_by_value(this)
    try:
        with pytest.MonkeyPatch.context() as patch:
            for label, incident in incidents.items():
                module: Any = in_tasks if merges else load
                name = (MERGE_STAGES if merges else STAGES)[label]
                patch.setattr(module, name, partial(incident, getattr(module, name)))
            yield
    finally:
        cloudpickle.unregister_pickle_by_value(this)
