"""Aggregates: partial sums per block, put together at the end.

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
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.compute.arrays import ZERO, as_arrow, as_numpy, filled, scalar, single
from omnigraph.compute.evaluate import Bindings, evaluate
from omnigraph.compute.keys import one_zero
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import Aggregate, Checked, Entity, variables
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import ValueType
from omnigraph.query.accumulated import Accumulated
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame
from omnigraph.query.numbering import Groups, KeyNumbers, Numbering
from omnigraph.query.source import Source
from omnigraph.query.tables.topology import Ints
from omnigraph.query.values import Types, Values, identities

#: Sums are made in this type; it holds any number of 64-bit integers.
_EXACT = pa.decimal256(60, 0)
_SAFE = 2**62
#: Integers up to this are exact as floats.
_FLOAT_EXACT = 2.0**53
#: Groups are told apart by their places in an array when there can be at most this many.
_DENSE = 1 << 16
#: What columns are called that hold one match of each group.
_POSITION = "position of "
_KIND = "kind of "


class Grouping(Struct, dict=True):
    """Groups matches by keys and computes aggregates for each group."""

    source: Source
    types: Types
    given: Bindings
    budget: Budget
    keys: Sequence[Checked]
    aggregates: Sequence[Aggregate]
    #: Per distinct aggregate the pairs of group and value, or which positions were seen.
    _pairs: dict[int, Accumulated] = field(default_factory=dict)
    _seen: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = KeyNumbers(self.source, self.types, self.given, self.keys)
        self._named = frozenset(v for key in self.keys for v in variables(key))
        self._values: dict[int, Numbering] = {}
        #: For each group its number (`k`), the positions of one of its matches, and aggregates.
        self._groups = Accumulated(self.budget, "group", _combined, _concat)

    def add(self, frame: Frame) -> None:
        """Take in a block of matches."""
        values = Values(self.source, self.types, frame)
        groups = Groups(np.zeros(frame.count, np.int64), 1)
        if self.keys:
            groups = self._numbers.groups(frame, values)
        made: dict[str, tuple[pa.Array | Ints, str]] = {}
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                self._add_distinct(place, groups, aggregate, values, frame)
            else:
                made |= self._inputs(place, aggregate, values, frame)
        partial, rows = _partial(groups, made, frame.count)
        if self.keys:
            example = replace(frame.only(self._named), weights=None).take(rows)
            for name, column in example.columns.items():
                partial = partial.append_column(_POSITION + name, as_arrow(column))
            for name, kinds in example.kinds.items():
                partial = partial.append_column(_KIND + name, as_arrow(kinds))
        self._groups.add(partial)

    def finish(self) -> tuple[Frame, list[pa.Array]]:
        """A match of each group, by which its keys are told, and the aggregates."""
        table = self._groups.finish()
        if table is None:
            if self.keys:
                nothing = np.zeros(0, np.int64)
                kinds = {v: np.zeros(0, np.int8) for v in self._named if len(self.types[v]) > 1}
                return Frame(0, dict.fromkeys(self._named, nothing), kinds), [
                    pa.nulls(0, arrow_type(_type(a))) for a in self.aggregates
                ]
            return Frame(1, {}, {}), [
                single(0 if a.function == "count" else None, arrow_type(_type(a)))
                for a in self.aggregates
            ]
        found = []
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                found.append(self._distinct(place, aggregate, table))
            else:
                found.append(_finished(place, aggregate, table))
        example = Frame(
            table.num_rows, _starting_with(table, _POSITION), _starting_with(table, _KIND)
        )
        return example, found

    def _inputs(
        self, place: int, aggregate: Aggregate, values: Values, frame: Frame
    ) -> dict[str, tuple[pa.Array | Ints, str]]:
        """What a block gives to an aggregate, by name, and how it is put together."""
        argument = aggregate.argument
        weights = frame.weights if frame.weights is not None else np.ones(frame.count, np.int64)
        if aggregate.function == "count" and _always_there(argument):
            return {f"n{place}": (weights, "sum")}
        column = evaluate(argument, values.columns, frame.count, self.given)
        if aggregate.function in ("min", "max"):
            return {f"{aggregate.function}{place}": (column, aggregate.function)}
        counted = weights
        if column.null_count:
            counted = weights * np.asarray(as_numpy(column.is_valid()))
        counts: dict[str, tuple[pa.Array | Ints, str]] = {f"n{place}": (counted, "sum")}
        if aggregate.function == "count":
            return counts
        total: pa.Array | Ints
        if aggregate.function == "avg" or pa.types.is_floating(column.type):
            numbers = pc.cast(column, pa.float64(), safe=False)
            total = pc.multiply(numbers, as_arrow(weights.astype(np.float64)))
        else:
            total = _products(column, weights)
        return counts | {f"s{place}": (total, "sum")}

    def _add_distinct(
        self, place: int, groups: Groups, aggregate: Aggregate, values: Values, frame: Frame
    ) -> None:
        argument = aggregate.argument
        if isinstance(argument, Entity):
            types = self.types[argument.variable]
            if not self.keys and len(types) == 1:
                seen = self._seen.get(place)
                if seen is None:
                    seen = np.zeros(self.source.image(types[0]).size + 1, bool)
                    self._seen[place] = seen
                # The last place is for null.
                seen[frame.columns[argument.variable]] = True
                return
            column = identities(self.source, types, argument.variable, frame)
        else:
            column = one_zero(evaluate(argument, values.columns, frame.count, self.given))
            if pa.types.is_nested(column.type):
                numbers = self._values.setdefault(place, Numbering()).numbers(column)
                column = as_arrow(numbers, as_numpy(column.is_null()))
        table = pa.table({"k": as_arrow(groups.numbers), "v": column})
        table = _grouped(table.filter(column.is_valid()), ["k", "v"], [])
        if place not in self._pairs:
            self._pairs[place] = Accumulated(self.budget, "group, distinct values", _pairs_once)
        self._pairs[place].add(table)

    def _distinct(self, place: int, aggregate: Aggregate, groups: pa.Table) -> pa.Array:
        if place in self._seen:
            return as_arrow(np.array([np.count_nonzero(self._seen[place][:-1])], np.int64))
        pairs = self._pairs[place].finish()
        assert pairs is not None
        how = aggregate.function
        column = pairs["v"]
        if how == "sum" and not pa.types.is_floating(column.type):
            pairs = pairs.set_column(1, "v", column.cast(_EXACT))
        found = _grouped(pairs, ["k"], [("v", "mean" if how == "avg" else how)])
        # Groups without a value are in `groups` only.
        at = pc.index_in(groups["k"].combine_chunks(), value_set=found["k"].combine_chunks())
        joined = found["v"].combine_chunks().take(at)
        if how == "count":
            joined = filled(joined, 0)
        return _fitting(joined, aggregate)


def _partial(
    groups: Groups, made: dict[str, tuple[pa.Array | Ints, str]], count: int
) -> tuple[pa.Table, Ints]:
    """The aggregates of a block by group, and for each group one of its matches."""
    if groups.alone:
        columns = {name: _totals(column) for name, (column, _) in made.items()}
        return pa.table({"k": as_arrow(groups.numbers), **columns}), np.arange(count)
    if groups.size is not None and groups.size <= max(_DENSE, count):
        found = _dense(groups.numbers, groups.size, made)
        if found is not None:
            return found
    table = pa.table(
        {
            "k": as_arrow(groups.numbers),
            "row": as_arrow(np.arange(count)),
            **{name: _totals(column) for name, (column, _) in made.items()},
        }
    )
    steps = [(name, how) for name, (_, how) in made.items()]
    table = _grouped(table, ["k"], [("row", "min"), *steps])
    rows: Ints = as_numpy(table["row"])
    return table.drop_columns("row"), rows


def _dense(
    numbers: Ints, size: int, made: dict[str, tuple[pa.Array | Ints, str]]
) -> tuple[pa.Table, Ints] | None:
    """The same by arrays with a place for every group; None when they cannot hold the sums."""
    if size == 1:
        sums = {name: _whole_sum(column) for name, (column, how) in made.items() if how == "sum"}
        if len(sums) < len(made) or any(total is None for total in sums.values()):
            return None
        return pa.table({"k": as_arrow(np.zeros(1, np.int64)), **sums}), np.zeros(1, np.int64)
    rows = np.full(size, -1, np.int64)
    rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    there = np.flatnonzero(rows >= 0)
    columns: dict[str, pa.Array] = {}
    for name, (column, how) in made.items():
        exact = how == "sum" and _exact(column)
        if not exact:
            return None
        floats = isinstance(column, pa.Array) and pa.types.is_floating(column.type)
        values = as_numpy(filled(column, 0)) if isinstance(column, pa.Array) else column
        total = np.bincount(numbers, weights=values, minlength=size)[there]
        columns[name] = as_arrow(total if floats else np.rint(total).astype(np.int64))
    return pa.table({"k": as_arrow(there), **columns}), rows[there]


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


def _totals(column: pa.Array | Ints) -> pa.Array:
    return column if isinstance(column, pa.Array) else as_arrow(column)


def _concat(partials: Sequence[pa.Table]) -> pa.Table:
    """Tables as one; if some have sums in a wider type, all in that type."""
    wide = {f.name for t in partials for f in t.schema if pa.types.is_decimal(f.type)}
    if wide:
        schema = partials[0].schema
        fields = [(f.name, _EXACT if f.name in wide else f.type) for f in schema]
        partials = [table.cast(pa.schema(fields)) for table in partials]
    return pa.concat_tables(partials)


def _combined(table: pa.Table) -> pa.Table:
    """Partial results with each group once."""
    examples = [n for n in table.column_names if n.startswith((_POSITION, _KIND))]
    steps = [(n, _how(n)) for n in table.column_names if n != "k" and n not in examples]
    rows = table.drop_columns(examples).append_column("row", as_arrow(np.arange(len(table))))
    made = _grouped(rows, ["k"], [*steps, ("row", "min")])
    for name in examples:
        made = made.append_column(name, table[name].take(made["row"]))
    return made.drop_columns("row")


def _pairs_once(table: pa.Table) -> pa.Table:
    return _grouped(table, ["k", "v"], [])


def _starting_with(table: pa.Table, start: str) -> dict[str, npt.NDArray[Any]]:
    """The columns whose names start with something, by the rest of their names."""
    return {
        name.removeprefix(start): as_numpy(table[name].combine_chunks())
        for name in table.column_names
        if name.startswith(start)
    }


def _how(name: str) -> str:
    """How partial results of a name are put together."""
    if name.startswith("min"):
        return "min"
    return "max" if name.startswith("max") else "sum"


def _grouped(table: pa.Table, names: list[str], steps: list[tuple[str, str]]) -> pa.Table:
    made = table.group_by(names).aggregate(steps)
    return made.rename_columns(
        [n if n in names else n.rpartition("_")[0] for n in made.column_names]
    )


def _products(column: pa.Array, weights: Ints) -> pa.Array:
    """Integers times weights, in a type in which their sum is exact."""
    if len(column) == column.null_count:
        return pa.nulls(len(column), pa.int64())
    extremes = pc.min_max(column)
    largest = max(abs(int(extremes["min"].as_py())), abs(int(extremes["max"].as_py())))
    if largest * int(weights.sum()) < _SAFE:
        return pc.multiply(column.cast(pa.int64()), as_arrow(weights))
    times = as_arrow(weights).cast(pa.decimal256(19, 0))
    return pc.multiply(column.cast(pa.decimal256(20, 0)), times).cast(_EXACT)


def _finished(place: int, aggregate: Aggregate, table: pa.Table) -> pa.Array:
    match aggregate.function:
        case "count":
            return table[f"n{place}"].combine_chunks()
        case "min" | "max" as how:
            return table[f"{how}{place}"].combine_chunks()
        case "avg":
            counts = table[f"n{place}"].combine_chunks()
            some = pc.if_else(pc.greater(counts, ZERO), counts, scalar(None, pa.int64()))
            return pc.divide(table[f"s{place}"].combine_chunks(), some.cast(pa.float64()))
        case _:
            counts = table[f"n{place}"].combine_chunks()
            total = table[f"s{place}"].combine_chunks()
            total = pc.if_else(pc.greater(counts, ZERO), total, scalar(None, total.type))
            return _fitting(total, aggregate)


def _fitting(column: pa.Array, aggregate: Aggregate) -> pa.Array:
    try:
        return column.cast(arrow_type(_type(aggregate)))
    except pa.ArrowInvalid:
        raise UsageError(
            f"{aggregate}: the sum does not fit into {_type(aggregate).as_nullable(False)};"
            " sum a float, or group by more columns"
        ) from None


def _always_there(argument: Checked) -> bool:
    return isinstance(argument, Entity) and argument.type is not None and not argument.type.nullable


def _type(aggregate: Aggregate) -> ValueType:
    assert aggregate.type is not None
    return aggregate.type
