"""Answering a read: match, group, order, cut, and only then fetch what is returned."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.compute.evaluate import ComputeFault, Given, evaluate, value
from omnigraph.compute.keys import one_zero
from omnigraph.compute.lists import hashable
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import (
    Checked,
    Column,
    Entity,
    PropertyOf,
    walk,
)
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.values import Value
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame, concat
from omnigraph.query.grouping import Grouping
from omnigraph.query.matching import Matcher, gathered
from omnigraph.query.ordering import ordered
from omnigraph.query.prepared import Prepared
from omnigraph.query.rewrite import Parts, replaced
from omnigraph.query.searched import GetEmbedder, Searched
from omnigraph.query.source import Source
from omnigraph.query.values import Values

if TYPE_CHECKING:
    from omnigraph.query.search.searches import Searches

#: Kept rows of an ordered query with a limit are cut when there are this many times as many.
_SLACK = 4


class Execution(Struct, dict=True):
    """One run of a read plan."""

    prepared: Prepared
    source: Source
    parameters: Mapping[str, Value]
    budget: Budget
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    embedder: GetEmbedder | None = None

    def __post_init__(self) -> None:
        self.now = self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)
        self.given = Given(self.parameters, self.now)
        prepared = self.prepared
        self.plan = prepared.plan
        self.searches: Searches | None = None
        if prepared.meanings:
            from omnigraph.query.search.searches import Searches

            self.searches = Searches(self.source, self.given, prepared.meanings, self.embedder)
            self.source = self.source.searched(self.searches)
        self.aggregates = prepared.aggregates
        self.limit = _count(self.plan.limit, self.given)
        self.offset = _count(self.plan.offset, self.given) or 0
        self.steps = prepared.steps
        self.types = prepared.types
        self.matcher = Matcher(self.source, self.types, self.given, self.budget, prepared.kept)

    def table(self) -> pa.Table:
        """Run the plan; gives the columns of the answer.

        Raises:
            UsageError: A value does not fit into its type.
            ResourceLimit: It would take more time or memory than it may.
        """
        try:
            return self._table()
        except ComputeFault as fault:
            raise UsageError(
                f"the query cannot be computed: {fault.message}; leave such rows out, or"
                " calculate with floats"
            ) from None

    def _table(self) -> pa.Table:
        stream = self._matches()
        if self.plan.grouped:
            groups = self._grouped(stream)
            if not self.plan.distinct:
                return self._cut(groups)
            table = _unique(self._as_table([groups.column(o.name) for o in self.plan.outputs]))
        elif self.plan.distinct:
            table = self._distinct(stream)
        else:
            return self._rows(stream)
        return self._cut(_Made(table))

    def _matches(self) -> Iterator[Frame]:
        searches = self.searches
        if searches is not None:
            searches.check(self.types, self.budget.seconds)
        stream = self.matcher.run(self.steps, Frame(1, {}, {}))
        distances = self.prepared.distances
        if distances:
            stream = (self._measured(frame, distances) for frame in stream)
        if searches is not None and searches.fuses:
            whole = gathered(stream, self.budget, "rrf")
            if whole is None:
                return iter(())
            self.budget.kept -= whole.bytes
            searches.rank(whole, self.types)
            stream = iter([whole])
        return stream

    def _measured(self, frame: Frame, distances: Iterable[Searched]) -> Frame:
        """The matches that have all distances: what has no vector is not near to anything."""
        values = Values(self.source, self.types, frame)
        for part in distances:
            there = values.get(part.variable, part.property).is_valid()
            keep = as_numpy(there)
            if not keep.all():
                return self._measured(frame.take(keep), distances)
        return frame

    # --- rows ---

    def _rows(self, stream: Any) -> pa.Table:
        wanted = None if self.limit is None else self.limit + self.offset
        kept: list[Frame] = []
        count = 0
        for frame in stream:
            kept.append(frame)
            count += frame.count
            self.budget.keep(frame.bytes, "rows")
            if wanted is None:
                continue
            if not self.plan.order and count >= wanted:
                break
            if self.plan.order and count > _SLACK * max(wanted, 1 << 18):
                whole = concat(kept)
                best = whole.take(self._order(whole, wanted))
                self.budget.kept -= whole.bytes - best.bytes
                kept, count = [best], best.count
        if not kept:
            return self._as_table([pa.nulls(0, _arrow(o.expression)) for o in self.plan.outputs])
        whole = concat(kept)
        if self.plan.order:
            whole = whole.take(self._order(whole, wanted))
        if self._cuts(whole.count):
            whole = whole.take(np.arange(whole.count)[self._slice()])
        return self._as_table(self._outputs(whole))

    def _outputs(self, frame: Frame) -> list[pa.Array]:
        values = self._values(frame, [o.expression for o in self.plan.outputs])
        return [
            evaluate(o.expression, values.columns, frame.count, self.given)
            for o in self.plan.outputs
        ]

    def _order(self, frame: Frame, wanted: int | None) -> npt.NDArray[np.int64]:
        expressions = list(self.prepared.order)
        values = self._values(frame, expressions)
        keys = [
            (evaluate(e, values.columns, frame.count, self.given), o.descending)
            for e, o in zip(expressions, self.plan.order, strict=True)
        ]

        def ties(rows: npt.NDArray[np.int64]) -> list[pa.Array]:
            chosen = frame.take(rows)
            mine = Values(self.source, self.types, chosen)
            declared = [variable for variable in self.types if variable in chosen.columns]
            return [mine.get(variable, "id") for variable in declared]

        return ordered(keys, ties, frame.count, wanted)

    def _distinct(self, stream: Any) -> pa.Table:
        names = [o.name for o in self.plan.outputs]
        kept: pa.Table | None = None
        for frame in stream:
            part = _unique(pa.Table.from_arrays(self._outputs(frame), names=names))
            self.budget.keep(part.nbytes, "distinct")
            kept = part if kept is None else _unique(pa.concat_tables([kept, part]))
        if kept is None:
            return self._as_table([pa.nulls(0, _arrow(o.expression)) for o in self.plan.outputs])
        return kept

    # --- groups ---

    def _grouped(self, stream: Any) -> _Groups:
        keys = [o.expression for o in self.plan.outputs if o.name in self.plan.keys]
        grouping = Grouping(self.source, self.types, self.given, self.budget, keys, self.aggregates)
        for frame in stream:
            grouping.add(frame)
        frame, found = grouping.finish()
        return _Groups(self, keys, frame, found)

    # --- parts ---

    def _cut(self, made: _Groups | _Made) -> pa.Table:
        """Order and cut rows that stand for no single match."""
        rows = None
        if self.plan.order:
            wanted = None if self.limit is None else self.limit + self.offset
            keys = [(made.column(str(o.output)), o.descending) for o in self.plan.order]

            def ties(rows: npt.NDArray[np.int64]) -> list[pa.Array]:
                chosen = made.take(rows)
                columns = [chosen.column(o.name) for o in self.plan.outputs]
                return [column for column in columns if _sortable(column.type)]

            rows = ordered(keys, ties, made.count, wanted)
        if rows is not None or self._cuts(made.count):
            made = made.take((np.arange(made.count) if rows is None else rows)[self._slice()])
        return self._as_table([made.column(o.name) for o in self.plan.outputs])

    def _cuts(self, count: int) -> bool:
        return self.offset > 0 or (self.limit is not None and self.limit < count)

    def _slice(self) -> slice:
        return slice(self.offset, None if self.limit is None else self.offset + self.limit)

    def _as_table(self, columns: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(columns, names=[o.name for o in self.plan.outputs])

    def _values(self, frame: Frame, expressions: list[Checked]) -> Values:
        values = Values(self.source, self.types, frame)
        values.prepare(
            {
                (e.variable, e.property if isinstance(e, PropertyOf) else "id")
                for expression in expressions
                for e in walk(expression)
                if isinstance(e, PropertyOf | Entity)
            }
        )
        return values


class _Made(Struct, frozen=True):
    """Rows that are there already."""

    table: pa.Table

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.Array:
        return self.table[name].combine_chunks()

    def take(self, rows: npt.NDArray[np.int64]) -> _Made:
        return _Made(self.table.take(as_arrow(rows)))


class _Groups(Struct, frozen=True):
    """Groups, whose columns are computed when they are asked for.

    Attributes:
        keys: What the groups differ in.
        frame: A match of each group.
        found: The aggregates.
    """

    execution: Execution
    keys: Sequence[Checked]
    frame: Frame
    found: Sequence[pa.Array]

    @property
    def count(self) -> int:
        return self.frame.count

    def column(self, name: str) -> pa.Array:
        execution = self.execution
        wanted = next(o.expression for o in execution.plan.outputs if o.name == name)
        if wanted in execution.aggregates:
            return self.found[execution.aggregates.index(wanted)]
        named: Parts = [
            (expression, PropertyOf("", str(place), expression.type))
            for place, expression in enumerate([*self.keys, *execution.aggregates])
        ]

        def part(expression: Column | PropertyOf | Entity) -> pa.Array:
            assert isinstance(expression, PropertyOf)
            place = int(expression.property) - len(self.keys)
            if place >= 0:
                return self.found[place]
            key = self.keys[place]
            values = execution._values(self.frame, [key])
            return one_zero(evaluate(key, values.columns, self.count, execution.given))

        return evaluate(replaced(wanted, named), part, self.count, execution.given)

    def take(self, rows: npt.NDArray[np.int64]) -> _Groups:
        at = as_arrow(rows)
        found = [column.take(at) for column in self.found]
        return _Groups(self.execution, self.keys, self.frame.take(rows), found)


def _count(expression: Any, given: Given) -> int | None:
    if expression is None:
        return None
    found = value(expression, given)
    if found is None or found < 0:
        raise UsageError(f"limit and offset are 0 or more, not {found}")
    return int(found)


def _unique(table: pa.Table) -> pa.Table:
    """Each row once."""
    columns = [column.combine_chunks() for column in table.columns]
    names = [str(place) for place in range(len(columns))]
    keys = pa.Table.from_arrays([hashable(column) for column in columns], names=names)
    if any(pa.types.is_nested(column.type) for column in columns):
        rows = keys.append_column("row", as_arrow(np.arange(table.num_rows)))
        first = rows.group_by(names).aggregate([("row", "min")])["row_min"]
        return table.take(first)
    return keys.group_by(names).aggregate([]).rename_columns(table.column_names)


def _sortable(type: pa.DataType) -> bool:
    return not pa.types.is_nested(type)


def _arrow(expression: Checked) -> pa.DataType:
    return pa.null() if expression.type is None else arrow_type(expression.type)
