"""Writing rows of a node or edge type from Spark, in one commit.

The executors stage their partitions as a load does; the driver checks all of them together and
publishes. Nothing is visible before. If a task fails, what all others have told the driver of goes;
what one staged that was stopped midway is a leftover, which `cleanup` removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec import structs
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.history.repository import Repository
from omnigraph.pipeline.engine import LocalEngine, Silent
from omnigraph.pipeline.load.embed_rows import embedding_for
from omnigraph.pipeline.load.inputs import Part, table_blocks
from omnigraph.pipeline.load.run import Begun, Loading, LoadOptions
from omnigraph.pipeline.load.staging import StagedPart, StagedRows, StageTask, stage_blocks
from omnigraph.pipeline.spark.source_errors import plain_errors
from omnigraph.settings import Settings
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes
from omnigraph.writes.opening import open_for_writing


@dataclass(frozen=True)
class StagedMessage(WriterCommitMessage):
    """What a task tells the driver."""

    part: StagedPart


class OmnigraphWriter(DataSourceArrowWriter):
    """Writes rows of one type.

    Args:
        repository: The graph.
        settings: The settings.
        type: What the rows are.
        options: How they are written.
    """

    def __init__(
        self, repository: Repository, settings: Settings, type: str, options: LoadOptions
    ) -> None:
        self.location = str(repository.location)
        self.settings = settings
        self.type = type
        self.options = options
        self.part = Part("", "", "frame", type=type)
        self.begun = self._loading(repository, None, ()).begin()
        self.embedding = embedding_for(self.begun.context.catalog, settings)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stage a partition; see `DataSourceArrowWriter`."""
        context = TaskContext.get()
        assert context is not None
        with plain_errors():
            task = StageTask(
                self.begun.context, self.part, context.partitionId(), embedding=self.embedding
            )
            return StagedMessage(stage_blocks(task, table_blocks(iterator, 0, self.type, {})))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Check all partitions and publish them; see `DataSourceWriter`."""
        with plain_errors():
            parts = _parts(messages)
            if self.options.mode == "overwrite":
                # No rows are rows too: all that is there goes.
                number = max((part.number for part in parts), default=-1) + 1
                parts.append(StagedPart(number, types={self.type: StagedRows()}))
            self._loading(self._repository(), self.begun, parts).run()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what was staged; see `DataSourceWriter`."""
        if None not in messages:
            # All tasks were done: `commit` has failed, and knows itself what may be deleted.
            return
        with plain_errors():
            self._loading(self._repository(), self.begun, _parts(messages)).abandon()

    def _repository(self) -> Repository:
        return writable(Location(self.location), self.settings)

    def _loading(
        self, repository: Repository, begun: Begun | None, staged: Sequence[StagedPart]
    ) -> Loading:
        count = max((part.number for part in staged), default=-1) + 1
        return Loading(
            repository,
            LocalEngine(),
            Silent(),
            self.options,
            self.settings,
            [self.part] * count,
            begun=None if begun is None else replace(begun, parts=staged),
        )


def writable(location: Location, settings: Settings) -> Repository:
    """Open a graph to write to it."""
    times = LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds)
    repository = open_for_writing(location, times=times)
    return structs.replace(repository, external_blobs=settings.external_blobs)


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[StagedPart]:
    return [message.part for message in messages if isinstance(message, StagedMessage)]
