"""Loads that fail or die at every stage: nothing is visible, and the next try has all of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.failpoints import FailpointError
from omnigraph.graph import open
from omnigraph.pipeline.engine import LocalEngine, Progress
from omnigraph.pipeline.load import inputs
from omnigraph.pipeline.load import run as load
from omnigraph.storage import bulk
from tests.crash import loads
from tests.crash.children import KILLED, run_child, start_child
from tests.crash.load_outcomes import (
    POINTS_OF_LOADS,
    assert_a_retry_works,
    assert_sound,
    data_files,
    kill_cases,
    left_over,
    mergeable,
    outcomes,
    place,
    rows,
    source,
    takes_effect,
    template,
)
from tests.patience import PATIENCE

__all__ = ["outcomes", "place", "source", "template"]

STAGES = ("reading and staging", "checking", "merging")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LEAST_BYTES", 900)
    monkeypatch.setattr(inputs, "MOST_BYTES", 900)
    monkeypatch.setattr(load, "_ONE_BUCKET", 0)


#: Where it makes a difference whether a load replaces all, and whether it forks tables.
_DIFFERENT = ("load.merged", "write.armed", "write.table_committed", "write.published")


@pytest.mark.parametrize(
    ("mode", "branch", "point", "skip"),
    [
        case
        if case[:2] == ("merge", "draft") or case[2] in _DIFFERENT
        else pytest.param(*case, marks=pytest.mark.soak)
        for case in kill_cases()
    ],
)
def test_a_killed_load_is_whole_or_absent(
    mode, branch, point, skip, place, source, outcomes
) -> None:
    source = mergeable(source, mode)
    arguments = (place, str(source), mode, branch, point, "kill", skip)
    assert run_child(loads.load_with, *arguments) == KILLED
    expected = outcomes[mode, branch]
    with open(place, mode="r") as reader:
        assert rows(reader, branch) in expected
    with open(place) as graph:
        took_effect = assert_sound(graph, branch, expected)
    assert took_effect == takes_effect(point, skip)
    assert_a_retry_works(place, source, mode, branch, expected[1])


@pytest.mark.parametrize(
    ("failure", "branch"),
    [
        (KeyboardInterrupt(), "main"),
        (FailpointError("stopped"), "draft"),
        pytest.param(FailpointError("stopped"), "main", marks=pytest.mark.soak),
        pytest.param(KeyboardInterrupt(), "draft", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("point", [p for p in POINTS_OF_LOADS if p.startswith("load.")])
def test_a_failure_between_stages_leaves_nothing(
    failure, branch, point, place, source, outcomes
) -> None:
    def fail() -> None:
        raise failure

    files = data_files(place)
    with open(place) as graph:
        with failpoints.active(point, fail), pytest.raises(type(failure)):
            graph.load(source, branch=branch, engine="local", actor="child")
        assert not assert_sound(graph, branch, outcomes["merge", branch])
    assert left_over(place) == []
    assert data_files(place) == files
    assert_a_retry_works(place, source, "merge", branch, outcomes["merge", branch][1])


class Failing(LocalEngine):
    """Fails in the second task of a stage, or the last if there is only one."""

    def __init__(self, label: str, failure: BaseException) -> None:
        super().__init__()
        self.label = label
        self.failure = failure

    def map(
        self, function: Callable[[Any], Any], tasks: Any, label: str, progress: Progress
    ) -> list[Any]:
        begun = itertools.count(1)

        def run(task: Any) -> Any:
            number = next(begun)
            result = function(task)
            if label == self.label and number == min(2, len(tasks)):
                raise self.failure
            return result

        return super().map(run, tasks, label, progress)


@pytest.mark.parametrize(
    ("failure", "branch"),
    [
        (OSError("task"), "main"),
        (MemoryError(), "main"),
        (KeyboardInterrupt(), "draft"),
        pytest.param(OSError("task"), "draft", marks=pytest.mark.soak),
        pytest.param(KeyboardInterrupt(), "main", marks=pytest.mark.soak),
        pytest.param(MemoryError(), "draft", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("stage", STAGES)
def test_a_failing_task_leaves_a_sound_graph(
    failure, branch, stage, place, source, outcomes, monkeypatch
) -> None:
    from omnigraph.pipeline import where

    with open(place) as graph, monkeypatch.context() as patch:
        patch.setattr(where, "LocalEngine", lambda: Failing(stage, failure))
        with pytest.raises(type(failure)):
            graph.load(source, branch=branch, engine="local", actor="child")
        assert not assert_sound(graph, branch, outcomes["merge", branch])
    assert left_over(place) == []
    assert_a_retry_works(place, source, "merge", branch, outcomes["merge", branch][1])


@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize("most", [64, 700, 3000, 12_000])
def test_a_full_disk_leaves_a_sound_graph(most, branch, place, source, outcomes) -> None:
    assert run_child(loads.load_on_a_full_disk, place, str(source), branch, most) == 3
    with open(place) as graph:
        assert not assert_sound(graph, branch, outcomes["merge", branch])
    assert_a_retry_works(place, source, "merge", branch, outcomes["merge", branch][1])


def test_a_failure_while_files_move_to_a_fork(place, source, outcomes, monkeypatch) -> None:
    """The first table is forked and has its files; those of the second cannot be moved."""
    real = bulk.move_files
    calls = []

    def move(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("no space")
        real(*arguments)

    with open(place) as graph, monkeypatch.context() as patch:
        patch.setattr(load, "move_files", move)
        with pytest.raises(OSError, match="no space"):
            graph.load(source, branch="draft", engine="local", actor="child")
        assert not assert_sound(graph, "draft", outcomes["merge", "draft"])
    assert_a_retry_works(place, source, "merge", "draft", outcomes["merge", "draft"][1])


def test_two_processes_load_at_once(place, tmp_path) -> None:
    times = 3
    for worker in (0, 1):
        (tmp_path / str(worker)).mkdir()
    children = [
        start_child(loads.load_many, place, str(tmp_path), worker, times, None) for worker in (0, 1)
    ]
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    with open(place) as graph:
        assert graph.check().problems == ()
        found = rows(graph, "main")
    assert len(found["Person"]) == 5 + 2 * times * 20
    assert len(found["Knows"]) == 2 * times * 20
    assert len(found["Note"]) == 2 * times


def test_two_processes_with_the_same_key_load_once(place, tmp_path, outcomes) -> None:
    for worker in (0, 1):
        (tmp_path / str(worker)).mkdir()
    children = [
        start_child(loads.load_many, place, str(tmp_path), worker, 2, "one") for worker in (0, 1)
    ]
    for child in children:
        child.join(PATIENCE)
        assert child.exitcode == 0
    with open(place) as graph:
        assert graph.check().problems == ()
        found = rows(graph, "main")
        assert [c.idempotency_key for c in graph.commits()].count("one") == 1
    assert (len(found["Person"]), len(found["Knows"])) == (25, 20)


def test_a_load_that_died_is_done_once_with_its_key(place, source, outcomes) -> None:
    arguments = (place, str(source), "merge", "main", "write.confirmed", "kill")
    assert run_child(loads.load_with, *arguments) == KILLED
    with open(place) as graph:
        first = graph.load(source, engine="local", idempotency_key="k")
        second = graph.load(source, engine="local", idempotency_key="k")
        assert (first.repeated, second.repeated) == (False, True)
        assert second.commit == first.commit
        assert len(rows(graph, "main")["Knows"]) == 40
