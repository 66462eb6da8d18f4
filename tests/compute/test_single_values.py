"""Arrays and single values, made without what takes long to load: the same as PyArrow makes."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.compute.arrays import as_arrow, as_numpy, filled, scalar, single

VALUES: list[tuple[Any, pa.DataType]] = [
    (None, pa.utf8()),
    (None, pa.int64()),
    (None, pa.list_(pa.utf8())),
    ("", pa.utf8()),
    ("Zoë 🙂 a\0b", pa.utf8()),
    (True, pa.bool_()),
    (False, pa.bool_()),
    (0, pa.int8()),
    (-(2**63), pa.int64()),
    (2**64 - 1, pa.uint64()),
    (7, pa.float64()),
    (1.5, pa.float64()),
    (1.5, pa.float32()),
    (-0.0, pa.float64()),
    (math.inf, pa.float64()),
    (dt.date(1815, 12, 10), pa.date32()),
    (dt.date(9999, 12, 31), pa.date32()),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("ms", "UTC")),
    ([1, 2], pa.list_(pa.int64())),
    ({"uri": "x"}, pa.struct([("uri", pa.utf8())])),
]


@pytest.mark.parametrize(("value", "type"), VALUES)
def test_one_value_is_what_pyarrow_makes_of_it(value: Any, type: pa.DataType) -> None:
    assert single(value, type).equals(pa.array([value], type))
    found = scalar(value, type)
    assert found.equals(pa.scalar(value, type)) and found.type == type
    assert repr(found.as_py()) == repr(pa.scalar(value, type).as_py())


@pytest.mark.parametrize(
    ("value", "type"),
    [(2**63, pa.int64()), (-1, pa.uint8()), ("x", pa.int64()), (1, pa.utf8())],
)
def test_a_value_that_does_not_fit_is_refused_as_by_pyarrow(value: Any, type: pa.DataType) -> None:
    with pytest.raises((pa.ArrowException, OverflowError, TypeError)) as wanted:
        pa.scalar(value, type)
    with pytest.raises(wanted.type):
        scalar(value, type)


ARRAYS = [
    pa.array([1, 2, 3], pa.int8()),
    pa.array([2**64 - 1], pa.uint64()),
    pa.array([1.5, math.nan], pa.float32()),
    pa.array([1, None, 3], pa.int64()),
    pa.array([True, False, True] * 7),
    pa.array([True, None]),
    pa.array([dt.date(1815, 12, 10), dt.date(2026, 1, 1)]),
    pa.array([dt.date(2026, 1, 1), None]),
    pa.array([dt.datetime(2026, 1, 1, 1, 2, 3, 4)], pa.timestamp("us")),
    pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("ms", "UTC")),
    pa.array(["a", "", None]),
    pa.array(["a", "b"]),
    *(pa.nulls(0, type) for type in (pa.int32(), pa.bool_(), pa.utf8(), pa.date32())),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.type}-{len(array)}")
@pytest.mark.parametrize("start", [0, 1])
def test_columns_are_what_pyarrow_makes_of_them(array: pa.Array, start: int) -> None:
    array = array[start:]
    chunked = pa.chunked_array([array])
    double = pa.chunked_array([array, array], array.type)
    for values in (array, chunked, double, pa.chunked_array([], array.type)):
        found, wanted = as_numpy(values), values.to_numpy(zero_copy_only=False)
        assert found.dtype == wanted.dtype
        assert repr(found.tolist()) == repr(wanted.tolist())


def test_numbers_are_not_copied() -> None:
    array = as_arrow(np.arange(10))
    assert as_numpy(array[2:]).ctypes.data == array.buffers()[1].address + 16


def test_nulls_are_filled_and_without_nulls_nothing_is_copied() -> None:
    column = pa.array([1, 2])
    assert filled(column, 0) is column
    assert filled(pa.array([1, None]), 0).to_pylist() == [1, 0]
    assert filled(pa.array(["a", None]), "").to_pylist() == ["a", ""]
    assert filled(pa.array([True, None]), False).to_pylist() == [True, False]
