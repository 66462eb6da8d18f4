"""`omnigraph query`: options, formats, files and terminals."""

from __future__ import annotations

import csv
import datetime as dt
import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, QueryResult, ResourceLimit, ResultField, Scalar, ValueType
from omnigraph.cli import main
from omnigraph.cli.query import FORMATS
from tests.cli.conftest import QUERIES, SCHEMA, Ran

Run = Callable[..., Ran]
COMMIT = "01K1F5J2Z3B4N5M6P7Q8R9S0T1"
TEXT = "query all() { match { $p: Person } return { $p.name } }"
FIELDS = (
    ResultField("p", ValueType(Scalar.STRING), ("Person",)),
    ResultField("age", ValueType(Scalar.I64, nullable=True)),
    ResultField("born", ValueType(Scalar.DATE, nullable=True)),
    ResultField("tags", ValueType(Scalar.STRING, is_list=True)),
)
SCHEMA_OF_RESULT = pa.schema(
    [("p", pa.utf8()), ("age", pa.int64()), ("born", pa.date32()), ("tags", pa.list_(pa.utf8()))]
)


def answer(*rows: tuple[Any, ...], branch: str | None = "main") -> QueryResult:
    plain = [dict(zip(SCHEMA_OF_RESULT.names, row, strict=True)) for row in rows]
    table = pa.Table.from_pylist(plain, schema=SCHEMA_OF_RESULT)
    return QueryResult(table, FIELDS, COMMIT, branch, "all")


ROWS: tuple[tuple[Any, ...], ...] = (
    ("ada", 36, dt.date(1815, 12, 10), ["x", "y"]),
    ("日本", None, None, []),
)


class Stub:
    """Stands for `Graph.query`: gives an answer and keeps what it was called with."""

    def __init__(self) -> None:
        self.result = answer(*ROWS)
        self.error: Exception | None = None
        self.text = ""
        self.asked: dict[str, Any] = {}
        self.calls = 0

    def __call__(self, text: str, **asked: Any) -> QueryResult:
        self.text, self.asked, self.calls = text, asked, self.calls + 1
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """A graph at `g.omni`, and files, in the current directory of `run`; queries are answered."""
    omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    (tmp_path / "queries.gq").write_text(QUERIES)
    stub = Stub()
    real = getattr(Graph, "query", None)

    def query(self: Graph, text: str, **asked: Any) -> QueryResult:
        if real is not None:
            inspect.signature(real).bind(self, text, **asked)
        return stub(text, **asked)

    monkeypatch.setattr(Graph, "query", query, raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return stub


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    """Make stdout and stderr terminals; the answer sets their width."""
    monkeypatch.setenv("TERM", "dumb")

    def resize(columns: int = 80) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)

    return resize


# --- what is asked ---


def test_the_text_and_the_defaults_are_passed_on(run: Run, stub: Stub):
    assert run("query", "g.omni", "-e", TEXT).code == 0
    assert stub.text == TEXT
    assert stub.asked == {
        "name": None,
        "params": None,
        "branch": "main",
        "commit": None,
        "time_limit": None,
        "path": None,
    }


def test_all_options_are_passed_on(run: Run, stub: Stub):
    given = ["g.omni", "friends", "--query", "queries.gq", "--params", '{"name": "Ada"}']
    assert run("query", *given, "--branch", "draft", "--limit-time", "2.5").code == 0
    assert stub.text == QUERIES
    assert stub.asked == {
        "name": "friends",
        "params": {"name": "Ada"},
        "branch": "draft",
        "commit": None,
        "time_limit": 2.5,
        "path": "queries.gq",
    }


def test_a_snapshot_is_a_commit_or_tag(run: Run, stub: Stub):
    stub.result = answer(*ROWS, branch=None)
    ran = run("query", "g.omni", "-e", TEXT, "--snapshot", "launch", "--json")
    assert stub.asked["commit"] == "launch"
    assert ran.json["branch"] is None


