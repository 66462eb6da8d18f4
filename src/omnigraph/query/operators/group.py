"""Group: divides matches by keys, and computes aggregates for each group.

Each block adds partial aggregates, which are put together now and then. Of a group, one match is
remembered, from which its keys are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.compute.arrays import as_arrow, as_numpy, filled, single
from omnigraph.compute.evaluate import evaluate
from omnigraph.compute.keys import one_zero
from omnigraph.language.query.expressions import (
    Aggregate,
    Checked,
    Column,
    Entity,
    PropertyOf,
    variables,
)
from omnigraph.language.query.plan import Output
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.query.frames import Frame
from omnigraph.query.operators.accumulate import Accumulated
from omnigraph.query.operators.aggregate import (
    EXACT,
    KIND,
    POSITION,
    Inputs,
    columns_starting_with,
    combined,
    concatenated,
    finished,
    fitting,
    grouped,
    partial_aggregates,
    products,
    type_of,
)
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.group_numbers import Groups, KeyNumbers, Numbering
from omnigraph.query.operators.ranks import Ints
from omnigraph.query.substitution import Substitutes, substitute
from omnigraph.query.tables.large_texts import in_one_piece, take
from omnigraph.query.values import Values, identities, in_parts, properties_in


class Grouping(Struct, dict=True):
    """Groups matches by keys and computes aggregates for each group."""

    context: Context
    keys: Sequence[Checked]
    aggregates: Sequence[Aggregate]
    #: Per distinct aggregate the pairs of group and value, or which positions were seen.
    _pairs: dict[int, Accumulated] = field(default_factory=dict)
    _seen: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = KeyNumbers(self.context, self.keys)
        self._named = frozenset(v for key in self.keys for v in variables(key))
        arguments = [aggregate.argument for aggregate in self.aggregates]
        self._properties = properties_in(*self._numbers.looked_at(), *arguments)
        self._values: dict[int, Numbering] = {}
        #: For each group its number (`k`), the positions of one of its matches, and aggregates.
        self._groups = Accumulated(self.context.budget, "group", combined, concatenated)

    def add(self, frame: Frame) -> None:
        """Take in a block of matches."""
        context = self.context
        for part in in_parts(context.source, context.types, frame, self._properties):
            self._add(part)

    def _add(self, frame: Frame) -> None:
        values = Values(self.context.source, self.context.types, frame)
        groups = Groups(np.zeros(frame.count, np.int64), 1)
        if self.keys:
            groups = self._numbers.groups(frame, values)
        inputs: Inputs = {}
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                self._add_distinct(place, groups, aggregate, values, frame)
            else:
                inputs |= self._inputs(place, aggregate, values, frame)
        partial, rows = partial_aggregates(groups, inputs, frame.count)
        if self.keys:
            example = replace(frame.only(self._named), weights=None).take(rows)
            for name, column in example.columns.items():
                partial = partial.append_column(POSITION + name, as_arrow(column))
            for name, kinds in example.kinds.items():
                partial = partial.append_column(KIND + name, as_arrow(kinds))
        self._groups.add(partial)

    def finish(self) -> tuple[Frame, list[pa.Array]]:
        """A match of each group, from which its keys follow, and the aggregates."""
        table = self._groups.finish()
        if table is None:
            if self.keys:
                nothing = np.zeros(0, np.int64)
                kinds = {
                    v: np.zeros(0, np.int8) for v in self._named if len(self.context.types[v]) > 1
                }
                return Frame(0, dict.fromkeys(self._named, nothing), kinds), [
                    pa.nulls(0, arrow_type(type_of(a))) for a in self.aggregates
                ]
            return Frame(1, {}, {}), [
                single(0 if a.function == "count" else None, arrow_type(type_of(a)))
                for a in self.aggregates
            ]
        results = []
        for place, aggregate in enumerate(self.aggregates):
            if aggregate.distinct:
                results.append(self._distinct(place, aggregate, table))
            else:
                results.append(finished(place, aggregate, table))
        example = Frame(
            table.num_rows,
            columns_starting_with(table, POSITION),
            columns_starting_with(table, KIND),
        )
        return example, results

    def _inputs(self, place: int, aggregate: Aggregate, values: Values, frame: Frame) -> Inputs:
        """What a block has for an aggregate, by name, and how it is put together."""
        argument = aggregate.argument
        weights = frame.weights if frame.weights is not None else np.ones(frame.count, np.int64)
        if aggregate.function == "count" and _never_null(argument):
            return {f"n{place}": (weights, "sum")}
        column = evaluate(argument, values.columns, frame.count, self.context.parameters)
        if aggregate.function in ("min", "max"):
            return {f"{aggregate.function}{place}": (column, aggregate.function)}
        counted = weights
        if column.null_count:
            counted = weights * np.asarray(as_numpy(column.is_valid()))
        counts: Inputs = {f"n{place}": (counted, "sum")}
        if aggregate.function == "count":
            return counts
        total: pa.Array | Ints
        if aggregate.function == "avg" or pa.types.is_floating(column.type):
            numbers = pc.cast(column, pa.float64(), safe=False)
            total = pc.multiply(numbers, as_arrow(weights.astype(np.float64)))
        else:
            total = products(column, weights)
        return counts | {f"s{place}": (total, "sum")}

    def _add_distinct(
        self, place: int, groups: Groups, aggregate: Aggregate, values: Values, frame: Frame
    ) -> None:
        argument, context = aggregate.argument, self.context
        if isinstance(argument, Entity):
            types = context.types[argument.variable]
            if not self.keys and len(types) == 1:
                seen = self._seen.get(place)
                if seen is None:
                    seen = np.zeros(context.source.columns(types[0]).size + 1, bool)
                    self._seen[place] = seen
                # The last place is for null.
                seen[frame.columns[argument.variable]] = True
                return
            column = identities(context.source, types, argument.variable, frame)
        else:
            column = one_zero(
                evaluate(argument, values.columns, frame.count, self.context.parameters)
            )
            if pa.types.is_nested(column.type):
                numbers = self._values.setdefault(place, Numbering(self.context.budget)).numbers(
                    column
                )
                column = as_arrow(numbers, as_numpy(column.is_null()))
        table = pa.table({"k": as_arrow(groups.numbers), "v": column})
        table = grouped(table.filter(column.is_valid()), ["k", "v"], [])
        if place not in self._pairs:
            self._pairs[place] = Accumulated(
                self.context.budget, "group, distinct values", _pairs_once
            )
        self._pairs[place].add(table)

    def _distinct(self, place: int, aggregate: Aggregate, groups: pa.Table) -> pa.Array:
        if place in self._seen:
            return as_arrow(np.array([np.count_nonzero(self._seen[place][:-1])], np.int64))
        pairs = self._pairs[place].finish()
        assert pairs is not None
        how = aggregate.function
        column = pairs["v"]
        if how == "sum" and not pa.types.is_floating(column.type):
            pairs = pairs.set_column(1, "v", column.cast(EXACT))
        by_group = grouped(pairs, ["k"], [("v", "mean" if how == "avg" else how)])
        # Groups without a value are in `groups` only.
        at = pc.index_in(groups["k"].combine_chunks(), value_set=by_group["k"].combine_chunks())
        results = take(in_one_piece(by_group["v"]), at)
        if how == "count":
            results = filled(results, 0)
        return fitting(results, aggregate)


class GroupRows(Struct, frozen=True):
    """Groups, whose columns are computed when they are asked for.

    Attributes:
        outputs: The columns of the answer.
        keys: What the groups differ in.
        aggregates: What is computed for each group.
        frame: A match of each group.
        results: The values of the aggregates.
    """

    context: Context
    outputs: Sequence[Output]
    keys: Sequence[Checked]
    aggregates: Sequence[Aggregate]
    frame: Frame
    results: Sequence[pa.Array]

    @property
    def count(self) -> int:
        """How many groups there are."""
        return self.frame.count

    def column(self, name: str) -> pa.Array:
        """A column of the answer."""
        wanted = next(o.expression for o in self.outputs if o.name == name)
        if wanted in self.aggregates:
            return self.results[self.aggregates.index(wanted)]
        context = self.context
        parts: Substitutes = [
            (expression, PropertyOf("", str(place), expression.type))
            for place, expression in enumerate([*self.keys, *self.aggregates])
        ]

        def values_of(expression: Column | PropertyOf | Entity) -> pa.Array:
            assert isinstance(expression, PropertyOf)
            place = int(expression.property) - len(self.keys)
            if place >= 0:
                return self.results[place]
            key = self.keys[place]
            values = Values(context.source, context.types, self.frame)
            values.prepare(properties_in(key))
            return one_zero(evaluate(key, values.columns, self.count, context.parameters))

        return evaluate(substitute(wanted, parts), values_of, self.count, context.parameters)

    def take(self, rows: Ints) -> GroupRows:
        """Some of the groups, by their places."""
        at = as_arrow(rows)
        results = [take(column, at) for column in self.results]
        return replace(self, frame=self.frame.take(rows), results=results)


def _pairs_once(table: pa.Table) -> pa.Table:
    return grouped(table, ["k", "v"], [])


def _never_null(argument: Checked) -> bool:
    return isinstance(argument, Entity) and argument.type is not None and not argument.type.nullable
