"""Typed equality of whole columns: which values of two columns of the same length differ.

Null equals null and nothing else: not an empty text, not an empty list. NaN equals NaN. Zero and
minus zero are one number, as everywhere in the language. Lists are equal when they have the same
elements in the same order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bools = npt.NDArray[np.bool_]


def unequal(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> Bools:
    """Tell in which places two columns of one type have different values."""
    left, right = _array(left), _array(right)
    if not left.null_count and not right.null_count:
        return _differ(left, right)
    left_there, right_there = _bools(left.is_valid()), _bools(right.is_valid())
    found: Bools = left_there != right_there
    both = left_there & right_there
    if both.any():
        mask = pa.array(both)
        found[both] = _differ(left.filter(mask), right.filter(mask))
    return found


def _differ(left: pa.Array, right: pa.Array) -> Bools:
    """The same for columns without nulls."""
    type = left.type
    if pa.types.is_struct(type):
        found = np.zeros(len(left), bool)
        for place in range(type.num_fields):
            found |= unequal(left.field(place), right.field(place))
        return found
    if pa.types.is_nested(type):
        return _lists_differ(left, right)
    if pa.types.is_floating(type):
        both_odd = pc.and_(pc.is_nan(left), pc.is_nan(right))
        return ~_bools(pc.or_(pc.equal(left, right), both_odd))
    return _bools(pc.not_equal(left, right))


def _lists_differ(left: pa.Array, right: pa.Array) -> Bools:
    lengths, others = (pc.list_value_length(column).to_numpy() for column in (left, right))
    found: Bools = lengths != others
    same = ~found
    if same.any():
        mask = pa.array(same)
        parents = np.repeat(np.flatnonzero(same), lengths[same])
        elements = [pc.list_flatten(column.filter(mask)) for column in (left, right)]
        found[parents[unequal(*elements)]] = True
    return found


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _bools(column: pa.Array) -> Bools:
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)
