"""Values found in a sorted column are those found by looking at all of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.query.tables.sorted import SortedColumn

COLUMNS = {
    "i32": pa.array([5, None, -7, 5, 2**31 - 1, 0, -(2**31)], pa.int32()),
    "i64": pa.array([2**63 - 1, 1, 1, None, -(2**63), 1], pa.int64()),
    "u64": pa.array([2**64 - 1, 0, 2**64 - 1], pa.uint64()),
    "text": pa.array(["b", "", None, "ä", "b", "\U0001f600", "ab", "b", "\uffff"]),
    "nothing": pa.array([], pa.int64()),
    "no_text": pa.array([], pa.utf8()),
    "nulls": pa.nulls(3, pa.utf8()),
}
LARGE = (2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64)
NUMBERS = (0, 1, 5, -7, -(2**31) - 1, -(2**63), *LARGE)
TEXTS = ("", "a", "ab", "b", "ba", "ä", "\U0001f600", "\uffff", "zz")


@pytest.mark.parametrize("name", COLUMNS)
def test_positions_of_a_value(name):
    column = COLUMNS[name]
    made = SortedColumn(column)
    plain = column.to_pylist()
    for value in NUMBERS if pa.types.is_integer(column.type) else TEXTS:
        expected = [place for place, other in enumerate(plain) if other == value]
        assert made.find(value).tolist() == expected, value


def test_random_columns():
    chance = np.random.default_rng(3)
    for _ in range(30):
        numbers = chance.integers(0, 50, int(chance.integers(1, 200)))
        column = pa.array(numbers, mask=chance.random(len(numbers)) < 0.2)
        for made in (column, column.cast(pa.utf8())):
            held = SortedColumn(made)
            for value in range(51):
                wanted = value if made is column else str(value)
                expected = [n for n, other in enumerate(made.to_pylist()) if other == wanted]
                assert held.find(wanted).tolist() == expected
