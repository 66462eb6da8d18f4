"""`omnigraph mutate`: which query runs with which values, what is printed, and the exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph, failpoints
from tests.cli.conftest import Ran

Run = Callable[..., Ran]

SCHEMA = """\
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  @range(age, 0..150)
  @check(name, "^[A-Z]")
}

edge Knows: Person -> Person {
  since: Date?
}

edge Leads: Person -> Person @card(0..1)
"""
QUERIES = """\
query add($name: String, $age: I32?) {
  insert Person { name: $name, age: $age }
}

query befriend($a: String, $b: String, $since: Date?) {
  insert Person { name: $a }
  insert Person { name: $b }
  insert Knows { from: $a, to: $b, since: $since }
}

query birthday($name: String) {
  update Person set { age: age + 1 } where name = $name
}

query remove($name: String) {
  delete Person where name = $name
}

query all() {
  match { $p: Person }
  return { $p.name }
}
"""
REMOVE = 'query q() { delete Person where name = "Ann" }'


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni`, with `people.gq` beside it, in the current directory of `run`."""
    (tmp_path / "people.gq").write_text(QUERIES)
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.mutate(QUERIES, name="add", params={"name": "Ann", "age": 30})
    graph.branches.create("draft")
    return graph


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).read("Person")["name"].to_pylist())


def head(graph: Graph) -> str:
    return graph.snapshot().commit


def changes_nothing(graph: Graph) -> Callable[[], bool]:
    before = [head(graph), graph.snapshot("draft").commit]
    return lambda: before == [head(graph), graph.snapshot("draft").commit]


# --- which query, with which values ---


def test_a_query_given_as_text(run: Run, graph: Graph):
    ran = run("mutate", "g.omni", "-e", 'query q() { insert Person { name: "Bob" } }')
    assert ran.code == 0
    assert names(graph) == ["Ann", "Bob"]


def test_a_query_of_a_file_by_its_name(run: Run, graph: Graph):
    ran = run(
        "mutate", "g.omni", "--query", "people.gq", "add", "--params", '{"name": "Bob", "age": 41}'
    )
    assert ran.code == 0
    assert graph.snapshot().read("Person", where="id = 'Bob'")["age"].to_pylist() == [41]


def test_a_name_picks_one_query_of_a_text_too(run: Run, graph: Graph):
    text = f'query a() {{ insert Person {{ name: "A" }} }} {REMOVE}'
    assert run("mutate", "g.omni", "a", "-e", text).code == 0
    assert names(graph) == ["A", "Ann"]


def test_the_only_query_of_a_file_needs_no_name(run: Run, graph: Graph):
    Path("one.gq").write_text(REMOVE)
    assert run("mutate", "g.omni", "--query", "one.gq").code == 0
    assert names(graph) == []


def test_params_from_a_file(run: Run, graph: Graph):
    Path("values.json").write_text('\ufeff{"name": "Zoë"}', encoding="utf-8")
    ran = run("mutate", "g.omni", "--query", "people.gq", "add", "--params", "@values.json")
    assert ran.code == 0
    assert names(graph) == ["Ann", "Zoë"]


def test_params_from_stdin(run: Run, graph: Graph, stdin: Callable[[str], None]):
    stdin('{"$name": "Bob"}\n')
    ran = run("mutate", "g.omni", "--query", "people.gq", "add", "--params", "@-")
    assert ran.code == 0
    assert names(graph) == ["Ann", "Bob"]


def test_an_array_of_params_runs_the_query_for_each_in_one_commit(run: Run, graph: Graph):
    commits = len(graph.commits())
    people = json.dumps([{"name": "Bob"}, {"name": "Cy", "age": 1}])
    ran = run("mutate", "g.omni", "--query", "people.gq", "add", "--params", people, "--json")
    assert ran.json["nodes"]["Person"]["inserted"] == 2
    assert len(graph.commits()) == commits + 1


def test_a_number_that_json_readers_would_round_may_be_text(run: Run, graph: Graph):
    ran = run(
        "mutate", "g.omni", "--query", "people.gq", "add", "--params", '{"name": "B", "age": "7"}'
    )
    assert ran.code == 0


