"""Large merges in tasks: equal to merges at once, in rows, conflicts, words and order."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import MergeConflicts, UsageError
from omnigraph.graph import Graph, open
from omnigraph.merge import bucket, work
from omnigraph.merge import in_tasks as driver
from omnigraph.merge.amount import Sizes, changed_tables, is_surely_less
from omnigraph.merge.base import Base
from omnigraph.pipeline.engine import Silent
from omnigraph.writes.sidecar import list_sidecars
from tests.crash.children import KILLED, run_child
from tests.leftover_files import unreferenced
from tests.merge.graphs import content, make, people, run
from tests.merge.tasks import (
    HUGE,
    TINY,
    assert_equal,
    broken_rules,
    in_tasks,
    interrupted,
    rows,
    scratch,
    social,
    typed,
)

#: The first one has most kinds of conflicts.
SEEDS = [3, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(9, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_edits_are_merged_as_at_once(tmp_path, seed):
    with social(tmp_path, seed) as graph:
        for prefer in (None, "ours", "theirs"):
            assert_equal(graph, "ours", prefer=prefer)
        assert_equal(graph, "ours", granularity="row", prefer="theirs")
        # A branch without commits of its own; it has no tables of its own either.
        assert_equal(graph, "main")


def test_vectors_lists_and_blobs_are_merged_as_at_once(tmp_path):
    with typed(tmp_path) as graph:
        sizes = Sizes(at_once=-1, bucket=500, key_rows=3, portion=4)

        def tasks(graph: Graph, **options: Any) -> Any:
            return in_tasks(graph, sizes, **options)

        for options in ({}, {"prefer": "theirs"}, {"prefer": "ours", "granularity": "row"}):
            assert_equal(graph, "ours", tasks, **options)


def test_every_broken_rule_is_told_and_settled_as_at_once(tmp_path):
    with broken_rules(tmp_path) as graph:
        kinds = {conflict.kind for conflict in in_tasks(graph, dry_run=True).conflicts}
        assert kinds == {"OrphanEdge", "UniqueViolation", "CardinalityViolation"}
        for prefer in (None, "ours", "theirs"):
            assert_equal(graph, "main", prefer=prefer)


def test_resolutions_settle_conflicts_as_at_once(tmp_path):
    with make(tmp_path) as graph:
        graph.branches.create("theirs")
        run(graph, 'update Person set { age: 1, city: "Oslo" } where name = "ada"', "theirs")
        run(graph, 'update Person set { email: "x" } where name = "bob"', "theirs")
        run(graph, 'delete Person where name = "cy"', "theirs")
        run(graph, 'update Person set { age: 2, city: "Bern" } where name = "ada"')
        run(graph, 'update Person set { email: "x" } where name = "cy"')
        conflicts = in_tasks(graph, dry_run=True).conflicts
        assert [c.kind for c in conflicts] == ["DivergentUpdate", "DivergentUpdate",
                                               "DeleteVsUpdate", "UniqueViolation"]  # fmt: skip
        given: list[Any] = ["theirs", {"value": "Rome"}, "ours", {"value": "y"}]
        choices = [
            {**c.to_dict(), "resolution": choice}
            for c, choice in zip(conflicts, given, strict=True)
        ]
        for count in range(len(choices) + 1):
            assert_equal(graph, "main", resolutions=choices[:count])
        in_tasks(graph, resolutions=choices)
        assert people(graph, "main", "age", "city", "email") == {
            "ada": (1, "Rome", None), "bob": (40, None, "y"), "cy": (None, None, "x"),
        }  # fmt: skip


def test_criss_cross_histories_are_merged_as_at_once(tmp_path):
    with make(tmp_path) as graph:
        for name in ("one", "two", "ours", "theirs"):
            graph.branches.create(name)
        run(graph, 'update Person set { age: 1, city: "A" } where name = "ada"', "one")
        run(graph, 'update Person set { city: "B" } where name = "ada"', "two")
        run(graph, 'insert Person { name: "dan", age: 5 }', "two")
        for into, order in (("ours", ("one", "two")), ("theirs", ("two", "one"))):
            for source in order:
                graph.merge(source, into=into, prefer="theirs")
        run(graph, 'update Person set { age: 6 } where name = "dan"', "theirs")
        run(graph, 'update Person set { age: 2 } where name = "bob"', "ours")
        assert len(in_tasks(graph, into="ours", dry_run=True).bases) == 2
        for prefer in (None, "theirs"):
            assert_equal(graph, "ours", prefer=prefer)
        # And the way back, once that is merged.
        in_tasks(graph, into="ours", prefer="ours")
        run(graph, 'update Person set { city: "C" } where name = "cy"', "theirs")
        assert_equal(graph, "ours")


def test_merged_fragments_and_compacted_tables_are_no_changes(tmp_path):
    with make(tmp_path, start="") as graph:
        for number in range(20):
            run(graph, f'insert Person {{ name: "p{number}", age: {number} }}')
        graph.branches.create("theirs")
        for number in range(12):
            run(graph, f'update Person set {{ city: "x" }} where name = "p{number}"', "theirs")
        # Written again, and back to what it was.
        run(graph, 'update Person set { city: null } where name = "p3"', "theirs")
        run(graph, 'update Person set { age: 100 } where name = "p1"')
        assert_equal(graph, "main")
        done = in_tasks(graph)
        assert done.tables["Person"].replaced == 11
        assert people(graph)["p1"] == (100, "x")


def test_reverts_and_picks_are_done_in_tasks_as_at_once(tmp_path, monkeypatch):
    with typed(tmp_path) as graph:
        (deletion, _, _, update, *_) = [c.id for c in graph.commits("theirs", limit=5)]
        run(graph, 'update Doc set { title: "later" } where k = "d05"', "theirs")
        stages: list[str] = []

        class Stages(Silent):
            def stage(self, label: str, total: int) -> None:
                stages.append(label)

        outcomes = []
        for sizes in (HUGE, TINY):
            monkeypatch.setattr(work, "SIZES", sizes)
            stages.clear()
            branch = "at-once" if sizes is HUGE else "in-tasks"
            graph.branches.create(branch, source="theirs")
            graph.branches.create(f"{branch}-onto", source="main")
            options: Any = {"engine": "local", "progress": Stages(), "prefer": "theirs"}
            done = [
                graph.revert(update, branch=branch, **options),
                graph.revert(deletion, branch=branch, **options),
                graph.cherry_pick(update, onto=f"{branch}-onto", **options),
            ]
            assert bool(stages) == (sizes is TINY)
            outcomes.append(
                (
                    [result.tables for result in done],
                    *map(rows, [graph] * 2, [branch, f"{branch}-onto"]),
                )
            )
        assert outcomes[0] == outcomes[1]
        assert scratch(graph) == []


def test_large_blobs_make_a_merge_large(tmp_path):
    with typed(tmp_path) as graph:
        blobs = [bytes(10_000)] * 100
        keys = [f"x{number}" for number in range(100)]
        graph.load(
            {"Doc": pa.table({"k": keys, "file": pa.array(blobs, pa.binary())})},
            branch="theirs",
            indexes=False,
        )
        base, theirs = graph._graph_state("main"), graph._graph_state("theirs")
        (found,) = changed_tables(Base(base), theirs)
        assert 5_000 * found.rows < found.size < 11_000 * found.rows
        assert not is_surely_less(Base(base), theirs, 1 << 40)


def test_a_small_merge_is_done_at_once(tmp_path, monkeypatch):
    def refuse(*arguments: Any) -> None:
        raise AssertionError("in tasks")

    monkeypatch.setattr(driver, "InTasks", refuse)
    with social(tmp_path, 1) as graph:
        for engine in ("auto", "local"):
            graph.merge("theirs", into="ours", prefer="ours", dry_run=True, engine=engine)
        with pytest.raises(UsageError, match="`yarn` is no engine: use auto, local or spark"):
            graph.merge("theirs", into="ours", engine="yarn")  # type: ignore[arg-type]
        assert scratch(graph) == []


def test_more_conflicts_than_can_be_listed_are_refused_with_their_number(tmp_path, monkeypatch):
    for module in (bucket, driver):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    with make(tmp_path, start="") as graph:
        names = [f"p{number}" for number in range(4)]
        run(graph, "".join(f'insert Person {{ name: "{name}" }}' for name in names))
        graph.branches.create("theirs")
        run(graph, 'update Person set { city: "x" } where name > "o"', "theirs")
        run(graph, 'update Person set { city: "y" } where name > "o"')
        before = content(graph)
        with pytest.raises(MergeConflicts, match=r"4 conflicts; nothing was written.* than 2") as e:
            in_tasks(graph)
        assert [conflict.id for conflict in e.value.conflicts] == ["p0", "p1"]
        assert (content(graph), scratch(graph)) == (before, [])
        done = in_tasks(graph, prefer="theirs")
        assert ([c.id for c in done.settled], done.more_settled) == (["p0", "p1"], 2)
        assert set(people(graph).values()) == {(None, "x")}


def test_more_broken_rules_than_can_be_listed_are_refused(tmp_path, monkeypatch):
    for module in (bucket, driver):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    with make(tmp_path) as graph:
        graph.branches.create("theirs")
        run(graph, 'delete Person where name = "cy"', "theirs")
        for _ in range(3):
            run(graph, 'insert Knows { from: "ada", to: "cy" }')
        with pytest.raises(MergeConflicts, match="3 conflicts; nothing was written"):
            in_tasks(graph)
        run(graph, 'delete Knows where to = "cy"')
        assert in_tasks(graph).outcome == "merged"


# --- beside other commits ---


def beside(graph: Graph, statement: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Merge in tasks while another commit lands; gives how often the rows were merged."""
    times: list[int] = []
    known = driver.InTasks._compared

    def compared(self: Any) -> Any:
        times.append(1)
        return known(self)

    monkeypatch.setattr(driver.InTasks, "_compared", compared)
    left = [statement]

    def others() -> None:
        if left:
            run(graph, left.pop(), "ours")

    with failpoints.active("write.prepared", others):
        in_tasks(graph, into="ours", prefer="theirs")
    assert graph.check().problems == ()
    assert scratch(graph) == []
    return len(times)


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        ('insert Person { name: "eva" }', False),
        ('update Person set { age: 9 } where name = "cy"', False),
        # What the merge has looked at: an id, an end, a value that is unique, the edges of a node
        # that goes, and those whose number is limited.
        ('update Person set { age: 9 } where name = "ada"', True),
        ('delete Person where name = "fay"', True),
        ('insert Person { name: "eva", email: "x" }', True),
        ('insert Knows { from: "ada", to: "gus" }', True),
        ('insert Wrote { from: "hal", to: "n" }', True),
    ],
)
def test_only_what_concerns_a_merge_starts_it_over(
    two_sides, tmp_path, monkeypatch, statement, again
):
    shutil.copytree(two_sides, tmp_path / "graph")
    with open(tmp_path / "graph") as graph:
        assert beside(graph, statement, monkeypatch) == (2 if again else 1)


