"""NumPy arrays as Arrow arrays: the same as `pyarrow.array` makes of them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.compute.arrays import (
    as_arrow,
    changes,
    distinct,
    distinct_places,
    ranges,
    rows_where,
)

ARRAYS = {
    "numbers": np.arange(-3, 9),
    "small": np.arange(5, dtype=np.int8),
    "unsigned": np.array([0, 2**64 - 1], np.uint64),
    "floats": np.array([1.5, np.nan, -0.0]),
    "singles": np.array([1.5, 2.5], np.float32),
    "truths": np.array([True, False, True] * 7),
    "nothing": np.zeros(0, np.int64),
    "no_truths": np.zeros(0, bool),
    "every_other": np.arange(20)[::2],
    "backwards": np.arange(9)[::-1],
    "other_truths": (np.arange(40) % 3 == 0)[::2],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_values_are_those_of_the_array(name):
    values = ARRAYS[name]
    made = as_arrow(values)
    assert made.equals(pa.array(values)) or name == "floats"
    assert made.type == pa.array(values).type
    assert np.array_equal(made.to_numpy(zero_copy_only=False), values, equal_nan=name == "floats")
    made.validate(full=True)


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_missing_is_null(name):
    values = ARRAYS[name]
    missing = np.arange(len(values)) % 3 == 1
    made = as_arrow(values, missing)
    assert made.is_null().to_pylist() == missing.tolist()
    assert made.drop_null().equals(pa.array(values[~missing])) or name == "floats"
    made.validate(full=True)


def test_masked_arrays_are_not_loaded():
    code = (
        "import sys, numpy as np; from omnigraph.compute.arrays import as_arrow;"
        "as_arrow(np.arange(3), np.zeros(3, bool)).take(as_arrow(np.arange(1)));"
        "sys.exit('numpy.ma' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_different_numbers_are_those_of_numpy():
    chance = np.random.default_rng(5)
    for size in (0, 1, 2, 50):
        for high in (1, 3, 1000):
            one, other = chance.integers(-3, high, size), chance.integers(-3, high, size)
            assert np.array_equal(distinct(one), np.unique(one))
            assert np.array_equal(distinct(one, other), np.union1d(one, other))
            found, places = distinct_places(one)
            assert np.array_equal(found, np.unique(one))
            assert np.array_equal(found[places], one)


def test_ranges_and_changes():
    assert ranges(np.array([5, 9, 2]), np.array([2, 0, 3])).tolist() == [5, 6, 2, 3, 4]
    assert ranges(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert changes(np.array([1, 1, 2, 1])).tolist() == [True, False, True, True]
    assert changes(np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("mask", ["", "1111", "0000", "0110", "1100", "0011", "0101", "1"])
def test_rows_are_chosen_by_a_mask(mask):
    rows = pa.table({"n": range(len(mask))})
    chosen = np.array([bit == "1" for bit in mask], bool)
    assert rows_where(rows, chosen)["n"].to_pylist() == np.flatnonzero(chosen).tolist()
