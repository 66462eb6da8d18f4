"""Aggregates: partial results of a block by group, and how they are put together.

Rows may stand for many matches (weights), so a count never needs the matches themselves. Sums of
integers are exact; one that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import ZERO, as_arrow, as_numpy, filled, one_array, scalar, single
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import Aggregate
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import ValueType
from omnigraph.query.operators.group_numbers import Groups
from omnigraph.query.tables import policy
from omnigraph.query.tables.large_texts import joined_tables
from omnigraph.query.tables.topology import Ints

#: What a block has for aggregates: columns by name, and how each is put together.
Inputs = dict[str, tuple[pa.Array | Ints, str]]

#: Sums are made in this type; it holds any number of 64-bit integers.
EXACT = pa.decimal256(60, 0)
_SAFE = 2**62
#: Integers up to this are exact as floats.
_FLOAT_EXACT = 2.0**53
#: What columns are called that hold one match of each group.
POSITION = "position of "
KIND = "kind of "


def partial_aggregates(groups: Groups, inputs: Inputs, count: int) -> tuple[pa.Table, Ints]:
    """The aggregates of a block by group, and for each group one of its matches."""
    if groups.alone:
        columns = {name: _as_column(column) for name, (column, _) in inputs.items()}
        return pa.table({"k": as_arrow(groups.numbers), **columns}), np.arange(count)
    if groups.size is not None and groups.size <= max(policy.DENSE_GROUPS, count):
        dense = _dense(groups.numbers, groups.size, inputs)
        if dense is not None:
            return dense
    table = pa.table(
        {
            "k": as_arrow(groups.numbers),
            "row": as_arrow(np.arange(count)),
            **{name: _as_column(column) for name, (column, _) in inputs.items()},
        }
    )
    steps = [(name, how) for name, (_, how) in inputs.items()]
    table = grouped(table, ["k"], [("row", "min"), *steps])
    rows: Ints = as_numpy(table["row"])
    return table.drop_columns("row"), rows


def _dense(numbers: Ints, size: int, inputs: Inputs) -> tuple[pa.Table, Ints] | None:
    """The same by arrays with a place for every group; None when they cannot hold the sums."""
    if size == 1:
        sums = {name: _whole_sum(column) for name, (column, how) in inputs.items() if how == "sum"}
        if len(sums) < len(inputs) or any(total is None for total in sums.values()):
            return None
        return pa.table({"k": as_arrow(np.zeros(1, np.int64)), **sums}), np.zeros(1, np.int64)
    rows = np.full(size, -1, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    present = np.flatnonzero(rows >= 0)
    columns: dict[str, pa.Array] = {}
    for name, (column, how) in inputs.items():
        exact = how == "sum" and _exact(column)
        if not exact:
            return None
        floats = isinstance(column, pa.Array) and pa.types.is_floating(column.type)
        values = as_numpy(filled(column, 0)) if isinstance(column, pa.Array) else column
        total = np.bincount(numbers, weights=values, minlength=size)[present]
        columns[name] = as_arrow(total if floats else np.rint(total).astype(np.int64))
    return pa.table({"k": as_arrow(present), **columns}), rows[present]


def _exact(column: pa.Array | Ints) -> bool:
    """True when sums of a column are exact as floats, or are floats anyway."""
    if isinstance(column, pa.Array):
        if pa.types.is_floating(column.type):
            return True
        if not pa.types.is_int64(column.type):
            return False
        column = as_numpy(filled(column, 0))
    return float(np.abs(column, dtype=np.float64).sum()) < _FLOAT_EXACT


def _whole_sum(column: pa.Array | Ints) -> pa.Array | None:
    """The sum of a whole column; None when it may not fit."""
    if isinstance(column, pa.Array):
        if pa.types.is_floating(column.type):
            return single(pc.sum(column).as_py(), pa.float64())
        if not pa.types.is_int64(column.type):
            return None
        column = as_numpy(filled(column, 0))
    if float(np.abs(column, dtype=np.float64).sum()) >= _SAFE:
        return None
    return as_arrow(np.array([column.sum()], np.int64))


def _as_column(column: pa.Array | Ints) -> pa.Array:
    return column if isinstance(column, pa.Array) else as_arrow(column)


def concatenated(partials: Sequence[pa.Table]) -> pa.Table:
    """Tables as one; if some have sums in a wider type, all in that type."""
    wide = {f.name for t in partials for f in t.schema if pa.types.is_decimal(f.type)}
    if wide:
        schema = partials[0].schema
        fields = [(f.name, EXACT if f.name in wide else f.type) for f in schema]
        partials = [table.cast(pa.schema(fields)) for table in partials]
    return joined_tables(partials)


def combined(table: pa.Table) -> pa.Table:
    """Partial results with each group once."""
    examples = [n for n in table.column_names if n.startswith((POSITION, KIND))]
    steps = [(n, _how(n)) for n in table.column_names if n != "k" and n not in examples]
    rows = table.drop_columns(examples).append_column("row", as_arrow(np.arange(len(table))))
    groups = grouped(rows, ["k"], [*steps, ("row", "min")])
    for name in examples:
        groups = groups.append_column(name, table[name].take(groups["row"]))
    return groups.drop_columns("row")


def columns_starting_with(table: pa.Table, start: str) -> dict[str, npt.NDArray[Any]]:
    """The columns whose names start with something, by the rest of their names."""
    return {
        name.removeprefix(start): as_numpy(one_array(table[name]))
        for name in table.column_names
        if name.startswith(start)
    }


def _how(name: str) -> str:
    """How partial results of a name are put together."""
    if name.startswith("min"):
        return "min"
    return "max" if name.startswith("max") else "sum"


def grouped(table: pa.Table, names: list[str], steps: list[tuple[str, str]]) -> pa.Table:
    """Each different row of some columns once, with aggregates of other columns."""
    groups = table.group_by(names).aggregate(steps)
    return groups.rename_columns(
        [n if n in names else n.rpartition("_")[0] for n in groups.column_names]
    )


def products(column: pa.Array, weights: Ints) -> pa.Array:
    """Integers times weights, in a type in which their sum is exact."""
    if len(column) == column.null_count:
        return pa.nulls(len(column), pa.int64())
    extremes = pc.min_max(column)
    largest = max(abs(int(extremes["min"].as_py())), abs(int(extremes["max"].as_py())))
    if largest * int(weights.sum()) < _SAFE:
        return pc.multiply(column.cast(pa.int64()), as_arrow(weights))
    times = as_arrow(weights).cast(pa.decimal256(19, 0))
    return pc.multiply(column.cast(pa.decimal256(20, 0)), times).cast(EXACT)


def finished(place: int, aggregate: Aggregate, table: pa.Table) -> pa.Array:
    """The values of an aggregate, from partial results with each group once."""
    match aggregate.function:
        case "count":
            return one_array(table[f"n{place}"])
        case "min" | "max" as how:
            return one_array(table[f"{how}{place}"])
        case "avg":
            counts = one_array(table[f"n{place}"])
            some = pc.if_else(pc.greater(counts, ZERO), counts, scalar(None, pa.int64()))
            return pc.divide(one_array(table[f"s{place}"]), some.cast(pa.float64()))
        case _:
            counts = one_array(table[f"n{place}"])
            total = one_array(table[f"s{place}"])
            total = pc.if_else(pc.greater(counts, ZERO), total, scalar(None, total.type))
            return fitting(total, aggregate)


def fitting(column: pa.Array, aggregate: Aggregate) -> pa.Array:
    """Sums in the type of their aggregate.

    Raises:
        UsageError: One does not fit.
    """
    try:
        return column.cast(arrow_type(type_of(aggregate)))
    except pa.ArrowInvalid:
        raise UsageError(
            f"{aggregate}: the sum does not fit into {type_of(aggregate).as_nullable(False)};"
            " sum a float, or group by more columns"
        ) from None


def type_of(aggregate: Aggregate) -> ValueType:
    """The type of an aggregate's values."""
    assert aggregate.type is not None
    return aggregate.type
