"""Runs tasks on Spark's Python workers.

Every task is a partition of its own, and returns one small value. What a task raises comes
back as a value too: Spark only tries again what died, and the driver raises what the task raised.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import struct
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.pipeline.engine import Progress, Result, Task
from omnigraph.pipeline.spark.session import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_OUTCOMES = "index long, outcome binary"
#: How often progress is looked at, in seconds.
_TICK = 0.2
#: How long an interrupted job is waited for, in seconds.
_PATIENCE = 20.0

Streamed = TypeVar("Streamed")


class SparkEngine:
    """Runs tasks on a Spark session, of this machine or of a cluster.

    Args:
        session: The session, from `omnigraph.pipeline.spark.session.session()` or the caller's own.
    """

    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._parallelism: int | None = None

    @property
    def session(self) -> SparkSession:
        """The session that the tasks run on."""
        return self._session

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        if self._parallelism is None:
            self._parallelism = _parallelism(self._session)
        return self._parallelism

    def map(
        self,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        label: str,
        progress: Progress,
    ) -> list[Result]:
        """See `Engine`.

        Raises:
            OmnigraphError: What a task raised, the first in the order of tasks.
            StorageError: A task raised anything else, or Spark could not run it.
        """
        progress.stage(label, len(tasks))
        if not tasks:
            return []
        outcomes = self._run(lambda: _of_each(self._session, function, tasks), label, progress)
        missing = len(tasks) - len(outcomes)
        if missing:
            raise StorageError(f"{label}: Spark gave no result of {missing} tasks", transient=True)
        results = _opened(outcomes, label)
        progress.advance(len(tasks))
        return results

    def stream(
        self,
        frame: DataFrame,
        function: Callable[[int, Iterator[pa.RecordBatch]], Streamed],
        label: str,
        progress: Progress,
    ) -> list[Streamed]:
        """Run a function over each partition of a DataFrame.

        Args:
            frame: The rows.
            function: Takes the number of a partition and its rows, and returns something small
                and picklable. It may run more than once on the same partition.
            label: What users call the work.
            progress: Receives reports of how far it is.

        Returns:
            One result per partition, in their order; none for a partition that Spark leaves out
            since it knows it to be empty.

        Raises:
            OmnigraphError: What the function raised, of the first partition that failed.
            StorageError: It raised anything else, or Spark could not run it.
        """
        progress.stage(label, 0)
        outcomes = self._run(
            lambda: _collected(frame.mapInArrow(_of_partitions(function), _OUTCOMES)),
            label,
            progress,
        )
        results = _opened(outcomes, label)
        progress.advance(len(results))
        return results

    def _run(
        self, work: Callable[[], dict[int, bytes]], label: str, progress: Progress
    ) -> dict[int, bytes]:
        """Do work that is a job of Spark, which an interrupt cancels."""
        job = _Job(self._session, work, label)
        job.start()
        reported = 0
        try:
            while not job.ended.wait(_TICK):
                if job.done > reported:
                    reported = job.done
                    progress.advance(reported)
        except BaseException:
            job.cancel()
            raise
        return job.outcomes()


class _Job:
    """A job in a thread of its own, and another thread that watches and cancels it.

    The caller's thread never talks to Java here: an interrupt in the middle of a talk would leave
    the connection with half an answer.
    """

    def __init__(
        self, session: SparkSession, work: Callable[[], dict[int, bytes]], label: str
    ) -> None:
        from pyspark import InheritableThread

        self.ended = threading.Event()
        self.done = 0
        self._session = session
        self._job = work
        self._label = label
        self._tag = f"omnigraph-{uuid.uuid4().hex}"
        self._cancelled = False
        #: The job has ended or is cancelled: there is something to do for who watches.
        self._woken = threading.Event()
        self._outcomes: dict[int, bytes] = {}
        self._fault: BaseException | None = None
        self._threads = [
            InheritableThread(target=target, session=session, daemon=True, name="omnigraph-spark")
            for target in (self._work, self._watch)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def cancel(self) -> None:
        """Stop the job and wait until all of its tasks have stopped."""
        self._cancelled = True
        self._woken.set()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def outcomes(self) -> dict[int, bytes]:
        for thread in self._threads:
            thread.join(_PATIENCE)
        if self._fault is not None:
            raise _explained(self._fault, self._label) from self._fault
        return self._outcomes

    def _work(self) -> None:
        try:
            if is_connect(self._session):
                self._session.addTag(self._tag)
            else:
                context = self._session.sparkContext
                context.addJobTag(self._tag)
                context.setJobDescription(self._label)
            self._outcomes = self._job()
        except BaseException as fault:
            self._fault = fault
        finally:
            self.ended.set()
            self._woken.set()

    def _watch(self) -> None:
        while not self.ended.is_set():
            try:
                self._woken.wait(_TICK)
                if self._cancelled:
                    # Again and again: the job may not have begun when it was cancelled first.
                    self._interrupt()
                    self.ended.wait(_TICK)
                elif not self.ended.is_set() and not is_connect(self._session):
                    self.done = max(self.done, self._finished())
            except Exception:
                # The job itself reports what is wrong with Spark.
                self.ended.wait(_TICK)
        if (self._cancelled or self._fault is not None) and not is_connect(self._session):
            # The job has ended, but its tasks may go on for a while, and write what nobody
            # would delete any more.
            deadline = time.monotonic() + _PATIENCE
            with contextlib.suppress(Exception):
                while self._running() and time.monotonic() < deadline:
                    time.sleep(_TICK / 4)

    def _interrupt(self) -> None:
        if is_connect(self._session):
            self._session.interruptTag(self._tag)
        else:
            self._session.sparkContext.cancelJobsWithTag(self._tag)

    def _finished(self) -> int:
        """How many tasks of the job's last stage are finished."""
        stages = self._stages()
        return int(stages[-1].numCompletedTasks) if stages else 0

    def _running(self) -> int:
        """How many tasks of the job run."""
        return sum(stage.numActiveTasks for stage in self._stages())

    def _stages(self) -> list[Any]:
        context: Any = self._session.sparkContext
        tracker = context.statusTracker()
        jobs = sorted(context._jsc.sc().statusTracker().getJobIdsForTag(self._tag))
        running = [job for number in jobs if (job := tracker.getJobInfo(number))]
        stages = [number for job in running for number in sorted(job.stageIds)]
        return [stage for number in stages if (stage := tracker.getStageInfo(number))]


