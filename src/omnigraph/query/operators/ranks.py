"""Ranks: numbers that order as values do, and a total order by them.

Nulls come first ascending and last descending; ties are broken by further columns.

Values are ordered by numbers. Those of numbers, dates and truth values are comparable with the
numbers of every other column of the type; those of texts and lists only within their column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, filled
from omnigraph.compute.lists import sortable

Ints = npt.NDArray[np.int64]

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
#: How many bits numbers that are not negative have.
_BITS = 63


def numbers(column: pa.Array, *, nullable: bool | None = None) -> list[Ints]:
    """Numbers that order like the values do, the most significant first; null is the least.

    Args:
        column: The values.
        nullable: Whether other columns, whose numbers are compared with these, may have nulls;
            None when there are no others.
    """
    type = column.type
    if pa.types.is_null(type):
        return [np.zeros(len(column), np.int64)]
    if pa.types.is_floating(type):
        return [_float_numbers(column)]
    if pa.types.is_int64(type) or pa.types.is_uint64(type):
        return _wide_numbers(column, nullable)
    if pa.types.is_date32(type) or pa.types.is_boolean(type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(type):
        column = column.cast(pa.int64())
    elif not pa.types.is_integer(type):
        return [dense_ranks(column)]
    # Neither dates nor narrow integers have the least of all numbers.
    return [as_numpy(filled(column.cast(pa.int64()), _LEAST))]


def ranks(column: pa.Array, descending: bool) -> Ints:
    """One number for each value of a column, which order like the values do."""
    several = numbers(column)
    one = several[0] if len(several) == 1 else dense_ranks(column)
    return ~one if descending else one


def _wide_numbers(column: pa.Array, nullable: bool | None) -> list[Ints]:
    values: Ints
    if pa.types.is_uint64(column.type):
        values = (as_numpy(filled(column, 0)) ^ np.uint64(1 << 63)).view(np.int64)
    else:
        values = as_numpy(filled(column, _LEAST))
    if not column.null_count:
        return [np.ones(len(values), np.int64), values] if nullable else [values]
    valid = as_numpy(column.is_valid())
    if nullable is None:
        if not (values[valid] == _LEAST).any():
            return [np.where(valid, values, _LEAST)]
        nullable = True
    return [valid.astype(np.int64), np.where(valid, values, 0)] if nullable else [values]


def _float_numbers(column: pa.Array) -> Ints:
    """The bits of floats, turned so that they order as integers; what is no number follows null."""
    values = as_numpy(filled(column.cast(pa.float64()), 0.0)) + 0.0
    bits = values.view(np.int64)
    turned: Ints = bits ^ ((bits >> 63) & np.int64(np.iinfo(np.int64).max))
    turned[np.isnan(values)] = _LEAST + 1
    if column.null_count:
        turned[as_numpy(column.is_null())] = _LEAST
    return turned


def dense_ranks(column: pa.Array) -> Ints:
    """The place of each value among the different values, from 1; 0 is null."""
    if pa.types.is_nested(column.type):
        column = sortable(column)
    if len(column) < 2:
        return as_numpy(column.is_valid()).astype(np.int64)
    places: Ints | None = None
    in_order = column
    before, after = column[:-1], column[1:]
    if column.null_count or not pc.all(pc.less_equal(before, after)).as_py():
        order = pc.array_sort_indices(column, order="ascending", null_placement="at_start")
        in_order = column.take(order)
        places = as_numpy(order)
        before, after = in_order[:-1], in_order[1:]
    new = np.empty(len(column), np.int64)
    new[0] = in_order[0].is_valid
    # One that follows a null is new, and a null never is.
    new[1:] = as_numpy(filled(pc.not_equal(before, after), True)) & as_numpy(after.is_valid())
    in_order_ranks = np.cumsum(new)
    if places is None:
        return in_order_ranks
    ranks = np.empty(len(column), np.int64)
    ranks[places] = in_order_ranks
    return ranks


def ordered(
    keys: Sequence[Ints],
    ties: Callable[[Ints], Sequence[Ints]],
    count: int,
    wanted: int | None,
) -> Ints:
    """The places of rows in their order.

    Args:
        keys: The numbers to order by.
        ties: Returns further numbers for some rows, by which rows are ordered that are equal in
            all keys. They may be costly, so they are asked for as few rows as possible.
        count: How many rows there are.
        wanted: How many of the first rows are needed; None is all.
    """
    chosen = np.arange(count)
    if wanted is not None and wanted < count and keys:
        chosen = _first(keys, wanted)
    mine = [number[chosen] for number in keys]
    if mine:
        order = sort_order(mine)
        same = _same_as_before(mine, order)
        if not same.any():
            return chosen[order][:wanted]
        # Only rows that are equal to a neighbour are ordered further; the others stay.
        tied = same.copy()
        tied[:-1] |= same[1:]
        rows = np.flatnonzero(tied)
        group = np.cumsum(~same)[rows]
        further = ties(chosen[order[rows]])
        order[rows] = order[rows][np.lexsort([*reversed(further), group])]
        return chosen[order][:wanted]
    further = ties(chosen)
    if not further:
        return chosen[:wanted]
    return chosen[np.lexsort(list(reversed(further)))][:wanted]


def sort_order(keys: Sequence[Ints]) -> Ints:
    """The places of rows in the order of their keys; equal ones in any."""
    words = keys if len(keys) == 1 else _packed(keys)
    order: Ints = np.argsort(words[0], kind="stable")
    if len(words) > 1:
        same = _same_as_before(words[:1], order)
        if same.any():
            tied = same.copy()
            tied[:-1] |= same[1:]
            rows = np.flatnonzero(tied)
            group = np.cumsum(~same)[rows]
            further = [word[order[rows]] for word in reversed(words[1:])]
            order[rows] = order[rows][np.lexsort([*further, group])]
    return order


def _packed(keys: Sequence[Ints]) -> list[Ints]:
    """The same order by as few numbers as possible: a key with few values takes few bits."""
    words: list[Ints] = []
    free = 0
    for key in keys:
        low = int(key.min(initial=_MOST))
        high = int(key.max(initial=_LEAST))
        bits = max(high - low, 0).bit_length()
        if bits > _BITS:
            words.append(key)
            free = 0
        elif words and bits <= free:
            words[-1] = (words[-1] << bits) | (key - low)
            free -= bits
        else:
            words.append(key - low)
            free = _BITS - bits
    return words


def _same_as_before(numbers: Sequence[Ints], order: Ints) -> npt.NDArray[np.bool_]:
    """Which rows of an order are equal to the one before in all numbers."""
    same = np.ones(len(order), bool)
    same[:1] = False
    for number in numbers:
        in_order = number[order]
        same[1:] &= in_order[1:] == in_order[:-1]
    return same


def _first(keys: Sequence[Ints], wanted: int) -> Ints:
    """The rows that can be among the first ones: those not after the last of them by the keys."""
    if wanted == 0:
        return np.zeros(0, np.int64)
    first = keys[0]
    last = np.partition(first, wanted - 1)[wanted - 1]
    return np.flatnonzero(first <= last)
