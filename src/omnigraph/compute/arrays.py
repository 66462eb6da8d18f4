"""NumPy arrays: as Arrow arrays without a copy, the different numbers in them, and ranges.

`pyarrow.array` and `numpy.unique` do the same, but load NumPy's masked arrays when they are called
for the first time, which takes longer than most queries. And `pyarrow.array` and `pyarrow.scalar`
load pandas, if it is installed, which takes as long as everything else that a process loads for a
query. `dateutil` is loaded by who leaves it to them to find out a type.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_DAY = dt.date(1970, 1, 1).toordinal()


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


def scalar(value: Any, type: pa.DataType) -> pa.Scalar:
    """One value as Arrow has it; see `single`."""
    return single(value, type)[0]


def single(value: Any, type: pa.DataType) -> pa.Array:
    """An array of one value, which is of the type, or becomes so as with `pyarrow.array`."""
    kind = value.__class__
    if value is None:
        return pa.nulls(1, type)
    if kind is str and pa.types.is_string(type):
        text = value.encode()
        ends = pa.py_buffer(np.array([0, len(text)], np.int32))
        return pa.Array.from_buffers(type, 1, [None, ends, pa.py_buffer(text)])
    if kind is bool and pa.types.is_boolean(type):
        return as_arrow(np.array([value]))
    if kind is int and pa.types.is_integer(type):
        numbers = np.dtype(type.to_pandas_dtype())
        if np.iinfo(numbers).min <= value <= np.iinfo(numbers).max:
            return as_arrow(np.array([value], numbers))
    if kind is float and pa.types.is_float64(type):
        return as_arrow(np.array([value]))
    if kind is dt.date and pa.types.is_date32(type):
        days = np.array([value.toordinal() - _FIRST_DAY], np.int32)
        return pa.Array.from_buffers(type, 1, [None, pa.py_buffer(days)])
    return pa.array([value], type)


def as_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column as a NumPy array, without a copy if possible; nulls as with `to_numpy`."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        values = values.chunk(0)
    type = values.type
    if isinstance(values, pa.Array) and not values.null_count:
        if pa.types.is_boolean(type):
            end = values.offset + len(values)
            bits = np.frombuffer(values.buffers()[1] or b"", np.uint8)
            return np.unpackbits(bits, count=end, bitorder="little")[values.offset :].view(np.bool_)
        if pa.types.is_date32(type):
            return _plain(values, np.dtype(np.int32)).astype("datetime64[D]")
        if pa.types.is_timestamp(type):
            return _plain(values, np.dtype(f"datetime64[{type.unit}]"))
        if pa.types.is_integer(type) or pa.types.is_floating(type):
            return _plain(values, np.dtype(type.to_pandas_dtype()))
    converted: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return converted


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece; it is not copied if it is in one already."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _plain(values: pa.Array, type: np.dtype[Any]) -> npt.NDArray[Any]:
    data = values.buffers()[1]
    if data is None:
        return np.zeros(len(values), type)
    return np.frombuffer(data, type, len(values), values.offset * type.itemsize)


def filled(column: pa.Array, value: Any) -> pa.Array:
    """A column with a value in place of nulls. Mostly there are none, and nothing is copied."""
    return pc.fill_null(column, scalar(value, column.type)) if column.null_count else column


def distinct(*values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different numbers of some arrays, ascending."""
    everything = np.concatenate(values)
    everything.sort()
    return everything[changes(everything)]


def distinct_places(
    values: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different numbers of an array, ascending, and for each value its place among them."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = changes(ordered)
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(first) - 1
    return ordered[first], places


def changes(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a number differs from the one before; the first one does."""
    differs = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def rows_where(rows: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    """The rows for which a mask is true.

    Mostly that is all of them, none, or some that follow each other: then nothing is copied.
    """
    ends = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    if len(ends) > 2:
        return rows.filter(as_arrow(mask))
    return rows.slice(ends[0], ends[1] - ends[0]) if len(ends) else rows.slice(0, 0)


def ranges(begins: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Numbers that follow each other: from each beginning so many."""
    shifts = begins - (np.cumsum(sizes) - sizes)
    return np.repeat(shifts, sizes) + np.arange(int(sizes.sum()))


ZERO = scalar(0, pa.int64())
FALSE = scalar(False, pa.bool_())
