"""Expand: follows a hop from a bound variable, and binds its other end, and perhaps the edge.

A match becomes as many as it has neighbours. A hop of several edges is a walk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import keep_matching
from omnigraph.query.operators.hops import adjacency_of, bind_end, bounded_slices, start_positions
from omnigraph.query.steps import Expand
from omnigraph.query.tables import policy
from omnigraph.query.tables.topology import Adjacency, Ints


def expand(context: Context, step: Expand, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Follow a hop to a variable that is not bound yet."""
    follow = _one_edge if (step.hop.low, step.hop.high) == (1, 1) else _several_edges
    for frame in stream:
        for block in follow(context, step, frame):
            yield keep_matching(context, block, step.filters)


def _one_edge(context: Context, step: Expand, frame: Frame) -> Iterator[Frame]:
    hop = step.hop
    adjacency = adjacency_of(context, hop)
    positions = start_positions(context, hop, step.start, frame)
    counts = adjacency.counts(positions)
    frame = context.only_live(step, frame)
    most = context.budget.block_rows
    if frame.count <= policy.SCAN_BLOCKS * most and bool((counts == 1).all()):
        # Everything has one neighbour, such as the one city somebody lives in.
        places = adjacency.first[positions].astype(np.int64)
        yield _bound(context, step, adjacency, frame, places)
        return
    for part in bounded_slices(counts, most):
        context.budget.check_time(step)
        neighbours = counts[part]
        places = adjacency.places(positions[part], neighbours)
        rows = np.repeat(np.arange(part.start, part.stop), neighbours)
        yield _bound(context, step, adjacency, frame.take(rows), places)


def _bound(
    context: Context, step: Expand, adjacency: Adjacency, frame: Frame, places: Ints
) -> Frame:
    """Bind what a hop leads to, by where its neighbours are."""
    hop = step.hop
    if hop.target is not None:
        frame = bind_end(context, frame, hop, adjacency.ends(places))
    if hop.variable is not None:
        frame = frame.bind(hop.variable, adjacency.edges(places))
    return frame


def _several_edges(context: Context, step: Expand, frame: Frame) -> Iterator[Frame]:
    from omnigraph.query.operators.walk import walk

    positions = start_positions(context, step.hop, step.start, frame)
    for rows, ends in walk(context, step.hop, positions, step):
        yield bind_end(context, frame.take(rows), step.hop, ends)
