"""NumPy arrays as Arrow arrays, without a copy, and the different numbers in them.

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
    return found[_first_ones(found)]


def distinct_places(
    values: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different numbers of an array, ascending, and for each value its place among them."""
    order = np.argsort(values, kind="stable")
    found = values[order]
    first = _first_ones(found)
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(first) - 1
    return found[first], places


def _first_ones(ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    first = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return first
