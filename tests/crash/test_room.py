"""Writes that make room for many rows, killed at every step: all of it is there, or nothing."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.graph import open
from omnigraph.history.manifest import PublishedTable
from omnigraph.storage import patch
from omnigraph.writes import prepared
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.crash.room import replace_and_die, replace_many
from tests.crash.scenarios import content, make_graph, open_with

AFTER = [("ada", "ada", 1), ("bob", "bob", 2), ("eve", "eve", 3)]
#: After these points the write is finished, before them it is undone.
CASES = [
    ("write.armed", 0, False),
    ("write.table_committing", 0, False),
    ("write.table_committed", 0, False),
    ("write.table_committing", 1, False),
    ("write.table_committed", 1, True),
    ("write.publishing", 0, True),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


def check(place: str, branch: str, before: dict, done: bool) -> None:
    with open(place) as graph:
        people = content(graph, branch)["Person"]
        assert [row for row in people if row[0] != "cy"] == (AFTER if done else before["Person"])
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        query = 'query q() { update Person set { age: 9 } where name = "bob" }'
        graph.mutate(query, branch=branch)
        assert ("bob", "bob", 9) in content(graph, branch)["Person"]


@pytest.mark.parametrize("how", ["load", "batches"])
@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize(("point", "skip", "done"), CASES)
def test_a_write_that_makes_room_is_there_whole_or_not_at_all(
    point: str, skip: int, done: bool, branch: str, how: str, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = content(graph, branch)
    assert run_child(replace_and_die, place, branch, how, point, skip) == KILLED
    check(place, branch, before, done)


@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize(("point", "skip", "done"), CASES)
def test_a_write_that_makes_room_and_fails_settles_that_itself(
    point: str,
    skip: int,
    done: bool,
    branch: str,
    template: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patch, "SEVERAL_ROWS", 0)
    monkeypatch.setattr(prepared, "MANY_ROWS", 0)
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = content(graph, branch)
        fails = nullcontext() if done else pytest.raises(failpoints.FailpointError)
        with failpoints.active(point, "raise", skip=skip), fails:
            replace_many(graph, branch, "batches")
    check(place, branch, before, done)


@pytest.mark.parametrize("point", ["recovery.table_restoring", "recovery.table_restored"])
def test_undoing_room_that_was_made_can_be_killed(
    point: str, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = content(graph, "main")
    died = run_child(replace_and_die, place, "main", "load", "write.table_committed", 0)
    assert died == KILLED
    assert run_child(open_with, place, point, "kill") == KILLED
    check(place, "main", before, False)


@pytest.mark.parametrize("large", ["write", "table"])
def test_rows_that_get_room_keep_their_row_ids_and_are_one_change(
    large: str, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large == "write":
        monkeypatch.setattr(patch, "SEVERAL_ROWS", 1)
        monkeypatch.setattr(prepared, "MANY_ROWS", 1)
    else:
        monkeypatch.setattr(patch, "_LARGE_TABLE", 1)
        monkeypatch.setattr(patch, "_SOME_ROWS", 1)
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    query = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
    with open(place) as graph:
        # What was worked out before is brought up to date by what has changed.
        assert graph.query(query, params={"n": "ada"}).to_rows() == [{"age": 36}]
        first = graph.commits("main")[0].id
        tables = graph._repository.tables

        def published() -> PublishedTable:
            found = graph._repository.history.read("main").state.by_name("Person")
            assert found is not None
            return found

        def row_ids(table: PublishedTable) -> dict[str, int]:
            rows = tables.open(table.ref, table.version).read(["id"], places=True)
            return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))

        before = published()
        replace_many(graph, "main", "load")
        after = published()
        assert after.version == before.version + 2
        kept = row_ids(after)
        assert {name: kept[name] for name in row_ids(before)} == row_ids(before)
        assert graph.query(query, params={"n": "ada"}).to_rows() == [{"age": 1}]
        assert graph.query(query, params={"n": "eve"}).to_rows() == [{"age": 3}]
        assert graph.snapshot(commit=first).read("Person")["age"].to_pylist() == [36, 40]
        assert len(graph.commits("main")) == 3
