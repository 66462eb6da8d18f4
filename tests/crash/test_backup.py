"""Backups while processes write, and backups and restores that are killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import NotFound
from omnigraph.graph import Graph, init, open
from tests.crash import backups
from tests.crash.children import KILLED, run_child, start_child
from tests.leftover_files import all_files, contents, everything, unreferenced
from tests.patience import PATIENCE, wait_until

WRITERS = 4


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    with init(place, backups.SCHEMA) as graph:
        backups.write(graph, "first")
        graph.branches.create("draft")
        backups.write(graph, "second", "draft")
        graph.tags.create("start", graph.snapshot().commit)
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "graph"))


def check_restored(source: Graph, target: Path, place: Path, branches: dict[str, str]) -> None:
    """A restored graph has exactly one commit's state on every branch, and its history."""
    known: dict[Any, Any] = {}
    omnigraph.restore(target, place)
    assert unreferenced(place) == set()
    with open(place, mode="r") as again:
        assert again.check().problems == ()
        assert {branch.name: branch.head for branch in again.branches} == branches
        for name, head in branches.items():
            now = contents(again, {}, branch=name)
            assert now == contents(source, known, commit=head)
            # Every commit writes the same names to all tables.
            pairs = again.snapshot(name).read("Pair", ["name"])["name"].to_pylist()
            people = again.snapshot(name).read("Person", ["name"])["name"].to_pylist()
            assert sorted([*pairs, "all"]) == sorted(people)
            shown = [commit.to_dict() for commit in again.commits(name)]
            commits = [commit.to_dict() for commit in source.commits(name)]
            assert shown == commits[-len(shown) :]


def backed_up_while_writing(place: Path, tmp_path: Path, rounds: int) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    children = [
        start_child(backups.write_on, str(place), str(folder), worker) for worker in range(WRITERS)
    ]
    results = []
    try:
        for worker in range(WRITERS):
            wait_until((folder / f"begun{worker}").exists, "the writers do not write")
        for _ in range(rounds):
            with open(place) as graph:
                results.append(graph.backup(tmp_path / "target"))
                taken = results[-1].branches["main"]
                wait_until(lambda: graph.snapshot().commit != taken, "the writers do not write")  # noqa: B023
    finally:
        (folder / "stop").touch()
        for child in children:
            child.join(PATIENCE)
    assert [child.exitcode for child in children] == [0] * WRITERS
    assert len({result.branches["main"] for result in results}) > 1
    # The later ones have only copied what was new.
    assert all(r.copied_bytes < r.bytes for r in results[1:])
    assert omnigraph.verify_backups(tmp_path / "target").problems == ()
    with open(place, mode="r") as source:
        last = results[-1]
        check_restored(source, tmp_path / "target", tmp_path / "restored", last.branches)
    with open(tmp_path / "restored") as again:
        backups.write(again, "after")
        backups.write(again, "after", "draft")
        assert again.check().problems == ()


def test_a_backup_while_four_processes_write_is_one_commit_of_each_branch(
    place: Path, tmp_path: Path
) -> None:
    backed_up_while_writing(place, tmp_path, 2)


@pytest.mark.soak
def test_many_backups_while_four_processes_write(place: Path, tmp_path: Path) -> None:
    end = time.monotonic() + min(60.0, float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 60))
    number = 0
    while time.monotonic() < end:
        number += 1
        folder = tmp_path / str(number)
        shutil.copytree(place, folder / "graph")
        backed_up_while_writing(folder / "graph", folder, 6)


def test_what_a_dead_writer_has_left_is_not_in_a_backup(place: Path, tmp_path: Path) -> None:
    """Nothing unpublished, no sidecar, no lock, nothing staged, no cache."""
    assert run_child(backups.write_with, str(place), "write.prepared") == KILLED
    assert run_child(backups.write_with, str(place), "write.table_committed") == KILLED
    assert list(place.glob("__recovery/*"))
    with open(place, mode="r") as reader:
        assert "head" in {problem.rule for problem in reader.check().problems}
        result = reader.backup(tmp_path / "target")
        stored = all_files(tmp_path / "target/files")
        own = ("__cache", "__locks", "__scratch", "__recovery")
        assert not [path for path in stored if path.startswith(own) or "hint" in path]
        check_restored(reader, tmp_path / "target", tmp_path / "restored", result.branches)
    # Opened for writing, the write is undone first, and the log of that comes along.
    with open(place) as graph:
        result = graph.backup(tmp_path / "target")
        check_restored(graph, tmp_path / "target", tmp_path / "again", result.branches)
        log = [recovery.operation_id for recovery in graph.recoveries()]
    with open(tmp_path / "again") as again:
        assert [recovery.operation_id for recovery in again.recoveries()] == log != []


BACKUP_POINTS = [
    ("backup.moment_taken", 0),
    ("backup.manifest_copied", 0),
    ("backup.file_copied", 0),
    ("backup.file_copied", 9),
    ("backup.copied", 0),
    ("backup.written", 0),
]


@pytest.mark.parametrize(("point", "skip"), BACKUP_POINTS)
def test_a_killed_backup_is_there_or_not_and_the_next_one_goes_on(
    point: str, skip: int, place: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    assert run_child(backups.backup_with, str(place), str(target), point, skip) == KILLED
    if point == "backup.written":
        assert len(omnigraph.list_backups(target)) == 1
    else:
        with pytest.raises(NotFound, match="there is no backup"):
            omnigraph.list_backups(target)
    copied = len(all_files(target)) if target.exists() else 0
    with open(place) as graph:
        result = graph.backup(target)
        if point == "backup.file_copied" and skip:
            assert 0 < result.copied_files <= result.files - skip
        if point in ("backup.copied", "backup.written"):
            assert (result.copied_files, copied >= result.files) == (0, True)
        check_restored(graph, target, tmp_path / "restored", result.branches)
    assert omnigraph.verify_backups(target).problems == ()


RESTORE_POINTS = [
    ("restore.claimed", 0),
    ("restore.file_copied", 0),
    ("restore.file_copied", 9),
    ("restore.tables_copied", 0),
    ("restore.manifest_copied", 0),
    ("restore.copied", 0),
    ("restore.finished", 0),
]


@pytest.mark.parametrize(("point", "skip"), RESTORE_POINTS)
def test_a_killed_restore_is_no_graph_until_it_is_whole(
    point: str, skip: int, place: Path, tmp_path: Path
) -> None:
    target, restored = tmp_path / "target", tmp_path / "restored"
    with open(place) as graph:
        result = graph.backup(target)
        expected = everything(graph)
    assert run_child(backups.restore_with, str(target), str(restored), point, skip) == KILLED
    if point in ("restore.copied", "restore.finished"):
        with open(restored, mode="r") as again:
            assert everything(again) == expected
    else:
        with pytest.raises(NotFound, match="its restore was interrupted"):
            open(restored)
    if point != "restore.finished":
        assert omnigraph.restore(target, restored).backup == result.id
    assert not (restored / "__restore_claim.json").exists()
    files = [path for path in all_files(restored) if "#" not in path]
    assert len([path for path in files if not path.startswith(("__locks", "__cache"))]) == (
        result.files
    )
    with open(restored) as again:
        assert everything(again) == expected
        assert again.check().problems == ()
        backups.write(again, "after")
