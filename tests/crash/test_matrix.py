"""Every step of the protocol × {raise, SIGKILL}: the write is there whole, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph.errors import AlreadyExists
from omnigraph.failpoints import POINTS
from omnigraph.graph import Graph, init, open
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import scenarios
from tests.crash.children import KILLED, run_child
from tests.crash.scenarios import (
    MERGES,
    MUTATIONS,
    SCENARIOS,
    Scenario,
    content,
    make_graph,
    run_scenario,
    scenario_write,
)

#: Only a write that is overtaken by another commit is checked again; it has a test of its own.
RECHECKED = "write.rechecked"
WRITE_POINTS = [p for p in POINTS if p.startswith("write.") and p != RECHECKED]
#: Just before an effect: for a writer that dies there it is much like the point before.
BEFORE = ("write.forking", "write.table_committing", "write.publishing")
#: Where nothing has happened yet, or all of it: what is written makes no difference.
OUTSIDE = ("write.prepared", "write.locked", "write.revalidated", "write.finished")
#: Where it makes a difference that a write merges small fragments as well.
MERGING = ("write.armed", "write.forked", "write.tiers_merged", "write.table_")
BRANCHES = ("main", "draft", "working")
ALL = (*SCENARIOS, *MERGES, *MUTATIONS)
#: Much like the others: one of several tables, and mutations on the other kind of branch.
ALIKE = ("one_table", "cascade", "insert_first_touch", "update_first_touch")
#: Of each kind one: on main, with forks, by a mutation, with a merge of small fragments.
KINDS = ("two_tables", "owned_and_first_touch", "cascade_first_touch", "tier_merge")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    make_graph(str(place), residents=True, cities_one_by_one=True)
    return place


@pytest.fixture(scope="module")
def outcomes(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple]:
    """Per scenario the content of all branches before and after."""
    found = {}
    for scenario in ALL:
        place = tmp_path_factory.mktemp(scenario.name) / "graph"
        shutil.copytree(template, place)
        with open(place) as graph:
            before = {b: content(graph, b) for b in BRANCHES}
            run_scenario(graph, scenario.name, scenario.branch)
            found[scenario.name] = (before, {b: content(graph, b) for b in BRANCHES})
        assert found[scenario.name][0] != found[scenario.name][1]
    return found


def assert_sound(graph: Graph, scenario: Scenario, outcomes: dict[str, tuple]) -> bool:
    """Check all that must hold after any death; gives whether the write took effect."""
    before, after = outcomes[scenario.name]
    now = {b: content(graph, b) for b in BRANCHES}
    assert now in (before, after)
    assert graph.check().problems == ()
    assert list_sidecars(graph._repository.objects) == []
    written = [c for c in graph.commits(scenario.branch) if c.actor == "child"]
    assert len(written) == (1 if now == after else 0)
    return bool(now == after)


def cases() -> list[ParameterSet]:
    found = []
    for scenario in ALL:
        for point in WRITE_POINTS:
            if scenario in MERGES and not point.startswith(MERGING):
                continue
            times = 1
            if point in ("write.table_committing", "write.table_committed", "write.tiers_merged"):
                times = scenario.tables
            elif point in ("write.forking", "write.forked"):
                times = scenario.forks
            for skip in range(times):
                for action in ("raise", "kill"):
                    name = f"{scenario.name}-{point}-{skip}-{action}"
                    in_short = is_in_short(scenario, point, action) and skip in (0, times - 1)
                    marks = [] if in_short else [pytest.mark.soak]
                    case = pytest.param(scenario, point, action, skip, id=name, marks=marks)
                    found.append(case)
    return found


def is_in_short(scenario: Scenario, point: str, action: str) -> bool:
    """Whether a case runs in every test, and not only in the soak."""
    if point in BEFORE and (action == "raise" or scenario in MUTATIONS):
        return False
    if action == "raise" or point in OUTSIDE:
        return scenario.name in KINDS
    return scenario.name not in ALIKE


@pytest.mark.parametrize(("scenario", "point", "action", "skip"), cases())
def test_a_write_that_dies_is_whole_or_absent_after_the_next_open(
    scenario: Scenario,
    point: str,
    action: str,
    skip: int,
    template: Path,
    outcomes: dict[str, tuple],
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    write = (scenario_write, place, scenario.name, scenario.branch, point, action, skip)
    if action == "kill":
        code = run_child(*write)
        assert code == KILLED
    else:
        code = run_here(*write)
        # A failure after the confirmation is mended by the writer itself: the call succeeds.
        assert code in (0, 3)
    with open(place, mode="r") as reader:
        # Before anybody recovers, a reader sees the state before or after, never half of it.
        before, after = outcomes[scenario.name]
        assert {b: content(reader, b) for b in BRANCHES} in (before, after)
    armed = point not in ("write.prepared", "write.locked", "write.revalidated", "write.finished")
    with open(place) as graph:
        took_effect = assert_sound(graph, scenario, outcomes)
        assert took_effect == (
            code == 0
            or point in ("write.published", "write.finished")
            or (action == "kill" and all_effects_done(scenario, point, skip))
        )
        assert len(graph.recoveries()) == (1 if armed else 0)
        # And the graph can be written to as if nothing had happened.
        graph.write_batches(
            {"City": ("append", scenarios.cities(graph, ["Oslo"]))}, branch=scenario.branch
        )
        assert graph.check().problems == ()


@pytest.mark.parametrize(
    "point", [RECHECKED, "write.tiers_merged", "write.table_committed", "write.published"]
)
@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("two_tables", "raise"),
        ("two_tables", "kill"),
        ("update", "kill"),
        ("cascade", "kill"),
        pytest.param("update", "raise", marks=pytest.mark.soak),
        pytest.param("cascade", "raise", marks=pytest.mark.soak),
    ],
)
def test_a_write_that_was_overtaken_and_dies_is_whole_or_absent(
    name: str, point: str, action: str, template: Path, outcomes: dict[str, tuple], tmp_path: Path
) -> None:
    scenario = next(s for s in ALL if s.name == name)
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    write = (scenarios.overtaken_write, place, name, scenario.branch, point, action)
    code = run_child(*write) if action == "kill" else run_here(*write)
    assert code == KILLED if action == "kill" else code in (0, 3)
    with open(place) as graph:
        took_effect = assert_sound(graph, scenario, outcomes)
        assert took_effect or point != "write.published"
        assert len(graph.recoveries()) == (0 if point == RECHECKED else 1)
        assert any(c.actor == "other" for c in graph.commits())


@pytest.mark.parametrize("scenario", MERGES, ids=lambda scenario: scenario.name)
def test_the_writes_that_should_merge_small_fragments_do(
    scenario: Scenario, template: Path, tmp_path: Path
) -> None:
    place = tmp_path / "graph"
    shutil.copytree(template, place)
    with open(place) as graph:
        before = city_fragments(graph, scenario.branch)
        assert before == [1, 1, 1, 1]
        run_scenario(graph, scenario.name, scenario.branch)
        assert city_fragments(graph, scenario.branch) == [4, 1]


def city_fragments(graph: Graph, branch: str) -> list[int]:
    """The rows of each fragment of the cities."""
    tables = graph.snapshot(branch).tables
    (table,) = [table for table in tables if table.name == "City"]
    snapshot = graph._repository.tables.open(table.ref, table.version)
    return [state.rows for state in snapshot.fragments().values()]


def run_here(work: Callable[..., None], *arguments: Any) -> int:
    """Run what children run, in this process; gives the exit code."""
    try:
        work(*arguments)
    except SystemExit as error:
        return int(str(error.code))
    return 0


def all_effects_done(scenario: Scenario, point: str, skip: int) -> bool:
    """After the last table commit the write is rolled forward, not back."""
    if point in ("write.confirmed", "write.publishing"):
        return True
    return point == "write.table_committed" and skip == scenario.tables - 1


@pytest.mark.parametrize("point", [p for p in POINTS if p.startswith("recovery.")])
@pytest.mark.parametrize("state", ["half", "confirmed"])
def test_recovery_that_is_killed_is_finished_by_the_next_one(
    point: str, state: str, template: Path, outcomes: dict[str, tuple], tmp_path: Path
) -> None:
    scenario = next(s for s in SCENARIOS if s.name == "two_tables")
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    died_at = "write.table_committed" if state == "half" else "write.confirmed"
    assert run_child(scenario_write, place, "two_tables", "main", died_at, "kill", 0) == KILLED
    first = run_child(scenarios.open_with, place, point, "kill")
    if point.startswith("recovery.table_") and state == "confirmed":
        assert first == 0
    else:
        assert first == KILLED
        run_child(scenarios.open_with, place, point, "kill")
    with open(place) as graph:
        assert assert_sound(graph, scenario, outcomes) == (state == "confirmed")
        assert len(graph.recoveries()) == 1
        kinds = {"half": {"RolledBack"}, "confirmed": {"RolledForward", "Finished"}}
        assert graph.recoveries()[0].kind in kinds[state]


@pytest.mark.parametrize("action", ["raise", "kill"])
@pytest.mark.parametrize(
    ("point", "skip"),
    [(p, 0) for p in POINTS if p.startswith("init.")] + [("init.table_created", 2)],
)
def test_an_init_that_dies_can_be_run_again(
    point: str, skip: int, action: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    assert run_child(scenarios.init_with, place, point, action, skip) != 0
    if point == "init.manifest_created":
        with pytest.raises(AlreadyExists):
            init(place, scenarios.SCHEMA)
    else:
        init(place, scenarios.SCHEMA).close()
    with open(place) as graph:
        assert graph.check().problems == ()
        assert [t.rows for t in graph.snapshot().tables] == [0, 0, 0, 0]
        assert not (tmp_path / "graph" / "__init_claim.json").exists()


@pytest.mark.parametrize(
    ("verb", "point"), [("create", "branch.created"), ("delete", "branch.deleted")]
)
def test_a_branch_change_that_dies_leaves_a_sound_graph(
    verb: str, point: str, template: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    assert run_child(scenarios.branch_with, place, verb, point, "kill") == KILLED
    with open(place) as graph:
        names = [b.name for b in graph.branches]
        assert ("new" in names) if verb == "create" else ("working" not in names)
        assert graph.check().problems == ()
        if verb == "delete":
            graph.branches.create("working")
        else:
            graph.branches.delete("new")
            graph.branches.create("new")
        branch = "working" if verb == "delete" else "new"
        rows = scenarios.people(graph, {"new": 1})
        graph.write_batches({"Person": ("merge", rows)}, branch=branch)
        assert graph.snapshot(branch).count("Person") == 3
        assert graph.check().problems == ()


def test_every_failpoint_is_used_once() -> None:
    source = Path(__file__).parents[2] / "src" / "omnigraph"
    text = "\n".join(p.read_text() for p in source.rglob("*.py") if p.name != "failpoints.py")
    assert {p: text.count(f'failpoints.hit("{p}")') for p in POINTS} == dict.fromkeys(POINTS, 1)
