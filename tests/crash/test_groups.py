"""Writes of several threads that share a sidecar, killed at every step: all are there, or none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.crash.groups import INSERT, MOVE, WORKS, write_together
from tests.crash.scenarios import content, make_graph, open_with

#: Before all of this has happened, the writes are undone; after it, they are finished.
DONE = {
    ("write.table_committed", 3),
    ("write.confirmed", 0),
    ("write.publishing", 0),
    ("write.published", 0),
    ("write.finished", 0),
}
BRANCH = "working"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place), residents=True, cities_one_by_one=True)
    with open(place) as graph:
        # So that nothing is forked, which would be done alone.
        graph.mutate(MOVE, params={"n": "cy"}, branch=BRANCH)
    return place


def cases() -> list[tuple[str, int]]:
    found = [("write.revalidated", 0), ("write.armed", 0)]
    found += [("write.tiers_merged", skip) for skip in (1, 3)]
    found += [("write.table_committed", skip) for skip in (0, 2, 3)]
    found += [(f"write.{name}", 0) for name in ("confirmed", "publishing", "published", "finished")]
    return found


def check(place: str, before: dict, branch: str, done: bool) -> None:
    with open(place, mode="r") as reader:
        assert reader.snapshot(branch).commit is not None
    with open(place) as graph:
        written = [c for c in graph.commits(branch) if c.actor == "child"]
        assert len(written) == (len(WORKS) if done else 0)
        now = content(graph, branch)
        assert (now == before) != done
        if done:
            ages = {name: age for _, name, age in now["Person"]}
            assert (ages["eve"], ages["dan"], ages["ada"]) == (1, 1, 50)
            assert len(now["LivesIn"]) == len(before["LivesIn"]) + 1
            # Each of them can be read: people come one by one.
            counts = [graph.snapshot(commit=commit.id).count("Person") for commit in written]
            people = len(before["Person"])
            assert counts == [people + 2, people + 2, people + 1, people + 1]
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        graph.mutate(INSERT, params={"n": "zoe"}, branch=branch)


@pytest.mark.parametrize("branch", ["main", BRANCH])
@pytest.mark.parametrize(("point", "skip"), cases())
def test_writes_that_share_a_sidecar_share_their_fate(
    point: str, skip: int, branch: str, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = content(graph, branch)
    assert run_child(write_together, place, branch, point, skip) == KILLED
    check(place, before, branch, (point, skip) in DONE)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    "point", ["recovery.table_restored", "recovery.publishing", "recovery.published"]
)
def test_a_recovery_of_several_writes_is_killed(
    point: str, done: bool, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = content(graph, "main")
    died = ("write.confirmed", 0) if done else ("write.table_committed", 2)
    assert run_child(write_together, place, "main", *died) == KILLED
    code = run_child(open_with, place, point, "kill")
    assert code == (0 if done and point == "recovery.table_restored" else KILLED)
    check(place, before, "main", done)
