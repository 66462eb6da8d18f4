"""A graph is one folder, wherever it stands: moved, copied, mounted twice or read-only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph.graph import open
from tests.full_disk import can_mount
from tests.places import BRANCHES, add, answers, files, make, run_mounted

mounting = pytest.mark.skipif(not can_mount(), reason="this machine does not let users mount")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A graph that is no longer where it was made, and what it answered there."""
    place = tmp_path_factory.mktemp("made") / "graph"
    make(place)
    with open(place, mode="r") as graph:
        expected = answers(graph)
    return place.rename(place.with_name("template")), expected


@pytest.fixture
def place(made: tuple[Path, dict[str, object]], tmp_path: Path) -> Path:
    """The graph at a place where it was never opened."""
    return Path(shutil.copytree(made[0], tmp_path / "graph"))


@pytest.fixture
def expected(made: tuple[Path, dict[str, object]]) -> dict[str, object]:
    return made[1]


def test_a_moved_graph_answers_from_the_first_read_and_nothing_is_rewritten(
    place, expected, tmp_path
):
    moved = Path(shutil.move(place, tmp_path / "a longer name than before"))
    lying = files(moved)
    for mode in ("r", "rw"):
        with open(moved, mode=mode) as graph:
            assert answers(graph) == expected
        assert files(moved) == lying


def test_a_copy_does_not_look_at_the_original(tmp_path):
    born = tmp_path / "born"
    make(born)
    with open(born, mode="r") as graph:
        expected = answers(graph)
    copy = Path(shutil.copytree(born, tmp_path / "copy"))
    with open(born) as graph:
        for branch in BRANCHES:
            graph.write_batches({"Knows": ("delete", "true")}, branch=branch)
    for file in born.rglob("*.lance"):
        file.rename(file.with_suffix(".away"))
    for mode in ("r", "rw"):
        with open(copy, mode=mode) as graph:
            assert answers(graph) == expected


def test_a_copy_is_damaged_when_its_own_files_are_gone(tmp_path):
    make(tmp_path / "original")
    copy = Path(shutil.copytree(tmp_path / "original", tmp_path / "copy"))
    for file in copy.glob("nodes/*/data/*.lance"):
        file.unlink()
    with open(copy, mode="r") as graph:
        rules = {(p.branch, p.rule) for p in graph.check().problems}
    assert rules >= {(branch, "readable") for branch in BRANCHES}


@pytest.mark.parametrize("moves", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_every_branch_is_written_to_after_each_of_many_moves(moves, place, tmp_path):
    for number in range(moves):
        place = place.rename(tmp_path / f"place {number}")
        with open(place) as graph:
            for at, branch in enumerate(BRANCHES):
                start = 100 + number * 30 + at * 10
                add(graph, start, start + 5, branch)
                graph.write_batches({"Person": ("delete", f"id = 'p{start + 3}'")}, branch=branch)
                graph.ensure_indices(branch)
            graph.branches.create(f"of{number}", source="deep/er")
            graph.cleanup(confirm=True)
            answers(graph)
    with open(place) as graph:
        assert graph.snapshot("deep/er").count("Person") == 8 * 3 + 4 * moves
        assert graph.snapshot("of0").count("Person") == 8 * 3 + 4
        for branch in (*(f"of{number}" for number in range(moves)), "deep/er", "draft"):
            graph.branches.delete(branch)
        assert graph.check().problems == ()


@mounting
def test_a_copy_that_can_only_be_read_answers_the_same(place, expected):
    mounts = f"mount --bind -o ro {place} {place} && mount -o remount,bind,ro {place}"
    assert run_mounted(mounts, "read_only", place) == str(expected)


@mounting
def test_one_folder_at_two_addresses_has_writers_at_both(place, tmp_path):
    (tmp_path / "again").mkdir()
    run_mounted(f"mount --bind {place} {tmp_path}/again", "in_turn", place, tmp_path / "again")
    # Here, only one of them is to be seen.
    with open(place, mode="r") as graph:
        answers(graph)
