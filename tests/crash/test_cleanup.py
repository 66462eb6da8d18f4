"""Cleaning up after processes that were killed, while others work, and when it is killed itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph.graph import open
from omnigraph.writes import heartbeat
from tests.crash import cleaners, loads
from tests.crash.children import KILLED, run_child, start_child
from tests.crash.cleaners import NOW
from tests.leftover_files import everything, unreferenced
from tests.patience import PATIENCE, wait_until
from tests.storage.children import wait_for

#: Loads that die, one after the other, each where another kind of leftover is made.
DEATHS = [
    ("merge", "main", "load.staged", 0),
    ("merge", "draft", "load.merged", 0),
    ("overwrite", "main", "write.prepared", 0),
    ("merge", "draft", "write.forked", 1),
    ("merge", "main", "write.table_committed", 1),
    ("merge", "draft", "write.published", 0),
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph on which loads, an index build and a deletion of a branch were killed."""
    folder = tmp_path_factory.mktemp("killed")
    place = str(folder / "graph")
    loads.make_graph(place)
    with open(place) as graph:
        graph.load(loads.write_input(folder, "tagged"), engine="local")
        graph.ensure_indices()
        graph.tags.create("first", graph.snapshot().commit)
        graph.branches.create("gone")
        graph.load(loads.write_input(folder, "away"), branch="gone", engine="local")
    for number, (mode, branch, point, skip) in enumerate(DEATHS):
        source = loads.write_input(folder, f"n{number}")
        if mode == "overwrite":
            source.write_text(source.read_text() + '{"type":"Person","data":{"name":"old4"}}\n')
        arguments = (place, str(source), mode, branch, point, "kill", skip)
        assert run_child(loads.load_with, *arguments) == KILLED
    with open(place) as graph:
        graph.load(loads.write_input(folder, "unindexed"), engine="local")
    assert run_child(cleaners.index_with, place) == KILLED
    assert run_child(cleaners.delete_with, place, "gone") == KILLED
    return Path(place)


@pytest.fixture
def place(killed: Path, tmp_path: Path) -> str:
    shutil.copytree(killed, tmp_path / "graph")
    return str(tmp_path / "graph")


def test_nothing_is_left_of_killed_processes_and_everything_reads_the_same(
    place: str, tmp_path: Path
) -> None:
    with open(place) as graph:
        # A retry of a load that died works before a cleanup and after it.
        graph.load(loads.write_input(tmp_path, "n0"), branch="draft", engine="local")
        left, before = unreferenced(place), everything(graph)
        assert {p.split("/")[0] for p in left} == {"nodes", "edges", "__scratch"}
        assert any("/tree/gone-" in p for p in left) and any("_indices/" in p for p in left)
        done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
        entries = sum("_refs/" in path for path in left)
        assert (done.errors, done.files) == ({}, len(left) - entries)
        assert unreferenced(place) == set()
    with open(place) as graph:
        assert everything(graph) == before
        assert graph.check().problems == ()
        assert graph.cleanup(leftovers_older_than=NOW).places == ()
        graph.load(loads.write_input(tmp_path, "n1"), branch="draft", engine="local")
        graph.branches.create("gone")
        graph.load(loads.write_input(tmp_path, "n2"), branch="gone", engine="local")
        assert graph.check().problems == ()


@pytest.mark.parametrize(
    ("point", "skip"),
    [("cleanup.found", 1), ("cleanup.checked", 4), ("cleanup.removed", 0)],
)
def test_a_killed_cleanup_leaves_a_sound_graph_and_the_next_one_goes_on(
    point: str, skip: int, place: str
) -> None:
    with open(place) as graph:
        before, left = everything(graph), unreferenced(place)
    assert run_child(cleaners.clean_with, place, point, skip) == KILLED
    with open(place) as graph:
        now = unreferenced(place)
        assert set() < now < left
        assert graph.check().problems == ()
        assert graph.cleanup(confirm=True, leftovers_older_than=NOW).errors == {}
        assert unreferenced(place) == set()
        assert everything(graph) == before


@pytest.mark.parametrize(("mode", "pulse"), [("merge", 60.0), ("append", 60.0), ("append", 0.02)])
def test_a_load_in_another_process_succeeds_while_its_files_are_staged(
    mode: str, pulse: float, tmp_path: Path
) -> None:
    """Without a heartbeat it loads again what it has lost; with one it loses nothing."""
    place = str(tmp_path / "graph")
    loads.make_graph(place)
    source = loads.write_input(tmp_path)
    if mode == "append":
        lines = source.read_text().splitlines(keepends=True)
        source.write_text("".join(line for line in lines if '"name": "old' not in line))
    child = start_child(cleaners.load_slowly, place, str(source), mode, str(tmp_path), pulse)
    wait_for(tmp_path / "staged1")
    staged = unreferenced(place)
    assert any("data/" in path for path in staged)
    with open(place) as graph:
        assert graph.cleanup(confirm=True).files == 0
        if pulse < 1:
            wait_for_sign(place)
            assert graph.cleanup(confirm=True, leftovers_older_than=NOW).files == 0
        else:
            done = graph.cleanup(confirm=True, leftovers_older_than=NOW)
            assert done.files >= len(staged)
    (tmp_path / "go").touch()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert (tmp_path / "times").read_text() == ("1" if pulse < 1 else "2")
    with open(place) as graph:
        assert graph.snapshot().count("Person") == 25
        assert graph.check().problems == ()
        everything(graph)
        graph.cleanup(confirm=True, leftovers_older_than=NOW)
    assert unreferenced(place) == set()


def wait_for_sign(place: str) -> None:
    folder = Path(place, heartbeat.SCRATCH)
    wait_until(lambda: any(folder.glob(f"*/{heartbeat.HEARTBEAT}")), "no heartbeat")
