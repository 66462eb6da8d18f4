"""A write that replaces so many rows that it makes room for them, to be killed."""

from __future__ import annotations

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.graph import Graph, open
from omnigraph.storage import patch
from omnigraph.writes import prepared


def few_are_many() -> None:
    """Let room be made for a few rows: tests do not have so many."""
    patch.SEVERAL_ROWS = prepared.MANY_ROWS = 0


def replace_many(graph: Graph, branch: str, how: str) -> None:
    names = ["ada", "bob", "eve"]
    rows = pa.table({"name": names, "age": pa.array([1, 2, 3], pa.int32())})
    if how == "load":
        graph.load(rows, type="Person", branch=branch, actor="child", mode="merge")
    else:
        graph.write_batches({"Person": ("merge", rows)}, branch=branch, actor="child")


def replace_and_die(place: str, branch: str, how: str, point: str, skip: int) -> None:
    few_are_many()
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        replace_many(graph, branch, how)
