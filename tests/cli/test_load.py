"""`omnigraph load` and `omnigraph ingest`: what is printed, the exit codes, and what is written."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph, failpoints
from tests.cli.conftest import SCHEMA, Ran
from tests.patience import PATIENCE

Run = Callable[..., Ran]


def person(name: str, age: Any = None) -> str:
    return json.dumps({"type": "Person", "data": {"name": name, "age": age}})


def knows(source: str, target: str) -> str:
    return json.dumps({"edge": "Knows", "from": source, "to": target, "data": {}})


def write(name: str, *lines: str) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


def names(graph: Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).read("Person", ["name"])["name"].to_pylist())


@pytest.fixture
def graph(run: Run, tmp_path: Path) -> Graph:
    """At `g.omni` in the current directory of `run`: Ada, who is 36."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    graph.mutate('query q() { insert Person { name: "Ada", age: 36 } }')
    return graph


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


# --- what is done ---


def test_load_writes_one_commit_and_tells_what_is_in_it(run: Run, graph: Graph):
    write("a.jsonl", knows("Ada", "Bo"), person("Ada", 37), person("Bo"))
    ran = run("load", "g.omni", "a.jsonl", "--as", "eve", "-m", "people")
    commit = graph.commits()[0]
    assert ran == Ran(
        0,
        "type    inserted  replaced  deleted\n"
        "Person         1         1\n"
        "Knows          1\n"
        f"3 rows in commit {commit.id}, on {commit.parents[0]}\n",
        f"graph {graph.location}, branch main\n",
    )
    assert (commit.actor, commit.message) == ("eve", "people")
    assert names(graph) == ["Ada", "Bo"]


