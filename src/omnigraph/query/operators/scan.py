"""Scan: binds a variable to all nodes of its types that pass its filters, in blocks.

With matches that have variables already it makes all pairs of these and the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from omnigraph.query.frames import Frame, concat
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.find_nodes import find_nodes
from omnigraph.query.steps import Scan
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions


def scan(context: Context, step: Scan, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Bind a variable to nodes."""
    nodes: Frame | None = None
    for frame in stream:
        if frame.count == 1 and not frame.columns:
            for block in _blocks(context, step):
                weights = frame.weights
                yield (
                    block
                    if weights is None
                    else replace(block, weights=np.full(block.count, weights[0]))
                )
            continue
        from omnigraph.query.operators.cross import cross

        if nodes is None:
            blocks = list(_blocks(context, step))
            nodes = concat(blocks) if blocks else _no_nodes(step)
        yield from cross(context.budget, frame, nodes, step)


def _blocks(context: Context, step: Scan) -> Iterator[Frame]:
    """The nodes of a scan, in blocks."""
    rows = policy.SCAN_BLOCKS * context.budget.block_rows
    for place, type in enumerate(step.types):
        columns = context.source.columns(type)
        positions: Positions | None = None
        count = columns.size
        if step.filters or columns.alive is not None:
            positions = find_nodes(context, step.variable, type, step.filters)
            count = len(positions)
        for start in range(0, count, rows):
            stop = min(start + rows, count)
            block = np.arange(start, stop) if positions is None else positions[start:stop]
            kinds = {}
            if len(step.types) > 1:
                kinds[step.variable] = np.full(len(block), place, np.int8)
            yield Frame(len(block), {step.variable: block}, kinds)


def _no_nodes(step: Scan) -> Frame:
    kinds = {step.variable: np.zeros(0, np.int8)} if len(step.types) > 1 else {}
    return Frame(0, {step.variable: np.zeros(0, np.int64)}, kinds)
