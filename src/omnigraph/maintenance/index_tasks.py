"""Indexes of large tables, built in tasks that can run anywhere: results as of one process.

Each index is written in parts, over some fragments each, which are then put together; what the
parts of a vector index have in common is learned before. Tasks write files that nothing refers to,
and the driver stages what they name. A table that is small is indexed in this process.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import OmnigraphError, StorageError
from omnigraph.history.repository import Repository
from omnigraph.pipeline.choice import faster_to_index, spark_at_hand
from omnigraph.pipeline.engine import Engine, LocalEngine, Progress
from omnigraph.pipeline.scratch import SCRATCH
from omnigraph.pipeline.where import Where, asked_for, check_engine, new_engine
from omnigraph.settings import Settings
from omnigraph.storage import index_parts
from omnigraph.storage.index_parts import Index, Learned
from omnigraph.storage.indices import SegmentBuild, build_here
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import Tables, TableSnapshot

#: A table with fewer bytes to index is indexed in this process, whatever the engine is.
SMALL = 16 << 20
#: How many bytes of files a part is written from at most, so that it is soon written again.
_PART = 1 << 30


@dataclass(frozen=True)
class _Site:
    """The version of a table that tasks index."""

    location: str
    table: TableRef
    version: int

    def open(self) -> TableSnapshot:
        return Tables(Location(self.location)).open(self.table, self.version)

    @property
    def objects(self) -> Objects:
        return Objects.at(Location(self.location))


@dataclass(frozen=True)
class LearnTask:
    """Find out what the parts of a vector index have in common; returns where that is."""

    site: _Site
    build: SegmentBuild
    path: str

    def run(self) -> str | None:
        """Do it; None when there are too few vectors."""
        learned = index_parts.learn(self.site.open(), self.build)
        if learned is None:
            return None
        self.site.objects.write(self.path, msgspec.msgpack.encode(learned))
        return self.path


@dataclass(frozen=True)
class WholeTask:
    """Write a segment at once."""

    site: _Site
    build: SegmentBuild

    def run(self) -> Index | None:
        """Do it; None when there is nothing to index."""
        return index_parts.write_whole(self.site.open(), self.build)


@dataclass(frozen=True)
class PartTask:
    """Write a part of a segment."""

    site: _Site
    build: SegmentBuild
    learned: str | None

    def run(self) -> Index | None:
        """Do it; None when there is nothing in this part."""
        return index_parts.write_part(self.site.open(), self.build, self._learned())

    def _learned(self) -> Learned | None:
        if self.learned is None:
            return None
        stored = self.site.objects.read(self.learned)
        if stored is None:
            raise StorageError(f"{self.learned} is gone; build the indexes again", transient=True)
        return msgspec.msgpack.decode(stored.data, type=Learned)


@dataclass(frozen=True)
class PutTogetherTask:
    """Write the segment that has what its parts have."""

    site: _Site
    build: SegmentBuild
    parts: tuple[Index, ...]

    def run(self) -> Index:
        """Do it."""
        return index_parts.put_together(self.site.open(), self.parts)


IndexTask = LearnTask | WholeTask | PartTask | PutTogetherTask


def run_task(task: IndexTask) -> Any:
    """Do a task, wherever this is."""
    return task.run()


class IndexBuilder:
    """Builds the indexes of a graph's tables, where that is done first or the caller wants it.

    Args:
        repository: The graph.
        where: What the caller wants.
        settings: The settings.
        progress: Is told how far it is.

    Raises:
        UsageError: There is no such engine.
    """

    def __init__(
        self, repository: Repository, where: Where, settings: Settings, progress: Progress
    ) -> None:
        check_engine(where)
        self._repository = repository
        self._where = where
        self._settings = settings
        self._progress = progress

    def build(
        self, snapshot: TableSnapshot, builds: Sequence[SegmentBuild]
    ) -> Sequence[Sequence[Index]]:
        """Build segments; none where there is nothing to build."""
        engine = self._engine(index_parts.bytes_of(snapshot, builds))
        if isinstance(engine, LocalEngine):
            return build_here(snapshot, builds)
        return build_in_tasks(self._repository, engine, snapshot, builds, self._progress)

    def _engine(self, size: int) -> Engine:
        if size <= SMALL:
            return LocalEngine()
        chosen = asked_for(self._where)
        if chosen is None:
            threads = LocalEngine().parallelism
            chosen = faster_to_index(size, threads, spark_at_hand(self._settings))
        return new_engine(chosen, self._where, self._settings)


def build_in_tasks(
    repository: Repository,
    engine: Engine,
    snapshot: TableSnapshot,
    builds: Sequence[SegmentBuild],
    progress: Progress,
) -> list[list[Index]]:
    """Build segments in tasks; none where there is nothing to build."""
    site = _Site(str(repository.location), snapshot.ref, snapshot.version)
    folder = f"{SCRATCH}/{new_ulid()}"
    parts: list[Index] = []
    # What takes longest is begun first.
    order = sorted(range(len(builds)), key=lambda at: not index_parts.has_to_learn(builds[at]))
    running = {
        at: _steps(engine.parallelism, site, snapshot, builds[at], f"{folder}/{at}", parts)
        for at in order
    }
    segments: list[list[Index]] = [[] for _ in builds]
    tasks = {at: next(steps) for at, steps in running.items()}
    try:
        while tasks:
            todo = [task for some in tasks.values() for task in some]
            results = iter(engine.map(run_task, todo, "indexing", progress))
            for at, some in list(tasks.items()):
                try:
                    tasks[at] = running[at].send([next(results) for _ in some])
                except StopIteration as end:
                    segments[at] = end.value
                    del tasks[at]
            failpoints.hit("indexes.built")
    finally:
        # What stays is found by a cleanup.
        with suppress(OmnigraphError):
            repository.objects.delete_folder(folder)
            for part in parts:
                repository.objects.delete_folder(index_parts.folder_of(snapshot.ref, part))
    return segments


def _steps(
    parallelism: int,
    site: _Site,
    snapshot: TableSnapshot,
    build: SegmentBuild,
    path: str,
    merged: list[Index],
) -> Generator[list[IndexTask], list[Any], list[Index]]:
    """The tasks of one segment, step by step; each step is sent what its tasks have returned.

    Args:
        parallelism: How many tasks run at a time.
        site: What is indexed.
        snapshot: The same.
        build: The segment.
        path: Where to put what was learned.
        merged: Collects the parts that nobody needs once the segment is there.

    Returns:
        The segment, or several; none when there is nothing to build.
    """
    count = max(parallelism, index_parts.bytes_of(snapshot, [build]) // _PART)
    divided = index_parts.divided(snapshot, build, count)
    if len(divided) < 2:
        (segment,) = yield [WholeTask(site, build)]
        return [] if segment is None else [segment]
    learned = None
    if index_parts.has_to_learn(build):
        (learned,) = yield [LearnTask(site, build, path)]
        if learned is None:
            return []
    results = yield [PartTask(site, part, learned) for part in divided]
    parts = [part for part in results if part is not None]
    if not parts:
        return []
    if not index_parts.are_segments(build):
        merged += parts
        parts = yield [PutTogetherTask(site, build, tuple(parts))]
    return index_parts.covering(build, parts)
