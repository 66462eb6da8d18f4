"""Answering a read: match, group, order, cut, and only then fetch what is returned."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.compute.evaluate import ComputeFault, Given, evaluate, value
from omnigraph.compute.keys import one_zero, physical
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
from omnigraph.query.accumulated import Accumulated
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame, concat
from omnigraph.query.grouping import Grouping
from omnigraph.query.matching import Matcher, Measured, gathered
from omnigraph.query.ordering import Ints, numbers, ordered
from omnigraph.query.pieces import in_pieces
from omnigraph.query.prepared import Prepared
from omnigraph.query.rewrite import Parts, replaced
from omnigraph.query.searched import GetEmbedder, Searched, is_computed
from omnigraph.query.sort_keys import SortKeys
from omnigraph.query.sorted_runs import SortedRuns
from omnigraph.query.source import Source
from omnigraph.query.values import Values

if TYPE_CHECKING:
    from omnigraph.query.search.searches import Searches

#: What may follow matching, in this order.
Stage = Literal["group", "distinct", "order", "limit"]
#: The first rows of an order are chosen among at least this many times as many.
_SLACK = 4
#: How large the first piece of an answer should be when it is known how long texts are, in bytes;
#: they may differ. How many rows it has when it is not known, and of how many that is not asked.
_FIRST_PIECE = 4 << 20
_FEW_ROWS = 1 << 10
_VERY_FEW_ROWS = 16
#: Whether the answer is going to fit is asked when there are more rows than this.
_MANY_ROWS = 1 << 14
#: A column is read as a whole to return at least this part of its rows.
_FEW_OF = 200


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
        if prepared.calls:
            from omnigraph.query.search.searches import Searches

            self.searches = Searches(self.source, self.given, prepared.calls, self.embedder)
            self.source = self.source.searched(self.searches)
        self.aggregates = prepared.aggregates
        #: The whole answer is kept in memory.
        self.as_table = False
        self.limit = _count(self.plan.limit, self.given)
        self.offset = _count(self.plan.offset, self.given) or 0
        self.steps = prepared.steps
        self.types = prepared.types
        self.matcher = Matcher(self.source, self.types, self.given, self.budget, prepared.kept)
        #: What followed matching: how many rows came out of it, and when that was.
        self.finished: dict[Stage, Measured] = {}
        self._begun = time.perf_counter()
        #: How long it took to return what is returned so far.
        self._returning = 0.0

    def _finish(self, stage: Stage, rows: int) -> None:
        seconds = time.perf_counter() - self._begun - self._returning
        self.finished[stage] = Measured(rows, seconds)

    def table(self) -> pa.Table:
        """Run the plan; returns the columns of the answer.

        Raises:
            UsageError: A value does not fit into its type.
            ResourceLimit: It would take more time or memory than it may.
        """
        self.as_table = True
        pieces = []
        for columns in self.pieces():
            self.budget.keep_answer(sum(c.get_total_buffer_size() for c in columns))
            pieces.append(columns)
        names = [o.name for o in self.plan.outputs]
        if not pieces:
            empty = [pa.nulls(0, _arrow(o.expression)) for o in self.plan.outputs]
            return pa.Table.from_arrays(empty, names=names)
        if len(pieces) == 1:
            return pa.Table.from_arrays(pieces[0], names=names)
        return pa.Table.from_arrays(
            [pa.chunked_array(chunks) for chunks in zip(*pieces, strict=True)], names=names
        )

    def pieces(self) -> Iterator[list[pa.Array]]:
        """Run the plan; returns the columns of the answer, some rows at a time.

        Raises:
            UsageError: A value does not fit into its type.
            ResourceLimit: It would take more time or memory than it may.
        """
        try:
            yield from self.budget.running(self._pieces())
        except ComputeFault as fault:
            raise UsageError(
                f"the query cannot be computed: {fault.message}; leave such rows out, or"
                " calculate with floats"
            ) from None

    def _pieces(self) -> Iterator[list[pa.Array]]:
        stream = self._matches()
        if self.plan.grouped:
            groups = self._grouped(stream)
            if self.plan.distinct:
                table = unique(self._as_table([groups.column(o.name) for o in self.plan.outputs]))
                self._finish("distinct", table.num_rows)
                yield from self._cut(_Made(table))
            else:
                yield from self._cut(groups)
        elif self.plan.distinct:
            table = self._distinct(stream)
            if table is not None:
                self._finish("distinct", table.num_rows)
                yield from self._cut(_Made(table))
        else:
            frames = self._ordered(stream) if self.plan.order else stream
            for frame in self._cut_frames(frames):
                begun = time.perf_counter()
                yield from self._outputs(frame)
                self._returning += time.perf_counter() - begun

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
            self.budget.free(whole.bytes)
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

    @property
    def wanted(self) -> int | None:
        """How many of the first rows are needed; None is all."""
        return None if self.limit is None else self.limit + self.offset

    def _cut_frames(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The matches from the offset up to the limit."""
        skipped = given = 0
        for frame in frames:
            start = min(self.offset - skipped, frame.count)
            skipped += start
            stop = frame.count
            if self.limit is not None:
                stop = min(stop, start + self.limit - given)
            given += stop - start
            self._finish("limit", given)
            if stop - start == frame.count:
                yield frame
            elif stop > start:
                yield frame.slice(start, stop)
            if self.limit is not None and given >= self.limit:
                return

    def _ordered(self, stream: Iterable[Frame]) -> Iterator[Frame]:
        """All matches in their order, or at least the first ones that are wanted."""
        budget, wanted = self.budget, self.wanted
        keys = [
            (e, o.descending) for e, o in zip(self.prepared.order, self.plan.order, strict=True)
        ]
        sort = SortKeys(self.source, self.types, self.given, budget, keys)
        few = wanted is not None and wanted <= budget.sorted_rows // _SLACK
        frames: list[Frame] = []
        count = total = 0
        with closing(SortedRuns(budget)) as runs:
            for frame in _at_most(stream, budget.sorted_rows):
                budget.keep(frame.bytes, "order")
                frames.append(frame)
                count += frame.count
                total += frame.count
                if self.as_table and total > _MANY_ROWS:
                    self._check_size(total)
                if count < budget.sorted_rows:
                    continue
                whole = concat(frames)
                budget.free(whole.bytes)
                frames, count = [], 0
                if few:
                    whole = whole.take(sort.order(whole, wanted))
                    budget.keep(whole.bytes, "order")
                    frames, count = [whole], whole.count
                else:
                    runs.add(whole)
            last = concat(frames) if frames else None
            if last is not None and (few or not runs):
                first_rows = last.take(sort.order(last, wanted))
                self._finish("order", total)
                yield first_rows
                return
            if last is not None:
                budget.free(last.bytes)
                runs.add(last)
            del last, frames
            for frame in runs.merged(sort.of):
                self._finish("order", total)
                yield frame

    def _check_size(self, count: int) -> None:
        """Refuse an answer that is going to be too large, before it is ordered."""
        rows = count if self.limit is None else min(count - self.offset, self.limit)
        width = sum(_least_width(_arrow(o.expression)) for o in self.plan.outputs)
        if not self.budget.has_room(rows * width):
            self.budget.keep_answer(rows * width)

    def _outputs(self, frame: Frame) -> Iterator[list[pa.Array]]:
        """What is returned of some matches."""
        expressions = [o.expression for o in self.plan.outputs]

        def columns(start: int, stop: int) -> list[pa.Array]:
            part = frame if stop - start == frame.count else frame.slice(start, stop)
            values = self._values(part, expressions)
            return [evaluate(e, values.columns, part.count, self.given) for e in expressions]

        return in_pieces(self.budget, frame.count, self._first_piece(frame), columns)

    def _first_piece(self, frame: Frame) -> int:
        """How many rows are read at first, by what is known about the texts and lists in them."""
        if frame.count <= _VERY_FEW_ROWS:
            return frame.count
        width = 0.0
        for variable, name in self.prepared.texts:
            mine = self._width(variable, name, frame.count)
            if mine is None:
                return _FEW_ROWS
            width += mine
        most = self.budget.block_rows
        return min(int(_FIRST_PIECE / width), most) if width else most

    def _width(self, variable: str, name: str, count: int) -> float | None:
        """How many bytes a value has on average; None when that is not known."""
        types = self.types[variable]
        if len(types) > 1 or is_computed(name):
            return None
        table = self.source.catalog.table(types[0])
        assert table is not None
        image, column = self.source.image(types[0]), physical(name, table)
        if not image.has([column]) and count < image.rows // _FEW_OF:
            return None
        values = image.columns([column])[column]
        return float(values.get_total_buffer_size() / max(1, len(values)))

    def _distinct(self, stream: Iterable[Frame]) -> pa.Table | None:
        rows = Accumulated(self.budget, "distinct", unique)
        for frame in stream:
            for columns in self._outputs(frame):
                rows.add(unique(self._as_table(columns)))
        return rows.finish()

    # --- groups ---

    def _grouped(self, stream: Iterable[Frame]) -> _Groups:
        keys = [o.expression for o in self.plan.outputs if o.name in self.plan.keys]
        grouping = Grouping(self.source, self.types, self.given, self.budget, keys, self.aggregates)
        for frame in stream:
            grouping.add(frame)
        frame, found = grouping.finish()
        self._finish("group", frame.count)
        return _Groups(self, keys, frame, found)

    # --- parts ---

    def _cut(self, made: _Groups | _Made) -> Iterator[list[pa.Array]]:
        """Order and cut rows that stand for no single match."""
        rows = np.arange(made.count)
        if self.plan.order:
            rows = self.budget.apart("order", made.count, lambda: self._order(made))
            self._finish("order", made.count)
        stop = None if self.limit is None else self.offset + self.limit
        rows = rows[self.offset : stop]
        self._finish("limit", len(rows))

        def columns(start: int, stop: int) -> list[pa.Array]:
            everything = stop - start == made.count and not self.plan.order
            chosen = made if everything else made.take(rows[start:stop])
            return [chosen.column(o.name) for o in self.plan.outputs]

        return in_pieces(self.budget, len(rows), _FEW_ROWS, columns)

    def _order(self, made: _Groups | _Made) -> Ints:
        """The places of rows that stand for no single match, in their order."""
        keys: list[Ints] = []
        for ordering in self.plan.order:
            mine = numbers(made.column(str(ordering.output)))
            keys += [~number for number in mine] if ordering.descending else mine

        def ties(rows: Ints) -> list[Ints]:
            chosen = made.take(rows)
            return [n for o in self.plan.outputs for n in numbers(chosen.column(o.name))]

        return ordered(keys, ties, made.count, self.wanted)

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

    def take(self, rows: Ints) -> _Made:
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

    def take(self, rows: Ints) -> _Groups:
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


def unique(table: pa.Table) -> pa.Table:
    """Each row once."""
    columns = [column.combine_chunks() for column in table.columns]
    names = [str(place) for place in range(len(columns))]
    keys = pa.Table.from_arrays([hashable(column) for column in columns], names=names)
    if any(pa.types.is_nested(column.type) for column in columns):
        rows = keys.append_column("row", as_arrow(np.arange(table.num_rows)))
        first = rows.group_by(names).aggregate([("row", "min")])["row_min"]
        return table.take(first)
    return keys.group_by(names).aggregate([]).rename_columns(table.column_names)


def _at_most(frames: Iterable[Frame], rows: int) -> Iterator[Frame]:
    """The same matches in blocks of at most so many rows."""
    for frame in frames:
        for start in range(0, frame.count, rows):
            yield frame if frame.count <= rows else frame.slice(start, start + rows)


def _least_width(type: pa.DataType) -> int:
    """How many bytes a value of a type takes at least."""
    return int(type.bit_width // 8) if pa.types.is_primitive(type) else 4


def _arrow(expression: Checked) -> pa.DataType:
    return pa.null() if expression.type is None else arrow_type(expression.type)
