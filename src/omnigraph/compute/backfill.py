"""The values that a step of a schema's plan gives the rows of a table.

Everything is computed on whole columns. A value that does not fit is a fault that names its row.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, scalar
from omnigraph.compute.datum import ComputeFault, at_row, broadcast
from omnigraph.compute.evaluate import Bindings, evaluate
from omnigraph.compute.numbers import fit
from omnigraph.language.query.expressions import Checked, Column, Entity, PropertyOf, walk
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.steps import Step
from omnigraph.language.types import ValueType
from omnigraph.language.values import show

#: The columns of an edge's ends, by their names in expressions.
_ENDS = {"from": "src", "to": "dst"}


def backfill_columns(step: Step) -> tuple[str, ...]:
    """Name the columns of the accepted table that `backfill_values` reads."""
    names = dict.fromkeys([step.old_property] if step.old_property is not None else [])
    if step.fill is not None and step.fill.backfill is not None:
        for part in walk(step.fill.backfill):
            if isinstance(part, Column):
                names[_column(step, part.name)] = None
    return tuple(names)


def backfill_values(step: Step, rows: pa.Table, *, now: dt.datetime) -> pa.Array:
    """Compute the values of a property after a step, for rows as they are before it.

    A property that is there keeps its values, in its new type. Where there is none, the backfill
    gives one, and where that gives none either, the default does.

    Args:
        step: An `add_property`, `tighten` or `widen_type`; they all give the same for one property
            of a plan, but only the first two know what to fill nulls with.
        rows: Rows of the accepted table, with at least `backfill_columns(step)`.
        now: The moment of the change, the same for all rows.

    Returns:
        A column in the Arrow type of the property.

    Raises:
        ComputeFault: A value does not fit, or is null and must not be.
    """
    target = step.target
    if target is None:
        raise ValueError(f"a step {step.kind} changes no values")
    type = target.type
    if step.old_property is None:
        values = pa.nulls(rows.num_rows, arrow_type(type))
    else:
        values = fit(_whole(rows.column(step.old_property)), type)
    fill = step.fill
    if fill is not None and fill.backfill is not None:
        values = _filled(values, fill.backfill, step, rows, now)
    if fill is not None and fill.has_default and values.null_count:
        default = scalar(fill.default, arrow_type(type))
        values = _replaced(values, broadcast(default, values.null_count))
    if fill is not None:
        _check(values, target.name, type)
    return values


def _filled(
    values: pa.Array, backfill: Checked, step: Step, rows: pa.Table, now: dt.datetime
) -> pa.Array:
    """Values with those of the backfill where there are none."""
    assert step.target is not None
    missing = values.is_null()
    if values.null_count == 0:
        return values
    rest = rows if values.null_count == len(values) else rows.filter(missing)

    def columns(named: Column | PropertyOf | Entity) -> pa.Array:
        assert isinstance(named, Column)
        return _whole(rest.column(_column(step, named.name)))

    try:
        computed = evaluate(backfill, columns, rest.num_rows, Bindings({}, now))
        # A null literal has no type of its own.
        computed = fit(computed, step.target.type)
    except ComputeFault as fault:
        places = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
        row = None if fault.row is None else int(places[fault.row])
        raise ComputeFault(f"`{step.target.name}`: {fault.message}", row) from None
    return _replaced(values, computed)


def _replaced(values: pa.Array, others: pa.Array) -> pa.Array:
    """Values with others in the places of nulls, one after the other; for every Arrow type."""
    if values.null_count == len(values):
        return others
    missing = values.is_null().to_numpy(zero_copy_only=False)
    order = np.arange(len(values))
    order[missing] = len(values) + np.arange(len(others))
    return pa.concat_arrays([values, others]).take(as_arrow(order))


def _check(values: pa.Array, name: str, type: ValueType) -> None:
    if not type.nullable and values.null_count:
        row = pc.index(values.is_null(), True).as_py()
        raise ComputeFault(f"`{name}` would be null, and it is {type.noun}", row)
    if type.values is not None:
        allowed = pc.is_in(values, value_set=pa.array(type.values, pa.utf8()), skip_nulls=False)
        wrong = pc.and_(pc.invert(allowed), values.is_valid())
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            raise ComputeFault(f"`{name}`: {show(at_row(values, row))} is not {type.noun}", row)


def _column(step: Step, name: str) -> str:
    return _ENDS.get(name, name) if step.owner == "edge" else name


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
