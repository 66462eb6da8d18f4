"""Running the steps of a pattern: blocks of matches in, blocks of matches out.

A step never makes more than a bounded number of rows at a time, and looks at the budget before it
makes more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.compute.arrays import as_numpy, distinct, distinct_places, ranges
from omnigraph.compute.evaluate import Bindings, matches
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import Checked, Entity, PropertyOf, walk
from omnigraph.language.query.plan import Hop
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame, concat
from omnigraph.query.liveness import Kept
from omnigraph.query.scanning import scan_positions
from omnigraph.query.searched import is_computed
from omnigraph.query.source import Source
from omnigraph.query.steps import (
    Branch,
    Enumerate,
    Exists,
    Expand,
    Extend,
    Probe,
    Scan,
    Step,
    Weigh,
    Where,
    Without,
)
from omnigraph.query.tables.columns import Coded, Positions
from omnigraph.query.tables.topology import Adjacency, Ints
from omnigraph.query.values import Types, Values

#: A step that hangs at fewer edges than this part of all looks at those alone.
_LOCAL = 8
#: A scan makes so many times the rows at once that other steps do: it has only one column.
_SCANNED = 4
#: How many pairs of a start and a visited node walks keep at once, in blocks.
_WALKED = 4
_ROW = "__row"


class Measured(Struct):
    """What a step did: blocks and rows that it gave, and the time it took by itself."""

    rows: int = 0
    seconds: float = 0.0


class Matcher(Struct):
    """Runs steps for one query."""

    source: Source
    types: Types
    given: Bindings
    budget: Budget
    kept: Kept = field(default_factory=dict)
    measured: dict[Step, Measured] = field(default_factory=dict)
    #: Of branches that were asked for often: the number of ways from all positions.
    _weights: dict[Branch, Ints] = field(default_factory=dict)
    #: At how many edges each branch was asked for.
    _weighed: dict[Branch, int] = field(default_factory=dict)

    def run(self, steps: Iterable[Step], start: Frame) -> Iterator[Frame]:
        """Run steps on a block of matches."""
        stream: Iterator[Frame] = iter([start])
        for step in steps:
            stream = self._timed(step, self._apply(step, stream))
        return stream

    def _timed(self, step: Step, stream: Iterator[Frame]) -> Iterator[Frame]:
        measured = self.measured.setdefault(step, Measured())
        while True:
            begun = time.perf_counter()
            frame = next(stream, None)
            measured.seconds += time.perf_counter() - begun
            if frame is None:
                return
            measured.rows += frame.count
            self.budget.check_time(step)
            if frame.count:
                yield self._kept(step, frame)

    def _kept(self, step: Step, frame: Frame) -> Frame:
        """The same matches without variables that nobody looks at after a step."""
        kept = self.kept.get(step)
        if kept is None or frame.columns.keys() <= kept:
            return frame
        return frame.only(kept | {name for name in frame.columns if name.startswith(_ROW)})

    def _apply(self, step: Step, stream: Iterator[Frame]) -> Iterator[Frame]:
        match step:
            case Scan():
                return self._scan(step, stream)
            case Enumerate():
                return self._enumerate(step, stream)
            case Expand():
                return self._expand(step, stream)
            case Probe():
                return self._probe(step, stream)
            case Exists():
                return self._exists(step, stream)
            case Weigh():
                return self._weigh(step, stream)
            case Where():
                return (self.filtered(frame, (step.condition,)) for frame in stream)
            case Extend():
                return self._extend(step, stream)
            case Without():
                return self._without(step, stream)

    # --- filters ---

    def filtered(self, frame: Frame, conditions: tuple[Checked, ...]) -> Frame:
        """Keep the matches for which all conditions are true."""
        for condition in conditions:
            if frame.count:
                frame = frame.take(self.mask(frame, condition))
        return frame

    def mask(self, frame: Frame, condition: Checked) -> npt.NDArray[np.bool_]:
        """For which matches a condition is true."""
        named = named_in(condition)
        variables = {variable for variable, _ in named}
        if len(variables) == 1:
            (variable,) = variables
            types = self.types[variable]
            by_value = self._by_value(named, condition)
            if by_value is not None:
                coded, passing = by_value
                return passing[coded.at(frame.columns[variable])]
            # Many matches of few nodes: it is cheaper to look at each node once.
            if len(types) == 1 and frame.count > self.source.rows(types[0]):
                whole = self.node_mask(variable, types[0], condition)
                positions = frame.columns[variable]
                if positions.min() >= 0:
                    return whole[positions]
        values = Values(self.source, self.types, frame)
        values.prepare(named)
        found = matches(condition, values.columns, frame.count, self.given)
        return np.asarray(as_numpy(found), bool)

    def _by_value(
        self, named: set[tuple[str, str]], condition: Checked
    ) -> tuple[Coded, npt.NDArray[np.bool_]] | None:
        """A column of few values, and for which of them a condition on it is true."""
        if len(named) != 1:
            return None
        ((variable, name),) = named
        types = self.types[variable]
        if len(types) != 1 or is_computed(name):
            return None
        table = self.source.catalog.table(types[0])
        assert table is not None
        coded = self.source.image(types[0]).coded_often(physical(name, table))
        if coded is None:
            return None
        found = matches(condition, lambda _: coded.values, len(coded.values), self.given)
        return coded, np.asarray(as_numpy(found), bool)

    def node_mask(self, variable: str, type: str, condition: Checked) -> npt.NDArray[np.bool_]:
        """For which positions of a type a condition on one variable is true."""
        alone = Matcher(self.source, {variable: (type,)}, self.given, self.budget)
        by_value = alone._by_value(named_in(condition), condition)
        if by_value is not None:
            coded, passing = by_value
            return passing[coded.codes]
        size, rows = self.source.image(type).size, self.budget.block_rows
        found = np.zeros(size, bool)
        for start in range(0, size, rows):
            self.budget.check_time(f"filter {condition}")
            positions = np.arange(start, min(start + rows, size))
            frame = Frame(len(positions), {variable: positions}, {})
            values = Values(self.source, {variable: (type,)}, frame)
            found[positions] = as_numpy(matches(condition, values.columns, frame.count, self.given))
        return found

    # --- starting ---

    def _scan(self, step: Scan, stream: Iterator[Frame]) -> Iterator[Frame]:
        whole: Frame | None = None
        for frame in stream:
            if frame.count == 1 and not frame.columns:
                for block in self._scanned(step):
                    weights = frame.weights
                    yield (
                        block
                        if weights is None
                        else replace(block, weights=np.full(block.count, weights[0]))
                    )
                continue
            if whole is None:
                blocks = list(self._scanned(step))
                whole = concat(blocks) if blocks else self._nothing(step)
            yield from self._crossed(frame, whole, step)

    def _scanned(self, step: Scan) -> Iterator[Frame]:
        """The nodes of a scan, in blocks."""
        rows = _SCANNED * self.budget.block_rows
        for place, type in enumerate(step.types):
            image = self.source.image(type)
            positions: Positions | None = None
            count = image.size
            if step.filters or image.alive is not None:
                positions = scan_positions(
                    self.source, step.variable, type, step.filters, self.given, self.node_mask
                )
                count = len(positions)
            for start in range(0, count, rows):
                stop = min(start + rows, count)
                block = np.arange(start, stop) if positions is None else positions[start:stop]
                mixed = {}
                if len(step.types) > 1:
                    mixed[step.variable] = np.full(len(block), place, np.int8)
                yield Frame(len(block), {step.variable: block}, mixed)

    def _nothing(self, step: Scan) -> Frame:
        mixed = {step.variable: np.zeros(0, np.int8)} if len(step.types) > 1 else {}
        return Frame(0, {step.variable: np.zeros(0, np.int64)}, mixed)

    def _crossed(self, frame: Frame, other: Frame, operator: object) -> Iterator[Frame]:
        """All pairs of matches of two frames, in blocks."""
        most = self.budget.block_rows
        step = max(1, most // max(1, other.count))
        for start in range(0, frame.count, step):
            rows = np.arange(start, min(start + step, frame.count))
            for first in range(0, other.count, most):
                self.budget.check_time(operator)
                right = other.slice(first, first + most)
                left = frame.take(np.repeat(rows, right.count))
                right = right.take(np.tile(np.arange(right.count), len(rows)))
                yield Frame(
                    left.count,
                    {**left.columns, **right.columns},
                    {**left.kinds, **right.kinds},
                    left.weights,
                )

    def _enumerate(self, step: Enumerate, stream: Iterator[Frame]) -> Iterator[Frame]:
        hop = step.hop
        assert hop.variable is not None
        edges = self.source.image(hop.edge).positions()
        found = Frame(len(edges), {hop.variable: edges}, {})
        found = self.filtered(found, step.filters)
        for frame in stream:
            yield from self._crossed(frame, found, step)

    # --- hops ---

    def adjacency(self, hop: Hop) -> Adjacency:
        """The neighbours along a hop, from its source; each once unless the edge is bound."""
        found = self.source.adjacency(hop.edge, hop.direction)
        return found if hop.variable is not None else found.distinct

    def starting(self, hop: Hop, variable: str, frame: Frame) -> Positions:
        """The positions that a hop starts from; -1 where the variable is of another type."""
        edge = self.source.catalog.edges[hop.edge]
        type = edge.target if hop.direction == "in" else edge.source
        return self._of_type(variable, type, frame)

    def ending(self, hop: Hop, variable: str, frame: Frame) -> Positions:
        """The positions where a hop ends; -1 where the variable is of another type."""
        edge = self.source.catalog.edges[hop.edge]
        type = edge.source if hop.direction == "in" else edge.target
        return self._of_type(variable, type, frame)

    def _of_type(self, variable: str, type: str, frame: Frame) -> Positions:
        types = self.types[variable]
        positions = frame.columns[variable]
        if type not in types:
            return np.full(frame.count, -1, np.int64)
        if len(types) == 1:
            return positions
        return np.where(frame.kinds[variable] == types.index(type), positions, -1)

    def _expand(self, step: Expand, stream: Iterator[Frame]) -> Iterator[Frame]:
        hop = step.hop
        for frame in stream:
            if (hop.low, hop.high) != (1, 1):
                blocks = self._walked(step, frame)
            else:
                blocks = self._hopped(step, frame)
            for block in blocks:
                yield self.filtered(block, step.filters)

    def _hopped(self, step: Expand, frame: Frame) -> Iterator[Frame]:
        hop = step.hop
        adjacency = self.adjacency(hop)
        positions = self.starting(hop, step.start, frame)
        counts = adjacency.counts(positions)
        frame = self._kept(step, frame)
        most = self.budget.block_rows
        if frame.count <= _SCANNED * most and bool((counts == 1).all()):
            # Everything has one neighbour, such as the one city somebody lives in.
            yield self._bound(step, adjacency, frame, adjacency.first[positions].astype(np.int64))
            return
        for part in _parts(counts, most):
            self.budget.check_time(step)
            mine = counts[part]
            places = adjacency.places(positions[part], mine)
            rows = np.repeat(np.arange(part.start, part.stop), mine)
            yield self._bound(step, adjacency, frame.take(rows), places)

    def _bound(self, step: Expand, adjacency: Adjacency, frame: Frame, places: Ints) -> Frame:
        """Bind what a hop leads to, by where its neighbours are."""
        hop = step.hop
        if hop.target is not None:
            ends = adjacency.ends(places)
            frame = self._bind_end(frame, hop, ends)
        if hop.variable is not None:
            frame = frame.bind(hop.variable, adjacency.edges(places))
        return frame

    def _bind_end(self, frame: Frame, hop: Hop, ends: Positions) -> Frame:
        assert hop.target is not None
        edge = self.source.catalog.edges[hop.edge]
        type = edge.source if hop.direction == "in" else edge.target
        types = self.types[hop.target]
        if type not in types:
            return frame.bind(hop.target, ends).take(np.zeros(frame.count, bool))
        if len(types) == 1:
            return frame.bind(hop.target, ends)
        kinds = np.full(frame.count, types.index(type), np.int8)
        return frame.bind(hop.target, ends, kinds)

    def _walked(self, step: Expand, frame: Frame) -> Iterator[Frame]:
        positions = self.starting(step.hop, step.start, frame)
        for rows, ends in self.walk(step.hop, positions, step):
            yield self._bind_end(frame.take(rows), step.hop, ends)

    def walk(
        self, hop: Hop, positions: Positions, operator: object
    ) -> Iterator[tuple[Ints, Positions]]:
        """Where walks lead: rows of `positions`, and ends, each end once per row.

        An end counts by its distance. The start is at distance 0; an edge from it to itself makes
        it an end at distance 1 as well.
        """
        adjacency = self.source.adjacency(hop.edge, hop.direction).distinct
        # A node without edges may be beyond those that the topology knows.
        size = max(adjacency.size, int(positions.max(initial=0)) + 1)
        most = self.budget.block_rows
        step = max(1, most // 256)
        for start in range(0, len(positions), step):
            rows = np.arange(start, min(start + step, len(positions)))
            rows = rows[positions[rows] >= 0]
            nodes = positions[rows]
            if hop.low == 0:
                yield rows, nodes
            # Walks from some rows: how far they are, where they are now, and where they were.
            walks = [(0, rows, nodes, rows * size + nodes)]
            while walks:
                depth, rows, nodes, seen = walks.pop()
                self.budget.check_time(operator)
                if not len(rows):
                    continue
                counts = adjacency.counts(nodes)
                if len(seen) + int(counts.sum()) > _WALKED * most and rows[0] < rows[-1]:
                    # It may get too large: the walks from one half of the rows come first.
                    walks += _halves(depth, rows, nodes, seen, size)
                    continue
                ends = self._neighbours(adjacency, rows, nodes, counts, size, operator)
                again = np.isin(ends, seen, assume_unique=True)
                if depth == 0 and hop.low == 1 and again.any():
                    yield ends[again] // size, ends[again] % size
                ends = ends[~again]
                rows, nodes = ends // size, ends % size
                if depth + 1 >= hop.low and len(ends):
                    yield rows, nodes
                if depth + 1 != hop.high:
                    walks.append((depth + 1, rows, nodes, distinct(seen, ends)))

    def _neighbours(
        self,
        adjacency: Adjacency,
        rows: Ints,
        nodes: Positions,
        counts: Ints,
        size: int,
        operator: object,
    ) -> Ints:
        """The distinct pairs of row and neighbour, as numbers."""
        found = np.zeros(0, np.int64)
        for part in _parts(counts, _WALKED * self.budget.block_rows):
            mine = counts[part]
            places = adjacency.places(nodes[part], mine)
            keys = np.repeat(rows[part], mine) * size + adjacency.ends(places)
            found = distinct(found, keys)
            self.budget.check_time(operator)
        return found

    def _probe(self, step: Probe, stream: Iterator[Frame]) -> Iterator[Frame]:
        hop = step.hop
        assert hop.source is not None and hop.target is not None
        for frame in stream:
            starts = self.starting(hop, hop.source, frame)
            ends = self.ending(hop, hop.target, frame)
            if (hop.low, hop.high) != (1, 1):
                yield frame.take(self._reached(hop, starts, ends, step))
                continue
            known = (starts >= 0) & (ends >= 0)
            first, counts = self.adjacency(hop).between(
                np.where(known, starts, 0), np.where(known, ends, 0)
            )
            counts = np.where(known, counts, 0)
            if hop.variable is None:
                yield frame.take(counts > 0)
                continue
            for part in _parts(counts, self.budget.block_rows):
                mine = counts[part]
                block = frame.take(np.repeat(np.arange(part.start, part.stop), mine))
                places = ranges(first[part], mine)
                block = block.bind(hop.variable, self.adjacency(hop).edges(places))
                yield self.filtered(block, step.filters)

    def _reached(
        self, hop: Hop, starts: Positions, ends: Positions, operator: object
    ) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(starts), bool)
        for rows, nodes in self.walk(hop, starts, operator):
            hit = nodes == ends[rows]
            found[rows[hit]] = True
        return found

    def _exists(self, step: Exists, stream: Iterator[Frame]) -> Iterator[Frame]:
        hop = step.hop
        for frame in stream:
            if step.start is None:
                if self._any_walk(hop, step):
                    yield frame
            else:
                positions = self.starting(hop, step.start, frame)
                yield frame.take(self._leads_on(hop, positions, step))

    def _any_walk(self, hop: Hop, operator: object) -> bool:
        if hop.low == 0:
            edge = self.source.catalog.edges[hop.edge]
            return self.source.rows(edge.source) + self.source.rows(edge.target) > 0
        if hop.low == 1:
            return self.source.rows(hop.edge) > 0
        every = np.arange(self.source.adjacency(hop.edge, hop.direction).size)
        return any(len(rows) for rows, _ in self.walk(hop, every, operator))

    def _leads_on(self, hop: Hop, positions: Positions, operator: object) -> npt.NDArray[np.bool_]:
        if hop.low == 0:
            # A walk of no edges leads from everything to itself, but null is nothing.
            return positions >= 0
        if hop.low == 1:
            adjacency = self.source.adjacency(hop.edge, hop.direction)
            return adjacency.counts(positions) > 0
        found = np.zeros(len(positions), bool)
        for rows, _ in self.walk(hop, positions, operator):
            found[rows] = True
        return found

    # --- counting ---

    def _weigh(self, step: Weigh, stream: Iterator[Frame]) -> Iterator[Frame]:
        for frame in stream:
            for branch in step.branches:
                positions = self.starting(branch.hop, step.variable, frame)
                frame = frame.weighted(self.branch_weights(branch, positions))
            yield frame.take(frame.weights > 0) if frame.weights is not None else frame

    def branch_weights(self, branch: Branch, positions: Positions) -> Ints:
        """How many ways lead on along a branch from each of some positions."""
        adjacency = self.adjacency(branch.hop)
        counts = adjacency.counts(positions)
        edge = self.source.catalog.edges[branch.hop.edge]
        type = edge.source if branch.hop.direction == "in" else edge.target
        if type not in branch.types:
            return np.zeros(len(positions), np.int64)
        if not branch.filters and not branch.branches:
            return counts
        # Blocks that follow each other may ask for everything, bit by bit.
        total = self._weighed[branch] = self._weighed.get(branch, 0) + int(counts.sum())
        if branch not in self._weights and total * _LOCAL < len(adjacency):
            ends = adjacency.ends(adjacency.places(positions, counts))
            several, back = distinct_places(ends)
            weights = self._end_weights(branch, type, several)[back]
            sums: Ints = np.concatenate([[0], np.cumsum(weights)]).astype(np.int64)
            after = np.cumsum(counts)
            ways: Ints = sums[after] - sums[after - counts]
            return ways
        whole = self._weights.get(branch)
        if whole is None:
            size = self.source.image(type).size
            weights = self._end_weights(branch, type, np.arange(size))
            whole = self.budget.apart("count", len(adjacency), lambda: adjacency.gather(weights))
            self._weights[branch] = whole
        known = (positions >= 0) & (positions < len(whole))
        return np.where(known, whole[np.where(known, positions, 0)], 0)

    def _end_weights(self, branch: Branch, type: str, positions: Positions) -> Ints:
        """What each end counts: 0 when it does not pass, else the ways on from it."""
        frame = Frame(len(positions), {branch.end: positions}, {})
        alone = Matcher(self.source, {branch.end: (type,)}, self.given, self.budget)
        weights = np.ones(len(positions), np.int64)
        for condition in branch.filters:
            weights *= alone.mask(frame, condition)
        for inner in branch.branches:
            weights *= alone.branch_weights(inner, positions)
        return weights

    # --- nested patterns ---

    def _extend(self, step: Extend, stream: Iterator[Frame]) -> Iterator[Frame]:
        for frame in stream:
            found = np.zeros(frame.count, bool)
            row = _row_name(frame)
            marked = frame.bind(row, np.arange(frame.count))
            for block in self.run(step.steps, marked):
                found[block.columns[row]] = True
                yield block.only(frozenset(block.columns) - {row})
            missing = frame.take(~found)
            for variable in step.variables:
                nothing = np.full(missing.count, -1, np.int64)
                kinds = np.zeros(missing.count, np.int8)
                mixed = kinds if len(self.types[variable]) > 1 else None
                missing = missing.bind(variable, nothing, mixed)
            yield missing

    def _without(self, step: Without, stream: Iterator[Frame]) -> Iterator[Frame]:
        for frame in stream:
            found = np.zeros(frame.count, bool)
            row = _row_name(frame)
            marked = frame.only(frozenset(step.outer)).bind(row, np.arange(frame.count))
            for block in self.run(step.steps, marked):
                found[block.columns[row]] = True
            yield frame.take(~found)


def named_in(expression: Checked) -> set[tuple[str, str]]:
    """The variables of an expression with what is asked of them."""
    return {
        (e.variable, e.property if isinstance(e, PropertyOf) else "id")
        for e in walk(expression)
        if isinstance(e, PropertyOf | Entity)
    }


def _parts(counts: Ints, most: int) -> Iterator[slice]:
    """Cut rows so that each part makes a bounded number of rows (or is a single row)."""
    if not len(counts):
        return
    if int(counts.sum()) <= most:
        yield slice(0, len(counts))
        return
    after = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = int(after[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(after, done + most, "right")))
        yield slice(start, stop)
        start = stop


def _halves(
    depth: int, rows: Ints, nodes: Positions, seen: Ints, size: int
) -> Iterator[tuple[int, Ints, Positions, Ints]]:
    """Walks from some rows as those of the second half of the rows, and of the first one."""
    middle = (int(rows[0]) + int(rows[-1]) + 1) // 2
    at, before = np.searchsorted(rows, middle), np.searchsorted(seen, middle * size)
    yield depth, rows[at:], nodes[at:], seen[before:]
    yield depth, rows[:at], nodes[:at], seen[:before]


def _row_name(frame: Frame) -> str:
    """A name for the numbers of a frame's rows that it has not got yet; patterns may be nested."""
    return next(name for n in count() if (name := f"{_ROW}{n}") not in frame.columns)


def gathered(stream: Iterable[Frame], budget: Budget, operator: str) -> Frame | None:
    """All blocks as one; None when there are none."""
    blocks = []
    for frame in stream:
        budget.keep(frame.bytes, operator)
        blocks.append(frame)
    return concat(blocks) if blocks else None
