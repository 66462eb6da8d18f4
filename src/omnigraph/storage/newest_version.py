"""Noticing new versions of a table on this machine, by looking at its folder.

Every query asks for the newest version, so the folder's files are not listed each time: as long as
the times of the folder, and those of the newest file, are the same, so is what the folder holds.
"""

from __future__ import annotations

import os
import time

from msgspec import Struct

from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.location import Location
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import newest_stamp, version_path

#: How many seconds the clock of a file system may take for a tick. A folder that has changed within
#: the last tick may change again without showing another time. Those that know no fractions of a
#: second have ticks of up to two seconds, all others of hundredths.
_TICK = 0.1
_WHOLE_SECONDS_TICK = 3.0
#: A folder changes when it gets its newest file, and then soon no more. One that has not changed
#: then is of a file system that does not note it: some that show object stores as folders.
_SOON = 60.0

_Times = tuple[int, int, int, int, int]


class _Seen(Struct, frozen=True):
    """What a folder held when its files were listed."""

    folder: _Times
    file: str
    times: _Times
    newest: Stamp


class NewestVersion:
    """The newest version of a table on main. Safe to share between threads."""

    def __init__(self, location: Location, path: str) -> None:
        self._location = location
        self._ref = TableRef(path)
        self._folder = f"{location.child(path)}/_versions"
        self._seen: _Seen | None = None

    def stamp(self) -> Stamp | None:
        """What identifies it; None asks to look closer."""
        if not self._location.is_local:
            return None
        seen = self._seen
        try:
            folder = _times(self._folder)
            if seen is not None and seen.folder == folder and seen.times == _times(seen.file):
                return seen.newest
        except OSError:
            return None
        return self._listed(folder)

    def _listed(self, folder: _Times) -> Stamp | None:
        began = time.time()
        newest = newest_stamp(self._location, self._ref.path)
        self._seen = None
        if newest is None:
            return None
        file = self._location.child(version_path(self._ref, newest.version))
        try:
            times = _times(file)
        except OSError:
            return newest
        changed = _changed(folder)
        is_same_file = (newest.written, newest.size) == times[2:4]
        is_old = began - changed > (_TICK if changed % 1 else _WHOLE_SECONDS_TICK)
        if is_same_file and is_old and abs(changed - _changed(times)) < _SOON:
            self._seen = _Seen(folder, file, times, newest)
        return newest


def _times(path: str) -> _Times:
    """What differs when a file or a folder has changed, or is another one."""
    status = os.stat(path)
    return (
        status.st_ino,
        status.st_ctime_ns,
        status.st_mtime_ns,
        status.st_size,
        status.st_dev,
    )


def _changed(times: _Times) -> float:
    return times[1] / 1e9