@pytest.mark.parametrize("where", ["variable", "option"])
def test_the_graph_need_not_be_named(run: Run, graph: Graph, monkeypatch, where):
    option = ["--store", "g.omni"] if where == "option" else []
    if where == "variable":
        monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    given = ["--query", "people.gq", "--params", '{"name": "Bob"}', *option]
    assert run("mutate", "add", *given).code == 0
    assert run("mutate", *option, "-e", REMOVE).code == 0
    assert names(graph) == ["Bob"]


def test_a_graph_that_is_named_wins_over_the_variable(run: Run, graph: Graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_STORE", "elsewhere.omni")
    assert run("mutate", "g.omni", "-e", REMOVE).code == 0
    assert names(graph) == []
    ran = run("mutate", "g.omni", "--store", "g.omni", "add", "-e", REMOVE)
    assert ran.code == 2
    assert "the graph is named twice" in ran.err


def test_branch_actor_and_message_are_those_of_the_commit(run: Run, graph: Graph):
    ran = run(
        "mutate", "g.omni", "-e", REMOVE, "--branch", "draft", "--as", "ada", "-m", "Ann has left"
    )
    assert ran.code == 0
    assert (names(graph), names(graph, "draft")) == (["Ann"], [])
    commit = graph.commits("draft")[0]
    assert (commit.actor, commit.message) == ("ada", "Ann has left")


# --- what is printed ---


def test_success_shows_counts_by_type_and_the_commit(run: Run, graph: Graph):
    given = ["--query", "people.gq", "befriend", "--params", '{"a": "Ann", "b": "Bob"}']
    ran = run("mutate", "g.omni", *given)
    assert ran.err == f"graph {graph.location}, branch main\n"
    assert ran.out.splitlines() == [
        "type    inserted  replaced",
        "Person         1         1",
        "Knows          1",
        f"2 nodes, 1 edge in commit {head(graph)}",
    ]
    ran = run("mutate", "g.omni", "--query", "people.gq", "remove", "--params", '{"name": "Bob"}')
    assert ran.out.splitlines() == [
        "type    deleted",
        "Person        1",
        "Knows         1",
        f"1 node, 1 edge in commit {head(graph)}",
    ]


def test_success_as_json(run: Run, graph: Graph):
    ran = run(
        "mutate",
        "g.omni",
        "--query",
        "people.gq",
        "birthday",
        "--params",
        '{"name": "Ann"}',
        "--json",
    )
    assert ran.json == {
        "commit": head(graph),
        "branch": "main",
        "affected_nodes": 1,
        "affected_edges": 0,
        "nodes": {"Person": {"inserted": 0, "replaced": 0, "updated": 1, "deleted": 0}},
        "edges": {},
        "repeated": False,
        "warnings": [],
    }


def test_nothing_to_change_makes_no_commit(run: Run, graph: Graph):
    unchanged = changes_nothing(graph)
    given = ["--query", "people.gq", "remove", "--params", '{"name": "Nobody"}']
    ran = run("mutate", "g.omni", *given)
    assert (ran.code, ran.out) == (0, "nothing to change\n")
    assert run("mutate", "g.omni", *given, "--json").json["commit"] is None
    assert unchanged()


def test_a_write_that_was_done_before_says_so(run: Run, graph: Graph):
    given = ["--query", "people.gq", "add", "--params", '{"name": "Bob"}']
    first = run("mutate", "g.omni", *given, "--idempotency-key", "k1", "--json").json
    ran = run("mutate", "g.omni", *given, "--idempotency-key", "k1")
    assert (ran.code, ran.out) == (0, f"done before, in commit {first['commit']}\n")
    again = run("mutate", "g.omni", *given, "--idempotency-key", "k1", "--json").json
    assert (again["commit"], again["repeated"], again["nodes"]) == (first["commit"], True, {})
    assert head(graph) == first["commit"]


def test_an_empty_idempotency_key_is_refused(run: Run, graph: Graph):
    unchanged = changes_nothing(graph)
    ran = run("mutate", "g.omni", "-e", REMOVE, "--idempotency-key", "")
    assert ran.code == 2
    assert "the idempotency key is empty" in ran.err
    assert unchanged()


# --- violations ---


def test_violations_are_listed_each_on_a_line(run: Run, graph: Graph):
    unchanged = changes_nothing(graph)
    text = """query q() {
      insert Person { name: "bob", age: 200 }
      insert Knows { from: "bob", to: "Nobody" }
    }"""
    ran = run("mutate", "g.omni", "-e", text)
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert lines[1] == "error: 3 violations of the schema's rules:"
    assert '  Person "bob", `age`: 200 is outside of 0..150' in lines
    assert '  Person "bob", `name`: "bob" does not match "^[A-Z]"' in lines
    assert lines[-1].endswith(', `to`: there is no Person "Nobody"')
    assert len(lines) == 5
    assert unchanged()


def test_many_violations_fit_on_a_screen_with_some_of_each_kind(run: Run, graph: Graph):
    people: list[dict[str, Any]] = [{"name": f"p{n}"} for n in range(60)]
    people += [{"name": f"Q{n}", "age": 151 + n} for n in range(60)]
    Path("people.json").write_text(json.dumps(people))
    given = ["--query", "people.gq", "add", "--params", "@people.json"]
    lines = run("mutate", "g.omni", *given).err.splitlines()[1:]
    assert lines == [
        "error: 120 violations of the schema's rules:",
        *(f'  Person "p{n}", `name`: "p{n}" does not match "^[A-Z]"' for n in range(5)),
        *(f'  Person "Q{n}", `age`: {151 + n} is outside of 0..150' for n in range(5)),
        "  … and 110 more; --json lists the first 100",
    ]
    error = run("mutate", "g.omni", *given, "--json").json
    assert (error["total"], len(error["violations"])) == (120, 100)


def test_a_screenful_of_violations_is_shown_whole(run: Run, graph: Graph):
    people = json.dumps([{"name": f"p{n}"} for n in range(20)])
    given = ["--query", "people.gq", "add", "--params", people]
    assert len(run("mutate", "g.omni", *given).err.splitlines()) == 22


def test_long_and_unprintable_values_are_cut_and_escaped(run: Run, graph: Graph):
    value = json.dumps({"name": "x\n\x1b[31m\u202e" + "long " * 1000})
    ran = run("mutate", "g.omni", "--query", "people.gq", "add", "--params", value)
    (line,) = ran.err.splitlines()[2:]
    assert r"x\n\x1b[31m\u202elong" in line
    assert line.isprintable() and len(line) < 200


# --- errors ---


def error_of(run: Run, *given: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, the error as JSON, and what is said without `--json`."""
    shown, plain = run(*given, "--json"), run(*given)
    assert shown.code == plain.code
    assert plain.out == ""
    assert "Traceback" not in plain.err
    return shown.code, shown.json, plain.err


@pytest.mark.parametrize(
    "given,code,error,message",
    [
        (("-e", "query q() {"), 1, "QueryError", "expected `match`, `insert`, `update` or"),
        (("-e", 'query q() { insert Persn { name: "x" } }'), 1, "QueryError", "did you mean"),
        (("-e", ""), 2, "UsageError", "which query?"),
        ((), 2, "UsageError", "either --query FILE or -e TEXT"),
        (("-e", REMOVE, "--query", "people.gq"), 2, "UsageError", "either --query FILE or -e"),
        (("--query", "people.gq"), 2, "UsageError", "which query? Pass its name"),
        (("--query", "people.gq", "ad"), 1, "NotFound", "no query `ad`; did you mean `add`?"),
        (("--query", "people.gq", "all"), 2, "UsageError", "query `all` reads"),
        (("--query", "missing.gq"), 1, "NotFound", "missing.gq: no such file"),
        (("--query", "."), 2, "UsageError", "is a directory"),
        (("-e", REMOVE, "--branch", "drafd"), 1, "NotFound", "did you mean `draft`?"),
        (("a", "b", "-e", REMOVE), 2, "UsageError", "takes [GRAPH] [NAME]"),
        (("--query", "people.gq", "add"), 1, "QueryError", "parameter `$name` is missing"),
    ],
)
def test_a_mistake_gets_a_clear_answer(run: Run, graph: Graph, given, code, error, message):
    unchanged = changes_nothing(graph)
    exit_code, found, text = error_of(run, "mutate", "g.omni", *given)
    assert (exit_code, found["error"]) == (code, error)
    assert message in text
    assert unchanged()


@pytest.mark.parametrize(
    "params,code,message",
    [
        ('{"name": ', 2, "--params is not JSON (line 1, column 10: Expecting value)"),
        ("name=Bob", 2, "--params is not JSON"),
        ("", 2, "--params is not JSON"),
        ("[1, 2]", 2, "set 1 of --params is no JSON object"),
        ('"Bob"', 2, "--params is no JSON object"),
        ("null", 2, "--params is no JSON object"),
        ('{"name": "a", "name": "b"}', 2, "the parameters have `name` twice"),
        ('{"name": ' + "9" * 5000 + "}", 2, "a number with too many digits"),
        ('{"name": ' + "[" * 100_000, 2, "--params is nested too deep"),
        ("@missing.json", 1, "missing.json: no such file"),
        ("@bad.json", 2, "bad.json is not JSON (line 2, column 1"),
        ("@latin.json", 1, "latin.json: not UTF-8 text"),
        ("@", 2, "needs a file: @FILE, or @- for stdin"),
        ("@-", 2, "stdin is not JSON"),
        ('{"nmae": "Bob"}', 1, "has no parameter `nmae`"),
        ('{"name": 5}', 1, "5 is not a String"),
        ('{"name": "\\ud800"}', 1, "the text is not valid Unicode"),
        ('{"name": "B", "age": 2147483648}', 1, "out of range for I32"),
        ('{"name": "B", "age": 1.5}', 1, "1.5 is not an I32"),
        ('{"name": "B", "age": NaN}', 1, "nan is not an I32"),
    ],
)
def test_params_that_make_no_sense(
    run: Run, graph: Graph, stdin: Callable[[str], None], params, code, message
):
    Path("bad.json").write_text('{"name":\n')
    Path("latin.json").write_bytes('{"name": "Zoë"}'.encode("latin-1"))
    stdin("")
    unchanged = changes_nothing(graph)
    given = ("mutate", "g.omni", "--query", "people.gq", "add", "--params", params)
    exit_code, _, text = error_of(run, *given)
    assert exit_code == code
    assert message in text
    assert unchanged()


def test_a_mistake_in_a_file_shows_the_file_and_the_place(run: Run, graph: Graph):
    Path("wrong.gq").write_text('query a() { delete Person where name = "x" }\nquery b( {}\n')
    ran = run("mutate", "g.omni", "--query", "wrong.gq", "a")
    assert ran.code == 1
    assert ran.err.splitlines()[1:4] == [
        "wrong.gq:2:10: error OG-SY-001: expected a parameter, such as `$name: String`, found `{`",
        " 2 | query b( {}",
        "   |          ^",
    ]
    error = run("mutate", "g.omni", "--query", "wrong.gq", "a", "--json").json
    assert error["diagnostics"][0]["path"] == "wrong.gq"
    assert (error["diagnostics"][0]["line"], error["diagnostics"][0]["column"]) == (2, 10)


def test_which_graph_is_asked_when_none_is_named(run: Run, graph: Graph):
    ran = run("mutate", "-e", REMOVE)
    assert ran.code == 2
    assert "`omnigraph mutate GRAPH`" in ran.err
    ran = run("mutate", "no.omni", "-e", REMOVE)
    assert ran.code == 1
    assert "there is no graph at" in ran.err


def test_a_precondition_that_fails_exits_with_4(run: Run, graph: Graph):
    old = head(graph)
    assert run("mutate", "g.omni", "-e", REMOVE, "--if-commit", old).code == 0
    unchanged = changes_nothing(graph)
    code, error, text = error_of(run, "mutate", "g.omni", "-e", REMOVE, "--if-commit", old)
    assert code == 4
    assert (error["error"], error["expected"], error["actual"]) == (
        "PreconditionFailed",
        old,
        head(graph),
    )
    assert "nothing was written" in text
    assert unchanged()


def test_a_conflict_exits_with_3(run: Run, graph: Graph):
    """Another writer is faster than an update, which depends on what it has read."""
    given = ("mutate", "g.omni", "--query", "people.gq", "birthday", "--params", '{"name": "Ann"}')
    busy = False

    def overtake() -> None:
        nonlocal busy
        if not busy:
            busy = True
            graph.mutate('query q() { update Person set { email: "a@x" } where age = 30 }')
            busy = False

    with failpoints.active("write.prepared", overtake):
        code, error, text = error_of(run, *given)
    assert code == 3
    assert (error["error"], error["changed"]) == ("ReadSetConflict", ["node:Person"])
    assert "read again and repeat it" in text
    assert graph.snapshot().read("Person")["age"].to_pylist() == [30]


def test_the_help_has_examples(run: Run):
    ran = run("mutate", "--help")
    assert "omnigraph mutate team.omni --query people.gq add_person" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