def test_parameters_come_from_a_file(run: Run, stub: Stub):
    Path("p.json").write_text('{"name": "Zoë"}')
    given = ["g.omni", "friends", "--query", "queries.gq", "--params", "@p.json"]
    assert run("query", *given).code == 0
    assert stub.asked["params"] == {"name": "Zoë"}


def test_the_graph_may_come_from_the_option_or_the_environment(run: Run, stub: Stub, monkeypatch):
    assert run("query", "--store", "g.omni", "-e", TEXT).code == 0
    monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    assert run("query", "-e", TEXT).code == 0
    assert run("query", "friends", "--query", "queries.gq").code == 0
    assert stub.asked["name"] == "friends"


@pytest.mark.parametrize(
    "options,message",
    [
        ((), "either --query FILE or -e TEXT"),
        (("-e", TEXT, "--query", "queries.gq"), "either --query FILE or -e TEXT"),
        (("-e", TEXT, "--params", "[1]"), "no JSON object"),
        (("-e", TEXT, "--branch", "a", "--snapshot", "b"), "--branch or --snapshot, not both"),
        (("-e", TEXT, "--format", "xml"), "'xml' is not one of"),
        (("-e", TEXT, "--limit-time", "0"), "--limit-time 0 makes no sense"),
        (("-e", TEXT, "--limit-time", "nan"), "--limit-time nan makes no sense"),
        (("-e", TEXT, "--limit-time", "soon"), "'soon' is not a valid float"),
    ],
)
def test_options_without_sense_are_usage_errors(run: Run, stub: Stub, options, message):
    ran = run("query", "g.omni", *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert stub.calls == 0


@pytest.mark.parametrize("format", [f for f in FORMATS if f != "json"])
def test_json_with_another_format_is_a_usage_error(run: Run, stub: Stub, format):
    ran = run("query", "g.omni", "-e", TEXT, "--json", "--format", format)
    assert ran.code == 2
    assert f"--json and --format {format} contradict each other" in ran.json["message"]


def test_errors_of_the_query_are_reported(run: Run, stub: Stub):
    stub.error = ResourceLimit("the query took longer than 1 s", resource="time", limit=1)
    ran = run("query", "g.omni", "-e", TEXT)
    assert (ran.code, ran.out) == (1, "")
    assert "error: the query took longer than 1 s" in ran.err
    ran = run("query", "g.omni", "-e", TEXT, "--json")
    assert (ran.code, ran.json["error"]) == (1, "ResourceLimit")


def test_a_graph_or_file_that_is_not_there_is_named(run: Run, stub: Stub):
    ran = run("query", "nowhere.omni", "-e", TEXT)
    assert (ran.code, ran.out) == (1, "") and "nowhere.omni" in ran.err
    ran = run("query", "g.omni", "--query", "no.gq")
    assert (ran.code, ran.out) == (1, "") and "no.gq: no such file" in ran.err


# --- a real graph ---


def test_a_query_reads_what_a_mutation_wrote(run: Run, files: Path):
    run("init", "g.omni", "--schema", "schema.pg")
    first = run("commit", "list", "g.omni", "--json").json[0]["id"]
    for name in ("Ada", "Bob"):
        given = ["--params", json.dumps({"name": name, "age": None if name == "Bob" else 36})]
        assert run("mutate", "g.omni", "add", "--query", "queries.gq", *given).code == 0
    text = "query all() { match { $p: Person } return { $p, $p.age as age } order { $p.name } }"
    ran = run("query", "g.omni", "-e", text)
    assert ran.out.splitlines() == ["p     age", "Ada    36", "Bob  null"]
    head = run("commit", "list", "g.omni", "--json").json[0]["id"]
    assert run("query", "g.omni", "-e", text, "--json").json == {
        "commit": head,
        "branch": "main",
        "fields": [
            {"name": "p", "type": "String", "entity": ["Person"]},
            {"name": "age", "type": "I32?"},
        ],
        "rows": [{"p": "Ada", "age": 36}, {"p": "Bob", "age": None}],
    }
    ran = run("query", "g.omni", "-e", text, "--snapshot", first, "--format", "csv")
    assert ran.out == "p,age\n"


def test_a_mutation_is_sent_to_the_other_verb(run: Run, files: Path):
    run("init", "g.omni", "--schema", "schema.pg")
    ran = run("query", "g.omni", "add", "--query", "queries.gq", "--params", '{"name": "Ada"}')
    assert (ran.code, ran.out) == (2, "")
    assert "run it with `mutate`" in ran.err


# --- what is printed ---


def test_a_table_is_the_default_in_a_pipe(run: Run, stub: Stub):
    ran = run("query", "g.omni", "-e", TEXT)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "p      age  born        tags",
        'ada     36  1815-12-10  ["x", "y"]',
        "日本  null  null        []",
    ]


