"""Probe: keeps the matches whose two bound ends are joined by a hop.

When the edge is bound, too, a match becomes as many as there are edges between its ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.compute.arrays import ranges
from omnigraph.language.query.plan import Hop
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import keep_matching
from omnigraph.query.operators.hops import (
    adjacency_of,
    bounded_slices,
    end_positions,
    start_positions,
)
from omnigraph.query.steps import Probe
from omnigraph.query.tables.columns import Positions


def probe(context: Context, step: Probe, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the matches whose ends are joined."""
    hop = step.hop
    assert hop.source is not None and hop.target is not None
    for frame in stream:
        starts = start_positions(context, hop, hop.source, frame)
        ends = end_positions(context, hop, hop.target, frame)
        if (hop.low, hop.high) != (1, 1):
            yield frame.take(_reached(context, hop, starts, ends, step))
            continue
        known = (starts >= 0) & (ends >= 0)
        adjacency = adjacency_of(context, hop)
        first, counts = adjacency.between(np.where(known, starts, 0), np.where(known, ends, 0))
        counts = np.where(known, counts, 0)
        if hop.variable is None:
            yield frame.take(counts > 0)
            continue
        for part in bounded_slices(counts, context.budget.block_rows):
            edges = counts[part]
            block = frame.take(np.repeat(np.arange(part.start, part.stop), edges))
            block = block.bind(hop.variable, adjacency.edges(ranges(first[part], edges)))
            yield keep_matching(context, block, step.filters)


def _reached(
    context: Context, hop: Hop, starts: Positions, ends: Positions, operator: object
) -> npt.NDArray[np.bool_]:
    from omnigraph.query.operators.walk import walk

    reached = np.zeros(len(starts), bool)
    for rows, nodes in walk(context, hop, starts, operator):
        reached[rows[nodes == ends[rows]]] = True
    return reached
