"""Threads of one process that want the same lock: one of them takes it and works for all who wait.

A thread comes with a job. The first one leads: it takes the lock, takes over as many waiting jobs
as it likes, and does them together with its own. Then the next thread that still waits leads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Job = TypeVar("Job")
#: How many jobs are prepared at once, and how long others wait for that, in seconds.
_AT_ONCE = 2
_PATIENCE = 0.02


class _Turn(Generic[Job]):
    """A job that waits. `leads` is set when its own thread has to go on."""

    __slots__ = ("job", "leads", "over")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.leads = False
        self.over = threading.Event()


class Turns(Generic[Job]):
    """The jobs that wait for one lock, in the order they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: list[_Turn[Job]] = []
        self._taken: list[_Turn[Job]] = []
        self._is_led = False
        self._entrance = threading.BoundedSemaphore(_AT_ONCE)

    def run(self, job: Job, lead: Callable[[], None]) -> None:
        """Wait until another thread has taken the job, or lead.

        Whether a job that was taken is done, its leader has noted in it. A leader may fail: then
        the job comes back as it is.
        """
        turn = _Turn(job)
        with self._guard:
            self._waiting.append(turn)
            turn.leads, self._is_led = not self._is_led, True
        try:
            if not turn.leads:
                turn.over.wait()
            if turn.leads:
                lead()
        finally:
            self._end(turn)

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Prepare a job, a few at a time: more would only take the interpreter from the leader.

        Whoever has waited for some time goes ahead anyway.
        """
        is_let_in = self._entrance.acquire(timeout=_PATIENCE)
        try:
            yield
        finally:
            if is_let_in:
                self._entrance.release()

    def waiting(self) -> list[Job]:
        """The jobs that wait, oldest first; the leader's own is one of them."""
        with self._guard:
            return [turn.job for turn in self._waiting]

    def take(self, wanted: Callable[[Job], bool], most: int | None = None) -> list[Job]:
        """The leader takes waiting jobs, oldest first. Their threads go on when it is done."""
        with self._guard:
            turns = [turn for turn in self._waiting if wanted(turn.job)][:most]
            self._waiting = [turn for turn in self._waiting if turn not in turns]
            self._taken += turns
        return [turn.job for turn in turns]

    def _end(self, turn: _Turn[Job]) -> None:
        with self._guard:
            if turn in self._waiting:
                self._waiting.remove(turn)
            if not turn.leads:
                return
            for taken in self._taken:
                taken.over.set()
            self._taken.clear()
            self._is_led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].over.set()
