"""The verbs that look at changes: diff, commit changes, changes, history and blame."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph
from tests.cli.conftest import Ran
from tests.cli.test_graph_verbs import modules_after, tree
from tests.cli.test_main import _on_a_terminal as on_a_terminal
from tests.patience import PATIENCE

Run = Callable[..., Ran]

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String? }
edge Knows: Person -> Person
"""
#: Every verb of this page that is run on the graph.
READING = [
    ("diff", "g.omni", "main", "draft"),
    ("commit", "changes", "g.omni", "first"),
    ("changes", "poll", "g.omni", "--from-start"),
    ("changes", "baseline", "g.omni"),
    ("history", "g.omni", "Person", "ada"),
    ("blame", "g.omni", "Person", "ada"),
]


def write(graph: Graph, statements: str, branch: str = "main", **about: Any) -> str:
    made = graph.mutate(f"query q() {{ {statements} }}", branch=branch, **about).commit
    assert made is not None
    return made.id


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni`: ada and bob on main, tagged `first`, and changes on `draft`."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    people = 'insert Person { name: "ada", age: 36, bio: "wrote many long letters" }'
    first = write(graph, people + ' insert Person { name: "bob" }', actor="ada", message="Begin")
    graph.tags.create("first", first)
    graph.branches.create("draft")
    changed = 'update Person set { age: 37, bio: "wrote many programs" } where name = "ada"'
    write(graph, changed, "draft", actor="agent:1", message="Look again")
    write(graph, 'insert Person { name: "cy" } insert Knows { from: "cy", to: "ada" }', "draft")
    write(graph, 'delete Person where name = "bob"', "draft")
    return graph


@pytest.mark.parametrize("verb", READING, ids=lambda v: " ".join(v[:2]))
def test_verbs_that_look_change_no_file_and_fit_in_80_columns(run: Run, graph: Graph, verb):
    before = tree(Path("g.omni"))
    plain = ("--format", "text") if verb[0] == "changes" else ()
    ran = run(*verb, *plain)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    assert run(*verb, "--json").json
    assert tree(Path("g.omni")) == before


@pytest.mark.parametrize("verb", ["diff", "history", "revert", "changes"])
def test_the_help_of_a_verb_loads_nothing_heavy(verb):
    loaded = set(modules_after(verb, "--help").stderr.split())
    assert not {"pandas", "pyspark", "lance", "pyarrow", "numpy", "obstore", "yaml"} & loaded


# --- diff ---


def test_diff_has_a_summary_and_then_each_change(run: Run, graph: Graph):
    ran = run("diff", "g.omni", "main", "draft")
    assert ran.err == ""
    assert re.sub(r"\(\w{26}\)", "(id)", ran.out).splitlines() == [
        "+1 ~1 -1 Person, +1 Knows",
        "",
        "Person",
        "~ ada",
        "    age: 36 → 37",
        '    bio: "wrote many [-long letters-]{+programs+}"',
        "- bob",
        "+ cy",
        "",
        "Knows",
        "+ cy → ada (id)",
    ]


def test_diff_of_equal_states(run: Run, graph: Graph):
    assert run("diff", "g.omni", "main", "first").out == "no changes\n"
    assert run("diff", "g.omni", "main", "first", "--json").json["changes"] == []


@pytest.mark.parametrize(
    "options,shown",
    [
        (("--type", "Knows"), "+1 Knows"),
        (("--kind", "node"), "+1 ~1 -1 Person"),
        (("--op", "delete", "--op", "insert"), "+1 -1 Person, +1 Knows"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_diff_shows_what_was_asked_for(run: Run, graph: Graph, options, shown):
    ran = run("diff", "g.omni", "main", "draft", "--format", "summary", *options)
    assert ran.out == f"{shown}\n"


def test_diff_stops_at_the_limit_and_tells_how_many_there_are(run: Run, graph: Graph):
    ran = run("diff", "g.omni", "main", "draft", "--limit", "2")
    assert ran.out.splitlines()[-3:] == ["- bob", "", "… and 2 more; --limit 0 shows all"]
    whole = run("diff", "g.omni", "main", "draft", "--limit", "0").out
    assert "+ cy → ada" in whole and "more" not in whole


def test_diff_side_by_side(run: Run, graph: Graph):
    ran = run("diff", "g.omni", "main", "draft", "--op", "update", "--format", "side-by-side")
    assert ran.out.splitlines()[3:] == [
        "~ ada",
        "  age   36                                 │ 37",
        '  bio   "wrote many [-long letters-]"      │ "wrote many {+programs+}"',
    ]


def test_diff_as_json_and_as_lines(run: Run, graph: Graph):
    found = run("diff", "g.omni", "main", "draft", "--json").json
    states = graph.snapshot().commit, graph.snapshot("draft").commit
    assert (found["old"], found["new"]) == states
    assert [each["type"] for each in found["types"]] == ["Person", "Knows"]
    changes = [change.to_dict() for change in graph.diff("main", "draft")]
    assert found["changes"] == changes
    lines = run("diff", "g.omni", "main", "draft", "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == changes
    summary = run("diff", "g.omni", "main", "draft", "--json", "--format", "summary").json
    assert summary == {name: found[name] for name in ("old", "new", "types")}


@pytest.mark.parametrize(
    "given,code,message",
    [
        (("main", "drft"), 1, "there is no branch, commit or tag `drft`; did you mean `draft`?"),
        (("main", "draft", "--type", "Persn"), 1, "no type `Persn`; did you mean `Person`?"),
        (("main", "draft", "--json", "--format", "inline"), 2, "contradict each other"),
        (("main",), 2, "B is missing"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_a_diff_that_makes_no_sense(run: Run, graph: Graph, given, code, message):
    ran = run("diff", *(("g.omni", *given) if len(given) > 1 else given))
    assert (ran.code, message in ran.err + ran.out) == (code, True)


def test_diff_has_colours_on_a_terminal_unless_no_color(graph: Graph, tmp_path: Path):
    diff = ["diff", "g.omni", "main", "draft"]
    coloured = on_a_terminal(diff, tmp_path)
    assert "\x1b[31mlong letters\x1b[0m \x1b[32mprograms\x1b[0m" in coloured
    assert "\x1b[32m+ cy\x1b[0m" in coloured and "[-" not in coloured
    plain = on_a_terminal(diff, tmp_path, NO_COLOR="1")
    assert "\x1b" not in plain and "[-long letters-]{+programs+}" in plain


def test_commit_changes_is_the_difference_to_the_parent(run: Run, graph: Graph):
    newest = graph.commits("draft")[0].id
    assert run("commit", "changes", "g.omni", newest).out == "-1 Person\n\nPerson\n- bob\n"
    found = run("commit", "changes", "g.omni", "first", "--json").json
    assert found["new"] == graph.commit("first").id
    assert [change["id"] for change in found["changes"]] == ["ada", "bob"]


# --- the feed ---


def lines(ran: Ran) -> list[dict[str, object]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_poll_gives_changes_with_their_commits_and_a_cursor(run: Run, graph: Graph):
    *changes, end = lines(run("changes", "poll", "g.omni", "--from-start", "--branch", "draft"))
    assert [(c["operation"], c["id"]) for c in changes if c["kind"] == "node"] == [
        ("insert", "ada"),
        ("insert", "bob"),
        ("update", "ada"),
        ("insert", "cy"),
        ("delete", "bob"),
    ]
    assert changes[0]["commit"] == graph.commit("first").id and changes[0]["actor"] == "ada"
    assert end["has_more"] is False
    poll = ("changes", "poll", "g.omni", "--branch", "draft", "--cursor", str(end["cursor"]))
    assert lines(run(*poll)) == [end]
    write(graph, 'insert Person { name: "dan" }', "draft")
    assert [c.get("id") for c in lines(run(*poll))] == ["dan", None]


def test_poll_begins_after_a_commit_or_now(run: Run, graph: Graph):
    poll = ("changes", "poll", "g.omni", "--branch", "draft")
    assert lines(run(*poll, "--after", "first"))[0]["operation"] == "update"
    assert list(lines(run(*poll, "--from-now"))[0]) == ["cursor", "has_more"]


def test_poll_with_a_cursor_file_reads_everything_when_it_is_run_again(run: Run, graph: Graph):
    start = ("changes", "poll", "g.omni", "--branch", "draft", "--from-start")
    poll = (*start, "--limit", "2", "--cursor-file", "c")
    seen = []
    for _ in range(4):
        *changes, end = lines(run(*poll))
        seen += [(c["operation"], c["id"]) for c in changes]
        assert Path("c").read_text() == f"{end['cursor']}\n"
    whole = lines(run(*start))[:-1]
    assert seen == [(c["operation"], c["id"]) for c in whole]
    by_file = run("changes", "poll", "g.omni", "--branch", "draft", "--cursor", "@c")
    assert lines(by_file) == [end]


def test_a_consumer_that_is_killed_before_it_has_the_page_gets_it_again(graph: Graph, tmp_path):
    poll = [sys.executable, "-m", "omnigraph.cli", "changes", "poll", "g.omni", "--from-start"]
    poll += ["--cursor-file", "c"]
    # Nobody reads: the page cannot be flushed, so that the cursor is not kept.
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(poll, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert not (tmp_path / "c").exists()
    again = subprocess.run(poll, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"id":"ada"' in again.stdout and (tmp_path / "c").exists()


def test_follow_waits_for_more_until_it_is_interrupted(graph: Graph, tmp_path: Path):
    command = [sys.executable, "-m", "omnigraph.cli", "changes", "poll", "g.omni", "--from-start"]
    command += ["--follow", "--interval", "0.05", "--format", "jsonl", "--type", "Person"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        seen = [json.loads(process.stdout.readline()).get("id") for _ in range(3)]
        for name in ("dan", "eve"):
            write(graph, f'insert Person {{ name: "{name}" }}')
            seen += [json.loads(process.stdout.readline()).get("id") for _ in range(2)]
        # After each page comes its cursor.
        assert seen == ["ada", "bob", None, "dan", None, "eve", None]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 130
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "given,message",
    [
        ((), "say where to begin: --from-start, --from-now, --after COMMIT or --cursor"),
        (("--cursor-file", "c"), "c is not there yet; say where to begin"),
        (("--from-start", "--after", "x"), "--from-start and --after contradict each other"),
        (("--cursor", "x", "--cursor-file", "c"), "pass --cursor or --cursor-file, not both"),
        (("--cursor", "nonsense"), "cursor"),
        (("--from-start", "--follow", "--json"), "pass --format jsonl"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_a_poll_that_makes_no_sense(run: Run, graph: Graph, given, message):
    ran = run("changes", "poll", "g.omni", *given)
    assert (ran.code, message in ran.err + ran.out) == (2, True)


def test_a_cursor_of_a_branch_that_was_made_anew_is_a_gap_with_the_way_out(run: Run, graph: Graph):
    poll = ("changes", "poll", "g.omni", "--branch", "draft", "--from-now", "--cursor-file", "c")
    assert run(*poll).code == 0
    graph.branches.delete("draft")
    graph.branches.create("draft")
    ran = run(*poll)
    assert ran.code == 1
    assert "`omnigraph changes baseline` takes it" in ran.err


def test_poll_as_text_has_commits_and_summaries(run: Run, graph: Graph):
    ran = run(
        "changes",
        "poll",
        "g.omni",
        "--branch",
        "draft",
        "--from-start",
        "--format",
        "text",
        "--limit",
        "4",
    )
    text = re.sub(r"\w{26}", "ID", re.sub(r"\d{4}-\S+ \S+", "TIME", ran.out))
    assert text.splitlines()[:13] == [
        "commit ID  TIME  ada  (main)",
        "    Begin",
        "+2 Person",
        "",
        "Person",
        '+ ada  age: 36, bio: "wrote many long letters"',
        "+ bob",
        "",
        "commit ID  TIME  agent:1  (draft)",
        "    Look again",
        "~1 Person",
        "",
        "Person",
    ]
    assert "… the rest of this commit is on the next page" in text
    assert "there is more on the next page\ncursor " in ran.err


def test_baseline_has_all_and_the_cursor_after_it(run: Run, graph: Graph):
    ran = run("changes", "baseline", "g.omni", "--branch", "draft", "--cursor-file", "c")
    *changes, end = lines(ran)
    assert sorted(str(c["type"]) for c in changes) == ["Knows", "Person", "Person"]
    assert all(c["operation"] == "insert" for c in changes)
    assert end == {"commit": graph.snapshot("draft").commit, "cursor": end["cursor"]}
    write(graph, 'insert Person { name: "dan" }', "draft")
    poll = run("changes", "poll", "g.omni", "--branch", "draft", "--cursor-file", "c")
    assert [c.get("id") for c in lines(poll)] == ["dan", None]


# --- one entity ---


def test_history_shows_versions_with_what_was_changed(run: Run, graph: Graph):
    ran = run("history", "g.omni", "Person", "ada", "--branch", "draft")
    text = re.sub(r"\w{26}", "ID", re.sub(r"\d{4}-\S+ \S+", "TIME", ran.out))
    newest = [
        "~ ID  TIME  agent:1  (draft)",
        "    Look again",
        "    age: 36 → 37",
        '    bio: "wrote many [-long letters-]{+programs+}"',
    ]
    assert text.splitlines() == [
        *newest,
        "",
        "+ ID  TIME  ada  (main)",
        "    Begin",
        '    age: 36, bio: "wrote many long letters"',
    ]
    cut = run("history", "g.omni", "Person", "ada", "--branch", "draft", "--limit", "1").out
    assert re.sub(r"\w{26}", "ID", re.sub(r"\d{4}-\S+ \S+", "TIME", cut)).splitlines() == [
        *newest,
        "",
        "… and older ones; a greater --limit shows them",
    ]
    found = run("history", "g.omni", "Person", "bob", "--branch", "draft", "--json").json
    assert [version["operation"] for version in found] == ["delete", "insert"]


def test_blame_shows_who_set_each_property(run: Run, graph: Graph):
    ran = run("blame", "g.omni", "Person", "ada", "--branch", "draft")
    rows = [re.split(r" {2,}", line) for line in ran.out.splitlines()]
    assert rows[0] == ["property", "value", "commit", "time", "actor"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [
        ("name", '"ada"', "ada"),
        ("age", "37", "agent:1"),
        ("bio", '"wrote many programs"', "agent:1"),
    ]


@pytest.mark.parametrize("verb", ["history", "blame"])
@pytest.mark.parametrize(
    "given,message",
    [(("Persn", "ada"), "did you mean `Person`?"), (("Person", "nobody"), "`nobody`")],
    ids=["type", "id"],
)
def test_an_entity_that_is_not_there(run: Run, graph: Graph, verb, given, message):
    ran = run(verb, "g.omni", *given)
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err
