"""`omnigraph export`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from tests.cli.conftest import SCHEMA, Ran

Run = Callable[..., Ran]
LINES = [
    '{"type":"Person","data":{"name":"Ada","age":36}}',
    '{"type":"Person","data":{"name":"Bo\x9b"}}',
]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """At `g.omni` in the current directory of `run`: two people, one on a branch, and a tag."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.mutate('query q() { insert Person { name: "Ada", age: 36 } }')
    graph.tags.create("first", graph.snapshot().commit)
    graph.mutate("query q($n: String) { insert Person { name: $n } }", params={"n": "Bo\x9b"})
    graph.branches.create("draft")
    graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
    return graph


def test_export_writes_a_file_and_tells_what_is_in_it(run: Run, graph: Graph):
    ran = run("export", "g.omni", "out.jsonl")
    commit = graph.snapshot().commit
    assert ran == Ran(
        0,
        f"type    rows\nPerson     2\nKnows      0\nwrote 2 rows of commit {commit} to out.jsonl\n",
        "",
    )
    assert Path("out.jsonl").read_text().split("\n") == [*LINES, ""]


def test_export_writes_a_folder(run: Run, graph: Graph):
    ran = run("export", "g.omni", "out", "--format", "csv", "--type", "Person", "--type", "Knows")
    assert ran.code == 0
    assert ran.out.endswith("to 2 files in out\n")
    assert Path("out/Knows.csv").read_text() == "id,from,to,since\n"
    assert Path("out/Person.csv").read_text().startswith("id,name,age\nAda,Ada,36\n")


def test_export_to_stdout_writes_the_lines_and_nothing_else(run: Run, graph: Graph):
    ran = run("export", "g.omni", "-")
    assert (ran.code, ran.out.split("\n"), ran.err) == (0, [*LINES, ""], "")


def test_export_sends_no_codes_to_a_terminal(run: Run, graph: Graph, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ran = run("export", "g.omni", "-")
    assert ran.out.split("\n") == [LINES[0], LINES[1].replace("\x9b", "\\u009b"), ""]


def test_export_as_json_is_what_the_library_gives(run: Run, graph: Graph):
    ran = run("export", "--store", "g.omni", "out.jsonl", "--json")
    assert (ran.code, ran.err) == (0, "")
    result = graph.export("again.jsonl")
    expected = {"graph": graph.location, **result.to_dict(), "files": ["out.jsonl"]}
    assert ran.json == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    "option,names",
    [
        (("--branch", "draft"), ["Ada", "Bo\x9b", "Cy"]),
        (("--snapshot", "first"), ["Ada"]),
    ],
    ids=lambda v: v[0],
)
def test_export_takes_a_branch_or_a_commit(run: Run, graph: Graph, option, names):
    lines = run("export", "g.omni", "-", *option).out.split("\n")[:-1]
    assert [json.loads(line)["data"]["name"] for line in lines] == names


def test_export_replaces_a_file_only_with_force(run: Run, graph: Graph):
    Path("out.jsonl").write_text("precious")
    ran = run("export", "g.omni", "out.jsonl")
    assert (ran.code, ran.out) == (1, "")
    assert "out.jsonl is there already" in ran.err
    assert Path("out.jsonl").read_text() == "precious"
    assert run("export", "g.omni", "out.jsonl", "--force").code == 0
    assert Path("out.jsonl").read_text().split("\n") == [*LINES, ""]


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((), "TARGET is missing"),
        (("g.omni", "a.jsonl", "b"), "too many arguments"),
        (("g.omni", "a.jsonl", "--branch", "draft", "--snapshot", "first"), "not both"),
        (("g.omni", "-", "--json"), "with --json, the rows go to a file"),
        (("g.omni", "-", "--format", "csv"), "a stream takes JSON lines only"),
        (("g.omni", "a.jsonl", "--format", "csv"), "CSV goes to a folder"),
        (("g.omni", "a.jsonl", "--format", "xml"), "'xml' is not one of"),
        (("g.omni", "ftp://host/a.jsonl"), "exports go to files on this machine, or to s3://"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_export_refuses_what_makes_no_sense(run: Run, graph: Graph, arguments, message):
    ran = run("export", *arguments)
    assert ran.code == 2
    assert message in ran.out + ran.err
    assert not Path("a.jsonl").exists()


def test_export_says_which_type_may_have_been_meant(run: Run, graph: Graph):
    ran = run("export", "g.omni", "a.jsonl", "--type", "Persn")
    assert (ran.code, ran.err) == (
        1,
        "error: the graph has no type `Persn`; did you mean `Person`?\n",
    )


def test_a_reader_that_goes_away_ends_the_export(graph: Graph):
    rows = ", ".join(f'{{"n": "p{n}"}}' for n in range(5000))
    graph.mutate(
        "query q($n: String) { insert Person { name: $n } }", params=json.loads(f"[{rows}]")
    )
    python, place = shlex.quote(sys.executable), shlex.quote(graph.location)
    command = f"{python} -m omnigraph.cli export {place} - | head -1"
    ran = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (LINES[0] + "\n", "")


def test_export_never_imports_spark(graph: Graph):
    code = (
        "import sys; from omnigraph.cli import main;"
        f"code = main(['export', {graph.location!r}, '-']);"
        "print(code, 'pyspark' in sys.modules, 'pandas' in sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "0 False False\n"
