"""Which rows of a fragment are deleted, from the file in which Lance notes it.

Lance itself can only read the rows that are left, which takes as long as the table is large. The
file has a number for every deleted row: as an Arrow array when they are few, else as a bitmap in
the portable form of Roaring bitmaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset

from omnigraph.errors import StorageError
from omnigraph.storage.datasets import below
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import TableRef

Offsets = npt.NDArray[np.uint64]

# The portable form of Roaring bitmaps: https://github.com/RoaringBitmap/RoaringFormatSpec
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4
_MOST_IN_ARRAY = 4096
_BITMAP_BYTES = 8192


def deleted_offsets(
    objects: Objects, ref: TableRef, dataset: LanceDataset, fragment: Any
) -> Offsets:
    """The places of the deleted rows in a fragment, ascending.

    Args:
        objects: The files of the graph.
        ref: The table, or a branch of it.
        dataset: A version of it.
        fragment: The metadata of one of its fragments.
    """
    file = fragment.deletion_file
    if file is None:
        return np.zeros(0, np.uint64)
    folder = ref.folder
    if file.base_id is not None:
        folder = f"{ref.path}{below(ref.path, dataset.base_paths()[file.base_id].path)}"
    path = f"{folder}/{file.path(fragment.id)}"
    stored = objects.read(path)
    if stored is None:
        raise StorageError(f"table {ref.path}: {path} is not there", transient=True)
    if file.file_type == "array":
        with pa.ipc.open_file(pa.BufferReader(stored.data)) as reader:
            offsets = reader.read_all().column(0).to_numpy()
        return np.sort(offsets).astype(np.uint64)
    return roaring_numbers(stored.data)


def roaring_numbers(data: bytes) -> Offsets:
    """The numbers in a Roaring bitmap of its portable form, ascending."""
    cookie = _numbers(data, 0, 1, "<u4")[0]
    if cookie & 0xFFFF == _WITH_RUNS:
        count, at = int(cookie >> 16) + 1, 4
        flags = np.frombuffer(data, np.uint8, -(-count // 8), at)
        is_run = np.unpackbits(flags, bitorder="little")[:count].astype(bool)
        at += len(flags)
        at_offsets = count >= _OFFSETS_FROM
    elif cookie == _WITHOUT_RUNS:
        count, at = int(_numbers(data, 4, 1, "<u4")[0]), 8
        is_run, at_offsets = np.zeros(count, bool), True
    else:
        raise StorageError("a list of deleted rows has a form that is not known")
    header = _numbers(data, at, 2 * count, "<u2").reshape(count, 2)
    at += 4 * count + (4 * count if at_offsets else 0)
    numbers = [np.zeros(0, np.uint64)]
    for (key, least), run in zip(header.tolist(), is_run.tolist(), strict=True):
        if run:
            runs = int(_numbers(data, at, 1, "<u2")[0])
            pairs = _numbers(data, at + 2, 2 * runs, "<u2").reshape(runs, 2).astype(np.int64)
            at += 2 + 4 * runs
            parts = [np.arange(first, first + more + 1) for first, more in pairs.tolist()]
            low = np.concatenate([np.zeros(0, np.int64), *parts])
        elif least < _MOST_IN_ARRAY:
            low = _numbers(data, at, least + 1, "<u2")
            at += 2 * (least + 1)
        else:
            bits = np.frombuffer(data, np.uint8, _BITMAP_BYTES, at)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += _BITMAP_BYTES
        numbers.append(low.astype(np.uint64) + np.uint64(key << 16))
    return np.concatenate(numbers)


def _numbers(data: bytes, at: int, count: int, kind: str) -> npt.NDArray[Any]:
    return np.frombuffer(data, kind, count, at)
