"""Merges, reverts and picks to be interrupted, in processes of their own."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph, open
from tests.crash.room import few_are_many


def merge_with(
    place: str, into: str, point: str, action: str, skip: int = 0, size: str = "few"
) -> None:
    """Merge `draft` into a branch, with a point active; `many` lets few rows count as many."""
    if size == "many":
        few_are_many()
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            graph.merge("draft", into=into, prefer="theirs", actor="child")
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def undo_or_pick(graph: Graph, verb: str) -> str:
    """Revert what the tag `made` names on main, or pick it onto `review`; gives the outcome."""
    if verb == "revert":
        return graph.revert("made", actor="child").outcome
    return graph.cherry_pick("made", onto="review", actor="child").outcome


def undo_or_pick_with(place: str, verb: str, point: str, action: str, skip: int = 0) -> None:
    """The same with a point active."""
    with open(place) as graph, failpoints.active(point, action, skip=skip):
        try:
            undo_or_pick(graph, verb)
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None
