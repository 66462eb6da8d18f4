"""Weigh: counts what hangs at a variable instead of listing it.

A match stays one row, whose weight says how many matches it stands for; those that would be none
are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.compute.arrays import distinct_places
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import match_flags
from omnigraph.query.operators.hops import adjacency_of, end_type, start_positions
from omnigraph.query.steps import CountedHop, Weigh
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.topology import Ints


def weigh(context: Context, step: Weigh, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Multiply the weights of matches by the numbers of ways along hops."""
    for frame in stream:
        for counted in step.hops:
            positions = start_positions(context, counted.hop, step.variable, frame)
            frame = frame.weighted(_ways(context, counted, positions))
        yield frame.take(frame.weights > 0) if frame.weights is not None else frame


def _ways(context: Context, counted: CountedHop, positions: Positions) -> Ints:
    """How many ways lead on along a hop, and those after it, from each of some positions."""
    adjacency = adjacency_of(context, counted.hop)
    counts = adjacency.counts(positions)
    type = end_type(context, counted.hop)
    if type not in counted.types:
        return np.zeros(len(positions), np.int64)
    if not counted.filters and not counted.hops:
        return counts
    # Blocks that follow each other may ask for everything, bit by bit.
    total = context.counted_edges.get(counted, 0) + int(counts.sum())
    context.counted_edges[counted] = total
    if counted not in context.ways and total * policy.COUNTED_PART < len(adjacency):
        ends = adjacency.ends(adjacency.places(positions, counts))
        several, back = distinct_places(ends)
        weights = _end_weights(context, counted, type, several)[back]
        sums: Ints = np.concatenate([[0], np.cumsum(weights)]).astype(np.int64)
        after = np.cumsum(counts)
        ways: Ints = sums[after] - sums[after - counts]
        return ways
    whole = context.ways.get(counted)
    if whole is None:
        everything = context.source.columns(type).all_positions()
        weights = _end_weights(context, counted, type, everything)
        whole = context.budget.apart("count", len(adjacency), lambda: adjacency.gather(weights))
        context.ways[counted] = whole
    known = (positions >= 0) & (positions < len(whole))
    return np.where(known, whole[np.where(known, positions, 0)], 0)


def _end_weights(context: Context, counted: CountedHop, type: str, positions: Positions) -> Ints:
    """What each end counts: 0 when it does not pass, else the ways on from it."""
    frame = Frame(len(positions), {counted.end: positions}, {})
    alone = context.of_one(counted.end, type)
    weights = np.ones(len(positions), np.int64)
    for condition in counted.filters:
        weights *= match_flags(alone, frame, condition)
    for inner in counted.hops:
        weights *= _ways(alone, inner, positions)
    return weights