def test_json_has_commit_fields_and_rows(run: Run, stub: Stub):
    ran = run("query", "g.omni", "-e", TEXT, "--json")
    assert ran.json == stub.result.to_dict()
    assert set(ran.json) == {"commit", "branch", "fields", "rows"}
    assert ran.err == ""
    assert run("query", "g.omni", "-e", TEXT, "--format", "json").out == ran.out
    assert run("query", "g.omni", "-e", TEXT, "--format", "json", "--json").out == ran.out


@pytest.mark.parametrize("format", ["jsonl", "csv", "kv"])
def test_the_other_texts(run: Run, stub: Stub, format):
    ran = run("query", "g.omni", "-e", TEXT, "--format", format)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == getattr(stub.result, f"to_{format}")()
    assert "日本" in ran.out


@pytest.mark.parametrize("option", [(), ("--output", "-")], ids=" ".join)
def test_arrow_is_a_stream_of_bytes(run: Run, stub: Stub, monkeypatch, option):
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream))
    code = main(["query", "g.omni", "-e", TEXT, "--format", "arrow", *option])
    assert code == 0
    assert pa.ipc.open_stream(stream.getvalue()).read_all().equals(stub.result.to_arrow())


def test_the_formats_are_those_of_results():
    assert FORMATS == QueryResult.FORMATS


@pytest.mark.parametrize("format", FORMATS)
def test_no_rows(run: Run, stub: Stub, format):
    stub.result = answer()
    ran = run("query", "g.omni", "-e", TEXT, "--format", format, "--output", "out")
    assert (ran.code, ran.out, ran.err) == (0, "wrote 0 rows to out\n", "")
    expected = {"table": "p  age  born  tags\n", "csv": "p,age,born,tags\n"}
    if format in ("json", "arrow"):
        assert Path("out").stat().st_size
    else:
        assert Path("out").read_text() == expected.get(format, "")


def test_a_table_in_a_pipe_is_not_cut(run: Run, stub: Stub, monkeypatch):
    stub.result = answer(*(("x" * 300, i, None, ["y" * 300]) for i in range(60)))
    shown = run("query", "g.omni", "-e", TEXT).out
    assert shown.count("x" * 300) == shown.count("y" * 300) == 60
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, run("query", "g.omni", "-e", TEXT).out.splitlines())) == 100


def test_stdout_that_is_not_utf8_gets_replacements(run: Run, stub: Stub, monkeypatch):
    for format in ("table", "csv", "jsonl"):
        stream = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding="ascii"))
        assert main(["query", "g.omni", "-e", TEXT, "--format", format]) == 0
        assert b"??" in stream.getvalue() and b"ada" in stream.getvalue()


# --- terminals ---


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_fits_the_terminal(run: Run, stub: Stub, terminal, width):
    stub.result = answer(*((f"person {i} " + "x" * 300, i, None, []) for i in range(60)))
    terminal(width)
    ran = run("query", "g.omni", "-e", TEXT)
    shown = ran.out.splitlines()
    assert max(map(len, shown)) == width
    assert len(shown) == 61
    assert "…" in shown[1]


