"""Lists as bytes, so that hashing tells them apart and sorting orders them like other values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, filled
from omnigraph.compute.keys import one_zero


def hashable(column: pa.Array) -> pa.Array:
    """A column whose values are equal exactly where those of another one are.

    Lists become the numbers of their elements, as bytes: two columns that were made by two calls
    cannot be compared with each other. Other values stay as they are, but zero has one sign.
    """
    if not pa.types.is_nested(column.type):
        return one_zero(column)
    elements = one_zero(column.flatten()).dictionary_encode(null_encoding="encode")
    return _as_bytes(column, as_numpy(elements.indices))


def sortable(column: pa.Array) -> pa.Array:
    """Lists as bytes that order like the lists: by the first elements that differ, then by length.

    Null elements come first.
    """
    elements = one_zero(column.flatten())
    order = as_numpy(pc.array_sort_indices(elements, null_placement="at_start"))
    in_order = elements.take(order)
    ranks = np.zeros(len(elements), ">u4")
    if len(elements):
        changed = as_numpy(filled(pc.not_equal(in_order[:-1], in_order[1:]), True))
        ranks[order[1:]] = np.cumsum(changed)
    return _as_bytes(column, ranks)


def _as_bytes(column: pa.Array, elements: npt.NDArray[Any]) -> pa.Array:
    """The elements of each list of a column as one value; all of them have the same width."""
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(as_numpy(filled(pc.list_value_length(column), 0)), out=offsets[1:])
    offsets *= elements.itemsize
    valid = None
    if column.null_count:
        valid = pa.py_buffer(np.packbits(as_numpy(column.is_valid()), bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(elements))
    return pa.Array.from_buffers(
        pa.large_binary(), len(column), [valid, pa.py_buffer(offsets), data]
    )
