"""What a query may use: time, and memory.

Operators ask before they keep rows, and run what takes long in a thread of its own. A budget that
is used up is a clear error that names the operator; the process is never taken down.

What several queries share, such as the columns of a table, knows no query. It runs what takes long
with `run_long`, which finds the budget of the query that the thread is busy with.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TypeVar

from msgspec import Struct, field

from omnigraph.errors import ResourceLimit

Result = TypeVar("Result")

#: Rows that an operator makes at a time, at most and at least.
BLOCK_ROWS = 1 << 20
_LEAST_ROWS = 1 << 12
#: How many bytes of the budget there are for a row of a block, with all that the steps of a plan
#: make of it on the way, and for a row that is sorted in memory.
_BLOCK_ROW_BYTES = 1 << 10
_SORTED_ROW_BYTES = 1 << 9
#: Rows that are sorted in memory when that is without limit.
_SORTED_ROWS = 1 << 22
#: The part of the budget that blocks on their way use; the rest is for what is kept.
_ON_THE_WAY = 4
#: Computations on fewer rows than this are over before anybody wants to interrupt them.
_LONG = 1 << 17
#: How often a long computation is looked after, in seconds.
_PATIENCE = 0.05


#: Threads that wait for a computation. They are used again, since memory that a thread has freed is
#: mostly used again by the same thread only.
_idle: list[_Worker] = []
#: Computations that nobody waits for any more, as long as they go on.
_abandoned: list[threading.Event] = []
os.register_at_fork(after_in_child=_idle.clear)
os.register_at_fork(after_in_child=_abandoned.clear)


def is_computing() -> bool:
    """True while something is computed that nobody waits for any more."""
    return bool(_abandoned)


@atexit.register
def _wait_for_abandoned() -> None:
    """Let computations end before the process does.

    Python ends their threads wherever they are, and in the middle of native code that aborts the
    process.
    """
    for done in _abandoned:
        done.wait()


def _forget(done: threading.Event) -> None:
    with suppress(ValueError):
        _abandoned.remove(done)


class _Running(threading.local):
    """What a thread is busy with.

    Attributes:
        budget: That of the query; None without one.
        is_apart: Another thread waits for this one, and looks after the budget.
    """

    budget: Budget | None = None
    is_apart: bool = False


_running = _Running()


def run_long(operator: object, rows: int, function: Callable[[], Result]) -> Result:
    """Run a computation that cannot be interrupted, within the budget of the present query.

    Without a query it has no limits, but Ctrl-C interrupts the wait for it.

    Args:
        operator: Named in the message.
        rows: How large it is.
        function: The computation. It runs in another thread if it is large, so it takes the locks
            that it needs by itself.

    Raises:
        ResourceLimit: The time is over.
    """
    if rows < _LONG or _running.is_apart:
        return function()
    budget = _running.budget
    if budget is None:
        if threading.current_thread() is not threading.main_thread():
            # Nobody interrupts this thread.
            return function()
        budget = Budget()
    return budget.apart(operator, rows, function)


def check_running(operator: object) -> None:
    """Between two parts of a long computation: stop when its query is over.

    Raises:
        ResourceLimit: It is.
    """
    if _running.budget is not None:
        _running.budget.check_time(operator)


class _Worker:
    """A thread that computes one thing after the other."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._loop, name="omnigraph query", daemon=True).start()

    def run(self, work: Callable[[], None]) -> None:
        self._inbox.put(work)

    def _loop(self) -> None:
        _running.is_apart = True
        while True:
            self._inbox.get()()
            _idle.append(self)


def _run(work: Callable[[], None]) -> None:
    """Start a computation in another thread."""
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.run(work)


