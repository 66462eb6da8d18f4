"""Ranks order like the values do: nulls first, whatever the type."""

from __future__ import annotations

import datetime as dt
import functools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.query.operators.ranks import numbers, ordered, ranks

LOW, HIGH = -(2**63), 2**63 - 1
UTC = dt.UTC
COLUMNS = {
    "integers": pa.array([3, None, -1, 3, 0]),
    "no_null": pa.array([3, -1, 3], pa.int32()),
    "least": pa.array([LOW, None, 0, HIGH]),
    "nearly_least": pa.array([LOW + 1, None, HIGH]),
    "low": pa.array([LOW + 2, None, HIGH]),
    "unsigned": pa.array([2**64 - 1, 0, None, 2**63], pa.uint64()),
    "floats": pa.array([1.5, -0.0, None, 0.0, math.inf, 1.5]),
    "infinite": pa.array([-math.inf, None, math.inf, 1.0]),
    "singles": pa.array([0.1, None, -2.5], pa.float32()),
    "truths": pa.array([True, None, False, True]),
    "dates": pa.array([dt.date(2020, 1, 2), None, dt.date(1960, 1, 1)]),
    "times": pa.array([dt.datetime(2020, 1, 2, tzinfo=UTC), None], pa.timestamp("ms", "UTC")),
    "texts": pa.array(["b", None, "", "a", "ä", "b"]),
    "sorted_texts": pa.array(["", "a", "a", "b"]),
    "lists": pa.array([[1.0, 2.0], None, [], [1.0], [2.0], [-0.0], [0.0], [1.0, 2.0, 0.0]]),
    "text_lists": pa.array([["b"], ["a", "z"], None, [], ["a"], ["é"]]),
    "nothing": pa.array([], pa.float64()),
    "nulls": pa.nulls(3, pa.int64()),
    "null_floats": pa.nulls(2, pa.float64()),
    "no_type": pa.nulls(2),
}


def compared(one: Any, other: Any) -> int:
    if one is None or other is None:
        return (one is not None) - (other is not None)
    return int(one > other) - int(one < other)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_ranks_compare_like_values(name, descending):
    values = COLUMNS[name].to_pylist()
    found = ranks(COLUMNS[name], descending).tolist()
    for one, mine in zip(values, found, strict=True):
        for other, theirs in zip(values, found, strict=True):
            sign = -1 if descending else 1
            assert (mine > theirs) - (mine < theirs) == sign * compared(one, other)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", [n for n in COLUMNS if not n.endswith(("texts", "lists"))])
def test_numbers_of_different_columns_compare_like_values(name, descending):
    column = COLUMNS[name]
    found = []
    for place in range(len(column)):
        parts = numbers(column[place : place + 1], nullable=True)
        found.append(tuple(int(~part[0] if descending else part[0]) for part in parts))
    values = column.to_pylist()
    for one, mine in zip(values, found, strict=True):
        for other, theirs in zip(values, found, strict=True):
            sign = -1 if descending else 1
            assert (mine > theirs) - (mine < theirs) == sign * compared(one, other)


def test_what_is_not_a_number_is_in_the_order():
    assert len(set(ranks(pa.array([1.0, math.nan, None]), False).tolist())) == 3


@pytest.mark.parametrize("name", COLUMNS)
def test_the_first_ones_are_those_of_all(name):
    column = COLUMNS[name]

    def ties(places: np.ndarray) -> list[np.ndarray]:
        return [-places]

    keys = numbers(column)
    every = ordered(keys, ties, len(column), None)
    values = column.to_pylist()

    def before(one: int, other: int) -> int:
        return compared(values[one], values[other]) or other - one

    assert every.tolist() == sorted(range(len(column)), key=functools.cmp_to_key(before))
    for wanted in range(len(column) + 1):
        first = ordered(keys, ties, len(column), wanted)
        assert first.tolist() == every.tolist()[:wanted]
