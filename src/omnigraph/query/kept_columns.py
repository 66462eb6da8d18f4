"""Columns of tables as files in `__cache/`, which are mapped into memory.

Only versions that have been there for a moment are worth a file: others are soon replaced.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.storage.kept import Part, Stamp, keep_arrays, map_arrays
from omnigraph.storage.table_ref import TableRef

#: What tells versions of tables apart: path, the branch's fork (None for main), version.
TableKey = tuple[str, str | None, int]

#: The files of so many versions of a table are kept.
_VERSIONS = 2


class KeptColumns:
    """What is in files of the columns of one version of a table."""

    def __init__(self, folder: Path, key: TableKey, stamp: Stamp) -> None:
        self._folder = folder
        self._family = family(key)
        self._place = f"{folder}/{self._family}@{stamp}"
        self._forks = [] if key[1] is None else [key[1]]
        self.stamp = stamp
        try:
            self.names = set(os.listdir(self._place))
        except OSError:
            self.names = set()

    def column(self, name: str, type: pa.DataType) -> pa.Array | None:
        """A column; None when it is not there, or no longer."""
        found = self._mapped(name)
        if found is None or found[1].get("type") != str(type):
            return None
        valid, *parts, counts = found[0]
        buffers = [pa.py_buffer(valid) if len(valid) else None, *map(pa.py_buffer, parts)]
        return pa.Array.from_buffers(type, int(counts[0]), buffers, int(counts[1]))

    def arrays(self, name: str) -> list[Part] | None:
        """The arrays that were kept by a name."""
        found = self._mapped(name)
        return None if found is None else found[0]

    def _mapped(self, name: str) -> tuple[list[Part], dict[str, Any]] | None:
        if name not in self.names:
            return None
        found = map_arrays(f"{self._place}/{name}")
        # Some file systems do not tell `Name` and `name` apart.
        if found is None or found[1].get("name") != name:
            self.names.discard(name)
            return None
        return found

    def keep_column(self, name: str, column: pa.Array) -> int:
        """Keep a column, if the disk allows it; one of lists is left out. Gives its bytes."""
        if not is_flat(column.type):
            return 0
        if column.offset:
            column = pa.concat_arrays([column, column[:0]])
        counts = np.array([len(column), column.null_count], np.int64)
        nothing = np.zeros(0, np.uint8)
        parts = [nothing if b is None else np.frombuffer(b, np.uint8) for b in column.buffers()]
        return self.keep_arrays(name, [*parts, counts], type=str(column.type))

    def keep_arrays(self, name: str, arrays: Sequence[Part], **about: str) -> int:
        """Keep arrays by a name, if the disk allows it. Gives how many bytes they have."""
        place = Path(self._place)
        if not self.names:
            self._forget_others()
        if keep_arrays(place / name, arrays, name=name, forks=self._forks, **about):
            self.names.add(name)
        return sum(array.nbytes for array in arrays)

    def _forget_others(self) -> None:
        """Remove the files of older versions of the table."""
        with suppress(OSError):
            others = [p for p in self._folder.glob(f"{self._family}@*") if str(p) != self._place]
            others.sort(key=lambda place: place.stat().st_mtime)
            for place in others[: 1 - _VERSIONS]:
                shutil.rmtree(place, ignore_errors=True)


def is_flat(type: pa.DataType) -> bool:
    """True for numbers, dates, truth values and texts."""
    return bool(pa.types.is_primitive(type) or pa.types.is_string(type))


def family(key: TableKey) -> str:
    """The name that the files of all versions of a table share."""
    path, fork, _ = key
    branch = "" if fork is None else f"-{short(fork)}"
    return f"{path.replace('/', '-')}{branch}"


def ref_of(key: Sequence[Any]) -> TableRef:
    """The table, or the branch of it, that a key is of."""
    return TableRef(key[0], key[1])


def short(text: str) -> str:
    """A short name for a text, the same in every process."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