class Budget(Struct):
    """The limits of one query, and what it has used of them.

    Attributes:
        seconds: How long it may run; None is without limit.
        bytes: How much memory it may use; None is without limit.
        kept: How much memory is in use now by what is kept.
        abandoned: Nobody waits for the query any more.
    """

    seconds: float | None = None
    bytes: int | None = None
    kept: int = 0
    abandoned: bool = False
    _started: float = field(default_factory=time.monotonic)

    # --- time ---

    def check_time(self, operator: object) -> None:
        """Stop when the time is over; `operator` is named in the message.

        Raises:
            ResourceLimit: It is.
        """
        over = self.seconds is not None and time.monotonic() - self._started > self.seconds
        if over or self.abandoned:
            seconds = 0.0 if self.seconds is None else self.seconds
            raise ResourceLimit(
                f"the query ran longer than {seconds:g} s, in: {operator}. Make the pattern"
                " more selective, add a limit, or allow more time",
                resource="seconds",
                limit=seconds,
            )

    def apart(self, operator: object, rows: int, function: Callable[[], Result]) -> Result:
        """Run a computation that cannot be interrupted, without waiting longer than allowed.

        A large one runs in a thread of its own, which is left to itself when the time is over or
        the user interrupts the query.

        Args:
            operator: Named in the message.
            rows: How large it is.
            function: The computation.

        Raises:
            ResourceLimit: The time is over.
        """
        if rows < _LONG or _running.is_apart:
            return function()
        results: list[Result] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            _running.budget = self
            try:
                results.append(function())
            except BaseException as error:
                errors.append(error)
            finally:
                _running.budget = None
                done.set()
                _forget(done)

        _run(work)
        try:
            while not done.wait(_PATIENCE):
                self.check_time(operator)
        except BaseException:
            self.abandoned = True
            _abandoned.append(done)
            if done.is_set():
                _forget(done)
            raise
        if errors:
            raise errors[0]
        return results[0]

    def running(self, parts: Iterator[Result]) -> Iterator[Result]:
        """The same parts; while one is made, `run_long` finds this budget."""
        while True:
            before = _running.budget
            _running.budget = self
            try:
                part = next(parts)
            except StopIteration:
                return
            finally:
                _running.budget = before
            yield part

    def restart(self) -> None:
        """Count the time from now on."""
        self._started = time.monotonic()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time that somebody else takes, such as the reader of a batch."""
        since = time.monotonic()
        try:
            yield
        finally:
            self._started += time.monotonic() - since

    # --- memory ---

    @property
    def block_rows(self) -> int:
        """How many rows an operator makes at a time."""
        if self.bytes is None:
            return BLOCK_ROWS
        return min(BLOCK_ROWS, max(_LEAST_ROWS, self.bytes // _BLOCK_ROW_BYTES))

    @property
    def sorted_rows(self) -> int:
        """How many rows are sorted in memory."""
        if self.bytes is None:
            return _SORTED_ROWS
        return max(_LEAST_ROWS, self.bytes // _SORTED_ROW_BYTES)

    @property
    def for_keeping(self) -> int | None:
        """How much memory may be in use by what is kept; None is without limit."""
        return None if self.bytes is None else self.bytes - self.bytes // _ON_THE_WAY

    def has_room(self, size: int) -> bool:
        """True when so much memory may be kept besides what is kept already."""
        most = self.for_keeping
        return most is None or self.kept + size <= most

    def keep(self, size: int, operator: str) -> None:
        """Account for memory that stays in use.

        Raises:
            ResourceLimit: It would be too much.
        """
        if not self.has_room(size):
            raise self._too_much(
                f"the query needs more than {self._mib} MiB, in: {operator}. Make the pattern more"
                " selective, return fewer columns, add a limit, or allow more memory"
            )
        self.kept += size

    def free(self, size: int) -> None:
        """Account for memory that is not in use any more."""
        self.kept -= size

    @contextmanager
    def using(self, size: int, operator: str) -> Iterator[None]:
        """Account for memory that is in use for a while."""
        self.keep(size, operator)
        try:
            yield
        finally:
            self.free(size)

    def keep_answer(self, size: int) -> None:
        """Account for a part of the answer.

        Raises:
            ResourceLimit: The answer is too large.
        """
        if not self.has_room(size):
            raise self._too_much(
                f"the answer takes more than {self._mib} MiB, which is what the query may use. Add"
                " a limit, return fewer columns, read it with `query_batches`, `export` whole"
                " types, or allow more memory"
            )
        self.kept += size

    @property
    def _mib(self) -> int:
        return (self.bytes or 0) >> 20

    def _too_much(self, message: str) -> ResourceLimit:
        return ResourceLimit(message, resource="bytes", limit=self.bytes or 0)