def test_columns_without_room_are_named(run: Run, stub: Stub, terminal):
    terminal(20)
    assert run("query", "g.omni", "-e", TEXT).out.splitlines()[-1] == "… and 2 more column…"


def test_a_person_is_told_rows_time_and_commit(run: Run, stub: Stub, terminal):
    terminal()
    ran = run("query", "g.omni", "-e", TEXT)
    assert ran.err.startswith("2 rows in ")
    assert ran.err.endswith(f" ms, commit {COMMIT} of main\n")
    stub.result = answer(ROWS[0], branch=None)
    ran = run("query", "g.omni", "-e", TEXT, "--format", "csv")
    assert ran.err.startswith("1 row in ") and ran.err.endswith(f"commit {COMMIT}\n")
    assert run("query", "g.omni", "-e", TEXT, "--json").err == ""


def test_the_heading_is_bold_where_there_are_colours(run: Run, stub: Stub, terminal, monkeypatch):
    terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run("query", "g.omni", "-e", TEXT).out.splitlines()
    assert shown[0] == "\x1b[1mp      age  born        tags\x1b[0m"
    assert shown[1].startswith("ada  ")


@pytest.mark.parametrize("format", [f for f in FORMATS if f != "arrow"])
def test_no_code_reaches_the_terminal(run: Run, stub: Stub, terminal, format):
    terminal()
    stub.result = answer(("a\x1b[2J\x9b\x07\u202eb", 1, None, ["\x1b"]))
    ran = run("query", "g.omni", "-e", TEXT, "--format", format)
    assert ran.code == 0
    assert all(c.isprintable() or c == "\n" for c in ran.out)


def test_csv_in_a_pipe_keeps_every_character(run: Run, stub: Stub):
    stub.result = answer(("a\x1b[2J\tb\r", 1, None, []))
    ran = run("query", "g.omni", "-e", TEXT, "--format", "csv")
    assert list(csv.reader(io.StringIO(ran.out, newline="")))[1][0] == "a\x1b[2J\tb\r"


def test_arrow_is_not_written_to_a_terminal_unless_asked(run: Run, stub: Stub, terminal):
    terminal()
    ran = run("query", "g.omni", "-e", TEXT, "--format", "arrow")
    assert (ran.code, ran.out) == (2, "")
    assert "--output FILE" in ran.err and "--output -" in ran.err
    assert stub.calls == 0
    assert run("query", "g.omni", "-e", TEXT, "--format", "arrow", "-o", "a.arrow").code == 0


# --- files ---


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_gets_what_stdout_would_get(run: Run, stub: Stub, format, tmp_path: Path):
    ran = run("query", "g.omni", "-e", TEXT, "--format", format, "--output", "out")
    assert (ran.code, ran.out, ran.err) == (0, "wrote 2 rows to out\n", "")
    if format == "arrow":
        assert pa.ipc.open_stream(Path("out").read_bytes()).read_all().num_rows == 2
    else:
        shown = run("query", "g.omni", "-e", TEXT, "--format", format).out
        assert Path("out").read_bytes() == shown.encode()
    assert sorted(os.listdir(tmp_path)) == ["g.omni", "out", "queries.gq"]


@pytest.mark.parametrize("name,format", [(f"a.{f}", f) for f in FORMATS] + [("a.TXT", "table"),
                                          ("A.CSV", "csv"), ("json", "table")])  # fmt: skip
def test_the_name_of_the_file_tells_the_format(run: Run, stub: Stub, name, format):
    assert run("query", "g.omni", "-e", TEXT, "--output", name).code == 0
    run("query", "g.omni", "-e", TEXT, "--format", format, "--output", "expected")
    assert Path(name).read_bytes() == Path("expected").read_bytes()


