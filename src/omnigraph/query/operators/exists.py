"""Exists: keeps the matches from which a hop leads to anything, without binding it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.language.query.plan import Hop
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.hops import start_positions
from omnigraph.query.steps import Exists
from omnigraph.query.tables.columns import Positions


def exists(context: Context, step: Exists, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the matches from which a hop leads on; without a start: if there is any such hop."""
    hop = step.hop
    for frame in stream:
        if step.start is None:
            if _leads_anywhere(context, hop, step):
                yield frame
        else:
            positions = start_positions(context, hop, step.start, frame)
            yield frame.take(_leads_on(context, hop, positions, step))


def _leads_anywhere(context: Context, hop: Hop, operator: object) -> bool:
    source = context.source
    if hop.low == 0:
        edge = source.catalog.edges[hop.edge]
        return source.rows(edge.source) + source.rows(edge.target) > 0
    if hop.low == 1:
        return source.rows(hop.edge) > 0
    from omnigraph.query.operators.walk import walk

    every = np.arange(source.adjacency(hop.edge, hop.direction).size)
    return any(len(rows) for rows, _ in walk(context, hop, every, operator))


def _leads_on(
    context: Context, hop: Hop, positions: Positions, operator: object
) -> npt.NDArray[np.bool_]:
    if hop.low == 0:
        # A walk of no edges leads from everything to itself, but null is nothing.
        return positions >= 0
    if hop.low == 1:
        return context.source.adjacency(hop.edge, hop.direction).counts(positions) > 0
    from omnigraph.query.operators.walk import walk

    leads_on = np.zeros(len(positions), bool)
    for rows, _ in walk(context, hop, positions, operator):
        leads_on[rows] = True
    return leads_on
