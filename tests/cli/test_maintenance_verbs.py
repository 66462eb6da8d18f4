"""`omnigraph optimize`, and what looks after a graph: what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from omnigraph import Graph
from tests.cli.conftest import Ran
from tests.maintenance.graphs import folder_of, one_by_one

Run = Callable[..., Ran]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni` with people who came one by one."""
    return one_by_one(tmp_path / "g.omni", 6)


def test_optimize_says_what_became_of_the_tables(run: Run, graph: Graph):
    ran = run("optimize", "g.omni", "--as", "nightly")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["table", "fragments", "removed", "added"]
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


def test_repair_shows_what_another_program_did_and_publishes_it(run: Run, graph: Graph):
    assert run("repair", "g.omni").out == "nothing to repair: every table is as published\n"
    lance.dataset(str(folder_of(graph, "Person"))).optimize.compact_files()
    lance.dataset(str(folder_of(graph, "Knows"))).delete("since = 1")
    shown = run("repair", "g.omni")
    assert shown.code == 0 and max(map(len, shown.out.splitlines())) <= 80
    assert shown.out.splitlines()[0].split()[:4] == ["branch", "table", "published", "HEAD"]
    assert "reservation" in shown.out and "only --force --confirm publishes it" in shown.out
    assert (
        "1 table to publish; run it again with --confirm to do so\n1 table more with" in shown.out
    )
    ran = run("repair", "g.omni", "--confirm", "--as", "ada")
    assert ran.code == 1 and ran.out.splitlines()[-1] == "1 table left as before"
    forced = run("repair", "g.omni", "--force", "--confirm", "-m", "why", "--json")
    (table,) = json.loads(forced.out)["tables"]
    assert forced.code == 0 and table["commit"] == graph.snapshot().commit
    assert [version["kind"] for version in table["versions"]] == ["delete"]
    assert [commit.message for commit in graph.commits(limit=2)] == ["why", "repair"]


def test_repair_that_breaks_a_rule_says_how_to_drop_it(run: Run, graph: Graph):
    lance.dataset(str(folder_of(graph, "Person"))).delete("name = 'p1'")
    ran = run("repair", "g.omni", "--force", "--confirm")
    assert ran.code == 1 and "delete the files that sort before" in ran.err
