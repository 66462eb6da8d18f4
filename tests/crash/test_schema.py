"""A change of the schema that dies anywhere is there whole, or not at all."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph import failpoints
from omnigraph.failpoints import POINTS
from omnigraph.graph import open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import scenarios
from tests.crash.children import KILLED, run_child
from tests.crash.schema_changes import (
    BRANCHES,
    KINDS,
    assert_shown,
    change,
    change_with,
    content,
    make_graph,
    table_folders,
)
from tests.crash.test_matrix import run_here

BEFORE_ARMED = ("write.prepared", "write.locked", "write.revalidated", "schema.stored")
VISIBLE = ("write.published", "write.finished", "schema.showing", "schema.shown")
#: Where it makes a difference that a schema is changed; the others are in the matrix of writes.
SHORT = {
    ("all", "main", "write.table_committed", 1),
    ("all", "main", "schema.table_creating", 1),
    ("all", "draft", "schema.table_created", 1),
    ("names", "main", "write.table_committed", 0),
    ("names", "draft", "write.forked", 0),
    ("rules", "main", "write.armed", 0),
    ("rules", "draft", "write.published", 0),
    ("values", "main", "schema.stored", 0),
    ("values", "main", "write.confirmed", 0),
    ("values", "draft", "write.table_committed", 0),
    ("types", "main", "schema.table_created", 0),
    ("types", "main", "schema.showing", 0),
    ("types", "main", "schema.shown", 0),
}


def hits(kind: str, branch: str) -> dict[str, int]:
    """The points that a change comes by, and how often."""
    what = KINDS[kind]
    counts = {}
    for point in POINTS:
        if not point.startswith(("write.", "schema.")) or point == "write.rechecked":
            continue
        counts[point] = 1
        if point.startswith(("write.table_", "write.tiers_")):
            counts[point] = what.changes
        elif point.startswith("schema.table_"):
            counts[point] = what.creates
        elif point.startswith("write.fork"):
            counts[point] = 0 if branch == "main" else what.changes
        elif point in ("schema.showing", "schema.shown") and branch == "draft":
            # Main keeps its schema.
            counts[point] = 0
    return {point: count for point, count in counts.items() if count}


def is_all_done(kind: str, point: str, skip: int) -> bool:
    """True when all effects are there, so that the next one finishes what was begun."""
    what = KINDS[kind]
    if point in ("write.confirmed", "write.publishing", *VISIBLE):
        return True
    if what.creates:
        return (point, skip) == ("schema.table_created", what.creates - 1)
    if what.changes:
        return (point, skip) == ("write.table_committed", what.changes - 1)
    return point == "write.armed"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place))
    return place


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """What the graph holds before, and after each change on each branch."""
    with open(template, mode="r") as graph:
        found: dict[Any, Any] = {"before": content(graph)}
    for kind in KINDS:
        for branch in BRANCHES:
            place = shutil.copytree(template, tmp_path_factory.mktemp(branch) / "graph")
            with open(place) as graph:
                assert points_hit(graph, kind, branch) == hits(kind, branch)
                found[kind, branch] = content(graph)
                assert graph.check().problems == ()
    assert len({str(each) for each in found.values()}) == len(found)
    return found


def points_hit(graph: Any, kind: str, branch: str) -> dict[str, int]:
    """Change the schema; gives how often each point was come by."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        for point in POINTS:
            stack.enter_context(failpoints.active(point, partial(counts.update, [point])))
        change(graph, kind, branch)
    return dict(counts)


def cases() -> list[ParameterSet]:
    listed = []
    for kind in KINDS:
        for branch in BRANCHES:
            for point, times in hits(kind, branch).items():
                for skip in range(times):
                    is_short = (kind, branch, point, skip) in SHORT
                    marks = [] if is_short else [pytest.mark.soak]
                    name = f"{kind}-{branch}-{point}-{skip}"
                    listed.append(pytest.param(kind, branch, point, skip, id=name, marks=marks))
    assert len(SHORT) == sum(not case.marks for case in listed)
    return listed


@pytest.mark.parametrize("action", ["kill", pytest.param("raise", marks=pytest.mark.soak)])
@pytest.mark.parametrize(("kind", "branch", "point", "skip"), cases())
def test_a_change_of_the_schema_that_dies_is_whole_or_absent(
    kind: str,
    branch: str,
    point: str,
    skip: int,
    action: str,
    template: Path,
    outcomes: Any,
    tmp_path: Path,
) -> None:
    place = str(shutil.copytree(template, tmp_path / "graph"))
    folders = table_folders(place)
    work = (change_with, place, kind, branch, point, action, skip)
    code = run_child(*work) if action == "kill" else run_here(*work)
    assert code == KILLED if action == "kill" else code in (0, 3)
    before, after = outcomes["before"], outcomes[kind, branch]
    with open(place, mode="r") as reader:
        assert content(reader) in (before, after)
    with open(place) as graph:
        now = content(graph)
        took_effect = now == after
        assert took_effect or now == before
        is_finished = action == "kill" and is_all_done(kind, point, skip)
        assert took_effect == (code == 0 or point in VISIBLE or is_finished)
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert_shown(graph)
        creates = KINDS[kind].creates
        assert len(table_folders(place) - folders) == (creates if took_effect else 0)
        is_armed = point not in (*BEFORE_ARMED, "write.finished")
        assert len(graph.recoveries()) == (1 if is_armed else 0)
        written = [c for c in graph.commits(branch) if c.actor == "child"]
        assert len(written) == int(took_effect)
        # What is done, or was undone, can be done again.
        change(graph, kind, branch)
        assert content(graph) == after
        graph.mutate('query q() { insert City { name: "Oslo" } }', branch=branch)
        assert graph.check().problems == ()


@pytest.mark.parametrize("point", ["recovery.publishing", "recovery.published", "recovery.audited"])
@pytest.mark.parametrize(
    ("died_at", "outcome"),
    [
        (("schema.table_created", 0), "before"),
        (("write.confirmed", 0), "after"),
    ],
    ids=["back", "forward"],
)
def test_recovery_of_a_change_of_the_schema_that_is_killed_is_finished_by_the_next_one(
    point: str,
    died_at: tuple[str, int],
    outcome: str,
    template: Path,
    outcomes: Any,
    tmp_path: Path,
) -> None:
    place = str(shutil.copytree(template, tmp_path / "graph"))
    assert run_child(change_with, place, "all", "main", died_at[0], "kill", died_at[1]) == KILLED
    assert run_child(scenarios.open_with, place, point, "kill") == KILLED
    with open(place) as graph:
        expected = outcomes["before" if outcome == "before" else ("all", "main")]
        assert content(graph) == expected
        assert graph.check().problems == ()
        assert len(graph.recoveries()) == 1
        assert_shown(graph)
