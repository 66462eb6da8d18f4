"""Whole columns from batches: no more than the columns and one batch are in memory.

Numbers are put at their positions as they come. Texts are appended to one buffer, which grows where
it is, and are put in order at the end if they are not. Other values are rare, and are put together
at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.query.tables import policy
from omnigraph.storage.table_ref import ROW_ID

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: What the offsets of texts can say.
_MOST_BYTES = np.iinfo(np.int32).max
#: A buffer of texts grows by at least this part of itself.
_GROWTH = 4


class ColumnReader:
    """Puts together some columns of a table.

    Attributes:
        batch_rows: How many rows a batch should have, so that it takes little memory.
    """

    def __init__(self, schema: pa.Schema, names: Sequence[str], size: int, rows: int) -> None:
        """Begin with nothing.

        Args:
            schema: The columns of the table.
            names: Which of them are read.
            size: No position is as high as this.
            rows: How many rows there are.
        """
        types = {name: schema.field(name).type for name in names}
        self._parts = {name: _part(type, size, rows) for name, type in types.items()}
        self._row_ids = np.empty(rows, np.int64)
        self._count = 0
        width = sum(map(_width, types.values())) + 2 * self._row_ids.itemsize
        self.batch_rows = max(1, int(policy.READ_AT_ONCE / width))

    @property
    def row_ids(self) -> Positions:
        """The positions of the rows, as they came."""
        return self._row_ids[: self._count]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows that follow those before."""
        stop = self._count + batch.num_rows
        self._row_ids[self._count : stop] = as_numpy(batch[ROW_ID])
        positions = self._row_ids[self._count : stop]
        for name, part in self._parts.items():
            part.add(positions, batch[name])
        self._count = stop

    def column(self, name: str, size: int, slots: Positions | None) -> pa.Array:
        """A column by position, once all rows were added. Can be asked for once.

        Args:
            name: The column.
            size: One more than the highest position.
            slots: For each position which of the rows is there, or -1; None when they are the same.
        """
        return self._parts.pop(name).finish(size, slots)


class _Part(Protocol):
    def add(self, positions: Positions, values: pa.Array) -> None:
        """Add values that follow those before."""

    def finish(self, size: int, slots: Positions | None) -> pa.Array:
        """The values by position; see `ColumnReader.column`."""


class _Numbers:
    """Values of one width, such as numbers, dates and times."""

    def __init__(self, type: pa.DataType, size: int) -> None:
        self._type = type
        # What stands for null goes to files, too, and there it is always the same.
        self._values = np.zeros(size, f"u{type.bit_width // 8}")
        self._is_valid = np.zeros(size, bool)

    def add(self, positions: Positions, values: pa.Array) -> None:
        data = values.buffers()[1]
        width = self._values.dtype.itemsize
        if data is None or not len(values):
            return
        numbers = np.frombuffer(data, self._values.dtype, len(values), values.offset * width)
        if values.null_count:
            is_valid = as_numpy(values.is_valid())
            positions, numbers = positions[is_valid], numbers[is_valid]
        self._values[positions] = numbers
        self._is_valid[positions] = True

    def finish(self, size: int, slots: Positions | None) -> pa.Array:
        self._values.resize(size, refcheck=False)
        valid, nulls = _bits(self._is_valid[:size])
        return pa.Array.from_buffers(self._type, size, [valid, pa.py_buffer(self._values)], nulls)


class _Texts:
    """Texts, one after the other."""

    def __init__(self, type: pa.DataType, rows: int) -> None:
        self._type = type
        self._offsets = np.zeros(rows + 1, np.int32)
        self._is_valid = np.ones(rows, bool)
        self._data = np.empty(rows, np.uint8)
        self._count = 0
        self._end = 0

    def add(self, positions: Positions, values: pa.Array) -> None:
        count = len(values)
        if not count:
            return
        _, offset_buffer, data_buffer = values.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, count + 1, values.offset * 4)
        first, last = int(offsets[0]), int(offsets[-1])
        end = self._end + last - first
        if end > _MOST_BYTES:
            raise pa.ArrowInvalid("the texts of a column have more than 2 GiB")
        if end > len(self._data):
            grown = max(end, len(self._data) + len(self._data) // _GROWTH)
            self._data.resize(min(grown, _MOST_BYTES), refcheck=False)
        if last > first:
            self._data[self._end : end] = np.frombuffer(data_buffer, np.uint8, last - first, first)
        rows = slice(self._count, self._count + count)
        # The difference fits, also where offsets of the batch are beyond it.
        self._offsets[rows.start + 1 : rows.stop + 1] = offsets[1:] + (self._end - first)
        if values.null_count:
            self._is_valid[rows] = as_numpy(values.is_valid())
        self._count, self._end = rows.stop, end

    def finish(self, size: int, slots: Positions | None) -> pa.Array:
        self._data.resize(self._end, refcheck=False)
        valid, nulls = _bits(self._is_valid[: self._count])
        buffers = [valid, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return _placed(pa.Array.from_buffers(self._type, self._count, buffers, nulls), slots)


class _Others:
    """Truth values, lists and vectors."""

    def __init__(self, type: pa.DataType) -> None:
        self._type = type
        self._batches: list[pa.Array] = []

    def add(self, positions: Positions, values: pa.Array) -> None:
        self._batches.append(values)

    def finish(self, size: int, slots: Positions | None) -> pa.Array:
        batches, self._batches = self._batches, []
        return _placed(pa.concat_arrays(batches or [pa.nulls(0, self._type)]), slots)


def _part(type: pa.DataType, size: int, rows: int) -> _Part:
    if pa.types.is_primitive(type) and type.bit_width % 8 == 0:
        return _Numbers(type, size)
    return _Texts(type, rows) if pa.types.is_string(type) else _Others(type)


def _width(type: pa.DataType) -> float:
    """How many bytes a value has, about."""
    if pa.types.is_primitive(type):
        return float(type.bit_width / 8)
    if pa.types.is_fixed_size_list(type):
        return float(type.list_size * _width(type.value_type))
    return float(policy.TEXT_BYTES)


def _bits(is_valid: Flags) -> tuple[pa.Buffer | None, int]:
    """Which values are not null, as Arrow has it, and how many are."""
    nulls = len(is_valid) - int(np.count_nonzero(is_valid))
    return (pa.py_buffer(np.packbits(is_valid, bitorder="little")) if nulls else None), nulls


def _placed(column: pa.Array, slots: Positions | None) -> pa.Array:
    if slots is None:
        return column
    return pc.take(column, as_arrow(slots, slots < 0))