def test_load_as_json_is_what_the_library_gives(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"))
    ran = run("load", "--store", "g.omni", "a.jsonl", "--json")
    assert ran.code == 0
    assert ran.json == {
        "graph": graph.location,
        "branch": "main",
        "base_branch": None,
        "branch_created": False,
        "mode": "merge",
        "commit": graph.snapshot().commit,
        "rows_commit": graph.snapshot().commit,
        "base_commit": graph.commits()[1].id,
        "repeated": False,
        "warnings": [],
        "lines": 1,
        "skipped": 0,
        "tables": [{"table": "Person", "inserted": 1, "replaced": 0, "deleted": 0}],
        "faults": [],
    }


def test_several_files_are_one_commit_in_the_order_given(run: Run, graph: Graph):
    write("b.jsonl", person("Bo", 1))
    write("a.jsonl", person("Bo", 2), person("Cy"))
    before = len(graph.commits())
    assert run("load", "g.omni", "b.jsonl", "a.jsonl").code == 0
    assert len(graph.commits()) == before + 1
    assert graph.snapshot().read("Person", ["age"], "name = 'Bo'")["age"].to_pylist() == [2]


def test_the_store_leaves_all_words_to_the_files(run: Run, graph: Graph, monkeypatch):
    write("a.jsonl", person("Bo"))
    write("b.jsonl", person("Cy"))
    assert run("load", "--store", "g.omni", "a.jsonl", "b.jsonl").code == 0
    monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    write("c.jsonl", person("Di"))
    assert run("load", "b.jsonl", "c.jsonl").code == 0
    assert names(graph) == ["Ada", "Bo", "Cy", "Di"]


def test_load_reads_stdin(run: Run, graph: Graph, stdin):
    stdin(person("Bo"))
    assert run("load", "g.omni", "-").code == 0
    stdin("full_name\nCy\n")
    ran = run(
        "load", "g.omni", "-", "--format", "csv", "--type", "Person", "--column", "full_name=name"
    )
    assert (ran.code, names(graph)) == (0, ["Ada", "Bo", "Cy"])


def test_columns_of_a_table_are_named(run: Run, graph: Graph):
    write("staff.csv", "full_name,years", "Bo,7")
    ran = run("load", "g.omni", "staff.csv", "--type", "Person",
              "--column", "full_name=name", "--column", "years=age")  # fmt: skip
    assert ran.code == 0
    assert graph.snapshot().read("Person", ["age"], "name = 'Bo'")["age"].to_pylist() == [7]


@pytest.mark.parametrize("mode,code,expected", [
    ("append", 3, ["Ada"]), ("merge", 0, ["Ada", "Bo"]), ("overwrite", 0, ["Ada", "Bo"]),
])  # fmt: skip
def test_load_has_modes(run: Run, graph: Graph, mode, code, expected):
    write("a.jsonl", person("Ada"), person("Bo"))
    assert run("load", "g.omni", "a.jsonl", "--mode", mode).code == code
    assert names(graph) == expected


def test_load_into_a_branch(run: Run, graph: Graph):
    graph.branches.create("draft")
    ran = run("load", "g.omni", write("a.jsonl", person("Bo")), "--branch", "draft")
    assert ran.err == f"graph {graph.location}, branch draft\n"
    assert (names(graph, "draft"), names(graph)) == (["Ada", "Bo"], ["Ada"])


def test_a_load_with_a_known_key_does_nothing(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"))
    run("load", "g.omni", "a.jsonl", "--idempotency-key", "k")
    commit = graph.snapshot().commit
    ran = run("load", "g.omni", "a.jsonl", "--idempotency-key", "k")
    assert (ran.code, ran.out) == (0, f"done before, in commit {commit}\n")
    assert graph.snapshot().commit == commit


def test_a_load_for_another_commit_is_refused(run: Run, graph: Graph):
    ran = run(
        "load", "g.omni", write("a.jsonl", person("Bo")), "--if-commit", graph.commits()[1].id
    )
    assert ran.code == 4
    assert names(graph) == ["Ada"]


def test_an_empty_input_makes_no_commit(run: Run, graph: Graph):
    commit = graph.snapshot().commit
    assert run("load", "g.omni", write("a.jsonl", "// nothing")).out == "nothing to load\n"
    assert graph.snapshot().commit == commit


def test_indexes_are_left_out_when_told(run: Run, graph: Graph):
    write("a.jsonl", *(person(f"p{n}") for n in range(10_000)))
    before = len(graph.commits())
    assert run("load", "g.omni", "a.jsonl", "--no-indexes").code == 0
    assert len(graph.commits()) == before + 1
    ran = run("load", "g.omni", "a.jsonl")
    indexes, rows, *_ = graph.commits()
    assert ran.out.endswith(
        f"10,000 rows in commit {rows.id}, on {rows.parents[0]}\nindexes in commit {indexes.id}\n"
    )
    assert len(graph.commits()) == before + 3


def test_indexes_that_fail_are_a_warning(run: Run, graph: Graph):
    write("a.jsonl", *(person(f"p{n}") for n in range(10_000)))
    with failpoints.active("write.prepared", "raise", skip=1):
        ran = run("load", "g.omni", "a.jsonl")
    assert ran.code == 0
    assert f"10,000 rows in commit {graph.snapshot().commit}, on" in ran.out
    assert "warning: the rows are written, but their indexes could not be built" in ran.err
    with failpoints.active("write.prepared", "raise", skip=1):
        ran = run("load", "g.omni", "a.jsonl", "--json")
    assert (ran.code, len(ran.json["warnings"])) == (0, 1)


# --- faults ---


def test_faults_are_counted_and_some_of_each_kind_are_listed(run: Run, graph: Graph):
    bad = [person(f"p{n}", "many") for n in range(60)]
    write("a.jsonl", *bad, "{oops", knows("Ada", "nobody"))
    ran = run("load", "g.omni", "a.jsonl")
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert lines[1:7] == [
        "error: the input has 62 faults; nothing was written",
        "",
        "  rule  faults",
        "  end        1",
        "  json       1",
        "  type      60",
    ]
    assert sum(line.startswith("  a.jsonl:") for line in lines) == 20
    assert '  a.jsonl:62: Knows, `to`: there is no Person "nobody"' in lines
    assert "  … and 42 more; --json lists the first 100" in lines
    assert lines[-1] == "--rejects DIR keeps the bad lines in a folder"
    assert max(map(len, lines[1:])) <= 80
    assert names(graph) == ["Ada"]


def test_faults_as_json_are_all_that_the_library_lists(run: Run, graph: Graph):
    write("a.jsonl", *(person(f"p{n}", "many") for n in range(150)))
    ran = run("load", "g.omni", "a.jsonl", "--json")
    assert (ran.code, ran.json["code"], ran.json["totals"]) == (1, "load_failed", {"type": 150})
    assert len(ran.json["violations"]) == 100
    assert ran.json["violations"][0]["line"] == 1


def test_bad_lines_are_kept_in_a_folder(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"), person("Cy", "old"))
    ran = run("load", "g.omni", "a.jsonl", "--rejects", "bad")
    assert "the bad lines are in bad/rejected.jsonl, what is wrong with them in\nbad/f" in ran.err
    assert Path("bad/rejected.jsonl").read_text() == person("Cy", "old") + "\n"


def test_bad_lines_do_not_overwrite_what_is_loaded(run: Run, graph: Graph):
    write("a.jsonl", person("Bo", "many"), person("Cy", "many"))
    assert run("load", "g.omni", "a.jsonl", "--rejects", "bad").code == 1
    mended = person("Bo", 1) + "\n" + person("Cy", "more") + "\n"
    Path("bad/rejected.jsonl").write_text(mended)
    Path("link.jsonl").symlink_to("bad/rejected.jsonl")
    for source in ("bad/rejected.jsonl", "bad", "link.jsonl"):
        ran = run("load", "g.omni", source, "--rejects", "bad")
        assert ran.code == 2
        assert "would be overwritten" in ran.err and "another folder than bad" in ran.err
    assert Path("bad/rejected.jsonl").read_text() == mended
    assert run("load", "g.omni", "bad/rejected.jsonl", "--rejects", "worse").code == 1
    assert Path("worse/rejected.jsonl").read_text() == person("Cy", "more") + "\n"


def test_bad_lines_are_left_out_when_allowed(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"), person("Cy", "old"))
    ran = run("load", "g.omni", "a.jsonl", "--max-errors", "1", "--rejects", "bad")
    assert (ran.code, names(graph)) == (0, ["Ada", "Bo"])
    assert ran.err.splitlines()[1:3] == [
        "left out 1 of 2 lines:",
        '  a.jsonl:2: Person "Cy", `age`: "old" is not an I32; give a whole number',
    ]
    assert "bad/rejected.jsonl" in ran.err


def test_what_files_say_sends_no_codes_to_a_terminal(run: Run, graph: Graph):
    ran = run("load", "g.omni", write("a.jsonl", person("Bo", "\x1b[31m\x9b")))
    assert ran.code == 1
    assert "\x1b" not in ran.err
    assert "\x9b" not in ran.err


@pytest.mark.parametrize(
    "arguments,message",
    [
        ((), "SOURCE is missing"),
        (("g.omni", "nix.jsonl"), "there is no such file"),
        (("a.jsonl", "a.jsonl"), "which graph?"),
        (("g.omni", "a.jsonl", "./a.jsonl"), "the file is named twice"),
        (("g.omni", "-", "a.jsonl"), "stdin (-) is loaded alone"),
        (("g.omni", "-", "--format", "csv"), "Pass --type TYPE"),
        (("g.omni", "a.jsonl", "--column", "name"), "not of the form FILE_COLUMN=PROPERTY"),
        (("g.omni", "a.jsonl", "--column", "a=b", "--column", "a=c"), "duplicate column"),
        (("g.omni", "a.jsonl", "--mode", "replace"), "'replace' is not one of"),
        (("g.omni", "a.jsonl", "--max-errors", "-1"), "max_errors is 0 or more"),
        (("g.omni", "a.jsonl", "--engine", "local", "--master", "x"), "--master is where Spark"),
        (("g.omni", "a.csv"), "the file is not named after a type"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_load_refuses_what_makes_no_sense(run: Run, graph: Graph, arguments, message):
    write("a.jsonl", person("Bo"))
    write("a.csv", "name", "Bo")
    ran = run("load", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert names(graph) == ["Ada"]


def test_load_into_a_branch_that_is_not_there(run: Run, graph: Graph):
    ran = run("load", "g.omni", write("a.jsonl", person("Bo")), "--branch", "mian")
    assert ran.code == 1
    assert ran.err.endswith("error: there is no branch `mian`; did you mean `main`?\n")


# --- ingest ---


def test_ingest_makes_the_branch_first(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"))
    ran = run("ingest", "g.omni", "a.jsonl", "--branch", "import")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "created branch import from main")
    assert (names(graph, "import"), names(graph)) == (["Ada", "Bo"], ["Ada"])
    ran = run("ingest", "g.omni", "a.jsonl", "--branch", "more", "--from", "import", "--json")
    created = {"base_branch": "import", "branch_created": True, "branch": "more"}
    assert {key: ran.json[key] for key in created} == created


def test_ingest_takes_a_branch_that_is_there(run: Run, graph: Graph):
    graph.branches.create("import")
    ran = run("ingest", "g.omni", write("a.jsonl", person("Bo")), "--branch", "import", "--json")
    assert (ran.code, ran.json["branch_created"], ran.json["base_branch"]) == (0, False, None)


def test_a_failed_ingest_leaves_no_branch(run: Run, graph: Graph):
    ran = run("ingest", "g.omni", write("a.jsonl", person("Bo", "x")), "--branch", "import")
    assert ran.code == 1
    assert [branch.name for branch in graph.branches] == ["main"]


def test_a_failed_ingest_keeps_what_others_wrote_to_the_branch(run: Run, graph: Graph):
    def others() -> None:
        graph.mutate('query q() { insert Person { name: "Cy" } }', branch="import")
        raise RuntimeError("power cut")

    with failpoints.active("load.staged", others):
        run("ingest", "g.omni", write("a.jsonl", person("Bo")), "--branch", "import")
    assert names(graph, "import") == ["Ada", "Cy"]


def test_ingest_needs_a_branch(run: Run, graph: Graph):
    ran = run("ingest", "g.omni", write("a.jsonl", person("Bo")))
    assert (ran.code, "--branch" in ran.err) == (2, True)


# --- Ctrl-C ---


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("point", ["load.staged", "load.checked", "load.merged", "write.prepared"])
def test_ctrl_c_writes_nothing(run: Run, graph: Graph, point):
    write("a.jsonl", person("Bo"))
    commit = graph.snapshot().commit
    with failpoints.active(point, interrupt):
        ran = run("load", "g.omni", "a.jsonl")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.splitlines()[1:] == ["error: interrupted; nothing was written"]
    assert graph.snapshot().commit == commit
    assert run("load", "g.omni", "a.jsonl").code == 0


def test_ctrl_c_during_the_commit_is_resolved_and_told(run: Run, graph: Graph):
    write("a.jsonl", person("Bo"))
    with failpoints.active("write.armed", interrupt):
        ran = run("load", "g.omni", "a.jsonl", "--json")
    assert (ran.code, ran.json["code"]) == (130, "interrupted")
    assert ran.json["message"] == "interrupted; nothing was written"
    with failpoints.active("write.published", interrupt):
        ran = run("load", "g.omni", "a.jsonl")
    assert ran.code == 130
    assert f"has moved on meanwhile, to commit {graph.snapshot().commit}" in ran.err
    assert names(graph) == ["Ada", "Bo"]
    assert graph.check().problems == ()


def test_ctrl_c_during_an_ingest_leaves_no_branch(run: Run, graph: Graph):
    with failpoints.active("load.checked", interrupt):
        ran = run("ingest", "g.omni", write("a.jsonl", person("Bo")), "--branch", "import")
    assert (ran.code, "nothing was written" in ran.err) == (130, True)
    assert [branch.name for branch in graph.branches] == ["main"]


def test_a_real_signal_ends_a_load(graph: Graph):
    write("a.jsonl", person("Bo"))
    code = (
        "import sys; from omnigraph import failpoints; from omnigraph.cli import main\n"
        "def wait(): print('here', flush=True); import time; time.sleep(600)\n"
        "with failpoints.active('load.checked', wait):\n"
        f"    sys.exit(main(['load', {graph.location!r}, 'a.jsonl']))"
    )
    load = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert load.stdout is not None
    assert load.stdout.readline() == "here\n"
    os.kill(load.pid, signal.SIGINT)
    _, err = load.communicate(timeout=PATIENCE)
    assert (load.returncode, err.splitlines()[1:]) == (
        130,
        ["error: interrupted; nothing was written"],
    )
    assert names(graph) == ["Ada"]


# --- how it starts ---


def test_a_small_load_never_imports_spark_or_pandas(graph: Graph):
    write("a.jsonl", person("Bo"))
    code = (
        "import sys; from omnigraph.cli import main;"
        f"code = main(['load', {graph.location!r}, 'a.jsonl']);"
        "print(code, 'pyspark' in sys.modules, 'pandas' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 False False"


@pytest.mark.parametrize("verb", ["load", "ingest", "embed"])
def test_help_imports_neither_lance_nor_spark(verb):
    code = (
        "import sys; from omnigraph.cli import main;"
        f"main([{verb!r}, '--help']);"
        "print(*({'lance', 'pyspark', 'pyarrow', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "\n"
    assert "Examples:" in ran.stdout
