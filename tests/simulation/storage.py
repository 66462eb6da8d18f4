"""The storage that simulated processes share: a folder, or a bucket that lies in a folder.

On a folder the effect lock is held until its holder lets go or dies. On a bucket it is a lease that
runs out: everything is done as on S3, by the same code, and Lance is told not to treat the files as
local ones. In both, time and random numbers come from the scheduler.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import obstore
from obstore.store import LocalStore, ObjectStore

from omnigraph import failpoints
from omnigraph.compute import ulids
from omnigraph.graph import Graph
from omnigraph.history import repository
from omnigraph.history.repository import open_repository
from omnigraph.history.store import History
from omnigraph.settings import Settings
from omnigraph.storage import bucket_objects, lock, turns
from omnigraph.storage.bucket_objects import BucketObjects
from omnigraph.storage.location import Location
from omnigraph.storage.lock import EffectLock, LockTimes
from omnigraph.storage.objects import Objects
from omnigraph.writes import prepared, protocol
from omnigraph.writes.opening import open_for_writing
from tests.simulation.scheduler import Actor, Clock, Scheduler

#: Lance's name for files that it treats as objects of a store.
_SCHEME = "file-object-store://"
#: How long a lease lasts, and how long anybody waits for the lock (seconds).
LEASE, _WAIT = 15.0, 600.0


class Storage:
    """Where a simulated graph is, and how it is locked."""

    def __init__(self, scheduler: Scheduler, folder: str, *, is_bucket: bool) -> None:
        self.scheduler = scheduler
        self.is_bucket = is_bucket
        self.location = Location(f"{_SCHEME}{folder}" if is_bucket else folder)
        self._times = LockTimes(wait=_WAIT, lease=LEASE)
        self._settings = Settings(lock_wait_seconds=_WAIT, lease_seconds=LEASE)
        self._owner: Actor | None = None

    def open(self, *, writes: bool = True) -> Graph:
        """Open the graph as a process of its own would."""
        opened = open_for_writing if writes else open_repository
        found = opened(self.location, times=self._times)
        return Graph(found, read_only=not writes, settings=self._settings)

    def died(self, process: str) -> None:
        """The kernel releases the lock of a process that dies; nobody releases a lease."""
        if self._owner is not None and self._owner.process == process:
            self._owner = None

    @contextmanager
    def in_use(self, seed: str) -> Iterator[None]:
        """Let everything below run on this storage, in the scheduler's time."""
        chance = random.Random(seed)
        clock = Clock(self.scheduler)
        renewal = SimpleNamespace(Thread=_NoThread, Event=threading.Event, Lock=threading.Lock)
        waiting = SimpleNamespace(
            Event=partial(_Event, self.scheduler),
            BoundedSemaphore=partial(_Semaphore, self.scheduler),
            Lock=threading.Lock,
        )
        patches: list[tuple[Any, str, Any]] = [
            (ulids, "time", clock),
            (ulids, "os", SimpleNamespace(urandom=chance.randbytes)),
            (lock, "time", clock),
            # Leases are not renewed: time passes only for those who are paused.
            (lock, "threading", renewal),
            (turns, "threading", waiting),
            (protocol, "time", clock),
            (protocol, "random", chance),
            (prepared, "time", clock),
            (repository, "effect_lock", self._locked(lock.effect_lock)),
            (History, "read", _paused_first(self.scheduler, "history.read", History.read)),
            (bucket_objects, "from_url", _opened_store),
            (BucketObjects, "replace", _replaced),
        ]
        with ExitStack() as stack:
            for holder, name, value in patches:
                stack.enter_context(patch.object(holder, name, value))
            for point in failpoints.POINTS:
                stack.enter_context(failpoints.active(point, partial(self.scheduler.pause, point)))
            yield

    def _locked(self, real: Any) -> Any:
        """What takes the effect lock, and notes who has it."""

        @contextmanager
        def locked(location: Location, objects: Objects, times: LockTimes) -> Iterator[EffectLock]:
            actor = self.scheduler.current
            taken = real(location, objects, times) if self.is_bucket else self._local_lock(actor)
            with taken as held:
                if actor is not None:
                    actor.holds_lock = True
                try:
                    yield held
                finally:
                    if actor is not None:
                        actor.holds_lock = False

        return locked

    @contextmanager
    def _local_lock(self, actor: Actor | None) -> Iterator[EffectLock]:
        if actor is None:
            yield _Held()
            return
        self.scheduler.pause("lock", blocked=lambda: self._owner is not None)
        self._owner = actor
        try:
            yield _Held()
        finally:
            if self._owner is actor:
                self._owner = None


class _Held:
    """A lock that cannot be lost."""

    def check(self) -> None:
        return


class _Event:
    """What one thread of a process waits for and another one sets."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def wait(self) -> None:
        if not self._is_set:
            self._scheduler.pause("turn", blocked=lambda: not self._is_set)


class _Semaphore:
    """Lets in some threads of a process; the others wait, but not for long."""

    def __init__(self, scheduler: Scheduler, value: int) -> None:
        self._scheduler = scheduler
        self._value = value

    def acquire(self, timeout: float) -> bool:
        if not self._value:
            self._scheduler.pause("entrance", seconds=timeout)
        if not self._value:
            return False
        self._value -= 1
        return True

    def release(self) -> None:
        self._value += 1


class _NoThread:
    """Stands in for the thread that renews a lease."""

    def __init__(self, **options: Any) -> None:
        del options

    def start(self) -> None:
        return

    def join(self) -> None:
        return


def _paused_first(scheduler: Scheduler, where: str, call: Any) -> Any:
    """A call before which others may go on, unless the caller has the lock."""

    def paused(*args: Any, **options: Any) -> Any:
        actor = scheduler.current
        if actor is not None and not actor.holds_lock:
            scheduler.pause(where)
        return call(*args, **options)

    return paused


def _opened_store(uri: str) -> ObjectStore:
    assert uri.startswith(_SCHEME), uri
    return LocalStore(uri.removeprefix(_SCHEME), mkdir=True)


def _replaced(objects: BucketObjects, path: str, data: bytes, tag: str) -> bool:
    """A conditional put. Only one actor runs at a time, so nobody comes in between."""
    try:
        if obstore.head(objects.store, path)["e_tag"] != tag:
            return False
    except FileNotFoundError:
        return False
    obstore.put(objects.store, path, data)
    return True
