"""The effect lock: at most one writer of a graph has effects at any moment, on any machine.

Local graphs use `flock`, which the kernel releases when the process dies, however it dies. Graphs
on object stores use a lease: an object with an expiry that its holder renews while it works. A
lease carries a fencing token that grows with every holder. A holder asks `check()` before each
effect and stops when its lease has run out, because somebody else may hold it by then.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import ReadSetConflict, StorageError
from omnigraph.storage.links import refuse_links_to
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from omnigraph.storage.bucket_objects import BucketObjects
    from omnigraph.storage.objects import Objects

LOCK_FOLDER = "__locks"
_FILE = f"{LOCK_FOLDER}/effect.lock"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LEASE = f"{LOCK_FOLDER}/effect.lease.json"

#: The files of locks that this process holds or waits for.
_open_locks: set[int] = set()
_LONGEST_PAUSE = 0.05


class EffectLock(Protocol):
    """The lock while it is held."""

    def check(self) -> None:
        """Raise when the lock may have been lost; call it before every effect."""


class LockTimes(Struct, frozen=True):
    """How long to wait for the lock, and how long a lease lasts without renewal (seconds)."""

    wait: float = 60.0
    lease: float = 15.0


@contextmanager
def effect_lock(location: Location, objects: Objects, times: LockTimes) -> Iterator[EffectLock]:
    """Hold the graph's effect lock.

    Raises:
        StorageError: The lock could not be had in time (transient).
    """
    if location.is_local:
        with _file_lock(location, times) as lock:
            yield lock
    else:
        from omnigraph.storage.bucket_objects import BucketObjects

        assert isinstance(objects, BucketObjects)
        lease = _Lease(objects, times)
        lease.acquire()
        try:
            yield lease
        finally:
            lease.release()


class _HeldFile:
    """A file lock cannot be lost while its process lives."""

    def check(self) -> None:
        return


@contextmanager
def _file_lock(location: Location, times: LockTimes) -> Iterator[EffectLock]:
    path = location.child(_FILE)
    owner = os.getpid()
    deadline = time.monotonic() + times.wait
    while True:
        handle = _open_lock(location, path)
        if not _try_flock(handle, path):
            _await_flock(handle, path, times.wait, deadline)
        if _is_at(handle, path):
            break
        # The folder was replaced while this waited: others lock another file.
        _release(handle)
    try:
        yield _HeldFile()
    finally:
        if os.getpid() == owner:
            _release(handle)


def _try_flock(handle: int, path: str) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EINTR):
            return False
        _close_lock(handle)
        raise StorageError(f"cannot lock {path}: {error}") from error
    return True


def _await_flock(handle: int, path: str, seconds: float, deadline: float) -> None:
    """Wait in the kernel's queue, which is fair: who asks again and again may ask too late.

    The kernel cannot be told to wait for some seconds, so a thread waits. If it is no longer
    needed, it releases the lock as soon as it gets it.
    """
    guard = threading.Lock()
    done = threading.Event()
    failures: list[OSError] = []
    abandoned = False

    def wait() -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            failures.append(error)
        with guard:
            done.set()
            if abandoned:
                _release(handle)

    threading.Thread(target=wait, name="omnigraph-lock", daemon=True).start()
    in_time = False
    try:
        in_time = done.wait(max(0.0, deadline - time.monotonic()))
    finally:
        with guard:
            abandoned = not in_time
            if abandoned and done.is_set():
                _release(handle)
    if not in_time:
        raise StorageError(
            f"another writer held the graph's lock for more than {seconds:g} s ({path}); try again",
            transient=True,
        )
    if failures:
        _close_lock(handle)
        raise StorageError(f"cannot lock {path}: {failures[0]}") from failures[0]


def _release(handle: int) -> None:
    # Closing would not release it if another thread has forked this process meanwhile. The file
    # stays, since a deleted one could be locked twice.
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)
    _close_lock(handle)


def _open_lock(location: Location, path: str) -> int:
    try:
        refuse_links_to(location, [_FILE], last=True)
        try:
            handle = os.open(path, _FLAGS, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle = os.open(path, _FLAGS, 0o666)
    except OSError as error:
        raise StorageError(f"cannot lock the graph: {error}") from error
    _open_locks.add(handle)
    return handle


def _close_lock(handle: int) -> None:
    _open_locks.discard(handle)
    os.close(handle)


def _leave_locks() -> None:
    """A fork of this process does not hold its locks, however long it lives."""
    for handle in list(_open_locks):
        _close_lock(handle)


os.register_at_fork(after_in_child=_leave_locks)


def _is_at(handle: int, path: str) -> bool:
    """True when an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


class _Lease:
    """A lease object with expiry, renewal and a fencing token."""

    def __init__(self, objects: BucketObjects, times: LockTimes) -> None:
        self._objects = objects
        self._times = times
        self._holder = new_ulid()
        self._process = os.getpid()
        self._token = 0
        self._tag: str | None = None
        self._valid_until = 0.0
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._renewer: threading.Thread | None = None

    def acquire(self) -> None:
        deadline = time.monotonic() + self._times.wait
        pause = _LONGEST_PAUSE
        while not self._try():
            if time.monotonic() > deadline:
                raise StorageError(
                    f"another writer held the graph's lease for more than {self._times.wait:g} s;"
                    " try again",
                    transient=True,
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
        self._renewer = threading.Thread(target=self._renew, name="omnigraph-lease", daemon=True)
        self._renewer.start()

    def check(self) -> None:
        # A margin of a third of the lease covers the call that follows and clocks that differ.
        if time.monotonic() > self._valid_until - self._times.lease / 3:
            raise ReadSetConflict(
                "the graph's lease ran out while this write was under way; it had to stop",
                changed=("lease",),
            )

    def release(self) -> None:
        if os.getpid() != self._process:
            return
        self._stop.set()
        if self._renewer is not None:
            self._renewer.join()
        with self._guard:
            if self._tag is not None:
                # Keeping the object, expired, keeps the fencing token growing.
                with suppress(StorageError):
                    self._objects.replace(_LEASE, self._body(expires=0.0), self._tag)

    def _try(self) -> bool:
        begun = time.monotonic()
        stored = self._objects.read(_LEASE)
        if stored is None:
            self._token = 1
            if not self._objects.create(_LEASE, self._body()):
                return False
        else:
            lease = json.loads(stored.data)
            if lease["expires"] > time.time():
                return False
            self._token = int(lease["token"]) + 1
            if stored.tag is None or not self._objects.replace(_LEASE, self._body(), stored.tag):
                return False
        return self._learn_tag(begun)

    def _learn_tag(self, begun: float) -> bool:
        mine = self._objects.read(_LEASE)
        if mine is None or json.loads(mine.data)["holder"] != self._holder:
            return False
        self._tag = mine.tag
        self._valid_until = begun + self._times.lease
        return True

    def _renew(self) -> None:
        while not self._stop.wait(self._times.lease / 3):
            with self._guard, suppress(StorageError):
                begun = time.monotonic()
                if self._tag is None or not self._objects.replace(_LEASE, self._body(), self._tag):
                    self._tag = None
                    return
                self._learn_tag(begun)

    def _body(self, expires: float | None = None) -> bytes:
        until = time.time() + self._times.lease if expires is None else expires
        plain = {"holder": self._holder, "token": self._token, "expires": until}
        return json.dumps(plain).encode()
