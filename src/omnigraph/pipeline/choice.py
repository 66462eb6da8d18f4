"""Which engine large work runs on when nobody has chosen one: what is done first."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from omnigraph.pipeline.spark import session
from omnigraph.settings import Settings

#: How many bytes one process loads while Spark starts: about 20 MB of JSON lines in each of the
#: eight seconds that Java, and then the imports of the first worker, take (measured on two cores).
_WHILE_SPARK_STARTS = 160 << 20
#: As much while a session that is there divides the work and collects what came of it, in a second.
_WHILE_SPARK_DIVIDES = _WHILE_SPARK_STARTS // 8
#: Fewer bytes are never worth a cluster.
_SMALL = 16 << 20
#: How many bytes of changed rows one thread merges in a second, and how many of Spark's workers do
#: as much as a thread (measured on two cores): most of it is done by Lance and Arrow either way.
_MERGED = 32 << 20
_WORKERS_PER_THREAD = 2
#: How many bytes of rows one thread indexes in a second, with all the indexes that a table usually
#: has.
_INDEXED = 16 << 20
#: How long Spark takes to start, and to divide work and collect what came of it, in seconds.
_STARTS, _DIVIDES = 8, 2


@dataclass(frozen=True)
class SparkAtHand:
    """What is known of Spark without starting it.

    Attributes:
        running: A session is there.
        cluster: It is, or would be, on other machines.
        cores: How many tasks run at a time, if it is on this machine.
    """

    running: bool = False
    cluster: bool = False
    cores: int = 1


def faster_engine(size: int, largest: int, spark: SparkAtHand) -> Literal["local", "spark"]:
    """The engine that is done first.

    Args:
        size: How many bytes the input has.
        largest: How many of them are in the largest file that cannot be cut into parts.
        spark: What there is of Spark.
    """
    if spark.cluster:
        return "spark" if size > _SMALL else "local"
    # What this process would still have to do when Spark is through with its own share.
    saved = size - max(size // spark.cores, largest)
    needed = _WHILE_SPARK_DIVIDES if spark.running else _WHILE_SPARK_STARTS
    return "spark" if saved > needed else "local"


def faster_to_merge(size: int, threads: int, spark: SparkAtHand) -> Literal["local", "spark"]:
    """The engine that is done first with a merge in tasks.

    Threads of this process merge about as fast as the machine can: on one machine Spark is worth it
    where there are many more cores than threads.

    Args:
        size: How many bytes the changed rows have.
        threads: How many tasks this process runs at a time.
        spark: What there is of Spark.
    """
    return _faster_in_tasks(size / _MERGED, threads, spark)


def faster_to_index(size: int, threads: int, spark: SparkAtHand) -> Literal["local", "spark"]:
    """The engine that is done first with the indexes of a large table.

    Args:
        size: How many bytes the rows have.
        threads: How many indexes this process builds at a time.
        spark: What there is of Spark.
    """
    return _faster_in_tasks(size / _INDEXED, threads, spark)


def _faster_in_tasks(seconds: float, threads: int, spark: SparkAtHand) -> Literal["local", "spark"]:
    """The engine that is done first with what takes one thread so many seconds."""
    if spark.cluster:
        return "spark"
    on_spark = seconds * _WORKERS_PER_THREAD / spark.cores
    on_spark += _DIVIDES if spark.running else _STARTS + _DIVIDES
    return "spark" if on_spark < seconds / threads else "local"


def spark_at_hand(settings: Settings) -> SparkAtHand:
    """Look for a session that runs, or else for where one would run."""
    running = session.running_master()
    master = running or session.configured_master(settings)
    if not session.is_local(master):
        return SparkAtHand(running is not None, True)
    threads = re.match(r"local\[\s*(\d+)", master)
    one = 1 if master == "local" else os.cpu_count() or 1
    return SparkAtHand(running is not None, False, max(1, int(threads[1]) if threads else one))
