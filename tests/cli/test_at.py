"""`--at`: verbs that read take the graph as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from tests.cli.conftest import SCHEMA, Ran

Run = Callable[..., Ran]

COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni`: a person with each of two commits, the first of which is tagged."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    for name in ("ada", "bob"):
        graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')
    graph.tags.create("first", graph.commits()[1].id)
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "cy" } }', branch="draft")
    return graph


def refs(graph: Graph) -> dict[str, int]:
    """What means a state of the graph, and how many people there were."""
    second, first, *_ = graph.commits()
    return {
        "first": 1,
        first.id: 1,
        str(first.manifest_version): 1,
        first.time.isoformat(): 1,
        second.id: 2,
        "main": 2,
        "draft": 3,
    }


def test_every_way_to_name_a_state(run: Run, graph: Graph):
    for ref, count in refs(graph).items():
        tables = run("snapshot", "g.omni", "--at", ref, "--json").json["tables"]
        assert (ref, tables[0]["rows"]) == (ref, count)


@pytest.mark.parametrize("ref,count", [("first", 1), ("draft", 3)])
def test_verbs_that_read_take_it(run: Run, graph: Graph, ref, count):
    assert run("query", "g.omni", "-e", COUNT, "--at", ref, "--json").json["rows"] == [{"n": count}]
    exported = run("export", "g.omni", f"{ref}.jsonl", "--at", ref, "--json").json
    assert exported["rows"]["Person"] == count
    explained = run("explain", "--store", "g.omni", "-e", COUNT, "--at", ref, "--json").json
    assert explained["commit"] == graph.at(ref).commit


def test_a_branch_tells_whose_version_or_time(run: Run, graph: Graph):
    late = ("snapshot", "g.omni", "--at", "9999-01-01", "--json")
    assert run(*late).json["tables"][0]["rows"] == 2
    assert run(*late, "--branch", "draft").json["tables"][0]["rows"] == 3


@pytest.mark.parametrize(
    "given,code,message",
    [
        (("--at", "frist"), 1, "there is no branch, commit or tag `frist`; did you mean `first`?"),
        (("--at", "1999-12-31"), 1, "there was no graph at 1999-12-31"),
        (("--at", "first", "--commit", "first"), 2, "pass --commit or --at, not both"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_a_state_that_is_not_there(run: Run, graph: Graph, given, code, message):
    ran = run("snapshot", "g.omni", *given)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
