"""One budget of bytes for the files of derived data: what was used longest ago makes room.

What tells about the last publishes has a share of its own (see `history.recent`). Vectors of
embedding services have a limit of their own (see `embedding.cache`), because they cost money and
not just time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from omnigraph.query.tables import policy
from omnigraph.query.tables.files import Part, write_arrays
from omnigraph.storage.cache_files import remove_file

#: Folders whose files can be removed, each by itself.
_FOLDERS = ("columns", "topology")
_ELSEWHERE = ("embeddings", "recent")


class _File(Struct, frozen=True):
    used: float
    size: int
    path: str


class DiskBudget:
    """The size of the cache of one graph. Only one thread of a process writes."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._bytes = 0
        self._counted = float("-inf")

    def write(self, file: str, arrays: Sequence[Part], **about: Any) -> bool:
        """Write arrays to a file, if there is room for it; returns whether it worked."""
        size = policy.FILE_BYTES + sum(array.nbytes for array in arrays)
        return self._make_room(size) and write_arrays(file, arrays, **about)

    def _make_room(self, size: int) -> bool:
        if size > self.limit:
            return False
        now = time.monotonic()
        if now - self._counted > policy.DISK_COUNTED_AGAIN_AFTER:
            # Other processes write as well.
            self._bytes, self._counted = sum(file.size for file in _files(self.folder)), now
        if self._bytes + size > self.limit:
            self._remove(size)
        if self._bytes + size > self.limit:
            return False
        self._bytes += size
        return True

    def _remove(self, size: int) -> None:
        """Remove the files that were used longest ago until there is room for so many bytes."""
        files = list(_files(self.folder))
        self._bytes = sum(file.size for file in files)
        starts = tuple(os.path.join(self.folder, name, "") for name in _FOLDERS)
        removable = [file for file in files if file.path.startswith(starts)]
        for file in sorted(removable, key=lambda file: file.used):
            if self._bytes + size <= self.limit:
                break
            remove_file(file.path)
            if not os.path.lexists(file.path):
                self._bytes -= file.size
                with suppress(OSError):
                    # The folder of a version, when it is empty.
                    os.rmdir(os.path.dirname(file.path))


def _files(folder: str) -> Iterator[_File]:
    """The files of the cache with their sizes, and when they were last used."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _ELSEWHERE:
                    yield from _files(entry.path)
            else:
                status = entry.stat(follow_symlinks=False)
                yield _File(status.st_mtime, status.st_size, entry.path)
