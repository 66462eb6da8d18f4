"""Histories to follow, and readers that apply a change feed to a copy of the graph."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.compute.keys import PHYSICAL_ENDS
from omnigraph.errors import NotFound
from omnigraph.graph import Graph, init
from omnigraph.merge.diff import EntityChange
from omnigraph.merge.feed import ChangePage
from tests.merge.graphs import run

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node Doc { title: String @key  file: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
NAMES = [f"p{number}" for number in range(8)]
TITLES = ("d0", "d1", "d2")
#: By type and id, the values of an entity.
Copy = dict[tuple[str, str], dict[str, Any]]


def random_history(place: Path, seed: int, steps: int) -> Graph:
    """A graph with a random history of all kinds of writes on main, and merges into it."""
    dice = random.Random(seed)
    graph = init(place / "graph", SCHEMA)
    for number in range(steps):
        branch = "main"
        if number % 10 == 5:
            branch = f"draft{number}"
            graph.branches.create(branch)
        for _ in range(dice.randint(1, 3) if branch != "main" else 1):
            _write(graph, dice, branch)
        if branch != "main":
            _write(graph, dice, "main")
            graph.merge(branch, prefer=dice.choice(["ours", "theirs"]))
        if number % 16 == 15:
            graph.ensure_indices()
    return graph


def _write(graph: Graph, dice: random.Random, branch: str) -> None:
    name = dice.choice(NAMES)
    people = set(graph.snapshot(branch).read("Person", ["id"])["id"].to_pylist())
    kind = dice.choice(["person", "person", "delete", "edge", "same", "load", "doc", "undo"])
    if kind == "undo":
        newest = graph.commits(branch, limit=1)[0]
        if newest.parents:
            graph.revert(newest.id, branch=branch, prefer="theirs")
    elif kind == "doc":
        data = pa.array([dice.choice([None, b"one", b"two" * 1000])], pa.large_binary())
        rows = pa.table({"title": [dice.choice(TITLES)], "file": data})
        graph.write_batches({"Doc": ("merge", rows)}, branch=branch)
    elif kind == "load":
        lines = [
            json.dumps({"type": "Person", "data": {"name": n, "age": dice.randint(0, 3)}})
            for n in dice.sample(NAMES, 3)
        ]
        graph.load(_file(graph, lines), branch=branch)
    elif name not in people:
        run(graph, f'insert Person {{ name: "{name}", tags: ["a"] }}', branch)
    elif kind == "delete":
        run(graph, f'delete Person where name = "{name}"', branch)
    elif kind == "edge":
        other = dice.choice(sorted(people))
        run(graph, f'insert Knows {{ from: "{name}", to: "{other}" }}', branch)
    elif kind == "same":
        age = graph.snapshot(branch).read("Person", ["age"], f"id = '{name}'")["age"][0].as_py()
        value = "null" if age is None else age
        graph.mutate(
            f'query q() {{ update Person set {{ age: {value} }} where name = "{name}" }}',
            branch=branch,
        )
    else:
        age = dice.randint(10, 1000)
        run(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)


def _file(graph: Graph, lines: list[str]) -> Path:
    path = Path(graph.location).parent / "people.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def state_of(graph: Graph, commit: str) -> Copy:
    """All entities at a commit, read without the feed."""
    names = {column: name for name, column in PHYSICAL_ENDS.items()}
    found: Copy = {}
    snapshot = graph.snapshot(commit=commit)
    for type in graph.catalog.tables():
        blobs = [p.name for p in type.stored_properties if p.type.is_blob]
        columns = [
            column
            for column in ("id", "src", "dst", *(p.name for p in type.stored_properties))
            if column not in blobs and (column not in ("src", "dst") or type.name == "Knows")
        ]
        for row in snapshot.read(type.name, columns).to_pylist():
            id = row.pop("id")
            values = {names.get(column, column): value for column, value in row.items()}
            for blob in blobs:
                values[blob] = _token(graph, type.name, id, blob, commit)
            found[type.name, id] = values
    return found


def _token(graph: Graph, type: str, id: str, property: str, commit: str) -> str | None:
    try:
        with graph.read_blob("node", type, id, property, commit=commit) as value:
            return "sha256:" + hashlib.sha256(value.read()).hexdigest()
    except NotFound:
        return None


def pages(graph: Graph, cursor: str | None = None, **options: Any) -> Iterator[ChangePage]:
    """All pages of a feed, from the beginning unless there is a cursor."""
    start = "beginning" if cursor is None else None
    page = graph.changes(start=start, cursor=cursor, **options)
    yield page
    while page.has_more:
        page = graph.changes(cursor=page.cursor, **options)
        yield page


def apply(copy: Copy, changes: Iterable[EntityChange], *, strict: bool = True) -> None:
    """Do to a copy what changes say; a strict reader expects it to be as it was before them."""
    for change in changes:
        key = (change.type, change.id)
        if strict:
            assert copy.get(key) == change.before
        if change.after is None:
            copy.pop(key, None)
        else:
            copy[key] = change.after
