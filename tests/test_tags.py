"""A tag stands for its commit wherever a commit is asked for."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import AlreadyExists, Graph, NotFound, PreconditionFailed

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  photo: Blob?
}
"""
ADD = "query q($n: String) { insert Person { name: $n } }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
#: Two people at the tag, three at the head.
AT_TAG, AT_HEAD = 2, 3


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "team.omni", SCHEMA)
    graph.load([{"name": "Ada", "photo": b"abc"}], type="Person")
    made = graph.mutate(ADD, params={"n": "Bob"}).commit
    assert made is not None
    graph.tags.create("v1", made.id)
    graph.mutate(ADD, params={"n": "Cem"})
    return graph


def exported(graph: Graph) -> int:
    stream = io.BytesIO()
    graph.export(stream, commit="v1")
    return len(stream.getvalue().splitlines())


def photo(graph: Graph) -> bytes:
    with graph.read_blob("node", "Person", "Ada", "photo", commit="v1") as stream:
        return stream.read()


READS: dict[str, tuple[Callable[[Graph], Any], Any]] = {
    "snapshot": (lambda g: g.snapshot(commit="v1").count("Person"), AT_TAG),
    "at": (lambda g: g.at("v1").count("Person"), AT_TAG),
    "query": (lambda g: g.query(COUNT, commit="v1").scalar(), AT_TAG),
    "explain": (lambda g: g.explain(COUNT, commit="v1").commit == g.tags.list()["v1"], True),
    "commit": (lambda g: g.commit("v1").id == g.tags.list()["v1"], True),
    "diff": (lambda g: str(g.diff("v1", "main").summary()), "+1 Person"),
    "diff to": (lambda g: str(g.diff("main", "v1").summary()), "-1 Person"),
    "commit_changes": (lambda g: str(g.commit_changes("v1").summary()), "+1 Person"),
    "changes": (lambda g: len(g.changes(start="after:v1").commits), 1),
    "read_blob": (photo, b"abc"),
    "stat_blob": (lambda g: g.stat_blob("node", "Person", "Ada", "photo", commit="v1").size, 3),
    "export": (exported, AT_TAG),
    "dry merge": (lambda g: g.merge("v1", dry_run=True).outcome, "already_up_to_date"),
    "dry revert": (lambda g: g.revert("v1", dry_run=True).outcome, "reverted"),
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_takes_a_tag(name: str, graph: Graph) -> None:
    read, expected = READS[name]
    assert read(graph) == expected


def test_a_merge_a_revert_and_a_cherry_pick_take_a_tag(graph: Graph) -> None:
    graph.branches.create("draft")
    made = graph.mutate(ADD, params={"n": "Dan"}, branch="draft").commit
    assert made is not None
    graph.tags.create("dan", made.id)
    assert graph.cherry_pick("dan").outcome == "picked"
    assert graph.revert("dan").outcome == "reverted"
    assert graph.merge("dan").outcome == "merged"


def merged_if(graph: Graph, commit: str) -> Any:
    graph.branches.create("draft")
    graph.mutate(ADD, params={"n": "Dan"}, branch="draft")
    return graph.merge("draft", if_commit=commit).commit


ROW = {"name": "Eve"}
CONDITIONS: dict[str, Callable[[Graph, str], Any]] = {
    "mutate": lambda g, c: g.mutate(ADD, params={"n": "Eve"}, if_commit=c).commit,
    "load": lambda g, c: g.load([ROW], type="Person", if_commit=c).commit,
    "write_batches": lambda g, c: (
        g.write_batches({"Person": ("delete", "name = 'Ada'")}, if_commit=c).commit
    ),
    "merge": merged_if,
    "revert": lambda g, c: g.revert(g.commits()[0].id, if_commit=c).commit,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_write_on_a_condition_takes_a_tag(name: str, graph: Graph) -> None:
    head = graph.commits()[0].id
    with pytest.raises(PreconditionFailed) as refused:
        CONDITIONS[name](graph, "v1")
    assert (refused.value.expected, refused.value.actual) == (graph.tags.list()["v1"], head)
    graph.tags.create("head", head)
    if name == "merge":
        graph.branches.delete("draft")
    assert CONDITIONS[name](graph, "head") is not None


def test_a_tag_can_be_given_a_second_name(graph: Graph) -> None:
    commit = graph.tags.list()["v1"]
    assert graph.tags.create("first", "v1") == commit
    assert graph.tags.create("first", "v1") == commit
    assert graph.tags.list() == {"first": commit, "v1": commit}
    graph.tags.create("head", graph.commits(limit=1)[0].id)
    with pytest.raises(AlreadyExists, match="delete it first"):
        graph.tags.create("v1", "head")
    with pytest.raises(NotFound, match="did you mean `v1`"):
        graph.tags.create("other", "v11")


def test_a_branch_names_its_newest_commit(graph: Graph) -> None:
    graph.branches.create("draft")
    head = graph.mutate(ADD, params={"n": "Dan"}, branch="draft").commit
    assert head is not None
    assert graph.tags.create("done", "draft") == head.id
    with pytest.raises(NotFound, match="no branch, commit or tag `drft`; did you mean `draft`"):
        graph.tags.create("more", "drft")
    assert "more" not in graph.tags.list()
