"""A merge that changes the schema, to be interrupted."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, open


def merge(graph: Graph) -> None:
    graph.merge("draft", actor="child")


def merge_with(place: str, point: str, skip: int) -> None:
    """What the child does: one merge with one active failpoint."""
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        try:
            merge(graph)
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None
