"""Loads on Spark that are killed, stopped or out of space: whole or absent, and nothing lives on.

What is killed is the process that loads, a worker or an executor; `tests/crash` has the same for
loads in one process.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import LoadError, OmnigraphError
from omnigraph.graph import open
from omnigraph.pipeline.load import run as load
from tests.crash import killing, loads, spark_loads
from tests.crash.children import KILLED
from tests.crash.load_outcomes import (
    assert_a_retry_works,
    assert_sound,
    kill_cases,
    left_over,
    mergeable,
    outcomes,
    place,
    rows,
    takes_effect,
    template,
)
from tests.pipeline.clusters import engine_on
from tests.pipeline.interrupts import interrupt_when

__all__ = ["outcomes", "place", "template"]

pytestmark = pytest.mark.xdist_group("spark")

STAGES = ("reading and staging", "checking", "merging")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of files, each of which is a task."""
    return loads.write_files(tmp_path)


@pytest.fixture(autouse=True)
def _many_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_ONE_BUCKET", 0)


# --- the process that loads is killed ---


def check_a_kill(
    place: str, source: Path, mode: str, branch: str, expected: Any, **more: Any
) -> bool:
    """Load in a process that is killed; gives whether the load took effect."""
    child = spark_loads.start(place, source, mode, branch, **more)
    assert child.wait() == KILLED
    assert child.outlived() == []
    with open(place, mode="r") as reader:
        assert rows(reader, branch) in expected
    with open(place) as graph:
        took_effect = assert_sound(graph, branch, expected)
    assert_a_retry_works(place, source, mode, branch, expected[1])
    return took_effect


def check_a_kill_in_a_stage(mode, branch, stage, place, source, outcomes, tmp_path) -> None:
    source, marker = mergeable(source, mode), str(tmp_path / "killed")
    more = {"stage": stage, "marker": marker}
    assert not check_a_kill(place, source, mode, branch, outcomes[mode, branch], **more)


def check_a_kill_at_a_point(mode, branch, point, skip, place, source, outcomes) -> None:
    source, expected = mergeable(source, mode), outcomes[mode, branch]
    took_effect = check_a_kill(place, source, mode, branch, expected, point=point, skip=skip)
    assert took_effect == takes_effect(point, skip)


def test_a_load_is_killed_while_its_tasks_run(place, source, outcomes, tmp_path) -> None:
    check_a_kill_in_a_stage("merge", "main", "merging", place, source, outcomes, tmp_path)


def test_a_load_is_killed_while_it_is_published(place, source, outcomes) -> None:
    case = ("overwrite", "draft", "write.table_committed", 1)
    check_a_kill_at_a_point(*case, place, source, outcomes)