@pytest.fixture(scope="module")
def two_sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sides")
    with make(place) as graph:
        run(graph, "".join(f'insert Person {{ name: "{n}" }}' for n in ("fay", "gus", "hal")))
        graph.load({"Note": pa.table({"id": ["n"], "text": ["t"]})}, mode="append", indexes=False)
        graph.branches.create("ours")
        graph.branches.create("theirs")
        run(graph, 'update Person set { city: "Oslo" } where name = "bob"', "ours")
        run(graph, 'insert Note { text: "u" }', "ours")
        run(graph, 'insert Knows { from: "cy", to: "cy" }', "ours")
        run(graph, 'insert Wrote { from: "cy", to: "n" }', "ours")
        run(graph, 'update Person set { age: 1, email: "x" } where name = "ada"', "theirs")
        run(graph, 'insert Knows { from: "bob", to: "fay" }', "theirs")
        run(graph, 'insert Wrote { from: "hal", to: "n" }', "theirs")
        run(graph, 'delete Person where name = "gus"', "theirs")
    return place / "graph"


# --- what dies ---


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template")
    social(place, 2).close()
    with open(place / "graph") as graph:
        # No conflicts.
        graph.branches.create("clean")
        run(graph, 'insert Person { name: "new" } insert Knows { from: "new", to: "new" }', "clean")
    return place / "graph"


