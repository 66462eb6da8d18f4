"""Work in a thread of its own: writing cache files, once the answer was given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from omnigraph.query.tables import policy


class CacheWriter:
    """Runs one job, over and over if it is asked for meanwhile. Safe to share between threads.

    A process that ends waits for it: its answer is printed by then.

    Args:
        job: The job.
        delay: So many seconds after it was asked for it is begun.
    """

    def __init__(
        self, job: Callable[[], None], delay: float = policy.SECONDS_BEFORE_WRITING
    ) -> None:
        self._job = job
        self._delay = delay
        self._guard = threading.Lock()
        self._is_wanted = False
        self._thread: threading.Thread | None = None
        self._hurry = threading.Event()

    def start(self) -> None:
        """Have the job run soon."""
        with self._guard:
            self._is_wanted = True
            if self._thread is None:
                thread = threading.Thread(target=self._run_soon, name="omnigraph-cache")
                # At the end of the interpreter no thread starts any more.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def run(self) -> None:
        """Run the job at once, in this thread."""
        self._job()

    def finish(self) -> None:
        """Wait until everything is written that was asked for."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._hurry.set()
            thread.join()
            self._hurry.clear()

    def _run_soon(self) -> None:
        self._hurry.wait(self._delay)
        while True:
            with self._guard:
                if not self._is_wanted:
                    self._thread = None
                    return
                self._is_wanted = False
            try:
                self._job()
            except BaseException:
                with self._guard:
                    self._thread = None
                raise
