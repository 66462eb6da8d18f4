"""Merges to be interrupted, in processes of their own."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import open


def merge_with(place: str, into: str, point: str, action: str, skip: int = 0) -> None:
    """Merge `draft` into a branch, with a point active."""
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            graph.merge("draft", into=into, actor="child")
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None