SHORT = ("tasks.merged", "tasks.checked", "write.table_committed")
LONG = ("merge.compared", "merge.combined", "write.prepared", "write.published")
KILLS = [
    *((point, "kill") for point in SHORT),
    *(pytest.param(point, "kill", marks=pytest.mark.soak) for point in LONG),
    *(pytest.param(point, "raise", marks=pytest.mark.soak) for point in (*SHORT, *LONG)),
]


@pytest.mark.parametrize(("point", "action"), KILLS)
def test_a_merge_that_dies_is_whole_or_absent(template, tmp_path, point, action):
    place = str(tmp_path / "graph")
    shutil.copytree(template, place)
    with open(place) as graph:
        before = rows(graph, "clean")
        done = in_tasks(graph, into="clean", dry_run=True)
        assert done.outcome == "merged" and len(done.tables) > 1
    code = run_child(interrupted, place, "clean", point, action)
    assert code == KILLED if action == "kill" else code in (0, 3)
    with open(place) as graph:
        if point != "write.published" and action == "kill":
            assert rows(graph, "clean") == before
        assert graph.check().problems == ()
        assert list_sidecars(graph._repository.objects) == []
        assert in_tasks(graph, into="clean").outcome in ("merged", "already_up_to_date")
        assert graph.check().problems == ()
        merged = [c for c in graph.commits("clean") if len(c.parents) > 1]
        assert len(merged) == 1
        graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
        assert scratch(graph) == []
    assert unreferenced(place) == set()


def test_a_merge_that_fails_in_a_task_leaves_nothing(template, tmp_path, monkeypatch):
    place = tmp_path / "graph"
    shutil.copytree(template, place)
    known = unreferenced(place)

    def fail(task: Any) -> None:
        raise MergeConflicts("on purpose", conflicts=())

    monkeypatch.setattr(driver, "check_keys", fail)
    with open(place) as graph, pytest.raises(MergeConflicts, match="on purpose"):
        in_tasks(graph, TINY, into="clean")
    assert unreferenced(place) == known
