"""Walk: where hops of several edges lead, breadth first; each end is reached once from a start.

How many pairs of a start and a visited node are in memory at once is bounded: when there may be too
many, the walks from one half of the starts come first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.compute.arrays import distinct
from omnigraph.language.query.plan import Hop
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.hops import bounded_slices
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.topology import Adjacency, Ints


def walk(
    context: Context, hop: Hop, positions: Positions, operator: object
) -> Iterator[tuple[Ints, Positions]]:
    """Where walks lead: rows of `positions`, and ends, each end once per row.

    An end counts by its distance. The start is at distance 0; an edge from it to itself makes it an
    end at distance 1 as well.
    """
    adjacency = context.source.adjacency(hop.edge, hop.direction).distinct
    # A node without edges may be beyond those that the topology knows.
    size = max(adjacency.size, int(positions.max(initial=0)) + 1)
    most = context.budget.block_rows
    step = max(1, most // policy.ROWS_PER_WALK)
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
            context.budget.check_time(operator)
            if not len(rows):
                continue
            counts = adjacency.counts(nodes)
            too_many = len(seen) + int(counts.sum()) > policy.WALK_BLOCKS * most
            if too_many and rows[0] < rows[-1]:
                walks += _halves(depth, rows, nodes, seen, size)
                continue
            ends = _neighbours(context, adjacency, rows, nodes, counts, size, operator)
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
    context: Context,
    adjacency: Adjacency,
    rows: Ints,
    nodes: Positions,
    counts: Ints,
    size: int,
    operator: object,
) -> Ints:
    """The distinct pairs of row and neighbour, as numbers."""
    pairs = np.zeros(0, np.int64)
    for part in bounded_slices(counts, policy.WALK_BLOCKS * context.budget.block_rows):
        neighbours = counts[part]
        places = adjacency.places(nodes[part], neighbours)
        keys = np.repeat(rows[part], neighbours) * size + adjacency.ends(places)
        pairs = distinct(pairs, keys)
        context.budget.check_time(operator)
    return pairs


def _halves(
    depth: int, rows: Ints, nodes: Positions, seen: Ints, size: int
) -> Iterator[tuple[int, Ints, Positions, Ints]]:
    """Walks from some rows as those of the second half of the rows, and of the first one."""
    middle = (int(rows[0]) + int(rows[-1]) + 1) // 2
    at, before = np.searchsorted(rows, middle), np.searchsorted(seen, middle * size)
    yield depth, rows[at:], nodes[at:], seen[before:]
    yield depth, rows[:at], nodes[:at], seen[:before]