# --- between the two ---------------------------------------------------------------------------


def _packed(value: object) -> bytes:
    # Pickles functions and classes that the other side cannot import, too.
    from pyspark import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)


def _unpacked(content: bytes) -> Any:
    return pickle.loads(content)


# --- on the driver -------------------------------------------------------------------------------


def _parallelism(session: SparkSession) -> int:
    if not is_connect(session):
        return max(1, int(session.sparkContext.defaultParallelism))
    from pyspark.sql.functions import spark_partition_id

    # Without a context there is only one way to see how Spark divides what it is given.
    return max(1, session.range(1 << 14).select(spark_partition_id()).distinct().count())


def _of_each(
    session: SparkSession, function: Callable[[Task], Result], tasks: Sequence[Task]
) -> dict[int, bytes]:
    """Run a function on tasks, each in a partition of its own; returns the outcomes by number."""
    packed = [_packed(task) for task in tasks]
    if not is_connect(session):
        # Without a plan and a shuffle a small job takes half the time.
        context = session.sparkContext
        pairs = context.parallelize(list(enumerate(packed)), len(packed))
        return dict(pairs.mapPartitions(_of_pairs(function)).collect())
    import pyarrow as pa

    numbers = pa.array(range(len(packed)), pa.int32())
    rows = pa.table({"index": numbers, "task": pa.array(packed, pa.binary())})
    divided = session.createDataFrame(rows).repartitionById(len(packed), "index")
    return _collected(divided.mapInArrow(_of_rows(function), _OUTCOMES))


def _collected(frame: DataFrame) -> dict[int, bytes]:
    """The outcomes of a frame, by number."""
    table = frame.toArrow()
    indexes, outcomes = (table.column(place).to_pylist() for place in (0, 1))
    return dict(zip(indexes, outcomes, strict=True))


