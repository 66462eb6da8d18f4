"""One run of a prepared plan: match, group, order, cut, and only then fetch what is returned.

The operators are in `operators`, one a file; here they are put together.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.evaluate import Bindings, ComputeFault
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import Checked, Rank
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.values import Value
from omnigraph.query.budget import Budget
from omnigraph.query.computed import ComputedProperty, GetEmbedder
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.limit import Limit
from omnigraph.query.operators.project import Chunk, in_chunks, project
from omnigraph.query.operators.runner import gathered, run_steps
from omnigraph.query.prepared import Prepared
from omnigraph.query.source import Source
from omnigraph.query.steps import Scan, Step
from omnigraph.query.tables import policy
from omnigraph.query.values import Values

if TYPE_CHECKING:
    from omnigraph.query.operators.group import GroupRows
    from omnigraph.query.operators.order import Rows
    from omnigraph.query.search.nearest import NearestRows
    from omnigraph.query.search.searches import Searches


class Execution(Struct, dict=True):
    """One run of a read plan."""

    prepared: Prepared
    source: Source
    values: Mapping[str, Value]
    budget: Budget
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    embedder: GetEmbedder | None = None

    def __post_init__(self) -> None:
        self.now = self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)
        parameters = Bindings(self.values, self.now)
        prepared = self.prepared
        self.plan = prepared.plan
        self.expressions = [output.expression for output in self.plan.outputs]
        self.names = [output.name for output in self.plan.outputs]
        source = self.source
        self.searches: Searches | None = None
        if prepared.calls:
            from omnigraph.query.search.searches import Searches

            self.searches = Searches(source, parameters, prepared.calls, self.embedder)
            source = source.with_searches(self.searches)
        #: What found the first matches by an index, if it was asked.
        self.nearest: NearestRows | None = None
        #: Why all matches are compared instead.
        self.why_exact = "all distances are needed"
        #: The whole answer is held in memory.
        self.as_table = False
        self.limit = Limit.of(self.plan, parameters)
        self.context = Context(source, prepared.types, parameters, self.budget, prepared.live_after)

    def table(self) -> pa.Table:
        """Run the plan; returns the columns of the answer.

        Raises:
            UsageError: A value does not fit into its type.
            ResourceLimit: It would take more time or memory than it may.
        """
        self.as_table = True
        chunks = []
        for columns in self.chunks():
            self.budget.keep_answer(sum(c.get_total_buffer_size() for c in columns))
            chunks.append(columns)
        if not chunks:
            empty = [pa.nulls(0, _arrow(expression)) for expression in self.expressions]
            return pa.Table.from_arrays(empty, names=self.names)
        if len(chunks) == 1:
            return pa.Table.from_arrays(chunks[0], names=self.names)
        return pa.Table.from_arrays(
            [pa.chunked_array(column) for column in zip(*chunks, strict=True)], names=self.names
        )

    def chunks(self) -> Iterator[Chunk]:
        """Run the plan; returns the columns of the answer, some rows at a time.

        Raises:
            UsageError: A value does not fit into its type.
            ResourceLimit: It would take more time or memory than it may.
        """
        try:
            yield from self.budget.running(self._chunks())
        except ComputeFault as fault:
            raise UsageError(
                f"the query cannot be computed: {fault.message}; leave such rows out, or"
                " calculate with floats"
            ) from None

    def _chunks(self) -> Iterator[Chunk]:
        plan, matches = self.plan, self._matches()
        if plan.grouped or plan.distinct:
            rows = self._rows(matches)
            if rows is not None:
                yield from self._cut(rows)
            return
        if plan.order:
            from omnigraph.query.operators.order import order_matches

            check_size = self._check_size if self.as_table else None
            matches = order_matches(
                self.context, plan.order, matches, self.limit.needed, check_size
            )
        measured = self.context.measured
        for frame in self.limit.cut(matches, measured):
            begun = time.perf_counter()
            yield from self._projected(frame)
            measured.returning += time.perf_counter() - begun

    # --- matches ---

    def _matches(self) -> Iterator[Frame]:
        searches = self.searches
        if searches is not None:
            searches.check(self.prepared.types, self.budget.seconds)
        stream = self._nearest()
        if stream is not None:
            return stream
        stream = run_steps(self.context, self.prepared.steps, Frame(1, {}, {}))
        distances = self.prepared.distances
        if distances:
            self.context.measured.finish("search", 0)
            stream = (self._counted(self._with_distances(frame, distances)) for frame in stream)
        if searches is not None and searches.fuses:
            whole = gathered(stream, self.budget, "rrf")
            if whole is None:
                return iter(())
            self.budget.free(whole.bytes)
            searches.rank(whole, self.prepared.types)
            stream = iter([whole])
        return stream

    @property
    def search(self) -> str | None:
        """How the first matches of an order by nearness are found, if there is one."""
        if self.nearest is not None:
            return str(self.nearest)
        if not self.prepared.distances:
            return None
        from omnigraph.query.search.nearest import compared

        return compared(self.prepared.distances, self.why_exact)

    def indexes(self) -> dict[Step, list[str]]:
        """The indexes that scans are going to ask, by step."""
        from omnigraph.query.operators.find_nodes import indexes_for

        scans = [s for s in self.prepared.steps if isinstance(s, Scan) and s.filters]
        return {
            scan: [
                name
                for type in scan.types
                for name in indexes_for(self.context, type, scan.filters)
            ]
            for scan in scans
        }

    def plan_search(self) -> None:
        """Look for an index that finds the first matches."""
        distance, needed = self.prepared.nearest, self.limit.needed
        if any(isinstance(d.call, Rank) and d.call.exact for d in self.prepared.distances):
            self.why_exact = "the query asks for it"
        if distance is None or needed is None or self.searches is None:
            return
        from omnigraph.query.search.nearest import NearestRows

        nearest = NearestRows.of(self.context, self.searches, distance, needed)
        if isinstance(nearest, str):
            self.why_exact = nearest
        else:
            self.nearest = nearest

    def _nearest(self) -> Iterator[Frame] | None:
        """The matches that an index takes for the first ones; None to order all of them."""
        self.plan_search()
        nearest = self.nearest
        if nearest is None:
            return None
        if nearest.is_without_direction:
            self.nearest, self.why_exact = None, "the vector has no direction"
            return None
        steps = self.prepared.steps
        stream = None
        if len(steps) == 1 and isinstance(steps[0], Scan) and not steps[0].filters:
            # Nothing else decides: the table is not read at all.
            stream = nearest.all_rows(steps[0])
        if stream is None:
            if nearest.is_exact:
                return None
            stream = nearest.among(run_steps(self.context, steps, Frame(1, {}, {})))
        distances = self.prepared.distances
        self.context.measured.finish("search", 0)
        return (self._counted(self._with_distances(frame, distances)) for frame in stream)

    def _counted(self, frame: Frame) -> Frame:
        """Matches that a search has found, counted."""
        before = self.context.measured.stages["search"].rows
        self.context.measured.finish("search", before + frame.count)
        return frame

    def _with_distances(self, frame: Frame, distances: Iterable[ComputedProperty]) -> Frame:
        """The matches that have all distances: what has no vector is not near to anything."""
        values = Values(self.context.source, self.context.types, frame)
        for distance in distances:
            valid = as_numpy(values.get(distance.variable, distance.property).is_valid())
            if not valid.all():
                return self._with_distances(frame.take(valid), distances)
        return frame

    def _projected(self, frame: Frame) -> Iterator[Chunk]:
        prepared = self.prepared
        return project(self.context, self.expressions, prepared.returned, prepared.texts, frame)

    def _check_size(self, count: int) -> None:
        """Refuse an answer that is going to be too large, before it is ordered."""
        limit = self.limit
        rows = count if limit.rows is None else min(count - limit.offset, limit.rows)
        width = sum(_least_width(_arrow(expression)) for expression in self.expressions)
        if not self.budget.has_room(rows * width):
            self.budget.keep_answer(rows * width)

    # --- rows that stand for no single match ---

    def _rows(self, matches: Iterable[Frame]) -> Rows | None:
        """Groups, or distinct rows; None when there is nothing to return."""
        groups = self._grouped(matches) if self.plan.grouped else None
        if not self.plan.distinct:
            return groups
        from omnigraph.query.operators.distinct import distinct, distinct_rows

        if groups is None:
            chunks = (chunk for frame in matches for chunk in self._projected(frame))
            rows = distinct(self.budget, chunks, self.names)
        else:
            rows = distinct_rows([groups.column(name) for name in self.names], self.names)
        if rows is not None:
            self.context.measured.finish("distinct", rows.count)
        return rows

    def _grouped(self, matches: Iterable[Frame]) -> GroupRows:
        from omnigraph.query.operators.group import Grouping, GroupRows

        plan, aggregates = self.plan, self.prepared.aggregates
        keys = [o.expression for o in plan.outputs if o.name in plan.keys]
        grouping = Grouping(self.context, keys, aggregates)
        for frame in matches:
            grouping.add(frame)
        frame, results = grouping.finish()
        self.context.measured.finish("group", frame.count)
        return GroupRows(self.context, plan.outputs, keys, aggregates, frame, results)

    def _cut(self, rows: Rows) -> Iterator[Chunk]:
        """Order and cut rows that stand for no single match."""
        measured, limit = self.context.measured, self.limit
        places = np.arange(rows.count)
        if self.plan.order:
            from omnigraph.query.operators.order import order_rows

            places = self.budget.apart(
                "order", rows.count, lambda: order_rows(self.plan, rows, limit.needed)
            )
            measured.finish("order", rows.count)
        places = places[limit.offset : limit.needed]
        measured.finish("limit", len(places))

        def columns(start: int, stop: int) -> Chunk:
            everything = stop - start == rows.count and not self.plan.order
            chosen = rows if everything else rows.take(places[start:stop])
            return [chosen.column(name) for name in self.names]

        return in_chunks(self.budget, len(places), policy.FIRST_CHUNK_ROWS, columns)


def _least_width(type: pa.DataType) -> int:
    """How many bytes a value of a type takes at least."""
    return int(type.bit_width // 8) if pa.types.is_primitive(type) else 4


def _arrow(expression: Checked) -> pa.DataType:
    return pa.null() if expression.type is None else arrow_type(expression.type)
