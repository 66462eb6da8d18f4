"""Writes of several threads that land together, to be killed in a process of their own."""

from __future__ import annotations

from functools import partial

from omnigraph import failpoints
from omnigraph.graph import open
from tests.writes.gathering import together

INSERT = "query q($n: String) { insert Person { name: $n, age: 1 } }"
MOVE = 'query q($n: String) { insert LivesIn { from: $n, to: "Bern" } }'
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
WORKS = (
    (INSERT, {"n": "eve"}),
    (MOVE, {"n": "bob"}),
    (INSERT, {"n": "dan"}),
    (UPDATE, {"n": "ada", "a": 50}),
)


def write_together(place: str, branch: str, point: str, skip: int) -> None:
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        works = [
            partial(graph.mutate, query, params=params, branch=branch, actor="child")
            for query, params in WORKS
        ]
        together(graph, *works)
