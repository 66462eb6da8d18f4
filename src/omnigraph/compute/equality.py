"""Typed equality of whole columns: which values of two columns of the same length differ.

Null equals null and nothing else: not an empty text, not an empty list. NaN equals NaN. Zero and
minus zero are one number, as everywhere in the language. Lists are equal when they have the same
elements in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, distinct, one_array

Bools = npt.NDArray[np.bool_]
#: So many elements of vectors are compared at a time: they stay near the processor meanwhile.
_TOGETHER = 1 << 17
#: Longer columns are compared piece by piece, as they lie.
_MANY = 1 << 14


def unequal(left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray) -> Bools:
    """Tell in which places two columns of one type have different values."""
    if len(left) > _MANY and (_is_chunked(left) or _is_chunked(right)):
        return np.concatenate([unequal(*parts) for parts in _pieces(left, right)])
    left, right = one_array(left), one_array(right)
    if not left.null_count and not right.null_count:
        return _differ(left, right)
    left_there, right_there = _bools(left.is_valid()), _bools(right.is_valid())
    differs: Bools = left_there != right_there
    both = left_there & right_there
    if _is_vector(left) and _is_vector(right):
        # There are elements for nulls, too.
        differs |= both & _vectors_differ(left, right)
    elif both.any():
        mask = pa.array(both)
        differs[both] = _differ(left.filter(mask), right.filter(mask))
    return differs


def _differ(left: pa.Array, right: pa.Array) -> Bools:
    """The same for columns without nulls."""
    type = left.type
    if pa.types.is_struct(type):
        differs = np.zeros(len(left), bool)
        for place in range(type.num_fields):
            differs |= unequal(left.field(place), right.field(place))
        return differs
    if _is_vector(left) and _is_vector(right):
        return _vectors_differ(left, right)
    if pa.types.is_nested(type):
        return _lists_differ(left, right)
    if pa.types.is_floating(type):
        both_odd = pc.and_(pc.is_nan(left), pc.is_nan(right))
        return ~_bools(pc.or_(pc.equal(left, right), both_odd))
    return _bools(pc.not_equal(left, right))


def _lists_differ(left: pa.Array, right: pa.Array) -> Bools:
    lengths, others = (pc.list_value_length(column).to_numpy() for column in (left, right))
    differs: Bools = lengths != others
    same = ~differs
    if same.any():
        mask = pa.array(same)
        parents = np.repeat(np.flatnonzero(same), lengths[same])
        elements = [pc.list_flatten(column.filter(mask)) for column in (left, right)]
        differs[parents[unequal(*elements)]] = True
    return differs


def _is_vector(column: pa.Array) -> bool:
    """True for lists of numbers that all have the same length, with no null in them."""
    type = column.type
    if not pa.types.is_fixed_size_list(type) or not type.list_size:
        return False
    element = type.value_type
    is_number = pa.types.is_integer(element) or pa.types.is_floating(element)
    return is_number and not column.values.null_count


def _vectors_differ(left: pa.Array, right: pa.Array) -> Bools:
    """The same for vectors, whose elements are at fixed places."""
    width = left.type.list_size
    rows, others = (
        as_numpy(column.values.slice(column.offset * width, len(column) * width)).reshape(-1, width)
        for column in (left, right)
    )
    differs = np.zeros(len(left), bool)
    step = max(1, _TOGETHER // width)
    for start in range(0, len(left), step):
        one, other = rows[start : start + step], others[start : start + step]
        unlike = one != other
        odd = (one != one) & (other != other)
        if odd.any():
            unlike &= ~odd
        # Eight of them at a time, if that is possible.
        seen = unlike if width % 8 else unlike.view(np.uint64)
        differs[start : start + step] = seen.any(axis=1)
    return differs


def _pieces(
    left: pa.Array | pa.ChunkedArray, right: pa.Array | pa.ChunkedArray
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Parts of two long columns that lie in one piece in both, so that nothing is copied."""
    columns = [c if _is_chunked(c) else pa.chunked_array([c]) for c in (left, right)]
    ends = [np.cumsum([len(chunk) for chunk in column.chunks]) for column in columns]
    start = 0
    for end in distinct(*ends).tolist():
        if end > start:
            one, other = (column.slice(start, end - start) for column in columns)
            yield one_array(one), one_array(other)
        start = end


def _is_chunked(column: pa.Array | pa.ChunkedArray) -> bool:
    return isinstance(column, pa.ChunkedArray)


def _bools(column: pa.Array) -> Bools:
    return np.asarray(column.to_numpy(zero_copy_only=False), bool)
