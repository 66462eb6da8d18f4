"""Aggregates: partial sums per block, put together at the end.

Rows may stand for many matches (weights), so a count never needs the matches themselves. Sums of
integers are exact; one that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.evaluate import Given, evaluate
from omnigraph.compute.keys import one_zero
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import Aggregate, Checked, Entity
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import ValueType
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame
from omnigraph.query.source import Source
from omnigraph.query.topology import Ints
from omnigraph.query.values import Types, Values

#: Sums are made in this type; it holds any number of 64-bit integers.
_EXACT = pa.decimal256(60, 0)
_SAFE = 2**62


@dataclass
class Grouping:
    """Groups matches by keys and computes aggregates for each group."""

    source: Source
    types: Types
    given: Given
    budget: Budget
    keys: Sequence[Checked]
    aggregates: Sequence[Aggregate]
    _partials: list[pa.Table] = field(default_factory=list)
    #: Per distinct aggregate the pairs of keys and value.
    _pairs: dict[int, list[pa.Table]] = field(default_factory=dict)
    #: Per key that is a list the lists by their texts.
    _lists: dict[int, dict[str | None, Any]] = field(default_factory=dict)

    def add(self, frame: Frame) -> None:
        """Take in a block of matches."""
        values = Values(self.source, self.types, frame)
        keys = [
            self._comparable(evaluate(key, values.columns, frame.count, self.given), place)
            for place, key in enumerate(self.keys)
        ]
        names = [f"k{n}" for n in range(len(keys))]
        weights = frame.weights if frame.weights is not None else np.ones(frame.count, np.int64)
        columns: dict[str, pa.Array] = dict(zip(names, keys, strict=True))
        steps: list[tuple[str, str]] = []
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                self._add_pairs(place, names, keys, aggregate, values, frame)
            else:
                made = self._inputs(place, aggregate, values, frame, weights)
                columns |= {name: column for name, (column, _) in made.items()}
                steps += [(name, how) for name, (_, how) in made.items()]
        columns["any"] = pa.array(np.ones(frame.count, np.int8))
        partial = _grouped(pa.table(columns), names, [*steps, ("any", "max")])
        self.budget.keep(partial.nbytes, "group")
        self._partials.append(partial)
        if len(self._partials) > 64:
            self._partials = [self._combined()]

    def finish(self) -> tuple[list[pa.Array], list[pa.Array]]:
        """The keys and the aggregates of all groups."""
        if not self._partials:
            if self.keys:
                empty = [pa.nulls(0, _arrow(key)) for key in self.keys]
                return empty, [pa.nulls(0, arrow_type(_type(a))) for a in self.aggregates]
            return [], [
                pa.array([0 if a.function == "count" else None], arrow_type(_type(a)))
                for a in self.aggregates
            ]
        table = self._combined()
        names = [f"k{n}" for n in range(len(self.keys))]
        keys = [
            self._as_given(table[name].combine_chunks(), place) for place, name in enumerate(names)
        ]
        found = []
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                found.append(self._distinct(place, aggregate, table, names))
            else:
                found.append(_finished(place, aggregate, table))
        return keys, found

    def _comparable(self, column: pa.Array, place: int) -> pa.Array:
        """Lists are grouped by their text, which Arrow can compare; zero has one sign."""
        if not pa.types.is_nested(column.type):
            return one_zero(column)
        known = self._lists.setdefault(place, {})
        values = column.to_pylist()
        texts = [None if value is None else repr(value) for value in values]
        known.update(zip(texts, values, strict=True))
        return pa.array(texts, pa.utf8())

    def _as_given(self, column: pa.Array, place: int) -> pa.Array:
        if place not in self._lists:
            return column
        known = self._lists[place]
        return pa.array([known.get(text) for text in column.to_pylist()], _arrow(self.keys[place]))

    def _combined(self) -> pa.Table:
        if len(self._partials) == 1:
            return self._partials[0]
        table = pa.concat_tables(_alike(self._partials))
        names = [f"k{n}" for n in range(len(self.keys))]
        steps = [(name, _how(name)) for name in table.column_names if name not in names]
        return _grouped(table, names, steps)

    def _inputs(
        self,
        place: int,
        aggregate: Aggregate,
        values: Values,
        frame: Frame,
        weights: Ints,
    ) -> dict[str, tuple[pa.Array, str]]:
        """What a block gives to an aggregate, by name, and how it is put together."""
        argument = aggregate.argument
        if aggregate.function == "count" and _always_there(argument):
            return {f"n{place}": (pa.array(weights), "sum")}
        column = evaluate(argument, values.columns, frame.count, self.given)
        valid = column.is_valid()
        counted = pc.if_else(valid, pa.array(weights), 0)
        match aggregate.function:
            case "count":
                return {f"n{place}": (counted, "sum")}
            case "min" | "max" as how:
                return {f"{how}{place}": (column, how)}
            case "avg":
                total = pc.multiply(pc.cast(column, pa.float64(), safe=False), pa.array(weights))
                return {f"s{place}": (total, "sum"), f"n{place}": (counted, "sum")}
            case _:
                if pa.types.is_floating(column.type):
                    total = pc.multiply(pc.cast(column, pa.float64()), pa.array(weights))
                else:
                    total = _products(column, weights)
                return {f"s{place}": (total, "sum"), f"n{place}": (counted, "sum")}

    def _add_pairs(
        self,
        place: int,
        names: list[str],
        keys: list[pa.Array],
        aggregate: Aggregate,
        values: Values,
        frame: Frame,
    ) -> None:
        argument = aggregate.argument
        if isinstance(argument, Entity):
            column = _entities(argument.variable, frame)
        else:
            column = evaluate(argument, values.columns, frame.count, self.given)
            column = self._comparable(column, len(self.keys) + place)
        table = pa.table({**dict(zip(names, keys, strict=True)), "v": column})
        table = _grouped(table.filter(column.is_valid()), [*names, "v"], [])
        self.budget.keep(table.nbytes, "group, distinct values")
        self._pairs.setdefault(place, []).append(table)

    def _distinct(
        self, place: int, aggregate: Aggregate, groups: pa.Table, names: list[str]
    ) -> pa.Array:
        pairs = _grouped(pa.concat_tables(self._pairs[place]), [*names, "v"], [])
        how = "count" if aggregate.function == "count" else aggregate.function
        column = pairs["v"]
        if how == "sum" and not pa.types.is_floating(column.type):
            pairs = pairs.set_column(len(names), "v", column.cast(_EXACT))
        how = "mean" if how == "avg" else how
        found = _grouped(pairs, names, [("v", how)])
        if not names:
            return _fitting(found["v"].combine_chunks(), aggregate)
        # Groups without a value are in `groups` only.
        keyed = groups.select(names).append_column("at", pa.array(np.arange(groups.num_rows)))
        joined = _matched(keyed, found, names)
        if how == "count":
            joined = pc.fill_null(joined, 0)
        return _fitting(joined, aggregate)


def _entities(variable: str, frame: Frame) -> pa.Array:
    """Numbers that tell nodes or edges apart: ids alone do not, when types differ."""
    positions = frame.columns[variable]
    numbers = positions << 8
    if variable in frame.kinds:
        numbers = numbers | frame.kinds[variable]
    return pa.array(numbers, mask=positions < 0)


def _matched(groups: pa.Table, found: pa.Table, names: list[str]) -> pa.Array:
    """The values of `found` in the order of the groups; null is a key like others."""
    if not found.num_rows:
        return pa.nulls(groups.num_rows, found["v"].type)
    codes = []
    both = pa.concat_tables([groups.select(names), found.select(names)])
    total = np.zeros(both.num_rows, np.int64)
    for name in names:
        encoded = both[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        total = total * (len(encoded.dictionary) + 1) + codes
        _, total = np.unique(total, return_inverse=True)
    mine, theirs = total[: groups.num_rows], total[groups.num_rows :]
    order = np.argsort(theirs)
    at = np.searchsorted(theirs[order], mine)
    known = (at < len(theirs)) & (theirs[order][np.minimum(at, len(theirs) - 1)] == mine)
    places = pa.array(order[np.minimum(at, len(theirs) - 1)], mask=~known)
    return found["v"].combine_chunks().take(places)


def _alike(partials: list[pa.Table]) -> list[pa.Table]:
    """Tables of which some have sums in a wider type, all in that type."""
    wide = {f.name for t in partials for f in t.schema if pa.types.is_decimal(f.type)}
    if not wide:
        return partials
    schema = pa.schema([(f.name, _EXACT if f.name in wide else f.type) for f in partials[0].schema])
    return [table.cast(schema) for table in partials]


def _how(name: str) -> str:
    """How partial results of a name are put together."""
    if name.startswith("min"):
        return "min"
    return "max" if name.startswith(("max", "any")) else "sum"


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
        return pc.multiply(column.cast(pa.int64()), pa.array(weights))
    times = pa.array(weights).cast(pa.decimal256(19, 0))
    return pc.multiply(column.cast(pa.decimal256(20, 0)), times).cast(_EXACT)


def _finished(place: int, aggregate: Aggregate, table: pa.Table) -> pa.Array:
    match aggregate.function:
        case "count":
            return table[f"n{place}"].combine_chunks()
        case "min" | "max" as how:
            return table[f"{how}{place}"].combine_chunks()
        case "avg":
            counts = table[f"n{place}"].combine_chunks()
            some = pc.if_else(pc.greater(counts, 0), counts, pa.scalar(None, pa.int64()))
            return pc.divide(table[f"s{place}"].combine_chunks(), some.cast(pa.float64()))
        case _:
            counts = table[f"n{place}"].combine_chunks()
            total = table[f"s{place}"].combine_chunks()
            total = pc.if_else(pc.greater(counts, 0), total, pa.scalar(None, total.type))
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


def _arrow(expression: Checked) -> pa.DataType:
    assert expression.type is not None
    return arrow_type(expression.type)
