"""Files in `__cache/`: what was worked out once. They can be deleted at any time.

A file belongs to exactly one version of a table, told by the stamp of the version's own file. So
it is not mistaken for another one, also when a folder is restored from a backup.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Part = npt.NDArray[Any]

#: The first bytes of a file of arrays, and where arrays start: at multiples of this number.
_MAGIC = b"OMNI\x01\0\0\0"
_ALIGNED = 64
#: Where the files are, below the root of a graph.
FOLDER = "__cache"
#: What was written less than so many seconds ago is likely to be replaced soon.
SETTLED_AFTER = 1.0


class Stamp(Struct, frozen=True):
    """What tells a file from every other one that had its name: its size and when it was written.

    Attributes:
        version: The version of the table that the file describes.
        written: When it was written, in nanoseconds since 1970.
        content: What tells its content, if the time does not: archives and some file systems have
            times of whole seconds.
    """

    version: int
    size: int
    written: int
    content: str = ""

    def __str__(self) -> str:
        content = f"-{self.content}" if self.content else ""
        return f"{self.version}-{self.size:x}-{self.written:x}{content}"

    @property
    def is_settled(self) -> bool:
        """True when it pays off to keep what is worked out from the version."""
        return time.time() - self.written / 1e9 >= SETTLED_AFTER


def stamp(file: str, version: int) -> Stamp | None:
    """The stamp of a version's file; None when there is no such file."""
    try:
        found = os.stat(file)
        exact = found.st_mtime_ns % 1_000_000_000 != 0
        content = "" if exact else _content(file, found.st_ino, found.st_ctime_ns, found.st_size)
    except OSError:
        return None
    return Stamp(version, found.st_size, found.st_mtime_ns, content)


@lru_cache(maxsize=1024)
def _content(file: str, *_identity: int) -> str:
    """A short digest of a file, read once while it is the same file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def keep(file: Path, *contents: bytes | memoryview) -> bool:
    """Write a file, whole or not at all; gives whether it worked.

    It can be made again, so nothing depends on it: on a full or read-only disk it is left out.
    """
    made = file.with_name(f".{os.getpid()}-{os.urandom(8).hex()}")
    # A graph has no files outside of its folder; see `links`.
    if any(folder.is_symlink() for folder in _folders(file)):
        return False
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Others may read it, as far as they may read what they make by themselves.
        handle = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as target:
            for content in contents:
                target.write(content)
            target.flush()
            # Else a machine that goes down may leave a file of the right size without content.
            os.fsync(handle)
        os.replace(made, file)
    except OSError:
        with suppress(OSError):
            os.unlink(made)
        return False
    return True


def _folders(file: Path) -> list[Path]:
    """The folders in which a file is, up to that of the cache."""
    names = [folder.name for folder in file.parents]
    return list(file.parents[: names.index(FOLDER) + 1 if FOLDER in names else 1])


def keep_arrays(file: Path, arrays: Sequence[Part], **about: Any) -> bool:
    """Write arrays to a file, with plain values that describe them; see `keep`."""
    described, contents = [], list[bytes | memoryview]()
    end = 0
    for array in arrays:
        described.append([array.dtype.str, len(array), end])
        padding = -array.nbytes % _ALIGNED
        contents += [np.ascontiguousarray(array).data, b"\0" * padding]
        end += array.nbytes + padding
    header = json.dumps({"arrays": described, "end": end, "about": about}).encode()
    # The header ends where arrays may start.
    header += b" " * (-(len(_MAGIC) + 4 + len(header)) % _ALIGNED)
    return keep(file, _MAGIC, len(header).to_bytes(4, "little"), header, *contents)


def map_arrays(file: str) -> tuple[list[Part], dict[str, Any]] | None:
    """The arrays of a file and what describes them, mapped into memory; None when it is not there.

    A file that is not whole, or not one of these, counts as not there.
    """
    try:
        with open(file, "rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        begin = len(_MAGIC) + 4
        start = begin + int.from_bytes(mapped[len(_MAGIC) : begin], "little")
        if mapped[: len(_MAGIC)] != _MAGIC:
            return None
        header = json.loads(mapped[begin:start])
        if len(mapped) != start + header["end"]:
            return None
        arrays = [
            np.frombuffer(mapped, type, count, start + offset)
            for type, count, offset in header["arrays"]
        ]
        return arrays, header["about"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
