"""Lists as bytes, so that hashing tells them apart like any other values."""

from __future__ import annotations

import numpy as np
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
    codes = as_numpy(elements.indices)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(as_numpy(filled(pc.list_value_length(column), 0)), out=offsets[1:])
    offsets *= codes.itemsize
    valid = None
    if column.null_count:
        bits = np.packbits(as_numpy(column.is_valid()), bitorder="little")
        valid = pa.py_buffer(bits)
    return pa.Array.from_buffers(
        pa.large_binary(),
        len(column),
        [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(codes))],
    )
