"""A change of the schema that dies anywhere is there whole, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph.failpoints import POINTS
from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import scenarios
from tests.crash.children import KILLED, run_child
from tests.crash.schema_changes import (
    BRANCHES,
    CHANGES,
    CREATES,
    assert_shown,
    change,
    change_with,
    content,
    make_graph,
    table_folders,
)
from tests.crash.test_matrix import run_here

WRITE_POINTS = [p for p in POINTS if p.startswith("write.") and p != "write.rechecked"]
SCHEMA_POINTS = [p for p in POINTS if p.startswith("schema.")]
BEFORE_ARMED = ("write.prepared", "write.locked", "write.revalidated", "schema.stored")
VISIBLE = ("write.published", "write.finished", "schema.showing", "schema.shown")
#: Where it makes a difference that a schema is changed; the others are in the matrix of writes.
SHORT = {
    ("main", "write.armed", 0),
    ("main", "write.table_committed", 1),
    ("draft", "write.forked", 0),
    ("main", "write.confirmed", 0),
    ("main", "write.published", 0),
    ("draft", "write.published", 0),
    ("main", "schema.stored", 0),
    ("main", "schema.table_creating", 1),
    ("main", "schema.table_created", 0),
    ("main", "schema.table_created", 1),
    ("draft", "schema.table_created", 1),
    ("main", "schema.showing", 0),
    ("main", "schema.shown", 0),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the graph holds before, and after the change on each branch."""
    with open(template, mode="r") as graph:
        found = {"before": content(graph)}
    for branch in BRANCHES:
        place = shutil.copytree(template, tmp_path_factory.mktemp(branch) / "graph")
        with open(place) as graph:
            change(graph, branch)
            found[branch] = content(graph)
            assert graph.check().problems == ()
    assert len({str(each) for each in found.values()}) == 3
    return found


def cases() -> list[ParameterSet]:
    listed = []
    for branch in BRANCHES:
        for point in (*WRITE_POINTS, *SCHEMA_POINTS):
            if branch == "draft" and point in ("schema.showing", "schema.shown"):
                # Main keeps its schema.
                continue
            times = 1
            if point.startswith(("write.table_", "write.tiers_")):
                times = CHANGES
            elif point.startswith("schema.table_"):
                times = CREATES
            elif point.startswith("write.fork"):
                times = 0 if branch == "main" else CHANGES
            for skip in range(times):
                marks = [] if (branch, point, skip) in SHORT else [pytest.mark.soak]
                name = f"{branch}-{point}-{skip}"
                listed.append(pytest.param(branch, point, skip, id=name, marks=marks))
    return listed


@pytest.mark.parametrize("action", ["kill", pytest.param("raise", marks=pytest.mark.soak)])
@pytest.mark.parametrize(("branch", "point", "skip"), cases())
def test_a_change_of_the_schema_that_dies_is_whole_or_absent(
    branch: str, point: str, skip: int, action: str, template: Path, outcomes: Any, tmp_path: Path
) -> None:
    place = str(shutil.copytree(template, tmp_path / "graph"))
    folders = table_folders(place)
    work = (change_with, place, branch, point, action, skip)
    code = run_child(*work) if action == "kill" else run_here(*work)
    assert code == KILLED if action == "kill" else code in (0, 3)
    with open(place, mode="r") as reader:
        assert content(reader) in (outcomes["before"], outcomes[branch])
    with open(place) as graph:
        now = content(graph)
        took_effect = now == outcomes[branch]
        assert took_effect or now == outcomes["before"]
        done = point in ("write.confirmed", "write.publishing") or (point, skip) == (
            "schema.table_created",
            CREATES - 1,
        )
        assert took_effect == (code == 0 or point in VISIBLE or (action == "kill" and done))
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert_shown(graph)
        assert len(table_folders(place) - folders) == (CREATES if took_effect else 0)
        is_armed = point not in (*BEFORE_ARMED, "write.finished")
        assert len(graph.recoveries()) == (1 if is_armed else 0)
        written = [c for c in graph.commits(branch) if c.actor == "child"]
        assert len(written) == int(took_effect)
        # What is done, or was undone, can be done again.
        change(graph, branch)
        assert content(graph) == outcomes[branch]
        graph.mutate('query q() { insert Pet { name: "Rex" } }', branch=branch)
        assert graph.check().problems == ()


@pytest.mark.parametrize("point", ["recovery.publishing", "recovery.published", "recovery.audited"])
@pytest.mark.parametrize(
    "died_at", [("schema.table_created", 0), ("write.confirmed", 0)], ids=["back", "forward"]
)
def test_recovery_of_a_change_of_the_schema_that_is_killed_is_finished_by_the_next_one(
    point: str, died_at: tuple[str, int], template: Path, outcomes: Any, tmp_path: Path
) -> None:
    place = str(shutil.copytree(template, tmp_path / "graph"))
    assert run_child(change_with, place, "main", died_at[0], "kill", died_at[1]) == KILLED
    assert run_child(scenarios.open_with, place, point, "kill") == KILLED
    with open(place) as graph:
        expected = "before" if died_at[0] == "schema.table_created" else "main"
        assert content(graph) == outcomes[expected]
        assert graph.check().problems == ()
        assert len(graph.recoveries()) == 1
        assert_shown(graph)
