"""Loads that fail or die at every stage: nothing is visible, and the next try has all of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.failpoints import POINTS, FailpointError
from omnigraph.graph import Graph, open
from omnigraph.pipeline import inputs, load
from omnigraph.pipeline.engine import LocalEngine, Progress
from omnigraph.storage import bulk
from omnigraph.writes.sidecar import list_sidecars
from tests.crash import loads
from tests.crash.children import KILLED, run_child, start_child
from tests.pipeline.clusters import local_spark_engine

__all__ = ["local_spark_engine"]

POINTS_OF_LOADS = [p for p in POINTS if p.startswith(("load.", "write."))]
#: Where the commit is visible, or will be made so by whoever comes next.
_DONE = ("write.confirmed", "write.published", "write.finished")
_TABLES = 3
STAGES = ("reading and staging", "checking", "merging")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("template") / "graph"
    loads.make_graph(str(place))
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path) -> str:
    shutil.copytree(template, tmp_path / "graph")
    return str(tmp_path / "graph")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return loads.write_input(tmp_path)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LEAST_BYTES", 900)
    monkeypatch.setattr(inputs, "MOST_BYTES", 900)
    monkeypatch.setattr(load, "_ONE_BUCKET", 0)


def rows(graph: Graph, branch: str) -> dict[str, Any]:
    """Everything on a branch: the rows, and the bytes of blobs."""
    found: dict[str, Any] = {}
    snapshot = graph.snapshot(branch)
    for table in snapshot.tables:
        read = snapshot.read(table.name)
        names = [n for n in read.column_names if n != "file"]
        listed = read.select(names).to_pylist()
        for row in listed:
            if table.name == "Knows":
                row["id"] = "new"
        found[table.name] = sorted(tuple(row.values()) for row in listed)
        assert len(listed) == table.rows
    for id, _ in found["Note"]:
        with graph.read_blob("node", "Note", id, "file", branch=branch) as blob:
            found[f"file of {id}"] = len(blob.read())
    return found


def left_over(place: str) -> list[str]:
    """Scratch files, which only a killed process leaves."""
    folder = Path(place) / "__scratch"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


@pytest.fixture(scope="module")
def outcomes(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], tuple[Any, Any]]:
    """By mode and branch what is there before and after."""
    found = {}
    for mode in ("merge", "overwrite"):
        for branch in ("main", "draft"):
            folder = tmp_path_factory.mktemp("outcome")
            shutil.copytree(template, folder / "graph")
            with open(folder / "graph") as graph:
                before = rows(graph, branch)
                file = mergeable(loads.write_input(folder), mode)
                graph.load(file, mode=mode, branch=branch, engine="local")
                after = rows(graph, branch)
                other = "draft" if branch == "main" else "main"
                assert rows(graph, other) == before
                assert graph.check().problems == ()
            assert before != after
            found[mode, branch] = (before, after)
    return found


def mergeable(file: Path, mode: str) -> Path:
    """With `old4`, which edges end at, when everything else goes."""
    if mode == "overwrite":
        with file.open("a") as more:
            more.write('{"type":"Person","data":{"name":"old4"}}\n')
    return file


def assert_sound(graph: Graph, branch: str, expected: tuple[Any, Any]) -> bool:
    """Check all that has to hold after any failure; gives whether the load took effect."""
    now = rows(graph, branch)
    assert now in expected
    other = "draft" if branch == "main" else "main"
    assert rows(graph, other) == expected[0]
    assert graph.check().problems == ()
    assert list_sidecars(graph._repository.objects) == []
    made = [c for c in graph.commits(branch) if c.actor == "child"]
    assert len(made) == (now == expected[1])
    return bool(now == expected[1])


def assert_a_retry_works(place: str, source: Path, mode: Any, branch: str, after: Any) -> None:
    with open(place) as graph:
        graph.load(source, mode=mode, branch=branch, engine="local")
        found = rows(graph, branch)
        if mode == "merge" and len(found["Knows"]) == 2 * len(after["Knows"]):
            # The load was done before; edges without ids are new ones each time.
            found["Knows"] = found["Knows"][::2]
        assert found == after
        assert graph.check().problems == ()


def _cases() -> list[tuple[str, str, str, int]]:
    found = []
    for mode, branch in (("merge", "main"), ("merge", "draft"), ("overwrite", "draft")):
        for point in POINTS_OF_LOADS:
            times = 1
            if point == "write.forked":
                times = _TABLES if branch == "draft" else 0
            elif point == "write.table_committed":
                times = _TABLES
            found += [(mode, branch, point, skip) for skip in range(times)]
    return found


@pytest.mark.parametrize(("mode", "branch", "point", "skip"), _cases())
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
    last = point == "write.table_committed" and skip == _TABLES - 1
    assert took_effect == (point in _DONE or last)
    assert_a_retry_works(place, source, mode, branch, expected[1])


@pytest.mark.parametrize("failure", [FailpointError("stopped"), KeyboardInterrupt()])
@pytest.mark.parametrize("branch", ["main", "draft"])
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


def data_files(place: str) -> list[str]:
    return sorted(str(p) for p in Path(place).rglob("data/*") if p.is_file())


class Failing(LocalEngine):
    """Fails in the second task of a stage, or the last if there is only one."""

    def __init__(self, label: str, failure: BaseException) -> None:
        self.label = label
        self.failure = failure

    def map(
        self, function: Callable[[Any], Any], tasks: Any, label: str, progress: Progress
    ) -> list[Any]:
        done = 0

        def run(task: Any) -> Any:
            nonlocal done
            done += 1
            result = function(task)
            if label == self.label and done == min(2, len(tasks)):
                raise self.failure
            return result

        return super().map(run, tasks, label, progress)


@pytest.mark.parametrize("failure", [OSError("task"), MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("branch", ["main", "draft"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_failing_task_leaves_a_sound_graph(
    failure, branch, stage, place, source, outcomes, monkeypatch
) -> None:
    from omnigraph.pipeline import loader

    with open(place) as graph, monkeypatch.context() as patch:
        patch.setattr(loader, "LocalEngine", lambda: Failing(stage, failure))
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
        child.join(50)
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
        child.join(50)
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


# --- on Spark ---


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_killed_worker_of_spark_doubles_nothing(
    mode, place, tmp_path, outcomes, local_spark_engine
) -> None:
    from pyspark import cloudpickle

    from tests.crash import killing

    marker = tmp_path / "killed"
    source = tmp_path / "killing.jsonl"
    source.write_text(
        "".join(f'{{"type":"Person","data":{{"name":"n{n}"}}}}\n' for n in range(200))
    )
    cloudpickle.register_pickle_by_value(killing)
    try:
        with open(place) as graph, killing.once(str(marker)):
            session = local_spark_engine.session
            result = graph.load(source, mode=mode, engine="spark", spark=session)
    finally:
        cloudpickle.unregister_pickle_by_value(killing)
    assert marker.exists()
    assert result.tables["Person"].inserted == 200
    with open(place) as graph:
        assert graph.snapshot().count("Person") == 205
        assert graph.check().problems == ()
    assert left_over(place) == []
