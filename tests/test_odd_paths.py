"""A graph may live in a folder of any name, and makes nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from omnigraph.errors import NotFound
from omnigraph.graph import Graph, init, open
from tests.crash.children import run_child

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
MODES: tuple[Literal["r", "rw"], ...] = ("r", "rw")
READ = "query all() { match { $p: Person } return { $p.name as name } }"
NAMES = (
    "ü", "日本 🦀", "a#b", "50%", "%41b", "[x]{y}", "~", "new\nline", "why?", "?a=b", "back\\slash",
    "it's \"q\"", "\x01\x7f", "<a|b>*^`", "!$&'()+,;=:@-._", os.fsdecode(b"\xff"),
)  # fmt: skip


def add(graph: Graph, branch: str, *names: str) -> None:
    graph.write_batches({"Person": ("merge", pa.table({"name": names}))}, branch=branch)


def names(graph: Graph, branch: str) -> set[str]:
    return {row["name"] for row in graph.query(READ, branch=branch)}


def add_in_child(place: str) -> None:
    with open(place) as graph:
        add(graph, "deep/er", "eve")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_folder_of_any_name_holds_a_graph_and_nothing_is_made_beside_it(
    name: str, tmp_path: Path
) -> None:
    for mode in MODES:
        with pytest.raises(NotFound, match="there is no graph at"):
            open(tmp_path / name, mode=mode)
    with init(tmp_path / name / "graph", SCHEMA) as graph:
        add(graph, "main", "ada", "bob")
        graph.branches.create("draft")
        add(graph, "draft", "cyd")
        graph.write_batches({"Person": ("delete", "id = 'bob'")}, branch="draft")
        graph.ensure_indices("draft")
        graph.branches.create("deep/er", source="draft")
        graph.load(pa.table({"name": ["dan"]}), type="Person", branch="deep/er", engine="local")
    assert run_child(add_in_child, str(tmp_path / name / "graph")) == 0
    for mode in MODES:
        with open(tmp_path / name / "graph", mode=mode) as graph:
            assert names(graph, "main") == {"ada", "bob"}
            assert names(graph, "draft") == {"ada", "cyd"}
            assert names(graph, "deep/er") == {"ada", "cyd", "dan", "eve"}
            assert graph.check().problems == ()
    with open(tmp_path / name / "graph") as graph:
        graph.cleanup(confirm=True)
        graph.branches.create("gone")
        graph.branches.delete("gone")
    assert os.listdir(tmp_path) == [name]
    assert os.listdir(tmp_path / name) == ["graph"]
    (tmp_path / name).rename(tmp_path / "plain")
    with open(tmp_path / "plain/graph") as graph:
        assert names(graph, "deep/er") == {"ada", "cyd", "dan", "eve"}
