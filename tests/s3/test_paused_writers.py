"""A writer that is paused until its lease has run out, and goes on, or dies, while others write."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.errors import ReadSetConflict, RecoveryRequired, StorageError
from omnigraph.graph import Graph, open
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child, start_child, wait_until_stopped
from tests.crash.scenarios import (
    SCENARIOS,
    Scenario,
    cities,
    content,
    knows,
    people,
    run_scenario,
)
from tests.patience import PATIENCE
from tests.s3.children import in_env
from tests.s3.leases import end_lease
from tests.s3.pausing import POINTS, write_and_stop
from tests.s3.uploads import upload
from tests.storage.entries import entries

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
#: How it ends: at which point after it went on it is killed, 0 for none; None is killed at once.
ENDS = {"goes_on": 0, "dies": None, "dies_next": 1, "dies_later": 2}
#: Where somebody died before, for a recovery to have something to do.
DEAD = {"armed": "write.armed", "half": "write.table_committed", "whole": "write.confirmed"}
WRITE_POINTS = [p for p in POINTS if p.startswith("write.")]
RECOVERY_POINTS = [p for p in POINTS if p.startswith("recovery.")]


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k.startswith(("AWS_", "OMNIGRAPH_"))}


class Others:
    """Another writer, and what it was told to be written."""

    def __init__(self, graph: Graph, branch: str) -> None:
        self._graph = graph
        self._branch = branch
        self._count = 0
        self.rows: dict[str, list[tuple[object, ...]]] = {"Person": [], "City": [], "Knows": []}

    def write(self, *types: str) -> None:
        """Add a row to some tables, in one commit."""
        self._count += 1
        name = f"other{self._count}"
        graph, end = self._graph, "other1"
        new: dict[str, tuple[Any, tuple[object, ...]]] = {
            "Person": (people(graph, {name: 1}), (name, name, 1)),
            "City": (cities(graph, [name]), (name, name)),
            "Knows": (knows(graph, [(end, name)]), (f"{end}-{name}", end, name)),
        }
        graph.write_batches(
            {type: ("append", new[type][0]) for type in types},
            branch=self._branch,
            actor="other",
        )
        for type in types:
            self.rows[type].append(new[type][1])


def expected(template: Path, tmp_path: Path, scenario: Scenario, took_effect: bool) -> Any:
    """What the branch holds without the other writer."""
    if not took_effect:
        with open(template, mode="r") as graph:
            return content(graph, scenario.branch)
    place = tmp_path / "expected"
    shutil.copytree(template, place)
    with open(place) as graph:
        run_scenario(graph, scenario.name, scenario.branch)
        return content(graph, scenario.branch)


def check_one(
    template: Path,
    tmp_path: Path,
    place: str,
    scenario: Scenario,
    point: str,
    skip: int = 0,
    end: str = "goes_on",
    dead: str | None = None,
) -> None:
    """Stop a writer at a point, let others write, let it go on or kill it, and look at all."""
    upload(template, place)
    open(place).close()
    if dead is not None:
        code = run_child(
            in_env, environment(), place, "two_tables", scenario.branch, DEAD[dead], "kill", 0
        )
        assert code == KILLED
        end_lease(place)
    dies_after = ENDS[end]
    child = start_child(
        write_and_stop,
        environment(),
        place,
        scenario.name,
        scenario.branch,
        point,
        skip,
        dies_after or 0,
    )
    stopped = wait_until_stopped(child)
    with open(place) as graph:
        others = Others(graph, scenario.branch)
        others.write("Person", "City")
        others.write("Person", "Knows")
        others.write("City")
        if stopped:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL if dies_after is None else signal.SIGCONT)
            others.write("Person")
            others.write("City")
        child.join(PATIENCE)
        assert child.exitcode is not None, "the child hangs"
        note = f"{point} {skip} {end} {dead}: the child's code is {child.exitcode}"
        assert child.exitcode in (0, 3, KILLED), note

    with open(place) as graph:
        if dead is None:
            # What is left is undone whether or not anybody writes to these tables.
            assert graph.check().problems == (), note
        others._graph = graph
        others.write("Person", "City", "Knows")
        assert graph.check().problems == (), note
        assert list_sidecars(graph._repository.objects) == [], note
        commits = graph.commits(scenario.branch)
        assert len({c.id for c in commits}) == len(commits)
        children = [c for c in commits if c.actor == "child"]
        done = len(children) > 0
        if dead is None:
            assert len(children) in ((1,) if child.exitcode == 0 else (0, 1)), note
        else:
            assert len(children) <= 2 and (child.exitcode != 0 or done), note
        assert len([c for c in commits if c.actor == "other"]) == others._count, note
        wanted = expected(template, tmp_path, scenario, done)
        for name, rows in others.rows.items():
            wanted[name] = sorted([*wanted[name], *rows])
        assert content(graph, scenario.branch) == wanted, note


@pytest.mark.parametrize(
    ("name", "point", "skip", "end"),
    [
        ("two_tables", "write.table_committing", 0, "dies_next"),
        ("first_touch", "write.table_committing", 0, "goes_on"),
    ],
)
def test_a_paused_writer_leaves_nothing_of_its_own(
    name: str, point: str, skip: int, end: str, template: Path, tmp_path: Path, place: str
) -> None:
    check_one(template, tmp_path, place, BY_NAME[name], point, skip, end)


@pytest.mark.parametrize("end", ["goes_on"])
def test_a_paused_recovery_leaves_nothing_of_its_own(
    end: str, template: Path, tmp_path: Path, place: str
) -> None:
    scenario = BY_NAME["two_tables"]
    check_one(template, tmp_path, place, scenario, "recovery.table_restoring", end=end, dead="half")


@pytest.mark.parametrize("replaced", ["counter", ""], ids=["by place", "by key"])
@pytest.mark.parametrize("branch", [None, "b"])
def test_a_publish_that_comes_late_is_refused_even_if_versions_were_dropped(
    place: str, branch: str | None, replaced: str
) -> None:
    ledger = Ledger(Location.of(place), "ledger")
    ledger.create(entries({"counter": 0}))
    ledger.create_branch("b", None)
    stale = ledger.read(branch, "true", replaced)[0]
    # Versions that a branch was made from are not dropped, so the late publish finds its own.
    ledger.create_branch("c", branch)
    for number in range(1, 7):
        now = ledger.read(branch, "true", "counter")[0]
        ledger.publish(now, entries({"counter": number}))
        if number == 4:
            ledger.prune(ledger.read(branch, "true")[0], "false", 2)
    with pytest.raises(ReadSetConflict):
        ledger.publish(stale, entries({"counter": 99, "late": 1}))
    _, rows = ledger.read(branch, "true")
    assert rows.select(["object_id", "value"]).to_pylist() == [{"object_id": "counter", "value": 6}]
    assert ledger.metadata(branch) == {"format": "1"} and ledger.has_key(branch)
    # And a prune that comes late drops nothing.
    with suppress(StorageError):
        ledger.prune(stale, "object_id = 'counter'", 1)
    assert len(ledger.read(branch, "true")[1]) == 1


@pytest.mark.parametrize(
    ("point", "end"), [("write.table_committing", "goes_on"), ("write.armed", "dies")]
)
def test_what_another_program_appends_during_a_pause_is_published_only_by_force(
    point: str, end: str, template: Path, place: str
) -> None:
    upload(template, place)
    open(place).close()
    child = start_child(write_and_stop, environment(), place, "two_tables", "main", point, 0, 0)
    assert wait_until_stopped(child) and child.pid is not None
    with open(place) as graph:
        table = next(t for t in graph.snapshot().tables if t.name == "Person")
        raw = lance.dataset(f"{place}/{table.path}")
        raw.insert(people(graph, {"foreign": 1}).cast(raw.schema))
        before = content(graph, "main")
        # The lease runs out; nobody is kept from writing to other tables.
        graph.write_batches({"City": ("append", cities(graph, ["Oslo"]))})
        os.kill(child.pid, signal.SIGCONT if end == "goes_on" else signal.SIGKILL)
        child.join(PATIENCE)
        assert child.exitcode == (3 if end == "goes_on" else KILLED)
        graph.write_batches({"City": ("append", cities(graph, ["Rome"]))})
        assert [(p.table, p.rule) for p in graph.check().problems] == [("node:Person", "head")]
        assert {t.table for t in graph.optimize().tables if "repair" in (t.skipped or "")} == {
            "node:Person"
        }
        with pytest.raises(RecoveryRequired, match="omnigraph repair"):
            graph.write_batches({"Person": ("append", people(graph, {"joe": 1}))})
        assert content(graph, "main")["Person"] == before["Person"]
        for confirm in (False, True):
            (shown,) = graph.repair(confirm=confirm).tables
            assert (shown.table, shown.needs, shown.commit) == ("node:Person", "force", None)
        graph.repair(confirm=True, force=True)
        added = {row[0] for row in content(graph, "main")["Person"]}
        assert added == {"foreign", *(row[0] for row in before["Person"])}
        graph.write_batches({"Person": ("append", people(graph, {"joe": 1}))})
        assert graph.check().problems == () and graph.repair().tables == ()


def times(scenario: Scenario, point: str) -> int:
    """How often a write comes by a point."""
    if point in ("write.forking", "write.forked"):
        return scenario.forks
    return scenario.tables if point.startswith("write.table_") else 1


@pytest.mark.soak
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("name", "point", "skip"),
    [
        (scenario.name, point, skip)
        for scenario in SCENARIOS
        for point in WRITE_POINTS
        for skip in range(times(scenario, point))
    ],
)
def test_a_writer_paused_anywhere_leaves_nothing_of_its_own(
    name: str, point: str, skip: int, end: str, template: Path, tmp_path: Path, place: str
) -> None:
    check_one(template, tmp_path, place, BY_NAME[name], point, skip, end)


@pytest.mark.soak
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dead", DEAD)
@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize("point", RECOVERY_POINTS)
@pytest.mark.parametrize("skip", [0, 1])
def test_a_recovery_paused_anywhere_leaves_nothing_of_its_own(
    point: str,
    branch: str,
    dead: str,
    end: str,
    skip: int,
    template: Path,
    tmp_path: Path,
    place: str,
) -> None:
    scenario = BY_NAME["two_tables" if branch == "main" else "first_touch"]
    check_one(template, tmp_path, place, scenario, point, skip, end, dead)
