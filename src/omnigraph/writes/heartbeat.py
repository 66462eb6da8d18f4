"""Heartbeats: a write that takes long says now and then that it is not dead.

What a write has staged belongs to no version, so for a cleanup it looks like what a dead writer
has left. The age of files decides, and for writes that take longer than that, their heartbeats:
small objects in `__scratch/`, in a folder that is named by the moment at which the write began. A
short write never makes one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import StorageError
from omnigraph.storage.objects import Objects

SCRATCH = "__scratch"
#: The name of a heartbeat in its folder.
HEARTBEAT = "alive"
#: How often it is written, and how long after the last one its writer counts as alive (seconds).
INTERVAL = 60.0
LASTS = 300.0


@dataclass
class _Writer:
    """A write that is under way."""

    objects: Objects
    folder: str = field(default_factory=lambda: f"{SCRATCH}/{new_ulid()}")
    begun: float = field(default_factory=time.monotonic)
    is_written: bool = False
    done: bool = False
    guard: threading.Lock = field(default_factory=threading.Lock)

    def beat(self) -> None:
        with self.guard:
            if not self.done and time.monotonic() - self.begun >= INTERVAL:
                # One that cannot be written is written the next time.
                with suppress(StorageError):
                    self.objects.write(f"{self.folder}/{HEARTBEAT}", b"")
                    self.is_written = True

    def end(self) -> None:
        with self.guard:
            self.done = True
        if self.is_written:
            with suppress(StorageError):
                self.objects.delete_folder(self.folder)


class _Pulse:
    """All writes of this process, and the thread that writes their heartbeats."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._writers: list[_Writer] = []
        self._thread: threading.Thread | None = None

    def add(self, writer: _Writer) -> None:
        with self._guard:
            self._writers.append(writer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="omnigraph-heartbeat")
                self._thread.daemon = True
                self._thread.start()

    def remove(self, writer: _Writer) -> None:
        with self._guard:
            self._writers.remove(writer)

    def _beat(self) -> None:
        while True:
            time.sleep(INTERVAL)
            with self._guard:
                writers = list(self._writers)
                if not writers:
                    self._thread = None
                    return
            for writer in writers:
                writer.beat()


_pulse = _Pulse()


def _forget() -> None:
    """A fork of this process has neither its threads nor its writes."""
    global _pulse
    _pulse = _Pulse()


os.register_at_fork(after_in_child=_forget)


@contextmanager
def heartbeat(objects: Objects) -> Iterator[None]:
    """Let a cleanup know that a write is under way, if it takes long."""
    pulse = _pulse
    writer = _Writer(objects)
    pulse.add(writer)
    try:
        yield
    finally:
        pulse.remove(writer)
        writer.end()
