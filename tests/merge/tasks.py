"""Merges in tasks, forced on small graphs, and graphs in which two sides have done everything."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError, ValidationError
from omnigraph.graph import Graph, init, open
from omnigraph.merge import work
from omnigraph.merge.amount import Sizes
from omnigraph.merge.apply import MergeResult
from tests.merge.graphs import SOCIAL, content, make, run

#: A few rows are in a bucket, and some fragments are divided by one task.
TINY = Sizes(at_once=-1, bucket=300, key_rows=3, portion=4)
#: All merges are done at once.
HUGE = Sizes(at_once=1 << 60)
TYPED = """
node Doc { k: String @key  title: String?  vector: Vector(3)?  tags: [String]?  file: Blob? }
"""


def in_tasks(graph: Graph, sizes: Sizes = TINY, **options: Any) -> MergeResult:
    """Merge in tasks of a few rows."""
    return _with(sizes, graph, **options)


def at_once(graph: Graph, **options: Any) -> MergeResult:
    return _with(HUGE, graph, **options)


def _with(sizes: Sizes, graph: Graph, source: str = "theirs", **options: Any) -> MergeResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "SIZES", sizes)
        return graph.merge(source, **options)


def interrupted(place: str, into: str, point: str, action: str) -> None:
    """Merge in tasks with a point active, in a process of its own."""
    with open(place) as graph, failpoints.active(point, action):
        try:
            in_tasks(graph, into=into, actor="child")
        except (failpoints.FailpointError, OmnigraphError):
            raise SystemExit(3) from None


def told(graph: Graph, merge: Any, **options: Any) -> dict[str, Any]:
    """What a merge says."""
    found = merge(graph, **options).to_dict()
    return {name: value for name, value in found.items() if name not in ("commit", "into")}


def assert_equal(graph: Graph, into: str, tasks: Any = in_tasks, **options: Any) -> None:
    """Merge at once and in tasks: results and rows are equal. Conflicts are told by a dry run."""
    expected = told(graph, at_once, into=into, dry_run=True, **options)
    assert told(graph, tasks, into=into, dry_run=True, **options) == expected
    if expected["conflicts"]:
        return
    for branch in ("at-once", "in-tasks"):
        graph.branches.create(branch, source=into)
    try:
        assert told(graph, at_once, into="at-once", **options) == expected
        assert told(graph, tasks, into="in-tasks", **options) == expected
        assert rows(graph, "in-tasks") == rows(graph, "at-once")
        assert graph.check().problems == ()
        assert scratch(graph) == []
    finally:
        for branch in ("at-once", "in-tasks"):
            graph.branches.delete(branch)


def rows(graph: Graph, branch: str) -> dict[str, dict[str, Any]]:
    """All rows by id, with the bytes of their blobs."""
    found = content(graph, branch)
    for row in found.get("Doc", {}).values():
        if row["file"] is not None:
            with graph.read_blob("node", "Doc", row["id"], "file", branch=branch) as blob:
                row["file"] = blob.read()
    return found


def scratch(graph: Graph) -> list[str]:
    """What tasks have left behind."""
    folder = Path(graph.location) / "__scratch"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def social(place: Path, seed: int, edits: int = 24) -> Graph:
    """A graph whose branches `ours` and `theirs` have random edits, made of whatever fits."""
    choose = random.Random(seed)
    graph = init(place / "graph", SOCIAL)
    names = [f"p{number}" for number in range(8)]
    notes = [f"n{number}" for number in range(4)]
    graph.load(
        {
            "Person": pa.table({"name": names[:5], "age": range(5), "email": list("abcde")}),
            "Note": pa.table({"id": notes[:2], "text": ["x", "y"], "stars": [1, 2]}),
            "Knows": pa.table(
                {"id": ["k0", "k1", "k2"], "from": names[:3], "to": names[1:4], "since": [1, 2, 3]}
            ),
            "Wrote": pa.table({"id": ["w0"], "from": ["p0"], "to": ["n0"]}),
        },
        mode="append",
        indexes=False,
    )
    graph.branches.create("ours")
    graph.branches.create("theirs")

    def statement() -> str:
        name, other, note = choose.choice(names), choose.choice(names), choose.choice(notes)
        number, text = choose.randrange(4), choose.choice("abfgh")
        return choose.choice(
            [
                f'insert Person {{ name: "{name}", age: {number} }}',
                f'update Person set {{ age: {number} }} where name = "{name}"',
                f'update Person set {{ city: "{text}" }} where name = "{name}"',
                f'update Person set {{ email: "{text}" }} where name = "{name}"',
                f'update Person set {{ email: "{text}" }} where name = "{name}"',
                f'delete Person where name = "{name}"',
                f"update Knows set {{ since: {number} }} where since = {choose.randrange(4)}",
                f'insert Knows {{ from: "{name}", to: "{other}", since: {number} }}',
                f'insert Wrote {{ from: "p{choose.randrange(2)}", to: "{note}" }}',
                f'delete Knows where from = "{name}"',
                f"update Note set {{ stars: {number} }} where stars < {number}",
            ]
        )

    for _ in range(edits):
        branch = choose.choice(("ours", "theirs", "theirs"))
        try:
            graph.mutate(f"query q() {{ {statement()} }}", branch=branch)
        except ValidationError:
            continue
    return graph


def typed(place: Path) -> Graph:
    """A graph with vectors, lists and blobs, changed by one side, the other, or both."""
    graph = init(place / "graph", TYPED)

    def docs(first: int, last: int, mark: str) -> pa.Table:
        count = last - first
        vectors = [[float(n), 1.0, float(len(mark))] for n in range(first, last)]
        return pa.table(
            {
                "k": [f"d{n:02}" for n in range(first, last)],
                "title": [f"{mark}{n}" for n in range(first, last)],
                "vector": pa.array(vectors, pa.list_(pa.float32(), 3)),
                "tags": pa.array([[mark]] * count, pa.list_(pa.utf8())),
                "file": pa.array([f"{mark} {n}".encode() for n in range(first, last)], pa.binary()),
            }
        )

    graph.load({"Doc": docs(0, 20, "base")}, mode="append", indexes=False)
    graph.branches.create("ours")
    graph.branches.create("theirs")
    graph.load({"Doc": docs(0, 6, "ours")}, branch="ours", indexes=False)
    graph.load({"Doc": docs(4, 12, "theirs")}, branch="theirs", indexes=False)
    graph.load({"Doc": docs(30, 34, "theirs")}, mode="append", branch="theirs", indexes=False)
    for branch, name in (("theirs", "d15"), ("theirs", "d00"), ("ours", "d11"), ("ours", "d16")):
        graph.mutate(f'query q() {{ delete Doc where k = "{name}" }}', branch=branch)
    graph.mutate('query q() { update Doc set { title: "new" } where k = "d12" }', branch="ours")
    return graph


def broken_rules(place: Path) -> Graph:
    """A graph of which `main` and `theirs` fit each other row by row, and break all rules."""
    graph = make(place)
    people = "".join(f'insert Person {{ name: "p{n}", email: "e{n}" }}' for n in range(8))
    run(graph, people)
    notes = pa.table({"id": [f"n{n}" for n in range(4)], "text": ["t"] * 4})
    graph.load({"Note": notes}, mode="append", indexes=False)
    run(graph, 'insert Wrote { from: "p0", to: "n0" } insert Knows { from: "p1", to: "p2" }')
    graph.branches.create("theirs")
    for branch, note in (("main", "n1"), ("theirs", "n2")):
        run(graph, f'insert Wrote {{ from: "p0", to: "{note}" }}', branch)
    run(graph, 'insert Knows { from: "p3", to: "p4" }')
    run(graph, 'delete Person where name = "p4"', "theirs")
    run(
        graph,
        'insert Knows { from: "p5", to: "p6" } insert Knows { from: "p6", to: "p5" }',
        "theirs",
    )
    run(graph, 'delete Person where name = "p6"')
    # The same value in two rows: of both sides, and of theirs with a row that both have changed.
    run(graph, 'update Person set { email: "x" } where name = "p1"')
    run(graph, 'update Person set { email: "x" } where name = "p2"', "theirs")
    run(graph, 'update Person set { email: "y" } where name = "p3"')
    run(graph, 'update Person set { age: 3 } where name = "p3"', "theirs")
    run(graph, 'insert Person { name: "q", email: "y" }', "theirs")
    # And one that is free again, since its row has another one.
    run(graph, 'update Person set { email: "z" } where name = "p7"', "theirs")
    run(graph, 'insert Person { name: "r", email: "e7" }', "theirs")
    return graph
