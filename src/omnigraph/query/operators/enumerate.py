"""Enumerate: binds the variable of an edge to all edges of its type that pass its filters."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.cross import cross
from omnigraph.query.operators.filter import keep_matching
from omnigraph.query.steps import Enumerate


def enumerate_edges(context: Context, step: Enumerate, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Bind a variable to edges."""
    hop = step.hop
    assert hop.variable is not None
    positions = context.source.columns(hop.edge).positions()
    edges = Frame(len(positions), {hop.variable: positions}, {})
    edges = keep_matching(context, edges, step.filters)
    for frame in stream:
        yield from cross(context.budget, frame, edges, step)
