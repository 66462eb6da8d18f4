"""`omnigraph optimize`, and what looks after a graph: what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import Graph
from tests.cli.conftest import Ran
from tests.maintenance.graphs import one_by_one

Run = Callable[..., Ran]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni` with people who came one by one."""
    return one_by_one(tmp_path / "g.omni", 6)


def test_optimize_says_what_became_of_the_tables(run: Run, graph: Graph):
    ran = run("optimize", "g.omni", "--as", "nightly")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["table", "fragments", "before", "after"]
    assert lines[-1] == f"optimized in commit {graph.snapshot().commit}"
    assert max(map(len, lines)) <= 80
    assert graph.commits(limit=1)[0].actor == "nightly"
    again = run("optimize", "g.omni")
    assert (again.code, again.out) == (0, "nothing to optimize\n")


def test_optimize_as_json_has_every_table(run: Run, graph: Graph):
    ran = run("optimize", "g.omni", "--json")
    result = json.loads(ran.out)
    assert result["commit"] == graph.snapshot().commit
    assert {table["table"] for table in result["tables"]} == {
        "node:Person",
        "node:City",
        "edge:Knows",
    }
