"""Letting others go first: who loads millions of rows should not be felt by those who write one.

Threads that end with the work get a lower priority. Nobody except root can take that back, so it
is nothing for the calling thread, nor for those of Arrow and Lance, which belong to the whole
process. Linux (from 6.12 on) is told instead that they want the processor for long turns: then
threads that want it for a moment come before them, and their share stays the same. Where that is
not known, nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

#: The priority of threads that end with the work: 19 is the lowest.
NICE = 10
#: How long a turn of a thread that loads is, in nanoseconds: the longest that Linux takes.
LONG_TURN = 100_000_000
#: Zero is what Linux finds right.
_USUAL_TURN = 0
#: The number of `sched_setattr`, which older C libraries have no function for, by architecture.
_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
#: The first version of `struct sched_attr`: its size, policy, flags, nice, priority, runtime (which
#: is the turn), deadline, period.
_ATTRIBUTES = struct.Struct("IIQiIQQQ")

_guard = threading.Lock()
_users = 0


@contextmanager
def others_first() -> Iterator[None]:
    """Let others on the machine go first, as long as it lasts.

    It concerns the calling thread, those that it starts, and all that do not run Python code.
    """
    global _users
    own = threading.get_native_id()
    with _guard:
        _users += 1
        _set_turns([own, *_foreign_threads()], LONG_TURN)
    try:
        yield
    finally:
        with _guard:
            _users -= 1
            _set_turns([own, *([] if _users else _foreign_threads())], _USUAL_TURN)


def go_behind() -> None:
    """Give the calling thread, which ends with the work, a lower priority if others go first."""
    if _users and sys.platform == "linux":
        own = threading.get_native_id()
        with suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, own)
            os.setpriority(os.PRIO_PROCESS, own, max(now, NICE))


def _foreign_threads() -> list[int]:
    """The threads of this process that do not run Python code, where Linux tells."""
    if sys.platform != "linux":
        return []
    python = {thread.native_id for thread in threading.enumerate()}
    return [int(name) for name in os.listdir("/proc/self/task") if int(name) not in python]


def _set_turns(threads: Iterable[int], turn: int) -> None:
    """Set the length of turns; of a thread that has ended, or may not be changed, it is left."""
    number = _SET_ATTRIBUTES.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    for thread in threads:
        with suppress(OSError):
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                nice = os.getpriority(os.PRIO_PROCESS, thread)
                attributes = (_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, turn, 0, 0)
                _system_call()(number, thread, _ATTRIBUTES.pack(*attributes), 0)


@cache
def _system_call() -> Callable[..., int]:
    call: Callable[..., int] = ctypes.CDLL(None).syscall
    return call
