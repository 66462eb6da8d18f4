"""Total order: by keys, nulls first ascending and last descending, ties by further columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, filled

#: Integers, or floats of which none is not a number.
Ranks = npt.NDArray[np.int64] | npt.NDArray[np.float64]

_LEAST = np.iinfo(np.int64).min


def ranks(column: pa.Array, descending: bool) -> Ranks:
    """Numbers that order like the values do; null is the least."""
    if len(column) == column.null_count:
        return np.zeros(len(column), np.int64)
    found = _numbers(column)
    if found is None:
        found = _dense(column)
    return -found if descending else found


def _numbers(column: pa.Array) -> Ranks | None:
    """The values themselves, when they are numbers and one is left for null; else None."""
    type = column.type
    if pa.types.is_date32(type) or pa.types.is_boolean(type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(type):
        column = column.cast(pa.int64())
    elif not _is_number(type):
        return None
    least = pc.min(column).as_py()
    if pa.types.is_floating(column.type):
        if math.isinf(least) or bool(pc.any(pc.is_nan(column)).as_py()):
            return None
        whole = filled(column.cast(pa.float64()), -math.inf)
        return np.asarray(as_numpy(whole), np.float64)
    if least <= _LEAST + 1:
        # There is none left, or the least one has no opposite.
        return None
    whole = filled(column.cast(pa.int64()), least - 1)
    return np.asarray(as_numpy(whole), np.int64)


def _is_number(type: pa.DataType) -> bool:
    """True for what NumPy compares as it is."""
    if pa.types.is_floating(type):
        return True
    return pa.types.is_integer(type) and not pa.types.is_uint64(type)


def _dense(column: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each value among the different values."""
    order = pc.array_sort_indices(column, order="ascending", null_placement="at_start")
    in_order = column.take(order)
    places = as_numpy(order)
    new = np.ones(len(column), np.int64)
    if len(column) > 1:
        before, after = in_order[:-1], in_order[1:]
        same = pc.or_(
            filled(pc.equal(before, after), False),
            pc.and_(pc.is_null(before), pc.is_null(after)),
        )
        new[1:] = ~np.asarray(as_numpy(same), bool)
    found = np.empty(len(column), np.int64)
    found[places] = np.cumsum(new)
    return found


def ordered(
    keys: Sequence[tuple[pa.Array, bool]],
    ties: Callable[[npt.NDArray[np.int64]], Sequence[pa.Array]],
    count: int,
    wanted: int | None,
) -> npt.NDArray[np.int64]:
    """The places of rows in their order.

    Args:
        keys: The columns to order by, and whether descending.
        ties: Gives further columns for some rows, by which rows are ordered that are equal in all
            keys. They may be costly, so they are asked for as few rows as possible.
        count: How many rows there are.
        wanted: How many of the first rows are needed; None is all.
    """
    numbers = [ranks(column, descending) for column, descending in keys]
    chosen = np.arange(count)
    if wanted is not None and wanted < count and numbers:
        chosen = _first(numbers, wanted)
    mine = [number[chosen] for number in numbers]
    if mine:
        order = np.lexsort(mine[::-1])
        if not _tied(mine, order):
            return chosen[order][:wanted]
    further = [ranks(column, False) for column in ties(chosen)]
    if not mine and not further:
        return chosen[:wanted]
    order = np.lexsort([*reversed(further), *reversed(mine)])
    return chosen[order][:wanted]


def _tied(numbers: Sequence[Ranks], order: npt.NDArray[np.int64]) -> bool:
    """True when rows that follow each other in an order are equal in all numbers."""
    same = np.ones(max(len(order) - 1, 0), bool)
    for number in numbers:
        there = number[order]
        same &= there[1:] == there[:-1]
    return bool(same.any())


def _first(numbers: Sequence[Ranks], wanted: int) -> npt.NDArray[np.int64]:
    """The rows that can be among the first ones: those not after the last of them by the keys."""
    first = numbers[0]
    if wanted == 0:
        return np.zeros(0, np.int64)
    last = np.partition(first, wanted - 1)[wanted - 1]
    return np.flatnonzero(first <= last)
