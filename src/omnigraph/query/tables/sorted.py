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
    """A column of integers or texts; nulls are not in it."""

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
        self._numbers = arrays[1] if len(arrays) > 1 else None

    @property
    def bytes(self) -> int:
        """How much memory is used."""
        return sum(array.nbytes for array in self.arrays)

    def find(self, value: int | str) -> npt.NDArray[np.int64]:
        """The positions of a value, ascending."""
        first, last = self._range(value)
        positions = self._order[first:last]
        return positions if last - first < 2 else np.sort(positions)

    def _range(self, value: int | str) -> tuple[int, int]:
        if self._numbers is None:
            return self._range_of_text(value)
        limits = np.iinfo(self._numbers.dtype)
        if not limits.min <= int(value) <= limits.max:
            return 0, 0
        # Of the column's own type, else the whole column would be converted.
        sought = self._numbers.dtype.type(value)
        first = int(self._numbers.searchsorted(sought, "left"))
        return first, int(self._numbers.searchsorted(sought, "right"))

    def _range_of_text(self, value: int | str) -> tuple[int, int]:
        order = self._order

        def text(position: int) -> Any:
            return self.column[int(position)].as_py()

        first = bisect_left(order, value, key=text)
        if first == len(order) or text(order[first]) != value:
            return first, first
        if first + 1 == len(order) or text(order[first + 1]) != value:
            return first, first + 1
        return first, bisect_right(order, value, lo=first, key=text)
