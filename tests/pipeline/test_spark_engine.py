"""Tasks on Spark, on this machine and on a real cluster."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from omnigraph.errors import (
    KeyConflict,
    LoadError,
    OmnigraphError,
    StorageError,
    Violation,
)
from omnigraph.pipeline.engine import LocalEngine, Silent
from omnigraph.pipeline.spark.engine import SparkEngine
from tests.pipeline.clusters import engine_on
from tests.pipeline.interrupts import interrupt_when

# The first test also starts Java, and the first one on a cluster starts that.
pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(autouse=True)
def _functions_of_this_module_travel_by_value():
    from pyspark import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


class Told:
    """Progress that notes what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.done: list[int] = []

    def stage(self, label: str, total: int) -> None:
        self.stages.append((label, total))

    def advance(self, done: int) -> None:
        self.done.append(done)


def double(number: int) -> int:
    return number * 2


def where(_: object) -> tuple[int, str]:
    import omnigraph

    return os.getpid(), str(omnigraph.__file__)


def test_results_come_in_the_order_of_tasks(spark_engine):
    def late(number: int) -> int:
        time.sleep(0.3 if number == 0 else 0)
        return number

    assert spark_engine.map(late, [0, 1, 2, 3, 4], "late", Silent()) == [0, 1, 2, 3, 4]


def test_it_gives_what_the_local_engine_gives(spark_engine):
    tasks = [3, 1, 2]
    expected = LocalEngine().map(double, tasks, "double", Silent())
    assert spark_engine.map(double, tasks, "double", Silent()) == expected


def test_no_tasks_are_no_job(spark_engine):
    told = Told()
    assert spark_engine.map(double, [], "double", told) == []
    assert told.stages == [("double", 0)]


def test_there_is_a_place_for_two_tasks(spark_engine):
    assert spark_engine.name == "spark"
    assert spark_engine.parallelism == 2


def test_a_session_has_what_was_configured_after_java_has_started(spark_engine, spark_master):
    memory = spark_engine.session.sparkContext.getConf().get("spark.executor.memory")
    assert memory == ("512m" if spark_master.startswith("spark:") else None)


def test_tasks_run_in_other_processes_with_this_package(spark_engine, spark_master):
    found = spark_engine.map(where, range(8), "where", Silent())
    assert os.getpid() not in {process for process, _ in found}
    if spark_master.startswith("spark:"):
        assert all(".zip" in path for _, path in found)


def test_hundreds_of_tasks(spark_engine):
    assert spark_engine.map(double, range(200), "double", Silent()) == list(range(0, 400, 2))


def test_big_results(spark_engine):
    def big(number: int) -> bytes:
        return bytes([number]) * 1_000_000

    found = spark_engine.map(big, range(8), "big", Silent())
    assert found == [bytes([number]) * 1_000_000 for number in range(8)]


def test_an_error_comes_back_as_it_was_and_is_not_tried_again(spark_engine, tmp_path):
    def fail(number: int) -> None:
        (tmp_path / f"{number}-{time.time_ns()}").touch()
        if number == 1:
            fault = Violation("Person", "a", "age", "x", "type", "give a number", "a.jsonl", 7)
            raise LoadError([fault], {"type": 1})
        if number == 2:
            raise KeyConflict([Violation("Person", "ada", "name", "ada", "exists", "it is there")])

    with pytest.raises(LoadError) as caught:
        spark_engine.map(fail, [0, 1, 2], "parse", Silent())
    assert caught.value.violations[0].line == 7
    assert caught.value.totals == {"type": 1}
    assert "java" not in str(caught.value)
    assert "in fail" in str(caught.value.__cause__)
    with pytest.raises(KeyConflict) as conflict:
        spark_engine.map(fail, [2], "parse", Silent())
    assert conflict.value.ids == ("ada",)
    assert len(list(tmp_path.iterdir())) == 4


def test_any_other_exception_names_the_stage_and_the_cause(spark_engine):
    def fail(_: object) -> None:
        raise RuntimeError("no space on this device\nand more")

    with pytest.raises(StorageError) as caught:
        spark_engine.map(fail, [1], "stage rows", Silent())
    assert caught.value.message == "stage rows: RuntimeError: no space on this device"


def test_a_result_that_cannot_be_pickled_is_an_error(spark_engine):
    with pytest.raises(StorageError, match="lock: TypeError: cannot pickle"):
        spark_engine.map(lambda _: threading.Lock(), [1], "lock", Silent())


def test_a_task_whose_worker_is_killed_is_tried_again(spark_engine, tmp_path):
    def die_once(number: int) -> int:
        marker = tmp_path / f"tried-{number}"
        if number == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert spark_engine.map(die_once, range(4), "die", Silent()) == [0, 1, 2, 3]
    assert (tmp_path / "tried-2").exists()


