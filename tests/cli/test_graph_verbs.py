"""The verbs that work on a graph: init, snapshot, branch, commit, tag, recovery, check."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph
from omnigraph import Graph, failpoints
from omnigraph.cli import cli
from omnigraph.writes.rules import Violations
from tests.cli.conftest import SCHEMA, Ran

Run = Callable[..., Ran]
ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

READING = [
    ("snapshot",),
    ("branch", "list"),
    ("commit", "list"),
    ("tag", "list"),
    ("recovery", "list"),
    ("check",),
    ("cleanup",),
    ("repair",),
]
WITH_NAMES = [
    ("branch", "create", "new"),
    ("branch", "delete", "draft", "--yes"),
    ("commit", "show", "first"),
    ("tag", "create", "second", "{commit}"),
    ("tag", "delete", "first"),
]
ALL = [*READING, *WITH_NAMES]


class Death(BaseException):
    """The writer's process dies: nothing in it handles this."""


def die() -> None:
    raise Death


def people(*names: str) -> pa.Table:
    return pa.table({"id": names, "name": names})


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni` in the current directory of `run`: a commit, a branch and a tag."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA, actor="ada")
    graph.write_batches({"Person": ("merge", people("ann"))}, actor="bob", message="Add Ann")
    graph.branches.create("draft")
    graph.tags.create("first", graph.commits()[-1].id)
    return graph


def interrupt(graph: Graph, point: str = "write.confirmed") -> None:
    """Leave behind what a writer leaves that dies at a point."""
    with failpoints.active(point, die), pytest.raises(Death):
        graph.write_batches({"Person": ("merge", people("eve"))}, actor="eve")


def words(graph: Graph, verb: tuple[str, ...], *, place: str | None = "g.omni") -> list[str]:
    """A verb with its graph put before its other arguments."""
    given = [w.format(commit=graph.commits()[0].id) for w in verb]
    start = 1 if verb[0] in ("snapshot", "check", "cleanup", "repair") else 2
    return [*given[:start], *([place] if place else []), *given[start:]]


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder, with sizes and times."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


# --- which graph ---


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_the_graph_is_the_first_argument(run: Run, graph: Graph, verb):
    assert run(*words(graph, verb)).code == 0


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_the_graph_is_given_by_the_option(run: Run, graph: Graph, verb):
    assert run(*words(graph, verb, place=None), "--store", "g.omni").code == 0


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_the_graph_is_given_by_the_variable(run: Run, graph: Graph, verb, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_STORE", "g.omni")
    assert run(*words(graph, verb, place=None)).code == 0


def test_an_argument_wins_over_the_variable(run: Run, graph: Graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_STORE", "elsewhere")
    assert run("snapshot", "g.omni").code == 0
    assert run("snapshot", "--store", "g.omni").code == 0


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_no_graph_is_a_usage_error_that_shows_where_to_name_it(run: Run, graph: Graph, verb):
    ran = run(*words(graph, verb, place=None))
    assert ran.code == 2
    assert ran.out == ""
    shown = [w for w in words(graph, verb, place="GRAPH") if not w.startswith("--")]
    assert f"`omnigraph {' '.join(shown)}`" in ran.err
    assert "--store GRAPH" in ran.err and "OMNIGRAPH_STORE" in ran.err
    assert "Usage: omnigraph " in ran.err


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_a_graph_that_is_not_there_is_not_found(run: Run, graph: Graph, verb):
    ran = run(*words(graph, verb, place="nowhere"))
    assert ran.code == 1
    assert "there is no graph at" in ran.err and "omnigraph init" in ran.err
    assert not os.path.exists("nowhere")


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_a_file_is_no_graph(run: Run, graph: Graph, verb):
    Path("file").write_text("hello")
    ran = run(*words(graph, verb, place="file"))
    assert ran.code == 2
    assert "file is a file; a graph is a folder" in ran.err


def test_a_graph_named_twice_is_a_usage_error(run: Run, graph: Graph):
    ran = run("branch", "create", "g.omni", "new", "--store", "other")
    assert ran.code == 2
    assert "named twice: g.omni and --store other" in ran.err


@pytest.mark.parametrize(
    "given,message",
    [
        (("snapshot", "g.omni", "more"), "too many arguments: `omnigraph snapshot` takes [GRAPH]"),
        (("branch", "create"), "NAME is missing"),
        (("tag", "create"), "NAME and COMMIT are missing"),
        (("tag", "create", "g.omni", "x", "y", "z"), "takes [GRAPH] NAME COMMIT"),
        (("branch", "crate"), "unknown command `crate`; did you mean `create`?"),
        (("frob",), "unknown command `frob`; `omnigraph --help` lists them all"),
        (
            ("query", "g.omni", "q.gq", "people"),
            "q.gq is a file of queries; pass it as --query q.gq",
        ),
        (
            ("tag", "create", "g.omni", "v1"),
            "COMMIT is missing: `omnigraph tag create` takes",
        ),
        (("recovery", "undo"), "unknown command `undo`; there is list"),
        (("commit", "list", "g.omni", "--limit", "0"), "--limit"),
        (("commit", "list", "g.omni", "--filter", "name=x"), "write --filter actor=ACTOR"),
        (("snapshot", "g.omni", "--branch", "main", "--commit", "x"), "not both"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_what_makes_no_sense_is_a_usage_error(run: Run, graph: Graph, given, message):
    ran = run(*given)
    assert ran.code == 2
    assert ran.out == ""
    assert message in ran.err


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_json_is_one_value_and_so_is_an_error(run: Run, graph: Graph, verb):
    assert run(*words(graph, verb), "--json").json is not None
    ran = run(*words(graph, verb, place="nowhere"), "--json")
    assert ran.json["error"] == "NotFound"
    assert ran.err == ""


# --- reading and writing ---


@pytest.mark.parametrize("verb", [*READING, ("commit", "show", "first")], ids=" ".join)
def test_verbs_that_look_change_no_file(run: Run, graph: Graph, verb):
    interrupt(graph)
    before = tree(Path("g.omni"))
    run(*words(graph, verb))
    assert tree(Path("g.omni")) == before


@pytest.mark.parametrize("verb", [*READING, ("commit", "show", "first")], ids=" ".join)
def test_verbs_that_look_say_nothing_on_stderr_when_they_have_a_result(
    run: Run, graph: Graph, verb
):
    interrupt(graph)
    omnigraph.open("g.omni").close()
    ran = run(*words(graph, verb))
    assert ran.err == ""
    assert ran.out


@pytest.mark.parametrize(
    "verb,target",
    [
        (("branch", "create", "new"), "branch new"),
        (("branch", "delete", "draft", "--yes"), "branch draft"),
        (("tag", "create", "second", "{commit}"), "tag second"),
        (("tag", "delete", "first"), "tag first"),
    ],
    ids=lambda v: " ".join(v[:2]) if isinstance(v, tuple) else "",
)
def test_verbs_that_write_name_their_target_on_stderr(run: Run, graph: Graph, verb, target):
    ran = run(*words(graph, verb), "--json")
    assert ran.err == f"graph {graph.location}, {target}\n"


@pytest.mark.parametrize("verb", [*READING, ("commit", "show", "first")], ids=" ".join)
def test_lines_fit_in_80_columns(run: Run, graph: Graph, verb):
    long = "A message that says at length what was done and why, and then goes on a little more."
    graph.write_batches({"Person": ("merge", people("zoe"))}, actor="agent:zoe", message=long)
    interrupt(graph)
    omnigraph.open("g.omni").close()
    assert max(map(len, run(*words(graph, verb)).out.splitlines())) <= 80


def test_a_message_cannot_send_codes_to_the_terminal(run: Run, graph: Graph):
    graph.write_batches({"Person": ("merge", people("zoe"))}, actor="a\nb", message="\x1b[31mred")
    id = graph.commits()[0].id
    for verb in (("commit", "list", "g.omni"), ("commit", "show", "g.omni", id)):
        ran = run(*verb)
        assert "red" in ran.out
        assert "\x1b" not in ran.out and "a\nb" not in ran.out


# --- init ---


def test_init_creates_a_graph(run: Run, files: Path):
    ran = run("init", "new.omni", "--schema", "schema.pg", "--as", "ada")
    assert ran.code == 0
    assert ran.err == f"graph {files / 'new.omni'}, branch main\n"
    assert re.fullmatch(
        rf"created with 1 node type and 1 edge type, commit {ULID.pattern}\n", ran.out
    )
    with omnigraph.open("new.omni") as graph:
        assert [(c.actor, c.message) for c in graph.commits()] == [("ada", "init")]
        assert list(graph.catalog.nodes) == ["Person"]


def test_init_with_json_gives_the_first_snapshot(run: Run, files: Path):
    made = run("init", "new.omni", "--schema", "schema.pg", "--json").json
    assert made["graph"] == str(files / "new.omni")
    assert made["branch"] == "main" and ULID.fullmatch(made["commit"])
    assert [t["table"] for t in made["tables"]] == ["node:Person", "edge:Knows"]


def test_init_refuses_an_existing_graph(run: Run, graph: Graph, files: Path):
    ran = run("init", "g.omni", "--schema", "schema.pg")
    assert ran.code == 1
    assert "there is a graph at" in ran.err


def test_init_refuses_a_folder_with_other_things_and_leaves_it_alone(run: Run, files: Path):
    Path("docs").mkdir()
    Path("docs/a.txt").write_text("hello")
    ran = run("init", "docs", "--schema", "schema.pg")
    assert ran.code == 2
    assert "is not empty (it has a.txt)" in ran.err
    assert os.listdir("docs") == ["a.txt"]


def test_init_needs_a_schema(run: Run, files: Path):
    ran = run("init", "new.omni")
    assert ran.code == 2
    assert "--schema FILE" in ran.err
    ran = run("init", "new.omni", "--schema", "missing.pg")
    assert ran.code == 1
    assert "missing.pg: no such file" in ran.err
    assert not Path("new.omni").exists()


def test_init_with_a_wrong_schema_shows_the_place_and_creates_nothing(run: Run, files: Path):
    Path("bad.pg").write_text("node Person { name: Strin }\n")
    ran = run("init", "new.omni", "--schema", "bad.pg")
    assert ran.code == 1
    assert "bad.pg:1:21: error" in ran.err and "did you mean `String`?" in ran.err
    assert not Path("new.omni").exists()


def test_init_needs_a_graph(run: Run, files: Path):
    ran = run("init", "--schema", "schema.pg")
    assert ran.code == 2
    assert "`omnigraph init GRAPH`" in ran.err


# --- snapshot ---


def test_snapshot_shows_the_tables(run: Run, graph: Graph):
    ran = run("snapshot", "g.omni")
    assert ran.out.splitlines() == [
        f"branch main, commit {graph.commits()[0].id}",
        "table        rows  version  branch",
        "node:Person     1        2  main",
        "edge:Knows      0        1  main",
    ]


def test_snapshot_of_a_branch_shows_which_tables_it_has_written(run: Run, graph: Graph):
    graph.write_batches({"Person": ("merge", people("eve"))}, branch="draft")
    tables = run("snapshot", "g.omni", "--branch", "draft", "--json").json["tables"]
    assert [(t["table"], t["branch"], t["rows"]) for t in tables] == [
        ("node:Person", "draft", 2),
        ("edge:Knows", "main", 0),
    ]


def test_snapshot_of_a_commit_by_id_or_tag(run: Run, graph: Graph):
    first = graph.commits()[-1].id
    by_id = run("snapshot", "g.omni", "--commit", first, "--json").json
    assert by_id == run("snapshot", "g.omni", "--commit", "first", "--json").json
    assert by_id["commit"] == first
    assert [t["rows"] for t in by_id["tables"]] == [0, 0]


@pytest.mark.parametrize(
    "given",
    [
        ("snapshot", "g.omni", "--branch", "drafd"),
        ("commit", "list", "g.omni", "--branch", "drafd"),
        ("branch", "delete", "g.omni", "drafd", "--yes"),
    ],
    ids=lambda v: " ".join(v[:2]),
)
def test_a_misspelt_branch_is_not_found_with_a_hint(run: Run, graph: Graph, given):
    ran = run(*given)
    assert ran.code == 1
    assert "there is no branch `drafd`; did you mean `draft`?" in ran.err


def test_a_branch_starts_at_a_tag_or_a_commit(run: Run, graph: Graph):
    first = graph.tags.list()["first"]
    for name, source in (("fix", "first"), ("again", first)):
        ran = run("branch", "create", "g.omni", name, "--from", source)
        assert ran.out == f"created branch {name} from main, at commit {first}\n"
        assert run("snapshot", "g.omni", "--branch", name, "--json").json["commit"] == first
    ran = run("branch", "create", "g.omni", "new", "--from", "drafd")
    assert ran.code == 1
    assert "no branch, commit or tag `drafd`; did you mean `draft`?" in ran.err


@pytest.mark.parametrize(
    "given",
    [
        ("snapshot", "g.omni", "--commit", "frist"),
        ("commit", "show", "g.omni", "frist"),
        ("tag", "delete", "g.omni", "frist"),
    ],
    ids=lambda v: " ".join(v[:2]),
)
def test_a_misspelt_tag_is_not_found_with_a_hint(run: Run, graph: Graph, given):
    ran = run(*given)
    assert ran.code == 1
    assert "`frist`; did you mean `first`?" in ran.err


# --- branch ---


def test_branch_create_and_list(run: Run, graph: Graph):
    head = graph.commits()[0].id
    ran = run("branch", "create", "g.omni", "ada/ideas", "--from", "draft")
    assert ran.out == f"created branch ada/ideas from draft, at commit {head}\n"
    assert run("branch", "list", "g.omni").out.splitlines() == [
        "branch     head                        created from",
        f"main       {head}",
        f"ada/ideas  {head}  draft",
        f"draft      {head}  main",
    ]
    assert run("branch", "list", "g.omni", "--json").json[0] == {
        "name": "main",
        "parent": None,
        "head": head,
    }


@pytest.mark.parametrize(
    "name,code,message",
    [
        ("draft", 1, "there is a branch `draft` already"),
        ("main", 1, "always exists"),
        ("draft/two", 1, "one name may not be the folder of another"),
        ("my branch", 2, "letters, digits"),
        ("../up", 2, "cannot name a branch"),
    ],
)
def test_branch_create_refuses_a_name(run: Run, graph: Graph, name, code, message):
    ran = run("branch", "create", "g.omni", name)
    assert ran.code == code
    assert message in ran.err
    assert len(graph.branches.list()) == 2


def test_branch_delete_needs_yes_where_nobody_can_be_asked(run: Run, graph: Graph):
    ran = run("branch", "delete", "g.omni", "draft")
    assert ran.code == 2
    assert "pass --yes" in ran.err
    assert len(graph.branches.list()) == 2


def test_branch_delete_with_yes(run: Run, graph: Graph):
    ran = run("branch", "delete", "g.omni", "draft", "--yes")
    assert (ran.code, ran.out) == (0, "deleted branch draft\n")
    assert [b.name for b in graph.branches] == ["main"]


@pytest.mark.parametrize("answer,code,left", [("y", 0, 1), ("n", 1, 2), ("", 1, 2)])
def test_branch_delete_on_a_terminal_shows_the_loss_and_asks(
    run: Run, graph: Graph, monkeypatch, answer, code, left
):
    written = graph.write_batches(
        {"Person": ("merge", people("eve"))}, branch="draft", actor="eve", message="An idea"
    )
    assert written.commit is not None
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _prompt="": answer)
    ran = run("branch", "delete", "g.omni", "draft")
    assert ran.code == code
    assert "1 commit of its own would be lost with the next cleanup" in ran.err
    assert written.commit.id in ran.err and "by eve: An idea" in ran.err
    assert len(graph.branches.list()) == left


def test_branch_delete_is_refused_while_a_tag_names_its_commits(run: Run, graph: Graph):
    written = graph.write_batches({"Person": ("merge", people("eve"))}, branch="draft")
    assert written.commit is not None
    graph.tags.create("idea", written.commit.id)
    ran = run("branch", "delete", "g.omni", "draft", "--yes")
    assert ran.code == 3
    assert "`idea` tags commits that only it has; delete the tag first" in ran.err
    graph.tags.delete("idea")
    assert run("branch", "delete", "g.omni", "draft", "--yes").code == 0


def test_branch_delete_of_main_is_refused_without_asking(run: Run, graph: Graph):
    ran = run("branch", "delete", "g.omni", "main")
    assert ran.code == 2
    assert "`main` cannot be deleted" in ran.err


def test_branch_delete_of_a_parent_is_a_conflict(run: Run, graph: Graph):
    graph.branches.create("child", source="draft")
    ran = run("branch", "delete", "g.omni", "draft", "--yes")
    assert ran.code == 3
    assert "`child` was created from it; delete it first" in ran.err


# --- commit ---


def test_commit_list_shows_ids_times_actors_and_messages(run: Run, graph: Graph):
    newest, first = graph.commits()
    lines = run("commit", "list", "g.omni").out.splitlines()
    assert lines[0].split() == ["commit", "time", "(UTC)", "branch", "actor"]
    assert TIME.sub("TIME", lines[1]).split() == [newest.id, "TIME", "main", "bob"]
    assert lines[2] == "    Add Ann"
    assert TIME.sub("TIME", lines[3]).split() == [first.id, "TIME", "main", "ada"]
    assert lines[4] == "    init"


def test_commit_list_takes_branch_limit_and_filter(run: Run, graph: Graph):
    graph.write_batches({"Person": ("merge", people("eve"))}, branch="draft", actor="eve")

    def actors(*options: str) -> list[str]:
        return [c["actor"] for c in run("commit", "list", "g.omni", "--json", *options).json]

    assert actors() == ["bob", "ada"]
    assert actors("--branch", "draft") == ["eve", "bob", "ada"]
    assert actors("--branch", "draft", "--limit", "2") == ["eve", "bob"]
    assert actors("--filter", "actor=ada") == ["ada"]
    assert actors("--filter", "actor=nobody") == []


def test_commit_list_without_a_match_says_so_on_stderr(run: Run, graph: Graph):
    ran = run("commit", "list", "g.omni", "--filter", "actor=nobody")
    assert (ran.code, ran.out, ran.err) == (0, "", "no commits match\n")


def test_commit_show_tells_what_a_commit_changed(run: Run, graph: Graph):
    newest, first = graph.commits()
    lines = run("commit", "show", "g.omni", newest.id).out.splitlines()
    assert lines[:4] == [
        f"commit   {newest.id}",
        f"parents  {first.id}",
        "branch   main",
        "actor    bob",
    ]
    assert re.fullmatch(rf"time     {TIME.pattern} UTC", lines[4])
    assert lines[5:] == [
        "message  Add Ann",
        "",
        "table        rows  version",
        "node:Person     1        2",
    ]


def test_commit_show_with_json(run: Run, graph: Graph):
    shown = run("commit", "show", "g.omni", "first", "--json").json
    assert shown["id"] == graph.commits()[-1].id
    assert shown["parents"] == []
    assert len(shown["tables"]) == 2


def test_commit_show_finds_commits_of_other_branches(run: Run, graph: Graph):
    made = graph.write_batches({"Person": ("merge", people("eve"))}, branch="draft")
    assert made.commit is not None
    assert run("commit", "show", "g.omni", made.commit.id, "--json").json["branch"] == "draft"


# --- tag ---


def test_tags_are_created_listed_and_deleted(run: Run, graph: Graph):
    newest, first = graph.commits()
    ran = run("tag", "create", "g.omni", "v2", newest.id)
    assert ran.out == f"tag v2 names commit {newest.id}\n"
    assert run("tag", "list", "g.omni").out.splitlines() == [
        "tag    commit",
        f"first  {first.id}",
        f"v2     {newest.id}",
    ]
    assert run("tag", "list", "g.omni", "--json").json[1] == {"name": "v2", "commit": newest.id}
    ran = run("tag", "delete", "g.omni", "v2")
    assert ran.out == f"deleted tag v2; it named commit {newest.id}\n"
    assert list(graph.tags) == [("first", first.id)]


def test_a_tag_of_another_commit_is_not_moved(run: Run, graph: Graph):
    ran = run("tag", "create", "g.omni", "first", graph.commits()[0].id)
    assert ran.code == 1
    assert "delete it first" in ran.err


def test_a_tag_needs_a_commit_that_is_there(run: Run, graph: Graph):
    ran = run("tag", "create", "g.omni", "v2", "01K1F5J2Z3B4N5M6P7Q8R9S0T1")
    assert ran.code == 1
    assert "there is no branch, commit or tag `01K1F5J2Z3B4N5M6P7Q8R9S0T1`" in ran.err


def test_no_tags_are_said_on_stderr(run: Run, graph: Graph):
    graph.tags.delete("first")
    ran = run("tag", "list", "g.omni")
    assert (ran.code, ran.out, ran.err) == (0, "", "there are no tags\n")


# --- recovery and check ---


def test_recovery_list_shows_what_became_of_a_write(run: Run, graph: Graph):
    interrupt(graph)
    assert run("recovery", "list", "g.omni").out == ""
    run("branch", "create", "g.omni", "new")
    lines = run("recovery", "list", "g.omni").out.splitlines()
    assert TIME.sub("TIME", lines[1]).split() == ["TIME", "RolledForward", "main", "eve"]
    assert lines[3:] == [f"    commit {graph.commits()[0].id}", "    node:Person 2 → 3"]
    (shown,) = run("recovery", "list", "g.omni", "--json").json
    assert shown["kind"] == "RolledForward"
    assert shown["tables"] == [{"table": "node:Person", "from": 2, "to": 3}]


def test_check_of_a_sound_graph(run: Run, graph: Graph):
    ran = run("check", "g.omni")
    assert (ran.code, ran.out) == (0, "2 branches, 4 tables with 2 rows checked: no problems\n")
    assert run("check", "g.omni", "--json").json == {
        "ok": True,
        "branches": 2,
        "tables": 4,
        "rows": 2,
        "problems": [],
    }


def test_check_of_an_edge_without_ends_exits_with_1(
    run: Run, graph: Graph, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Violations, "refuse", lambda _: None)
    edges = pa.table({"id": ["e"], "src": ["ann"], "dst": ["nobody"]})
    graph.write_batches({"Knows": ("append", edges)})
    ran = run("check", "g.omni")
    assert ran.code == 1
    assert "main    edge:Knows  end" in ran.out
    assert "1 problem" in ran.out.splitlines()[-1]
    shown = run("check", "g.omni", "--json")
    assert shown.code == 1
    assert not shown.json["ok"] and shown.json["problems"][0]["rule"] == "end"


def test_check_reports_a_write_in_flight(run: Run, graph: Graph):
    interrupt(graph)
    ran = run("check", "g.omni")
    assert ran.code == 1
    assert "recovery" in ran.out and "the next write resolves it" in " ".join(ran.out.split())
    run("branch", "create", "g.omni", "new")
    assert run("check", "g.omni").code == 0


def test_a_damaged_file_is_named(run: Run, graph: Graph):
    Path("g.omni/_schema.ir.json").write_text("{")
    ran = run("check", "g.omni")
    assert ran.code == 1
    assert "_schema.ir.json does not show the schema" in " ".join(ran.out.split())


# --- start-up ---


def modules_after(*arguments: str, then: str = "") -> subprocess.CompletedProcess[str]:
    """Run a verb in a fresh process; stderr lists the modules it has loaded."""
    code = (
        "import sys; from omnigraph.cli import main\n"
        f"code = main({list(arguments)!r})\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)\n"
        f"{then}\nsys.exit(code)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_verbs_on_graphs_load_neither_pandas_nor_spark(run: Run, graph: Graph):
    ran = modules_after("snapshot", graph.location)
    loaded = set(ran.stderr.split())
    assert ran.returncode == 0
    assert "pyarrow" in loaded
    assert not {"pandas", "pyspark", "rich"} & loaded


@pytest.mark.parametrize("verb", ["init", "snapshot", "branch", "commit", "tag", "check"])
def test_the_help_of_a_verb_loads_nothing_heavy(verb):
    assert verb in cli.list_commands(None)  # type: ignore[arg-type]
    loaded = set(modules_after(verb, "--help").stderr.split())
    assert not {"pandas", "pyspark", "lance", "pyarrow", "numpy", "obstore"} & loaded


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas_works_as_ever_when_it_is_imported_afterwards(run: Run, graph: Graph):
    then = (
        "import pyarrow as pa, importlib.util\n"
        "assert pa.array([1, None]).null_count == 1\n"
        "assert 'pandas' not in sys.modules\n"
        "assert importlib.util.find_spec('pandas').name == 'pandas'\n"
        "import pandas as pd\n"
        "assert pa.lib._pandas_api.have_pandas\n"
        "assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1\n"
        "frame = pa.table({'a': [1, 2]}).to_pandas()\n"
        "assert pa.Table.from_pandas(frame).num_rows == 2\n"
        "assert not [f for f in sys.meta_path if 'Pandas' in type(f).__name__]\n"
    )
    ran = modules_after("snapshot", graph.location, then=then)
    assert ran.returncode == 0, ran.stderr
