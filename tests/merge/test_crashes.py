"""Every step of a merge × {raise, SIGKILL}: it is there whole, with both parents, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph.failpoints import POINTS
from omnigraph.graph import Graph, open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.merge.graphs import content, make, run
from tests.merge.interrupted import merge_with

MERGE_POINTS = [p for p in POINTS if p.startswith(("merge.", "write.")) and p != "write.rechecked"]
FORKS = ("write.forking", "write.forked")
#: Two tables change when main is merged into, and two are forked on a branch without tables.
TABLES = 2


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template")
    with make(place) as graph:
        graph.branches.create("draft")
        graph.branches.create("review")
        run(graph, 'update Person set { age: 1 } where name = "ada"', "draft")
        run(graph, 'insert Knows { from: "bob", to: "cy" }', "draft")
        run(graph, 'update Person set { city: "Oslo" } where name = "ada"')
    return place / "graph"


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By the branch that is merged into, its content before and after."""
    found = {}
    for into in ("main", "review"):
        place = tmp_path_factory.mktemp(into) / "graph"
        shutil.copytree(template, place)
        with open(place) as graph:
            before = content(graph, into)
            graph.merge("draft", into=into)
            found[into] = (before, content(graph, into))
    return found


def cases() -> list[Any]:
    found = []
    for into in ("main", "review"):
        for point in MERGE_POINTS:
            if point in FORKS and into == "main":
                continue
            several = point.startswith("write.table_") or point in FORKS
            for skip in range(TABLES if several else 1):
                for action in ("kill", "raise"):
                    short = into == "main" and (action == "kill" or point.startswith("merge."))
                    marks = [] if short or point == "write.forked" else [pytest.mark.soak]
                    name = f"{into}-{point}-{skip}-{action}"
                    found.append(pytest.param(into, point, skip, action, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("into", "point", "skip", "action"), cases())
def test_a_merge_that_dies_is_whole_or_absent_after_the_next_open(
    into: str,
    point: str,
    skip: int,
    action: str,
    template: Path,
    outcomes: dict[str, Any],
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    if action == "kill":
        assert run_child(merge_with, place, into, point, action, skip) == KILLED
    else:
        try:
            merge_with(place, into, point, action, skip)
        except SystemExit as error:
            assert error.code == 3
    with open(place) as graph:
        took_effect = assert_sound(graph, into, outcomes)
        if point in ("write.published", "write.finished"):
            assert took_effect
        # And the merge can be done, or is done.
        outcome = graph.merge("draft", into=into).outcome
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
        before = content(graph)
        place = graph.location
    assert run_child(merge_with, place, "main", "write.confirmed", "kill") == KILLED
    with open(place) as graph:
        assert content(graph) == before
        assert graph.check().problems == ()
        assert [len(c.parents) for c in graph.commits()[:1]] == [2]
        assert graph.merge("draft").outcome == "already_up_to_date"
