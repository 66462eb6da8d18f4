"""Where tasks run: in this process, or on Spark. Both run the same functions on the same tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Progress(Protocol):
    """Is told how far a piece of work is."""

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
        """Run a function on each task; gives the results in the order of the tasks.

        A task may run more than once, and only one of its results counts. Function, tasks and
        results have to be picklable, and small.
        """


class LocalEngine:
    """Runs tasks in this process, one after the other."""

    name = "local"
    parallelism = 1

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        label: str,
        progress: Progress,
    ) -> list[Result]:
        """See `Engine`."""
        progress.stage(label, len(tasks))
        results = []
        for done, task in enumerate(tasks, 1):
            results.append(function(task))
            progress.advance(done)
        return results
