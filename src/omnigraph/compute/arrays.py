"""NumPy arrays: as Arrow arrays without a copy, the different numbers in them, and ranges.

`pyarrow.array` and `numpy.unique` do the same, but load NumPy's masked arrays when they are called
for the first time, which takes longer than most queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def as_arrow(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array.

    Args:
        values: The values.
        missing: Which of them are null.
    """
    valid = None
    if missing is not None:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values)
    type = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type, len(values), [valid, pa.py_buffer(data)])


def distinct(*values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different numbers of some arrays, ascending."""
    found = np.concatenate(values)
    found.sort()
    return found[changes(found)]


def distinct_places(
    values: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different numbers of an array, ascending, and for each value its place among them."""
    order = np.argsort(values, kind="stable")
    found = values[order]
    first = changes(found)
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(first) - 1
    return found[first], places


def changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a number differs from the one before; the first one does."""
    found = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def ranges(begins: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Numbers that follow each other: from each beginning so many."""
    shifts = begins - (np.cumsum(sizes) - sizes)
    return np.repeat(shifts, sizes) + np.arange(int(sizes.sum()))