@pytest.mark.soak
@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize(
    ("mode", "stage"),
    [*(("merge", stage) for stage in STAGES), *(("overwrite", stage) for stage in STAGES[:2])],
)
def test_a_load_is_killed_in_every_stage(
    mode, stage, branch, place, source, outcomes, tmp_path
) -> None:
    check_a_kill_in_a_stage(mode, branch, stage, place, source, outcomes, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(("mode", "branch", "point", "skip"), kill_cases())
def test_a_load_is_killed_at_every_point(
    mode, branch, point, skip, place, source, outcomes
) -> None:
    check_a_kill_at_a_point(mode, branch, point, skip, place, source, outcomes)


# --- Ctrl-C ---


def check_a_shell_stops(stage: str, place: str, source: Path, marker: Path, expected: Any) -> None:
    """All processes of a shell's job get the signal, Java too; none is left."""
    more = {"stage": stage, "happens": "hang", "marker": str(marker)}
    child = spark_loads.start(place, source, "merge", "main", **more)
    while not marker.exists() and child.process.poll() is None:
        time.sleep(0.05)
    os.killpg(child.process.pid, signal.SIGINT)
    assert child.wait() == -signal.SIGINT
    assert child.outlived() == []
    with open(place) as graph:
        assert not assert_sound(graph, "main", expected)
    assert left_over(place) == []
    assert_a_retry_works(place, source, "merge", "main", expected[1])


def test_a_shell_stops_a_load(place, source, outcomes, tmp_path) -> None:
    marker, expected = tmp_path / "running", outcomes["merge", "main"]
    check_a_shell_stops("reading and staging", place, source, marker, expected)


@pytest.mark.soak
@pytest.mark.parametrize("stage", STAGES)
def test_a_shell_stops_a_load_in_every_stage(stage, place, source, outcomes, tmp_path) -> None:
    check_a_shell_stops(stage, place, source, tmp_path / "running", outcomes["merge", "main"])


_SOME = [("checking", "main"), ("merging", "draft")]
_OTHERS = [(stage, branch) for stage in STAGES for branch in ("main", "draft")]


@pytest.mark.parametrize(
    ("stage", "branch"),
    [
        *_SOME,
        *(pytest.param(*each, marks=pytest.mark.soak) for each in _OTHERS if each not in _SOME),
    ],
)
def test_ctrl_c_stops_a_load_and_the_session_lives_on(
    stage, branch, place, source, outcomes, tmp_path, local_spark_engine
) -> None:
    marker, options = tmp_path / "running", {"engine": "spark", "branch": branch}
    expected = outcomes["merge", branch]
    session = local_spark_engine.session
    thread = interrupt_when(marker)
    with open(place) as graph:
        with (
            killing.in_stages({stage: partial(killing.hang, str(marker))}),
            pytest.raises(KeyboardInterrupt),
        ):
            graph.load(source, spark=session, actor="child", **options)
        thread.join()
        assert not assert_sound(graph, branch, expected)
        assert left_over(place) == []
        graph.load(source, spark=session, **options)
        assert rows(graph, branch) == expected[1]


@pytest.mark.soak
def test_ctrl_c_while_faults_are_looked_for(
    place, source, outcomes, tmp_path, local_spark_engine
) -> None:
    marker = tmp_path / "running"
    (source / "0.jsonl").write_text('{"edge":"Knows","from":"old0","to":"nobody"}\n')
    thread = interrupt_when(marker)
    with open(place) as graph:
        with (
            killing.in_stages({"finding faults": partial(killing.hang, str(marker))}),
            pytest.raises(KeyboardInterrupt),
        ):
            graph.load(source, engine="spark", spark=local_spark_engine.session)
        thread.join()
        assert not assert_sound(graph, "main", outcomes["merge", "main"])
        assert left_over(place) == []
        with pytest.raises(LoadError):
            graph.load(source, engine="spark", spark=local_spark_engine.session)


# --- no space ---


@pytest.mark.parametrize(
    ("mode", "branch", "stage", "most"),
    [
        ("merge", "main", "reading and staging", 100),
        ("merge", "main", "reading and staging", 3000),
        ("merge", "main", "checking", 100),
        ("merge", "main", "merging", 100),
        ("merge", "draft", "merging", 3000),
        ("overwrite", "main", "reading and staging", 3000),
        ("overwrite", "draft", "reading and staging", 100),
    ],
)
def test_a_full_disk_of_the_workers(
    mode, branch, stage, most, place, source, outcomes, local_spark_engine
) -> None:
    source, expected = mergeable(source, mode), outcomes[mode, branch]
    options = {"mode": mode, "branch": branch, "engine": "spark"}
    session = local_spark_engine.session
    with open(place) as graph:
        with (
            killing.in_stages({stage: partial(killing.fill_the_disk, most)}),
            pytest.raises(OmnigraphError, match=r"too large|were written|exceeds blob object"),
        ):
            graph.load(source, spark=session, actor="child", **options)
        assert not assert_sound(graph, branch, expected)
        assert left_over(place) == []
        graph.load(source, spark=session, **options)
        assert rows(graph, branch) == expected[1]


# --- workers and executors are killed ---


def check_a_kill_doubles_nothing(
    mode: Any, place: str, tmp_path: Path, session: Any, incidents: dict[str, Any]
) -> None:
    source = tmp_path / "people"
    source.mkdir()
    for file in range(4):
        people = (f'{{"type":"Person","data":{{"name":"n{file} {n}"}}}}\n' for n in range(50))
        (source / f"{file}.jsonl").write_text("".join(people))
    with open(place) as graph:
        with killing.in_stages(
            {stage: partial(each, str(tmp_path / stage)) for stage, each in incidents.items()}
        ):
            result = graph.load(source, mode=mode, engine="spark", spark=session)
        assert all((tmp_path / stage).exists() for stage in incidents)
        assert result.tables["Person"].inserted == 200
        assert graph.snapshot().count("Person") == 205
        assert graph.check().problems == ()
    assert left_over(place) == []


@pytest.mark.parametrize(("mode", "stages"), [("append", STAGES[:2]), ("merge", STAGES)])
def test_killed_workers_double_nothing(mode, stages, place, tmp_path, local_spark_engine) -> None:
    incidents = dict.fromkeys(stages, partial(killing.kill_once, None))
    check_a_kill_doubles_nothing(mode, place, tmp_path, local_spark_engine.session, incidents)


@pytest.mark.parametrize(
    ("mode", "stage"),
    [
        ("append", "reading and staging"),
        pytest.param("merge", "reading and staging", marks=pytest.mark.soak),
        pytest.param("merge", "checking", marks=pytest.mark.soak),
        pytest.param("merge", "merging", marks=pytest.mark.soak),
    ],
)
def test_a_killed_executor_doubles_nothing(
    mode, stage, place, tmp_path, spark_master, monkeypatch
) -> None:
    """On this machine Java is the driver's own: there a worker is killed."""
    on_cluster = spark_master.startswith("spark:")
    incident = killing.kill_executor_once if on_cluster else partial(killing.kill_once, None)
    session = engine_on(spark_master, monkeypatch).session
    check_a_kill_doubles_nothing(mode, place, tmp_path, session, {stage: incident})
