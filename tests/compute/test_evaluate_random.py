"""Random expressions on random tables mean what the plain reference says."""

from __future__ import annotations

import random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.compute.evaluate import ComputeFault, evaluate, matches, value
from omnigraph.language.schema.arrow import arrow_type
from tests.compute.expressions import arrow, columns_of, conditions, table, values
from tests.compute.reference import Fault, compute, is_known

ROWS = 12
TABLES = [table(random.Random(seed).choice, ROWS) for seed in range(40)]
ARROW = [arrow(t) for t in TABLES]
#: The same rows as slices of chunks, for what forgets offsets.
SLICED = [pa.concat_tables([t.slice(0, 5), t.slice(5)]) for t in ARROW]


def expected(expression, data, given_):
    """The reference's values, and the rows that have none."""
    results, faults = [], set()
    for row in range(ROWS):
        try:
            results.append(compute(expression, {n: v[row] for n, v in data.items()}, given_))
        except Fault:
            faults.add(row)
    return results, faults


def check(expression, given_, which, run):
    wanted, faults = expected(expression, TABLES[which], given_)
    try:
        got = run(expression, columns_of(SLICED[which]), ROWS, given_)
    except ComputeFault as fault:
        assert faults and (fault.row is None or fault.row in faults), fault.message
        return None, wanted
    assert not faults
    assert len(got) == ROWS
    return got, wanted


@settings(max_examples=600)
@given(conditions(), st.integers(0, len(TABLES) - 1))
def test_conditions_match_the_rows_of_the_reference(drawn, which):
    condition, given_ = drawn
    got, wanted = check(condition, given_, which, matches)
    if got is not None:
        assert got.null_count == 0
        assert got.to_pylist() == [w is True for w in wanted]


@settings(max_examples=400)
@given(values(), st.integers(0, len(TABLES) - 1))
def test_values_are_those_of_the_reference(drawn, which):
    expression, given_ = drawn
    got, wanted = check(expression, given_, which, evaluate)
    if got is not None:
        assert got.type == arrow_type(expression.type)
        assert got.to_pylist() == wanted


@settings(max_examples=200)
@given(values())
def test_a_value_without_columns_is_the_same_alone(drawn):
    expression, given_ = drawn
    if not is_known(expression):
        return
    try:
        wanted = compute(expression, {}, given_)
    except Fault:
        wanted = Fault
    try:
        got = value(expression, given_)
    except ComputeFault as fault:
        assert fault.row is None
        got = Fault
    assert got == wanted and type(got) is type(wanted)
