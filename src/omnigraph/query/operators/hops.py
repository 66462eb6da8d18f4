"""What the operators that follow hops share: where a hop starts and ends, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.language.query.plan import Hop
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.topology import Adjacency, Ints


def adjacency_of(context: Context, hop: Hop) -> Adjacency:
    """The neighbours along a hop, from its source; each once unless the edge is bound."""
    adjacency = context.source.adjacency(hop.edge, hop.direction)
    return adjacency if hop.variable is not None else adjacency.distinct


def start_positions(context: Context, hop: Hop, variable: str, frame: Frame) -> Positions:
    """The positions that a hop starts from; -1 where the variable is of another type."""
    edge = context.source.catalog.edges[hop.edge]
    type = edge.target if hop.direction == "in" else edge.source
    return _of_type(context, variable, type, frame)


def end_positions(context: Context, hop: Hop, variable: str, frame: Frame) -> Positions:
    """The positions where a hop ends; -1 where the variable is of another type."""
    return _of_type(context, variable, end_type(context, hop), frame)


def end_type(context: Context, hop: Hop) -> str:
    """The type of the nodes where a hop ends."""
    edge = context.source.catalog.edges[hop.edge]
    return edge.source if hop.direction == "in" else edge.target


def _of_type(context: Context, variable: str, type: str, frame: Frame) -> Positions:
    types = context.types[variable]
    positions = frame.columns[variable]
    if type not in types:
        return np.full(frame.count, -1, np.int64)
    if len(types) == 1:
        return positions
    return np.where(frame.kinds[variable] == types.index(type), positions, -1)


def bind_end(context: Context, frame: Frame, hop: Hop, ends: Positions) -> Frame:
    """Bind the target of a hop to where it ends; matches that it cannot end at are dropped."""
    assert hop.target is not None
    type = end_type(context, hop)
    types = context.types[hop.target]
    if type not in types:
        return frame.bind(hop.target, ends).take(np.zeros(frame.count, bool))
    if len(types) == 1:
        return frame.bind(hop.target, ends)
    kinds = np.full(frame.count, types.index(type), np.int8)
    return frame.bind(hop.target, ends, kinds)


def bounded_slices(counts: Ints, most: int) -> Iterator[slice]:
    """Cut rows so that each slice makes a bounded number of rows (or is a single row)."""
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
