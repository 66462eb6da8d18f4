"""Which values of two columns differ, compared with what Python says about each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.compute import equality
from omnigraph.compute.equality import unequal

NAN = float("nan")
VECTORS: list[list[float] | None] = [
    None, [0.0, 1.0, 2.0], [-0.0, 1.0, 2.0], [NAN, 1.0, 2.0], [0.0, NAN, 2.0], [0.0, 1.0, 3.0],
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return one is other if None in (one, other) else one == other


@pytest.mark.parametrize("padding", [0, 5], ids=["three", "eight"])
@pytest.mark.parametrize("nulls", [True, False])
def test_vectors_are_compared_number_by_number(padding, nulls):
    vectors = [v if v is None else v + [7.0] * padding for v in VECTORS if nulls or v is not None]
    pairs = [(one, other) for one in vectors for other in vectors]
    type = pa.list_(pa.float32(), 3 + padding)
    left, right = (pa.array(list(side), type) for side in zip(*pairs, strict=True))
    expected = [not same(*pair) for pair in pairs]
    assert unequal(left, right).tolist() == expected
    # A part of a column begins within its numbers.
    assert unequal(left[3:], right[3:]).tolist() == expected[3:]


def test_a_null_inside_of_a_vector_is_no_number():
    type = pa.list_(pa.int16(), 2)
    left = pa.array([[1, None], [1, None], None, [1, 0]], type)
    right = pa.array([[1, None], [1, 0], [None, None], [1, 0]], type)
    assert unequal(left, right).tolist() == [False, True, True, False]


@pytest.mark.parametrize("type", [pa.list_(pa.float64(), 2), pa.list_(pa.float64()), pa.utf8()])
def test_long_columns_are_compared_as_they_lie(type, monkeypatch):
    monkeypatch.setattr(equality, "_MANY", 10)
    monkeypatch.setattr(equality, "_TOGETHER", 8)
    chance = np.random.default_rng(5)
    values = ["", "x", None] if pa.types.is_string(type) else [[1.0, 2.0], [1.0, NAN], None]
    left, right = ([values[n] for n in chance.integers(0, 3, 100)] for _ in range(2))
    expected = [not same(*pair) for pair in zip(left, right, strict=True)]

    def cut(column: list[Any], *ends: int) -> pa.ChunkedArray:
        starts = (0, *ends)
        parts = zip(starts, (*ends, len(column)), strict=True)
        return pa.chunked_array([pa.array(column[a:b], type) for a, b in parts], type)

    assert unequal(cut(left, 30, 30, 70), cut(right, 10, 70, 99)).tolist() == expected
    assert unequal(pa.array(left, type), cut(right, 50)).tolist() == expected
    assert unequal(cut(left), cut(right)).tolist() == expected
