"""Processes that write to a graph and die."""

from __future__ import annotations

from omnigraph import failpoints
from omnigraph.graph import open


def add_and_die(place: str, name: str, key: str, point: str) -> None:
    """Insert a person with an idempotency key, and be killed at a point."""
    text = "query q($n: String, $a: I64?) { insert Person { name: $n, age: $a } }"
    with open(place) as graph, failpoints.active(point, "kill"):
        graph.mutate(text, params={"n": name}, idempotency_key=key)
