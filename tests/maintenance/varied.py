"""A small graph that has every kind of file that a graph can have."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from omnigraph import failpoints
from omnigraph.graph import Graph, init
from omnigraph.query.tables import policy

SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  mood: enum(calm, wild) @index
  bio: String? @index
  tags: [String]? @index
  face: Vector(4)?
  photo: Blob?
  @index(face, kind="ivf_flat", partitions=2)
}
node City { name: String @key  zip: String? @unique }
node Old { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
LATER = """
node Person {
  name: String @key
  age: I32? @index
  mood: enum(calm, wild) @index
  about: String? @index @rename_from("bio")
  tags: [String]? @index
  face: Vector(4)?
  photo: Blob?
  height: F64?
  @index(face, kind="ivf_flat", partitions=2)
}
node City { name: String @key  zip: String? @unique }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
#: A blob of this size lies in a file of its own.
LARGE = b"ABC" * 60_000
#: Blobs of this size share a file.
MEDIUM = b"medium" * 15_000
SMALL = b"small"


def people(first: int, last: int) -> list[dict[str, Any]]:
    numbers = np.random.default_rng(first)
    return [
        {
            "name": f"p{n}",
            "age": n % 17,
            "mood": ("calm", "wild")[n % 2],
            "bio": f"word{n} likes graphs",
            "tags": [f"t{n % 3}", "all"],
            "face": numbers.random(4).tolist(),
            "photo": {0: LARGE, 1: MEDIUM, 2: SMALL}.get(n),
        }
        for n in range(first, last)
    ]


def add(graph: Graph, name: str, branch: str = "main", **values: Any) -> None:
    given = "".join(f", {key}: {value!r}" for key, value in values.items())
    text = f"query q() {{ insert Person {{ name: '{name}', mood: 'calm'{given} }} }}"
    graph.mutate(text.replace("'", '"'), branch=branch)


def varied(place: Path) -> Graph:
    """A graph with branches, lazy forks, tags, indexes, blobs, deletions and two schemas."""
    usual, policy.VECTORS_WITHOUT_INDEX = policy.VECTORS_WITHOUT_INDEX, 1
    try:
        return _varied(place)
    finally:
        policy.VECTORS_WITHOUT_INDEX = usual


def _varied(place: Path) -> Graph:
    graph = init(place, SCHEMA)
    graph.load(
        {
            "Person": people(0, 40),
            "City": [{"name": f"c{n}", "zip": f"z{n}"} for n in range(4)],
            "Old": [{"name": "old"}],
            "Knows": [{"from": f"p{n}", "to": f"p{n // 2}", "since": n} for n in range(1, 40)],
            "LivesIn": [{"from": f"p{n}", "to": f"c{n % 4}"} for n in range(40)],
        },
        engine="local",
    )
    graph.ensure_indices()
    add(graph, "ada", age=36)
    graph.tags.create("first", graph.snapshot().commit)
    graph.mutate('query q() { delete Person where name = "p5" }')
    graph.mutate('query q() { update Person set { age: 99 } where name = "p6" }')
    graph.branches.create("draft")
    add(graph, "dora", "draft", bio="a draft")
    graph.mutate('query q() { delete Person where name = "p7" }', branch="draft")
    graph.branches.create("deep/er", source="draft")
    graph.mutate('query q() { insert City { name: "Rome" } }', branch="deep/er")
    graph.branches.create("lazy")
    graph.branches.create("gone")
    add(graph, "gus", "gone")
    graph.branches.delete("gone")
    graph.schema.apply(LATER, allow_data_loss=True)
    graph.tags.create("second", graph.snapshot().commit)
    graph.optimize()
    graph.branches.create("early", source="first")
    add(graph, "eve", "early")
    for number in range(3):
        add(graph, f"late{number}", age=number)
    graph.mutate('query q() { delete Person where name = "p8" }')
    graph.merge("draft", prefer="ours")
    with failpoints.active("write.armed", "raise"), suppress(failpoints.FailpointError):
        add(graph, "undone")
    add(graph, "done")
    return graph


def linked(source: Path, target: Path) -> Path:
    """A copy of a graph whose files are links to those of another: none is changed in place."""
    return Path(shutil.copytree(source, target, copy_function=_link))


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)
