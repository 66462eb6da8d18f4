"""Arrays and columns as files in `__cache/`, which are verified and mapped into memory.

A file says which version of which tables it is of and what it has, so one that was moved is not
mistaken for another. It counts as missing unless its header and its arrays have their checksums.
"""

from __future__ import annotations

import json
import mmap
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.query.tables import policy
from omnigraph.query.tables.checksums import checksum
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import open_file, remove_folder, write_file

Part = npt.NDArray[Any]

#: The first bytes of a file of arrays; then come the header's length and its CRC-32, 4 bytes each.
_MAGIC = b"OMNI\x02\0\0\0"
_BEGIN = len(_MAGIC) + 8
#: Arrays start at multiples of so many bytes.
_ALIGNED = 64


def write_arrays(file: str, arrays: Sequence[Part], **about: Any) -> bool:
    """Write arrays to a file, with plain values that describe them; returns whether it worked."""
    described, contents = [], list[bytes | memoryview]()
    end = 0
    for array in arrays:
        array = np.ascontiguousarray(array)
        described.append([array.dtype.str, len(array), end, f"{checksum(array):x}"])
        padding = -array.nbytes % _ALIGNED
        contents += [array.data, b"\0" * padding]
        end += array.nbytes + padding
    header = json.dumps({"arrays": described, "end": end, "about": about}).encode()
    # The header ends where arrays may start.
    header += b" " * (-(_BEGIN + len(header)) % _ALIGNED)
    lead = len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little")
    return write_file(file, _MAGIC, lead, header, *contents)


class MappedArrays:
    """The arrays of a file, mapped into memory; each is verified when it is asked for.

    Attributes:
        about: What describes them.
    """

    def __init__(self, file: str, mapped: mmap.mmap, start: int, described: dict[str, Any]) -> None:
        self.file = file
        self.about: dict[str, Any] = described["about"]
        self._parts: list[tuple[Part, str]] = [
            (np.frombuffer(mapped, type, count, start + offset), expected)
            for type, count, offset, expected in described["arrays"]
        ]

    def __len__(self) -> int:
        return len(self._parts)

    def unverified(self, number: int) -> Part:
        """An array of which only the length and the type are sure: the header has them."""
        return self._parts[number][0]

    def array(self, number: int) -> Part | None:
        """An array; None when it is not as it was written."""
        array, expected = self._parts[number]
        return array if f"{checksum(array):x}" == expected else None


def map_arrays(file: str) -> tuple[list[Part], dict[str, Any]] | None:
    """The arrays of a file and what describes them, all verified; None when it is not there.

    A file that is not whole, or not as it was written, counts as not there.
    """
    mapped = map_file(file)
    if mapped is None:
        return None
    arrays: list[Part] = []
    for number in range(len(mapped)):
        array = mapped.array(number)
        if array is None:
            return None
        arrays.append(array)
    return arrays, mapped.about


def map_file(file: str) -> MappedArrays | None:
    """The same before its arrays are verified; its header is."""
    mapped = _mapped(file)
    header = None if mapped is None else _header(mapped)
    return None if mapped is None or header is None else MappedArrays(file, mapped, *header)


def _mapped(file: str) -> mmap.mmap | None:
    handle = open_file(file)
    if handle is None:
        return None
    try:
        _mark_used(handle)
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        # It is empty, or the file system cannot map files.
        return None
    finally:
        os.close(handle)


def _mark_used(handle: int) -> None:
    """Let the time of a file say that it was used, if the disk allows it."""
    with suppress(OSError):
        if time.time() - os.fstat(handle).st_mtime > policy.MARKED_USED_AFTER:
            os.utime(handle)


def _header(mapped: mmap.mmap) -> tuple[int, dict[str, Any]] | None:
    """Where the arrays of a file start, and its header; None when it is damaged."""
    if len(mapped) < _BEGIN or mapped[: len(_MAGIC)] != _MAGIC:
        return None
    lead = mapped[len(_MAGIC) : _BEGIN]
    start = _BEGIN + int.from_bytes(lead[:4], "little")
    header = mapped[_BEGIN:start]
    if len(mapped) < start or zlib.crc32(header) != int.from_bytes(lead[4:], "little"):
        return None
    described: dict[str, Any] = json.loads(header)
    return (start, described) if len(mapped) == start + described["end"] else None


class Write(Protocol):
    """Writes arrays to a file; see `write_arrays`."""

    def __call__(self, file: str, arrays: Sequence[Part], **about: Any) -> bool:
        """Returns whether it worked."""


class ColumnFiles:
    """What is in files of the columns of one version of a table."""

    def __init__(self, folder: str, key: VersionKey, write: Write = write_arrays) -> None:
        self._folder = folder
        self._key = key
        self._write = write
        self._place = f"{folder}/{key.family}@{key.version}-{key.stamp}"
        self.names = self._listed()

    def _listed(self) -> set[str]:
        try:
            return set(os.listdir(self._place))
        except OSError:
            return set()

    def column(self, name: str, type: pa.DataType) -> pa.Array | None:
        """A column; None when it is not there, or no longer."""
        verified = self._verified(name)
        if verified is None or verified[1].get("type") != str(type):
            return None
        valid, *parts, counts = verified[0]
        buffers = [pa.py_buffer(valid) if len(valid) else None, *map(pa.py_buffer, parts)]
        return pa.Array.from_buffers(type, int(counts[0]), buffers, int(counts[1]))

    def arrays(self, name: str) -> list[Part] | None:
        """The arrays that were written by a name."""
        verified = self._verified(name)
        return None if verified is None else verified[0]

    def _verified(self, name: str) -> tuple[list[Part], dict[str, Any]] | None:
        if name not in self.names:
            return None
        mapped = map_arrays(f"{self._place}/{name}")
        # Files may be moved, and some file systems do not tell `Name` and `name` apart.
        if mapped is None or [mapped[1].get("name"), mapped[1].get("keys")] != [name, self._keys]:
            self.names.discard(name)
            return None
        return mapped

    @property
    def _keys(self) -> list[Any]:
        return [self._key.to_list()]

    def write_column(self, name: str, column: pa.Array) -> int:
        """Write a column, if the disk allows it; one of lists is left out. Returns its bytes."""
        if not is_flat(column.type):
            return 0
        if column.offset:
            column = pa.concat_arrays([column, column[:0]])
        counts = np.array([len(column), column.null_count], np.int64)
        nothing = np.zeros(0, np.uint8)
        parts = [nothing if b is None else np.frombuffer(b, np.uint8) for b in column.buffers()]
        return self.write_arrays(name, [*parts, counts], type=str(column.type))

    def write_arrays(self, name: str, arrays: Sequence[Part], **about: str) -> int:
        """Write arrays by a name, if the disk allows it. Returns how many bytes they have."""
        if not self.names:
            self._remove_others()
        if self._write(f"{self._place}/{name}", arrays, name=name, keys=self._keys, **about):
            self.names.add(name)
        return sum(array.nbytes for array in arrays)

    def _remove_others(self) -> None:
        """Remove the files of older versions of the table."""
        with suppress(OSError):
            prefix = f"{self._key.family}@"
            others = [
                entry
                for entry in os.scandir(self._folder)
                if entry.name.startswith(prefix) and entry.path != self._place
            ]
            others.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
            for entry in others[: 1 - policy.VERSIONS_ON_DISK]:
                remove_folder(entry.path)


def is_flat(type: pa.DataType) -> bool:
    """True for numbers, dates, truth values and texts."""
    return bool(pa.types.is_primitive(type) or pa.types.is_string(type))
