"""Files in `__cache/`: what was worked out once. They can be deleted or damaged at any time.

Whatever it has is verified before it is used, and no link is followed. A file belongs to
exactly one version of a table, by a digest of the version's own file. So it is not mistaken
for another one, also when a folder is restored from a backup that has other times.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from functools import lru_cache

from msgspec import Struct

#: Where the files are, below the root of a graph.
FOLDER = "__cache"
#: A version that was written less than so many seconds ago is likely to be replaced soon.
SETTLED_AFTER = 1.0
#: A pipe in the place of a file must not make anybody wait.
_NOT_ELSEWHERE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Stamp(Struct, frozen=True, eq=False):
    """What tells a version of a table from every other one that had its number.

    Attributes:
        version: The version's number.
        content: A digest of the version's file.
        written: When the file was written, in nanoseconds since 1970. Archives round it, so two
            stamps with different times may be equal.
        size: The size of the file.
    """

    version: int
    content: str
    written: int = 0
    size: int = 0

    def __str__(self) -> str:
        return f"{self.version}-{self.content}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stamp):
            return NotImplemented
        return self.version == other.version and self.content == other.content

    def __hash__(self) -> int:
        return hash((self.version, self.content))

    @property
    def is_settled(self) -> bool:
        """True when it pays off to write what is worked out from the version to files."""
        return time.time() - self.written / 1e9 >= SETTLED_AFTER


def stamp(file: str, version: int) -> Stamp | None:
    """The stamp of a version's file; None when there is no such file."""
    try:
        status = os.stat(file)
        content = _digest(
            file, status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size
        )
    except OSError:
        return None
    return Stamp(version, content, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _digest(file: str, *_identity: int) -> str:
    """A digest of a file, read once while it is the same file."""
    with open(file, "rb") as opened:
        return hashlib.sha256(opened.read()).hexdigest()[:24]


def open_file(file: str) -> int | None:
    """Open a file of the cache for reading; None when it does not exist, or a link leads to it."""
    if _is_elsewhere(file):
        return None
    try:
        handle = os.open(file, os.O_RDONLY | _NOT_ELSEWHERE)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_file(file: str) -> bytes | None:
    """The content of a file of the cache; None when it does not exist, or a link leads to it."""
    handle = open_file(file)
    if handle is None:
        return None
    try:
        with os.fdopen(handle, "rb") as opened:
            return opened.read()
    except OSError:
        return None


def append_to_file(file: str, content: bytes, most_bytes: int) -> None:
    """Append to a file of the cache, if the disk allows it; one that is full starts again."""
    if len(content) > most_bytes:
        return
    with suppress(OSError):
        handle = _create(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NOT_ELSEWHERE)
        try:
            if os.fstat(handle).st_size + len(content) > most_bytes:
                os.ftruncate(handle, 0)
            os.write(handle, content)
        finally:
            os.close(handle)


def write_file(file: str, *contents: bytes | memoryview) -> bool:
    """Write a file of the cache, whole or not at all; returns whether it worked.

    It can be recreated, so nothing depends on it: on a full or read-only disk it is left out. It
    is not forced to the disk: one that a machine loses when it goes down fails its checksum.
    """
    unfinished = os.path.join(os.path.dirname(file), f".{os.getpid()}-{os.urandom(8).hex()}")
    try:
        handle = _create(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as target:
            for content in contents:
                target.write(content)
        os.replace(unfinished, file)
    except OSError:
        with suppress(OSError):
            os.unlink(unfinished)
        return False
    return True


def remove_file(file: str) -> None:
    """Remove a file of the cache, if it exists and no link leads to it."""
    if not _is_elsewhere(file):
        with suppress(OSError):
            os.unlink(file)


def remove_folder(folder: str) -> None:
    """Remove a folder of the cache with all that is in it, if no link leads there."""
    if not _is_elsewhere(folder):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _is_elsewhere(file: str) -> bool:
    """True when a link leads to the file: a graph has no files outside of its folder."""
    return any(map(os.path.islink, _folders(file)))


def _create(file: str, flags: int) -> int:
    """Open a file for writing; its folders are made, from that of the cache on.

    Raises:
        OSError: It is not possible, or a link leads there.
    """
    if _is_elsewhere(file):
        raise OSError(f"a link leads to {file}")
    # Others may read it, as far as they may read what they make by themselves.
    try:
        return os.open(file, flags, 0o666)
    except FileNotFoundError:
        for folder in _folders(file):
            with suppress(FileExistsError):
                # Not its parents: a graph that was removed does not come back by its cache.
                os.mkdir(folder)
        return os.open(file, flags, 0o666)


def _folders(file: str) -> list[str]:
    """The folders in which a file is, from that of the cache on."""
    folders = []
    folder = os.path.dirname(file)
    while folder and os.path.basename(folder) != FOLDER:
        folders.append(folder)
        folder = os.path.dirname(folder) if os.path.dirname(folder) != folder else ""
    return [*folders, folder][::-1] if folder else folders[:1]