def test_the_option_wins_over_the_name(run: Run, stub: Stub):
    assert run("query", "g.omni", "-e", TEXT, "--format", "jsonl", "-o", "a.csv").code == 0
    assert Path("a.csv").read_text() == stub.result.to_jsonl()


def test_json_tells_what_was_written(run: Run, stub: Stub):
    ran = run("query", "g.omni", "-e", TEXT, "--output", "a.csv", "--json")
    assert ran.json == {
        "output": "a.csv",
        "format": "csv",
        "rows": 2,
        "commit": COMMIT,
        "branch": "main",
    }
    assert Path("a.csv").read_text() == stub.result.to_csv()
    assert run("query", "g.omni", "-e", TEXT, "--output", "a", "--json").json["format"] == "json"


def test_a_failure_leaves_the_file_as_it_was(run: Run, stub: Stub, monkeypatch, tmp_path: Path):
    Path("a.csv").write_text("old")
    stub.error = ResourceLimit("too much", resource="memory", limit=1)
    assert run("query", "g.omni", "-e", TEXT, "--output", "a.csv").code == 1
    stub.error = None

    def fail(self: QueryResult, format: str, stream: Any) -> None:
        stream.write("new")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(QueryResult, "write", fail)
    ran = run("query", "g.omni", "-e", TEXT, "--output", "a.csv")
    assert (ran.code, ran.out) == (1, "")
    assert "a.csv: cannot be written: No space left on device" in ran.err
    assert Path("a.csv").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a.csv", "g.omni", "queries.gq"]


def test_a_directory_is_no_file(run: Run, stub: Stub):
    ran = run("query", "g.omni", "-e", TEXT, "--output", "g.omni")
    assert (ran.code, ran.out) == (2, "")
    assert "g.omni is a directory" in ran.err


# --- start-up ---

PROGRAM = """\
import sys
from omnigraph.cli import main
from omnigraph.cli.quick import import_arrow_without_pandas
import_arrow_without_pandas()
import pyarrow as pa
from omnigraph.graph import Graph
from omnigraph.results import QueryResult
from omnigraph.language import ResultField, Scalar, ValueType

fields = (ResultField("a", ValueType(Scalar.STRING)), ResultField("b", ValueType(Scalar.DATETIME)))
table = pa.table({"a": [sys.argv[1]], "b": pa.array([0], pa.timestamp("ms", "UTC"))})
Graph.query = lambda *_, **__: QueryResult(table, fields, "c", "main", "q")
code = main(sys.argv[2:])
print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("format", FORMATS)
def test_a_query_loads_neither_pandas_nor_spark(run: Run, stub: Stub, format):
    verb = ["query", "g.omni", "-e", TEXT, "--format", format, "--output", "out"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "Zoë – “Ωm”", *verb], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stderr.split())
    assert "pyarrow" in loaded
    assert not {"pandas", "polars", "pyspark", "rich"} & loaded


def test_only_wide_characters_load_rich(run: Run, stub: Stub):
    command = [sys.executable, "-c", PROGRAM, "日本", "query", "g.omni", "-e", TEXT]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    assert "日本  1970-01-01T00:00:00Z" in ran.stdout
    assert "rich" in ran.stderr.split()
    assert not {"pandas", "polars", "pyspark"} & set(ran.stderr.split())


def test_the_help_loads_nothing_heavy():
    code = (
        "import sys; from omnigraph.cli import main; main(['query', '--help'])\n"
        "print(*{m.partition('.')[0] for m in sys.modules}, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    heavy = {"pandas", "pyspark", "lance", "pyarrow", "numpy", "obstore", "rich"}
    assert not heavy & set(ran.stderr.split())


def test_an_error_is_json_too(run: Run, stub: Stub):
    ran = run("query", "g.omni", "--json")
    assert ran.code == 2
    assert json.loads(ran.out)["error"] == "UsageError"
