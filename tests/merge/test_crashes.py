"""Every step of a merge × {raise, SIGKILL}: it is there whole, with both parents, or not at all.

The merge inserts, updates and deletes nodes and edges, with blobs among them, and settles a
conflict. It goes into a branch that has tables of its own or none, and with so few rows as are
here, or as with so many that it makes room for them first.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.failpoints import POINTS
from omnigraph.graph import Graph, init, open
from omnigraph.storage import patch
from omnigraph.writes import prepared
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.merge.graphs import content as all_rows
from tests.merge.graphs import make, run
from tests.merge.interrupted import merge_with

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Doc { name: String @key  pages: I32?  file: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
START = """
insert Person { name: "ada", age: 36 }
insert Person { name: "bob", age: 40 }
insert Person { name: "cy" }
insert Doc { name: "d1", file: "base64:b25l" }
insert Doc { name: "d2", file: "base64:dHdv" }
insert Knows { from: "ada", to: "bob", since: 1 }
insert Knows { from: "bob", to: "cy", since: 2 }
"""
DRAFT = (
    """
    update Person set { age: 1 } where name = "ada"
    update Doc set { file: "base64:dGhyZWU=" } where name = "d1"
    update Knows set { since: 3 } where from = "ada"
    insert Doc { name: "d3", file: "base64:Zm91cg==" }
    insert Knows { from: "ada", to: "ada" }
    """,
    'delete Person where name = "cy"',
    'delete Doc where name = "d2"',
)
MAIN = (
    'update Person set { city: "Oslo" } where name = "ada"',
    'update Person set { age: 2 } where name = "ada"',
    'update Doc set { pages: 7 } where name = "d1"',
)
POINTS_OF_MERGE = [
    p for p in POINTS if p.startswith(("merge.", "write.")) and p != "write.rechecked"
]
FORKS = ("write.forking", "write.forked")
TABLES = 3


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with init(place, SCHEMA) as graph:
        run(graph, START)
        graph.branches.create("draft")
        graph.branches.create("review")
        for statements in DRAFT:
            run(graph, statements, "draft")
        for statements in MAIN:
            run(graph, statements)
    return place


def content(graph: Graph, branch: str) -> dict[str, dict[str, Any]]:
    """All rows of all types; blobs with their bytes."""
    found = all_rows(graph, branch)
    for id, row in found["Doc"].items():
        with graph.read_blob("node", "Doc", id, "file", branch=branch) as blob:
            row["file"] = blob.read()
    return found


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the branch that is merged into, its content before and after."""
    found = {}
    for into in ("main", "review"):
        place = tmp_path_factory.mktemp(into) / "graph"
        shutil.copytree(template, place)
        with open(place) as graph:
            before = content(graph, into)
            result = graph.merge("draft", into=into, prefer="theirs")
            after = content(graph, into)
            assert len(result.settled) == (1 if into == "main" else 0)
            assert after["Doc"]["d1"]["file"] == b"three"
            assert "d2" not in after["Doc"] and "cy" not in after["Person"]
            found[into] = (before, after)
    return found


def cases() -> list[Any]:
    """Those that every run of the tests has, and the others of the soak."""
    found = []
    for size in ("few", "many"):
        for into in ("main", "review"):
            for point in POINTS_OF_MERGE:
                if point in FORKS and into == "main":
                    continue
                several = point.startswith("write.table_") or point in FORKS
                # Each table that makes room is committed twice.
                commits = TABLES * (2 if size == "many" and point not in FORKS else 1)
                for skip in range(commits if several else 1):
                    for action in ("kill", "raise"):
                        short = _is_short(size, into, point, skip, action)
                        marks = [] if short else [pytest.mark.soak]
                        name = f"{size}-{into}-{point}-{skip}-{action}"
                        values = (size, into, point, skip, action)
                        found.append(pytest.param(*values, id=name, marks=marks))
    return found


def _is_short(size: str, into: str, point: str, skip: int, action: str) -> bool:
    if (size, into) == ("few", "main"):
        is_early = point.startswith("merge.") or (point, skip) == ("write.table_committed", 1)
        return is_early if action == "raise" else skip < 2
    if (size, into) == ("few", "review"):
        return point == "write.forked" and skip == 1
    if size == "many" and action == "kill":
        return (point == "write.table_committed" and into == "main" and skip in (0, 3)) or (
            into == "review" and (point, skip) in (("write.table_committing", 1),)
        )
    return False


@pytest.mark.parametrize(("size", "into", "point", "skip", "action"), cases())
def test_a_merge_that_dies_is_whole_or_absent_after_the_next_open(
    size: str,
    into: str,
    point: str,
    skip: int,
    action: str,
    template: Path,
    outcomes: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    if action == "kill":
        assert run_child(merge_with, place, into, point, action, skip, size) == KILLED
    else:
        monkeypatch.setattr(patch, "SEVERAL_ROWS", patch.SEVERAL_ROWS)
        monkeypatch.setattr(prepared, "MANY_ROWS", prepared.MANY_ROWS)
        try:
            merge_with(place, into, point, action, skip, size)
        except SystemExit as error:
            assert error.code == 3
    with open(place) as graph:
        took_effect = assert_sound(graph, into, outcomes)
        if point in ("write.published", "write.finished"):
            assert took_effect
        # And the merge can be done, or is done.
        outcome = graph.merge("draft", into=into, prefer="theirs").outcome
        assert (outcome == "already_up_to_date") == took_effect
        assert content(graph, into) == outcomes[into][1]


def assert_sound(graph: Graph, into: str, outcomes: dict[str, Any]) -> bool:
    before, after = outcomes[into]
    now = content(graph, into)
    assert now in (before, after)
    assert graph.check().problems == ()
    assert list_sidecars(graph._repository.objects) == []
    made = [c for c in graph.commits(into) if c.actor == "child"]
    assert len(made) == (1 if now == after else 0)
    for commit in made:
        assert commit.parents[1] == graph.snapshot("draft").commit
        assert commit.parents[1] in commit.merged
    return bool(now == after)


def test_a_merge_that_changes_no_table_and_dies_is_recorded_or_absent(tmp_path: Path) -> None:
    with make(tmp_path) as graph:
        graph.branches.create("draft")
        run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
        run(graph, 'update Person set { age: 36 } where name = "ada"', "draft")
        before = all_rows(graph)
        place = graph.location
    assert run_child(merge_with, place, "main", "write.confirmed", "kill") == KILLED
    with open(place) as graph:
        assert all_rows(graph) == before
        assert graph.check().problems == ()
        assert [len(c.parents) for c in graph.commits()[:1]] == [2]
        assert graph.merge("draft").outcome == "already_up_to_date"
