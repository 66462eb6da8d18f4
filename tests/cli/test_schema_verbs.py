"""`omnigraph schema plan`, `apply` and `history`, and `show` of any state."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from omnigraph.graph import init
from omnigraph.graph import open as open_graph

CHANGED = """\
node Person {
  name: String @key
  years: I64? @rename_from("age")
}

node Pet {
  name: String @key
}

edge Knows: Person -> Person {
  since: Date?
}
"""
DROPPED = "node Person {\n  name: String @key\n}\n"


@pytest.fixture
def graph(files: Path) -> Path:
    with init(files / "team.omni", files / "schema.pg") as graph:
        graph.mutate('query q() { insert Person { name: "ada", age: 36 } }')
    (files / "changed.pg").write_text(CHANGED)
    (files / "dropped.pg").write_text(DROPPED)
    (files / "refused.pg").write_text("node Person { name: String @key  age: String? }")
    return files


def test_the_plan_is_shown_and_changes_nothing(run, graph):
    ran = run("schema", "plan", "team.omni", "changed.pg")
    assert ran.code == 0
    for shown in ("rename property `age` to `years`", "add node type `Pet`", "steps"):
        assert shown in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "age" in run("schema", "show", "team.omni").out


def test_a_plan_that_is_refused_exits_with_1(run, graph):
    ran = run("schema", "plan", "team.omni", "refused.pg", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["effect"] == "refused"


def test_apply_changes_the_schema_in_one_commit(run, graph):
    ran = run("schema", "apply", "team.omni", "changed.pg", "--yes", "--as", "eve", "-m", "pets")
    assert ran.code == 0
    assert "applied: commit" in ran.out
    with open_graph(graph / "team.omni") as changed:
        assert (changed.commits(limit=1)[0].actor, changed.commits(limit=1)[0].message) == (
            "eve",
            "pets",
        )
        assert changed.snapshot().read("Person", ["years"])["years"].to_pylist() == [36]
    again = run("schema", "apply", "team.omni", "changed.pg", "--yes")
    assert (again.code, again.out) == (0, "no changes\n")


def test_apply_needs_somebody_to_ask_or_yes(run, graph):
    ran = run("schema", "apply", "team.omni", "changed.pg")
    assert ran.code == 2
    assert "--yes" in ran.err


def test_apply_that_would_lose_data_names_the_option(run, graph):
    ran = run("schema", "apply", "team.omni", "dropped.pg", "--yes")
    assert ran.code == 2
    assert "--allow-data-loss" in ran.err
    ran = run("schema", "apply", "team.omni", "dropped.pg", "--yes", "--allow-data-loss", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["commit"]


def test_history_lists_the_changes_with_their_steps(run, graph):
    run("schema", "apply", "team.omni", "changed.pg", "--yes", "--as", "eve", "-m", "pets")
    ran = run("schema", "history", "team.omni")
    assert ran.code == 0
    newest, _, first = ran.out.partition("\ncommit ")
    for shown in ("eve", "pets", "rename property `age` to `years`"):
        assert shown in newest
    assert "add node type `Person`" in first
    (only,) = json.loads(run("schema", "history", "team.omni", "-n", "1", "--json").out)
    assert only["commit"]["actor"] == "eve"


def test_show_reads_any_branch_and_commit(run, graph):
    with open_graph(graph / "team.omni") as opened:
        first = opened.commits(limit=1)[0].id
        opened.branches.create("draft")
    assert run("schema", "apply", "team.omni", "changed.pg", "--yes", "--branch", "draft").code == 0
    assert "years" in run("schema", "show", "team.omni", "--branch", "draft").out
    assert "years" not in run("schema", "show", "team.omni").out
    assert "years" not in run("schema", "show", "team.omni", "--at", first).out
    ran = run("schema", "show", "--schema", "schema.pg", "--branch", "draft")
    assert ran.code == 2


def test_a_diff_shows_the_steps_of_the_schema(run, graph):
    with open_graph(graph / "team.omni") as before:
        commit = before.snapshot().commit
    run("schema", "apply", "team.omni", "changed.pg", "--yes")
    ran = run("diff", "team.omni", commit, "main")
    assert "rename property `age` to `years`" in ran.out
    assert ran.out.endswith("no changes of rows\n")
    assert run("diff", "team.omni", "main", "main").out == "no changes\n"


def test_nobody_is_asked_about_losing_data_that_has_to_be_allowed(run, graph, monkeypatch):
    asked: list[str] = []

    def confirm(question: str, **options: object) -> bool:
        asked.append(question)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    ran = run("schema", "apply", "team.omni", "dropped.pg")
    assert (ran.code, asked) == (2, [])
    assert "drop property `age: I32?`" in ran.out
    assert "--allow-data-loss" in ran.err
    ran = run("schema", "apply", "team.omni", "dropped.pg", "--allow-data-loss")
    assert (ran.code, asked) == (0, ["Apply it?"])
