"""Total order: by keys, nulls first ascending and last descending, ties by further columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranks = npt.NDArray[np.int64]


def ranks(column: pa.Array, descending: bool) -> Ranks:
    """Numbers that order like the values do; null is the least."""
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    integer = pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type)
    if integer and not column.null_count:
        numbers: Ranks = column.to_numpy(zero_copy_only=False).astype(np.int64)
        # The least integer has no opposite.
        if not descending:
            return numbers
        if not len(numbers) or int(numbers.min()) > np.iinfo(np.int64).min:
            return -numbers
    return -_dense(column) if descending else _dense(column)


def _dense(column: pa.Array) -> Ranks:
    """The place of each value among the different values."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    order = pc.array_sort_indices(column, order="ascending", null_placement="at_start")
    in_order = column.take(order)
    places = order.to_numpy(zero_copy_only=False)
    new = np.ones(len(column), np.int64)
    if len(column) > 1:
        before, after = in_order[:-1], in_order[1:]
        same = pc.or_(
            pc.fill_null(pc.equal(before, after), False),
            pc.and_(pc.is_null(before), pc.is_null(after)),
        )
        new[1:] = ~np.asarray(same.to_numpy(zero_copy_only=False), bool)
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