def test_an_executor_that_is_killed_is_replaced(spark_cluster, monkeypatch, tmp_path):
    def kill_once(number: int) -> int:
        marker = tmp_path / "killed"
        if number == 2 and not marker.exists():
            marker.touch()
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        return number

    engine = engine_on(spark_cluster, monkeypatch)
    assert engine.map(kill_once, range(4), "kill", Silent()) == [0, 1, 2, 3]
    assert (tmp_path / "killed").exists()


def test_workers_that_always_die_are_an_error(spark_engine):
    def die(_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(StorageError, match=r"die: Spark.* workers died") as caught:
        spark_engine.map(die, [1], "die", Silent())
    assert caught.value.transient
    assert spark_engine.map(double, [1], "double", Silent()) == [2]


def test_progress_is_told_while_tasks_end(local_spark_engine, tmp_path):
    seen = tmp_path / "seen"

    class Seen(Told):
        def advance(self, done: int) -> None:
            super().advance(done)
            seen.touch()

    def wait(number: int) -> None:
        while number == 7 and not seen.exists():
            time.sleep(0.01)

    told = Seen()
    local_spark_engine.map(wait, range(8), "wait", told)
    assert told.stages == [("wait", 8)]
    assert told.done == sorted(set(told.done))
    assert told.done[-1] == 8
    assert len(told.done) > 1


def test_an_interrupt_cancels_the_job_and_the_session_lives_on(spark_engine, tmp_path):
    marker = tmp_path / "running"

    def hang(_: int) -> None:
        marker.touch()
        time.sleep(600)

    assert threading.current_thread() is threading.main_thread()
    thread = interrupt_when(marker)
    with pytest.raises(KeyboardInterrupt):
        spark_engine.map(hang, range(4), "hang", Silent())
    thread.join()
    assert spark_engine.session.sparkContext.statusTracker().getActiveJobsIds() == []
    assert spark_engine.map(double, [1, 2], "double", Silent()) == [2, 4]


def test_no_task_goes_on_when_an_interrupt_is_told(spark_engine, tmp_path):
    """Whoever interrupted it deletes what tasks have written; they must not write more."""
    written = tmp_path / "written"

    def write(_: int) -> None:
        for _ in range(6000):
            written.touch()
            time.sleep(0.01)

    thread = interrupt_when(written)
    with pytest.raises(KeyboardInterrupt):
        spark_engine.map(write, range(2), "write", Silent())
    thread.join()
    written.unlink()
    time.sleep(1.5)
    assert not written.exists()


def test_progress_that_fails_cancels_the_job(local_spark_engine):
    class Broken(Silent):
        def advance(self, done: int) -> None:
            raise OmnigraphError("nobody looks")

    def wait(number: int) -> None:
        time.sleep(600 if number else 0)

    with pytest.raises(OmnigraphError, match="nobody looks"):
        local_spark_engine.map(wait, [0, 1], "wait", Broken())
    assert local_spark_engine.session.sparkContext.statusTracker().getActiveJobsIds() == []


def test_two_threads_may_run_tasks_at_once(local_spark_engine):
    found: dict[int, list[int]] = {}

    def run(offset: int) -> None:
        tasks = range(offset, offset + 5)
        found[offset] = local_spark_engine.map(double, tasks, "double", Silent())

    threads = [threading.Thread(target=run, args=(offset,)) for offset in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: [0, 2, 4, 6, 8], 100: [200, 202, 204, 206, 208]}


def test_every_task_has_a_partition_of_its_own(local_spark_engine):
    def partition(_: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    assert local_spark_engine.map(partition, range(7), "where", Silent()) == list(range(7))


def test_a_function_over_the_partitions_of_a_frame(spark_engine):
    def count(partition, batches):
        return partition, sum(batch.num_rows for batch in batches)

    frame = spark_engine.session.range(0, 10, 1, 3)
    found = spark_engine.stream(frame, count, "rows", Silent())
    assert [partition for partition, _ in found] == [0, 1, 2]
    assert sum(rows for _, rows in found) == 10


def test_an_error_in_a_partition_comes_back_as_it_was(local_spark_engine: SparkEngine):
    def fail(partition, batches):
        next(batches)
        raise LoadError([], {"type": partition + 1})

    frame = local_spark_engine.session.range(0, 10, 1, 2)
    with pytest.raises(LoadError) as caught:
        local_spark_engine.stream(frame, fail, "rows", Silent())
    assert caught.value.totals == {"type": 1}