class _Elsewhere(Exception):
    """Where a task failed, as text: the cause of what the driver raises."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _opened(outcomes: dict[int, bytes], label: str) -> list[Any]:
    """The values of outcomes in their order; raises what the first failed one has raised."""
    results = []
    for _, outcome in sorted(outcomes.items()):
        worked, value = _unpacked(outcome)
        if not worked:
            raise _raised(value, label)
        results.append(value)
    return results


def _raised(failure: tuple[Any, ...], label: str) -> OmnigraphError:
    kind, arguments, state, said, where = failure
    error: OmnigraphError
    if kind is None:
        error = StorageError(f"{label}: {said}")
    else:
        # Many errors are made of more than their arguments: leave `__init__` out.
        error = kind.__new__(kind)
        error.args = arguments
        error.__dict__.update(state)
    error.__cause__ = _Elsewhere(where)
    return error


def _explained(fault: BaseException, label: str) -> StorageError:
    """What to report of an exception of Spark's, in a line."""
    text = str(fault)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "No module named 'omnigraph'" in text:
        said = "the package is not on Spark's executors: install it there or let it be sent"
    elif "Python worker exited unexpectedly" in text or "ExecutorLostFailure" in text:
        said = "Spark's workers died again and again; they may need more memory"
    elif "Traceback (most recent call last):" in lines:
        # What Python said is in the line after its traceback.
        body = text.partition("Traceback (most recent call last):")[2].splitlines()[1:]
        said = next((line for line in body if line and not line.startswith((" ", "\t"))), lines[0])
    else:
        said = next((s for s in lines if not s.startswith("An error occurred while")), "")
        said = said.removeprefix(": ") or type(fault).__name__
    return StorageError(f"{label}: Spark could not do it: {said}", transient=True)


# --- on the workers ------------------------------------------------------------------------------

_Batches = Iterable["pa.RecordBatch"]


def _of_pairs(
    function: Callable[[Any], Any],
) -> Callable[[Iterable[tuple[int, bytes]]], Iterator[tuple[int, bytes]]]:
    def run(pairs: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for index, task in pairs:

            def call(task: bytes = task) -> Any:
                return function(_unpacked(task))

            yield index, _outcome(call)
        _settle()

    return run


def _of_rows(function: Callable[[Any], Any]) -> Callable[[_Batches], Iterator[pa.RecordBatch]]:
    run_pairs = _of_pairs(function)

    def run(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            for index, outcome in run_pairs(pairs):
                yield _row(index, outcome)

    return run


def _of_partitions(
    function: Callable[[int, Iterator[pa.RecordBatch]], Any],
) -> Callable[[_Batches], Iterator[pa.RecordBatch]]:
    def run(batches: _Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        yield _row(index, _outcome(lambda: function(index, iter(batches))))

    return run


_settled: list[int] = []


def _settle() -> None:
    """Take what a worker has loaded by now out of the garbage collector's way.

    PySpark collects garbage after every task; with all modules in it that takes 30 ms.
    """
    if not _settled:
        _settled.append(gc.collect())
        gc.freeze()


def _outcome(call: Callable[[], Any]) -> bytes:
    """Call a function and return what comes of it as bytes: its value, or what it raises."""
    failure: tuple[Any, ...]
    try:
        return _packed((True, call()))
    except OmnigraphError as error:
        where = traceback.format_exc()
        try:
            failure = (type(error), error.args, error.__dict__, error.message, where)
            return _packed((False, failure))
        except Exception:
            failure = (None, (), {}, error.message, where)
    except Exception as error:
        said = next(iter(str(error).splitlines()), "")
        said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        failure = (None, (), {}, said, traceback.format_exc())
    return _packed((False, failure))


def _row(index: int, outcome: bytes) -> pa.RecordBatch:
    import pyarrow as pa

    # Out of buffers: to make arrays of lists, pyarrow would load pandas first.
    number, ends = struct.pack("=q", index), struct.pack("=ii", 0, len(outcome))
    numbers = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(number)])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(outcome)]
    outcomes = pa.Array.from_buffers(pa.binary(), 1, buffers)
    return pa.RecordBatch.from_arrays([numbers, outcomes], ["index", "outcome"])
