"""Where tasks run: in this process, or on Spark. Both run the same functions on the same tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from omnigraph.compute.threads import processors
from omnigraph.pipeline.others_first import go_behind

Task = TypeVar("Task")
Result = TypeVar("Result")
_MOST_THREADS = 8


class Progress(Protocol):
    """Receives reports of how far a piece of work is."""

    def stage(self, label: str, total: int) -> None:
        """A new stage begins, with a number of tasks."""

    def advance(self, done: int) -> None:
        """So many tasks of the stage are done."""


class Silent:
    """Progress that nobody looks at."""

    def stage(self, label: str, total: int) -> None:
        """Say nothing."""

    def advance(self, done: int) -> None:
        """Say nothing."""


class Engine(Protocol):
    """Runs tasks."""

    @property
    def name(self) -> str:
        """What users call it: `local` or `spark`."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        label: str,
        progress: Progress,
    ) -> list[Result]:
        """Run a function on each task; returns the results in the order of the tasks.

        A task may run more than once, and only one of its results counts. Function, tasks and
        results have to be picklable, and small.
        """


class LocalEngine:
    """Runs tasks in threads of this process: Arrow and Lance compute outside of Python's lock.

    Args:
        threads: How many tasks run at a time; a few at most when omitted, since each has its rows
            in memory.
    """

    name = "local"

    def __init__(self, threads: int | None = None) -> None:
        self.parallelism = threads or min(_MOST_THREADS, processors())

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        label: str,
        progress: Progress,
    ) -> list[Result]:
        """See `Engine`. When a task fails, those that run are waited for, and no other is begun."""
        progress.stage(label, len(tasks))
        results = []
        threads = min(self.parallelism, len(tasks))
        if threads < 2:
            for done, task in enumerate(tasks, 1):
                results.append(function(task))
                progress.advance(done)
            return results
        ended = threading.Event()
        pool = ThreadPoolExecutor(threads, initializer=_watch, initargs=(ended,))
        try:
            waiting = [pool.submit(function, task) for task in tasks]
            for done, result in enumerate(waiting, 1):
                results.append(result.result())
                progress.advance(done)
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)
        return results


class Ended(Exception):
    """The work that a task belongs to has ended: another task failed, or a user stopped it."""


def check_wanted() -> None:
    """Stop a task whose results nobody waits for; tasks ask this every now and then.

    Raises:
        Ended: Nobody does.
    """
    ended: threading.Event | None = getattr(_thread, "ended", None)
    if ended is not None and ended.is_set():
        raise Ended


_thread = threading.local()


def _watch(ended: threading.Event) -> None:
    _thread.ended = ended
    go_behind()
