"""Columns in the order of their values, in which single values are found at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class SortedColumn:
    """A column of integers or texts; nulls are not in it."""

    def __init__(self, column: pa.Array) -> None:
        order = pc.array_sort_indices(column)[: len(column) - column.null_count]
        self._order: npt.NDArray[np.int64] = order.to_numpy().astype(np.int64)
        self._column = column
        self._numbers: npt.NDArray[Any] | None = None
        self.bytes = self._order.nbytes
        if pa.types.is_integer(column.type):
            self._numbers = column.take(order).to_numpy()
            self.bytes += self._numbers.nbytes

    def find(self, value: int | str) -> npt.NDArray[np.int64]:
        """The positions of a value, ascending."""
        first, last = self._range(value)
        found = self._order[first:last]
        return found if last - first < 2 else np.sort(found)

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
            return self._column[int(position)].as_py()

        first = bisect_left(order, value, key=text)
        if first == len(order) or text(order[first]) != value:
            return first, first
        if first + 1 == len(order) or text(order[first + 1]) != value:
            return first, first + 1
        return first, bisect_right(order, value, lo=first, key=text)
