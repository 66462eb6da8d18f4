"""The verbs that merge: branch merge, revert and cherry-pick, and their conflicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.cli.changes_text import Look
from omnigraph.cli.conflicts_text import conflict_lines
from omnigraph.merge.conflicts import Conflict
from tests.cli.conftest import Ran

Run = Callable[..., Ran]

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  bio: String? }
edge Knows: Person -> Person
"""


def write(graph: Graph, statements: str, branch: str = "main") -> str:
    made = graph.mutate(f"query q() {{ {statements} }}", branch=branch).commit
    assert made is not None
    return made.id


def ages(graph: Graph, branch: str = "main") -> dict[str, int]:
    rows = graph.snapshot(branch).read("Person", ["name", "age"]).to_pylist()
    return {row["name"]: row["age"] for row in rows}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph at `g.omni`: ada and bob on main, and a branch `draft` with a new age of ada."""
    graph = omnigraph.init(tmp_path / "g.omni", schema=SCHEMA)
    write(graph, 'insert Person { name: "ada", age: 36 } insert Person { name: "bob", age: 40 }')
    graph.branches.create("draft")
    write(graph, 'update Person set { age: 37 } where name = "ada"', "draft")
    write(graph, 'insert Person { name: "cy" } insert Knows { from: "cy", to: "ada" }', "draft")
    return graph


@pytest.fixture
def torn(graph: Graph) -> Graph:
    """The same, and main has another new age of ada."""
    write(graph, 'update Person set { age: 38 } where name = "ada"')
    return graph


def head(graph: Graph, branch: str = "main") -> str:
    return graph.snapshot(branch).commit


# --- branch merge ---


def test_a_merge_tells_what_came_with_it_and_the_commit(run: Run, graph: Graph):
    write(graph, 'update Person set { age: 41 } where name = "bob"')
    ran = run("branch", "merge", "g.omni", "draft", "--as", "ada", "-m", "Done")
    assert ran.code == 0
    assert ran.err == f"graph {graph.location}, branch main\n"
    assert ran.out == f"+1 ~1 Person, +1 Knows\nmerged draft into main, commit {head(graph)}\n"
    assert (graph.commits()[0].actor, graph.commits()[0].message) == ("ada", "Done")
    again = run("branch", "merge", "g.omni", "draft")
    assert again.out == "main has everything of draft already; nothing to merge\n"


def test_where_a_merge_runs_can_be_chosen(run: Run, graph: Graph):
    assert run("branch", "merge", "g.omni", "draft", "--engine", "local").code == 0
    assert run("revert", "g.omni", head(graph), "--engine", "local").code == 0
    ran = run("branch", "merge", "g.omni", "draft", "--engine", "local", "--master", "local[2]")
    assert ran.code == 2
    assert "--engine local does not use it" in ran.err


def test_a_fast_forward_is_called_so_and_the_branch_is_deleted(run: Run, graph: Graph):
    ran = run("branch", "merge", "g.omni", "draft", "--delete-branch")
    assert ran.out.splitlines()[1:] == [
        f"merged draft into main (fast-forward), commit {head(graph)}",
        "deleted branch draft",
    ]
    assert [branch.name for branch in graph.branches] == ["main"]


def test_a_dry_run_changes_nothing_and_echoes_no_target(run: Run, graph: Graph):
    before = head(graph)
    ran = run("branch", "merge", "g.omni", "draft", "--dry-run", "--delete-branch")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "+1 ~1 Person, +1 Knows",
        "would merge draft into main (fast-forward)",
        "would delete branch draft",
    ]
    assert head(graph) == before and len(graph.branches.list()) == 2


def test_the_result_as_json(run: Run, graph: Graph):
    made = run("branch", "merge", "g.omni", "draft", "--delete-branch", "--json").json
    assert made["outcome"] == "fast_forward" and made["commit"] == head(graph)
    assert made["tables"]["Knows"] == {"inserted": 1, "replaced": 0, "deleted": 0}
    assert (made["dry_run"], made["deleted_branch"]) == (False, "draft")


def test_conflicts_are_a_table_with_what_to_do_next(run: Run, torn: Graph):
    before = head(torn)
    ran = run("branch", "merge", "g.omni", "draft")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.splitlines()[1:] == [
        "error: merging `draft` into `main`: 1 conflict; nothing was written",
        "",
        "DivergentUpdate (1): both sides have changed it, differently",
        "  entity      property  base  ours  theirs",
        "  Person ada  age       36    38    37",
        "",
        "Settle them, and run it again with",
        "  --ours                            what main has wins",
        "  --theirs                          what draft has wins",
        "  --write-conflicts conflicts.yaml  put them in a file, and decide there",
        "  --resolutions conflicts.yaml      take what the file says",
    ]
    assert head(torn) == before


def test_a_dry_run_predicts_conflicts_and_the_exit_code(run: Run, torn: Graph):
    ran = run("branch", "merge", "g.omni", "draft", "--dry-run")
    assert (ran.code, ran.err) == (3, "")
    assert "1 conflict; nothing would be written" in ran.out
    assert "Person ada  age       36    38    37" in ran.out
    shown = run("branch", "merge", "g.omni", "draft", "--dry-run", "--json")
    assert (shown.code, shown.json["outcome"]) == (3, "conflicts")


def test_conflicts_as_json(run: Run, torn: Graph):
    ran = run("branch", "merge", "g.omni", "draft", "--json")
    assert ran.code == 3
    assert ran.json["error"] == "MergeConflicts"
    (conflict,) = ran.json["conflicts"]
    assert (conflict["base"], conflict["ours"], conflict["theirs"]) == (36, 38, 37)


@pytest.mark.parametrize("side,age", [("--ours", 38), ("--theirs", 37)])
def test_a_side_settles_all_conflicts(run: Run, torn: Graph, side, age):
    ran = run("branch", "merge", "g.omni", "draft", side)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "settled 1 conflict")
    assert ages(torn)["ada"] == age


def test_conflicts_are_settled_in_files(run: Run, torn: Graph):
    write(torn, 'update Person set { city: "Rome" } where name = "ada"')
    write(torn, 'update Person set { city: "Oslo" } where name = "ada"', "draft")
    merge = ("branch", "merge", "g.omni", "draft")
    ran = run(*merge, "--write-conflicts", "c.yaml")
    assert ran.code == 3
    assert "wrote 2 conflicts to c.yaml\n" in ran.err
    assert "  --resolutions c.yaml  take what the file says" in ran.err.splitlines()
    first, second = (text := Path("c.yaml").read_text()).split("- kind: ")[1:]
    assert "resolution: null" in first and "resolution: null" in second
    refused = run(*merge, "--write-conflicts", "c.yaml")
    assert (refused.code, Path("c.yaml").read_text()) == (1, text)
    assert "c.yaml is there already" in refused.err
    Path("c.yaml").write_text(text.replace("resolution: null", "resolution: {value: 99}", 1))
    half = run(*merge, "--resolutions", "c.yaml", "--write-conflicts", "d.yaml")
    assert half.code == 3 and "wrote 1 conflict to d.yaml" in half.err
    assert "  --resolutions c.yaml --resolutions d.yaml" in half.err
    Path("d.yaml").write_text(Path("d.yaml").read_text().replace("null", "theirs"))
    done = run(*merge, "--resolutions", "c.yaml", "--resolutions", "d.yaml")
    assert (done.code, done.out.splitlines()[-1]) == (0, "settled 2 conflicts")
    assert ages(torn)["ada"] == 99
    assert torn.snapshot().read("Person", ["city"], "name = 'ada'")["city"].to_pylist() == ["Oslo"]


def test_whole_entities_that_differ_show_only_what_differs(run: Run, torn: Graph):
    write(torn, 'update Person set { bio: "x" } where name = "ada"', "draft")
    write(torn, 'delete Person where name = "bob"', "draft")
    write(torn, 'update Person set { age: 41 } where name = "bob"')
    ran = run("branch", "merge", "g.omni", "draft", "--granularity", "row", "--dry-run")
    assert "  Person ada  age       36    38    37\n              bio       null  null  " in ran.out
    assert "  Person bob  age       40    41    deleted" in ran.out
    assert "city" not in ran.out


@pytest.mark.parametrize(
    "given,code,message",
    [
        (("drft",), 1, "there is no branch, commit or tag `drft`; did you mean `draft`?"),
        (("draft", "--into", "mian"), 1, "there is no branch `mian`; did you mean `main`?"),
        (("draft", "--ours", "--theirs"), 2, "pass --ours or --theirs, not both"),
        (("main",), 2, "cannot be merged into itself"),
        (("draft", "--resolutions", "no.yaml"), 1, "no.yaml: no such file"),
        (("draft", "--if-commit", "01K1F5J2Z3B4N5M6P7Q8R9S0T1"), 4, "01K1F5J2Z3B4N5M6P7Q8R9S0T1"),
        (("tagged", "--delete-branch"), 2, "tagged is a commit, no branch"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_a_merge_that_makes_no_sense(run: Run, torn: Graph, given, code, message):
    torn.tags.create("tagged", head(torn, "draft"))
    before = head(torn)
    ran = run("branch", "merge", "g.omni", *given)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert head(torn) == before


def test_a_repeated_merge_with_the_same_key_tells_so(run: Run, graph: Graph):
    merge = ("branch", "merge", "g.omni", "draft", "--idempotency-key", "k1")
    assert run(*merge).code == 0
    assert run(*merge).out == f"done before, in commit {head(graph)}\n"


def test_a_branch_that_cannot_be_deleted_stays_and_the_merge_is_told(run: Run, graph: Graph):
    graph.branches.create("child", source="draft")
    ran = run("branch", "merge", "g.omni", "draft", "--delete-branch")
    assert ran.code != 0
    assert f"draft was merged in commit {head(graph)}, but not deleted: " in ran.err
    assert ages(graph)["ada"] == 37


# --- revert and cherry-pick ---


def test_revert_undoes_a_commit(run: Run, torn: Graph):
    last = head(torn)
    plan = run("revert", "g.omni", last, "--dry-run")
    assert plan.out == f"~1 Person\nwould revert {last} on main\n"
    ran = run("revert", "g.omni", last, "--as", "ada")
    assert ran.err == f"graph {torn.location}, branch main\n"
    assert ran.out == f"~1 Person\nreverted {last} on main, commit {head(torn)}\n"
    assert ages(torn)["ada"] == 36


def test_revert_of_what_was_changed_since_is_a_conflict(run: Run, torn: Graph):
    change = head(torn)
    write(torn, 'update Person set { age: 39 } where name = "ada"')
    ran = run("revert", "g.omni", change)
    assert ran.code == 3
    assert "  Person ada  age       38    39    36" in ran.err
    assert f"what was there before {change} wins" in " ".join(ran.err.split())
    assert run("revert", "g.omni", change, "--theirs").code == 0
    assert ages(torn)["ada"] == 36


def test_cherry_pick_brings_one_commit(run: Run, graph: Graph):
    newest, older = (commit.id for commit in graph.commits("draft", limit=2))
    ran = run("cherry-pick", "g.omni", older)
    assert ran.out == f"~1 Person\npicked {older} onto main, commit {head(graph)}\n"
    assert ages(graph) == {"ada": 37, "bob": 40}
    again = run("cherry-pick", "g.omni", older)
    assert again.out == f"main has everything of {older} already; nothing to pick\n"
    assert run("cherry-pick", "g.omni", newest, "--json").json["outcome"] == "picked"
    assert set(ages(graph)) == {"ada", "bob", "cy"}


@pytest.mark.parametrize("verb", ["revert", "cherry-pick"])
def test_a_misspelt_commit_is_not_found_with_a_hint(run: Run, graph: Graph, verb):
    graph.tags.create("launch", head(graph))
    ran = run(verb, "g.omni", "lanch")
    assert (ran.code, ran.out) == (1, "")
    assert "did you mean `launch`?" in ran.err


# --- how conflicts are shown ---


def conflict(id: str, base: Any, ours: Any, theirs: Any, **more: Any) -> Conflict:
    about = {"kind": "DivergentUpdate", "entity": "node", "type": "Person", "property": "bio"}
    values = {"base": base, "ours": ours, "theirs": theirs, "message": "what is wrong"}
    return Conflict(**{**about, "id": id, **values, **more})


def test_many_conflicts_are_counted_and_some_of_each_kind_are_shown():
    many = [conflict(f"p{n}", 1, 2, 3, property="age") for n in range(1000)]
    other = conflict("q", 0, 2, 3, kind="CardinalityViolation", property="from")
    lines = list(conflict_lines([*many, other], Look()))
    assert lines[0] == "DivergentUpdate (1,000): both sides have changed it, differently"
    assert "CardinalityViolation (1): a node would have too many or too few edges" in lines
    assert "      what is wrong" in lines
    assert "… and 981 more conflicts; --json lists all" in lines
    assert len(lines) < 40


def test_long_texts_are_shown_from_where_they_differ():
    start = "a long text that goes on for a while before it says anything "
    lines = list(conflict_lines([conflict("ada", start + "new", start + "old", None)], Look()))
    assert lines[2] == '  Person ada  bio       …anything new"  …anything old"  null'


def test_conflicts_of_any_width_fit():
    wide = "数学を教える。" * 30
    found = [
        conflict("01M7PCFFK6TVS7WV7KE9RWEP68" * 3, wide, wide + "x", None),
        conflict(
            "山田太郎" * 20, {"bio": wide, "age": 1}, None, {"bio": "x", "age": 1}, property=None
        ),
    ]
    from omnigraph.results.terminal import cell_width

    for width in (40, 80):
        assert max(map(cell_width, conflict_lines(found, Look(width)))) <= max(width, 60)
    assert any("P68" in line for line in conflict_lines(found, Look()))
