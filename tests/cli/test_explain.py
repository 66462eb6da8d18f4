from __future__ import annotations

import pytest

from omnigraph.graph import init

QUERY = "query adults() { match { $p: Person $p.age >= 18 } return { $p.name } }"


def test_a_query_of_a_file_is_explained(run, files):
    ran = run("explain", "--schema", "schema.pg", "--query", "queries.gq", "friends")
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[:2] == ["query friends", "  Whom somebody knows"]
    for expected in (
        "parameters",
        "  $name  String",
        "fields",
        "  f.name  String",
        "reads",
        "plan",
    ):
        assert expected in lines
    assert "writes" not in lines


def test_all_queries_of_a_file_are_explained(run, files):
    ran = run("explain", "--schema", "schema.pg", "--query", "queries.gq")
    assert [li for li in ran.out.splitlines() if li.startswith("query ")] == [
        "query friends",
        "query add",
    ]


def test_a_text_is_explained(run, files):
    assert "query adults" in run("explain", "--schema", "schema.pg", "-e", QUERY).out


def test_json_has_the_description_and_the_plan(run, files):
    ran = run("explain", "--schema", "schema.pg", "-e", QUERY, "adults", "--json")
    assert ran.json["name"] == "adults"
    assert [f["name"] for f in ran.json["fields"]] == ["p.name"]
    assert "Person" in ran.json["plan"]
    every = run("explain", "--schema", "schema.pg", "-e", QUERY, "--json").json
    assert every == [ran.json]


def test_the_schema_setting_is_the_default(run, files, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "schema.pg")
    assert run("explain", "-e", QUERY).code == 0


def test_an_unknown_query_name_is_an_error_with_a_hint(run, files):
    ran = run("explain", "--schema", "schema.pg", "--query", "queries.gq", "freinds")
    assert ran.code == 1
    assert "there is no query `freinds` in queries.gq; did you mean `friends`?" in ran.err


def test_a_wrong_query_is_shown_with_a_caret_on_stderr(run, files):
    ran = run("explain", "--schema", "schema.pg", "-e", QUERY.replace("$p.age", "$p.aeg"))
    assert (ran.code, ran.out) == (1, "")
    assert "^" in ran.err
    assert "did you mean `age`?" in ran.err
    ran = run("explain", "--schema", "schema.pg", "-e", "query", "--json")
    assert ran.json["error"] == "QueryError"
    assert ran.json["diagnostics"]


def test_a_wrong_schema_is_shown(run, files):
    (files / "bad.pg").write_text("node Person { name: Strin }")
    ran = run("explain", "--schema", "bad.pg", "-e", QUERY)
    assert ran.code == 1
    assert "bad.pg:1:21: error" in ran.err


@pytest.mark.parametrize(
    "arguments,message",
    [
        (("--schema", "schema.pg"), "either --query FILE or -e TEXT"),
        (("--schema", "schema.pg", "--query", "queries.gq", "-e", QUERY), "either --query"),
        (("-e", QUERY), "no graph and no schema; name a graph, or pass --schema FILE"),
    ],
)
def test_what_is_missing_or_too_much_is_a_usage_error(run, files, arguments, message):
    ran = run("explain", *arguments)
    assert ran.code == 2
    assert message in ran.err


BY_NAME = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }"


@pytest.fixture
def place(tmp_path):
    """A graph with one person at the tag `start`, and two at the head."""
    with init(tmp_path / "g.omni", "node Person { name: String @key }") as graph:
        graph.mutate('query q() { insert Person { name: "ada" } }')
        graph.tags.create("start", graph.commits(limit=1)[0].id)
        graph.mutate('query q() { insert Person { name: "bob" } }')
    return str(tmp_path / "g.omni")


def test_a_graph_explains_and_measures_how_it_runs_a_query(run, place):
    options = ["-e", BY_NAME, "--params", '{"n": "ada"}']
    ran = run("explain", place, *options)
    assert ran.code == 0
    assert "scan p: Person where p.name = $n" in ran.out and "rows" not in ran.out
    measured = run("explain", "--store", place, *options, "--analyze", "--json")
    assert [step["rows"] for step in measured.json["steps"]] == [1, 1]


def test_the_graph_is_named_as_for_every_verb(run, place, monkeypatch):
    options = ["-e", BY_NAME, "--params", '{"n": "ada"}', "--json"]
    expected = run("explain", place, *options).json
    assert run("explain", place, "q", *options).json == expected
    assert run("explain", "q", "--store", place, *options).json == expected
    monkeypatch.setenv("OMNIGRAPH_STORE", place)
    assert run("explain", *options).json == expected
    assert run("explain", "q", *options).json == expected
    monkeypatch.setenv("OMNIGRAPH_SCHEMA", "missing.pg")
    assert run("explain", *options).json == expected
    ran = run("explain", place, "--store", place, "-e", BY_NAME, "q")
    assert (ran.code, "named twice" in ran.err) == (2, True)


def test_a_commit_of_the_graph_is_explained(run, place):
    options = ["-e", "query q() { match { $p: Person } return { $p.name } }", "--analyze", "--json"]
    for name, people in ("start", 1), ("main", 2):
        chosen = ("--snapshot", name) if name == "start" else ("--branch", name)
        steps = run("explain", place, *chosen, *options).json["steps"]
        assert steps[-1]["rows"] == people


@pytest.mark.parametrize("option", ["--analyze", "--params={}", "--snapshot=v1", "--at=main"])
def test_a_schema_alone_cannot_run_anything(run, files, option):
    ran = run("explain", "--schema", "schema.pg", "-e", QUERY, option)
    assert (ran.code, "need a graph: name it first" in ran.err) == (2, True)


def test_a_graph_and_a_schema_are_too_much(run, files, place):
    for arguments in (place, "friends"), ("--store", place):
        ran = run("explain", *arguments, "--schema", "schema.pg", "--query", "queries.gq")
        assert (ran.code, "not both" in ran.err) == (2, True)
