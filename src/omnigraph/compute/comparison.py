"""Comparing columns and values: null on either side gives null, numbers compare by their value.

Integers compare exactly whatever their types are. An integer and a float compare as F64. An F32
column and a value without columns compare as F32, so that `weight = 0.1` finds a stored 0.1.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, as_numpy, scalar
from omnigraph.compute.datum import Datum, broadcast

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
#: The operator after its sides are exchanged.
FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_UNKNOWN = scalar(None, pa.bool_())


def compare(operator: str, left: Datum, right: Datum) -> Datum:
    """Compare with `= != < <= > >=`; lists only with the first two.

    Args:
        operator: One of the six.
        left: A column or one value.
        right: A column or one value.

    Returns:
        A Bool for each row, or one Bool when both sides are one value.
    """
    if _is_unknown(left) or _is_unknown(right):
        return _UNKNOWN
    if pa.types.is_list(left.type):
        same = _same_lists(left, right)
        return same if operator == "=" else pc.invert(same)
    if _signs_differ(left.type, right.type):
        return _compare_signs(operator, left, right)
    return _KERNELS[operator](*_aligned(left, right))


def is_in(item: Datum, lists: Datum) -> Datum:
    """Say whether an item is in a list: in its row's list, or in one list for all rows.

    Args:
        item: A column or one value.
        lists: A column of lists or one list, without nulls in them.
    """
    if _is_unknown(item) or _is_unknown(lists):
        return _UNKNOWN
    if not isinstance(lists, pa.Scalar):
        return _in_row(item, lists)
    if isinstance(item, pa.Scalar):
        item, lists = _aligned(item, lists)
        return _in_row(item, broadcast(lists, 1))[0]
    return _in_set(item, lists.values)


# --- single values ---


def _is_unknown(datum: Datum) -> bool:
    """True for a null that stands for all rows."""
    return isinstance(datum, pa.Scalar) and not datum.is_valid


def _signs_differ(a: pa.DataType, b: pa.DataType) -> bool:
    """True when no integer type holds the values of both types."""
    pairs = ((a, b), (b, a))
    return any(pa.types.is_uint64(x) and pa.types.is_signed_integer(y) for x, y in pairs)


def _compare_signs(operator: str, left: Datum, right: Datum) -> Datum:
    """Compare a U64 with a signed integer: below zero, the signed one is always less."""
    if pa.types.is_signed_integer(left.type):
        return _compare_signs(FLIPPED[operator], right, left)
    below = pc.less(right, 0)
    # A negative number wraps here, and its row is decided by `below`.
    result = _KERNELS[operator](left, right.cast(pa.uint64(), safe=False))
    # These two give null when one of their sides is null, so a null on the left stays.
    return pc.or_(result, below) if operator in ("!=", ">", ">=") else pc.and_not(result, below)


def _aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Convert two sides, values or lists, to the type in which they compare."""
    a, b = _element_type(left.type), _element_type(right.type)
    # The empty list has no type of its own, and U64 has no common type with signed integers.
    if a == b or not _is_number(a) or not _is_number(b) or _signs_differ(a, b):
        return left, right
    common = _common_type(left, right)
    return _cast(left, common), _cast(right, common)


def _cast(datum: Datum, element: pa.DataType) -> Datum:
    return datum.cast(pa.list_(element) if pa.types.is_list(datum.type) else element, safe=False)


def _common_type(left: Datum, right: Datum) -> pa.DataType:
    """Choose the type in which two different types of numbers compare."""
    a, b = _element_type(left.type), _element_type(right.type)
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        for one, other in ((left, right), (right, left)):
            if (
                pa.types.is_float32(_element_type(one.type))
                and pa.types.is_float64(_element_type(other.type))
                and isinstance(other, pa.Scalar)
                and not isinstance(one, pa.Scalar)
            ):
                return pa.float32()
        return pa.float64()
    unsigned = pa.types.is_unsigned_integer(a) and pa.types.is_unsigned_integer(b)
    return pa.uint64() if unsigned else pa.int64()


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type))


def _element_type(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_list(type) else type


# --- lists ---


def _in_set(item: pa.Array, values: pa.Array) -> pa.Array:
    """Look a column up in one list, by hashing."""
    if pa.types.is_integer(item.type) and pa.types.is_integer(values.type):
        low, high = _bounds(item.type)
        fits = pc.and_(compare(">=", values, low), compare("<=", values, high))
        values = values.filter(fits).cast(item.type)
    elif pa.types.is_floating(item.type) or pa.types.is_floating(values.type):
        narrow = pa.types.is_float32(item.type) and pa.types.is_floating(values.type)
        common = pa.float32() if narrow else pa.float64()
        # Hashing tells -0.0 from 0.0; adding zero makes them one.
        zero = scalar(0.0, common)
        item = pc.add(item.cast(common, safe=False), zero)
        values = pc.add(values.cast(common, safe=False), zero)
    elif len(values) == 0:
        # The empty list has no type of its own.
        values = pa.nulls(0, item.type)
    is_member = pc.is_in(item, value_set=values)
    return pc.if_else(pc.is_valid(item), is_member, _UNKNOWN)


def _bounds(type: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    info = np.iinfo(type.to_pandas_dtype())
    return scalar(int(info.min), type), scalar(int(info.max), type)


def _in_row(item: Datum, lists: pa.Array) -> pa.Array:
    """Compare each row's item with each element of the row's list."""
    elements, parents = _flat(lists)
    if len(elements) == 0:
        hits = np.empty(0, np.int64)
    else:
        items = item if isinstance(item, pa.Scalar) else item.take(as_arrow(parents))
        hits = parents[_true(compare("=", items, elements))]
    is_member = np.zeros(len(lists), np.bool_)
    is_member[hits] = True
    known = pc.and_(pc.is_valid(item), pc.is_valid(lists))
    return as_arrow(is_member, ~_true(known))


def _same_lists(left: Datum, right: Datum) -> Datum:
    """Compare lists element by element; only lists of one length are looked into."""
    left, right = _aligned(left, right)
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        return _same_lists(broadcast(left, 1), right)[0]
    same = pc.equal(pc.list_value_length(left), pc.list_value_length(right))
    rows = np.flatnonzero(_true(same))
    elements, parents = _flat(_rows(left, rows))
    others, _ = _flat(_rows(right, rows))
    equal = _true(same)
    equal[rows[parents[~_true(compare("=", elements, others))]]] = False
    return as_arrow(equal, ~_true(pc.is_valid(same)))


def _rows(datum: Datum, rows: np.ndarray) -> pa.Array:
    if isinstance(datum, pa.Scalar):
        return broadcast(datum, len(rows))
    return datum.take(as_arrow(rows))


def _flat(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return all elements of a column of lists, and the row of each."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return lists.flatten(), np.repeat(np.arange(len(lists)), as_numpy(lengths))


def _true(conditions: pa.Array) -> np.ndarray:
    """Return conditions as a writable mask; null is not true."""
    return np.array(pc.fill_null(conditions, False))
