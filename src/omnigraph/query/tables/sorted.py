"""Columns in the order of their values, in which single values are found at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy


class SortedColumn:
    """A column of integers or texts; nulls are not in it.

    Attributes:
        column: The column.
        arrays: What is known of its order.
    """

    def __init__(self, column: pa.Array, arrays: Sequence[npt.NDArray[Any]] | None = None) -> None:
        """Put a column in order.

        Args:
            column: The column.
            arrays: What `arrays` gave for the same column, if that is known.
        """
        self.column = column
        if arrays is None:
            order = pc.array_sort_indices(column)[: len(column) - column.null_count]
            arrays = [as_numpy(order).astype(np.int64)]
            if pa.types.is_integer(column.type):
                arrays.append(as_numpy(column.take(order)))
        self.arrays = arrays
        self._order: npt.NDArray[np.int64] = arrays[0]
        # Single elements of them are Python's numbers, so a search compares no NumPy objects, and
        # no number is too large to be compared.
        self._positions = self._order.data
        self._numbers = arrays[1].data if len(arrays) > 1 else None
        self._texts = None if self._numbers is not None else _Texts(column)
        self._kind: type = str if self._numbers is None else int

    @property
    def bytes(self) -> int:
        """How much memory is used."""
        return sum(array.nbytes for array in self.arrays)

    def has_kind(self, value: Any) -> bool:
        """True when a value is a text or an integer, as those of the column are."""
        return value.__class__ is self._kind

    def find(self, value: int | str) -> npt.NDArray[np.int64]:
        """The positions of a value, ascending."""
        if isinstance(value, str):
            first, last = self._range_of_text(value)
        else:
            first, last = self._range_of_number(value)
        positions = self._order[first:last]
        return positions if last - first < 2 else np.sort(positions)

    def _range_of_number(self, value: int) -> tuple[int, int]:
        numbers = self._numbers
        assert numbers is not None
        first, end = bisect_left(numbers, value), len(numbers)
        if first == end or numbers[first] != value:
            return first, first
        if first + 1 == end or numbers[first + 1] != value:
            return first, first + 1
        return first, bisect_right(numbers, value, lo=first)

    def _range_of_text(self, value: str) -> tuple[int, int]:
        assert self._texts is not None
        sought, text, positions = value.encode(), self._texts.at, self._positions
        first, end = bisect_left(positions, sought, key=text), len(positions)
        if first == end or text(positions[first]) != sought:
            return first, first
        if first + 1 == end or text(positions[first + 1]) != sought:
            return first, first + 1
        return first, bisect_right(positions, sought, lo=first, key=text)


class _Texts:
    """The texts of a column as bytes in UTF-8, which have the same order as the texts."""

    def __init__(self, column: pa.Array) -> None:
        _, ends, data = column.buffers()
        self._data = b"" if data is None else memoryview(data)
        offsets = memoryview(b"" if ends is None else ends).cast("B")
        is_large = pa.types.is_large_string(column.type)
        self._ends = (offsets.cast("q") if is_large else offsets.cast("i"))[column.offset :]

    def at(self, position: int) -> bytes:
        """The text at a position that has one."""
        return bytes(self._data[self._ends[position] : self._ends[position + 1]])
