"""Where a merge is done: at once, or in tasks on this process's threads or on Spark.

A small merge is done at once. What a merge in tasks writes before it is published goes again if it
is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from msgspec import structs

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import OmnigraphError
from omnigraph.merge.amount import Sizes, changed_tables, is_surely_less
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState
from omnigraph.merge.combine import Combined, Settling
from omnigraph.pipeline.choice import faster_to_merge, spark_at_hand
from omnigraph.pipeline.engine import LocalEngine, Progress, Silent
from omnigraph.pipeline.others_first import others_first
from omnigraph.pipeline.scratch import SCRATCH, close_tables
from omnigraph.pipeline.where import Where, asked_for, check_engine, new_engine
from omnigraph.settings import Settings
from omnigraph.storage.bulk import WrittenFile, delete_files
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import TableRef
from omnigraph.writes.view import View

#: How large merges are divided.
SIZES = Sizes()


@dataclass
class MergeWork:
    """Where a merge is done, and what it has written so far. A context: it leaves nothing behind.

    Attributes:
        where: What the caller has asked for.
        settings: The settings of the graph.
        writes: False for a dry run.
        sizes: How it is divided.
        progress: Is told how far it is.
    """

    where: Where
    settings: Settings
    writes: bool = True
    sizes: Sizes = field(default_factory=lambda: SIZES)
    progress: Progress = field(default_factory=Silent)
    _objects: Objects | None = None
    _folder: str = field(default_factory=lambda: f"{SCRATCH}/{new_ulid()}")
    _written: list[tuple[TableRef, Sequence[WrittenFile]]] = field(default_factory=list)
    #: The protocol has what was prepared: it may become part of the graph at any later time.
    _handed: bool = False

    def __post_init__(self) -> None:
        check_engine(self.where)

    def __enter__(self) -> MergeWork:
        return self

    def __exit__(self, *error: object) -> None:
        if self._objects is None:
            return
        close_tables()
        if not self._handed:
            self._discard()
        with suppress(OmnigraphError):
            self._objects.delete_folder(self._folder)

    def combined(
        self, view: View, base: Base, theirs: GraphState, settings: Settling, check: bool
    ) -> Combined | None:
        """See `Work`."""
        if self._objects is not None:
            # Another writer was faster: what was written on the state before is of no use.
            self._handed = False
            self._discard()
        if not all(s.has(t) for t in view.catalog.tables() for s in (base.state, theirs)):
            # A type that one side did not have yet.
            return None
        chosen = asked_for(self.where)
        if chosen != "spark" and is_surely_less(base, theirs, self.sizes.at_once):
            return None
        changed = changed_tables(base, theirs)
        size = sum(part.size for part in changed)
        if chosen != "spark" and size <= self.sizes.at_once:
            return None
        from omnigraph.merge.in_tasks import InTasks

        if chosen is None:
            threads = LocalEngine().parallelism
            chosen = faster_to_merge(size, threads, spark_at_hand(self.settings))
        engine = new_engine(chosen, self.where, self.settings)
        self._objects = view.repository.objects
        combination = InTasks(view, base, theirs, settings, self, engine, changed, check)
        with others_first() if isinstance(engine, LocalEngine) else nullcontext():
            combined = combination.run(check)
        self._handed = self.writes and not combined.conflicts
        return structs.replace(combined, more_settled=combination.more_settled)

    def trial(self) -> MergeWork:
        """See `Work`."""
        return MergeWork(self.where, self.settings, False, self.sizes, self.progress)

    @property
    def folder(self) -> str:
        """The scratch folder."""
        return self._folder

    def note_files(self, table: TableRef, files: Sequence[WrittenFile]) -> None:
        """Note files that were written, and belong to nothing yet."""
        self._written.append((table, files))

    def _discard(self) -> None:
        """Delete files that were written for nothing; what stays is found by a cleanup."""
        written, self._written = self._written, []
        for table, files in written:
            self.delete(table, files)

    def delete(self, table: TableRef, files: Sequence[WrittenFile]) -> None:
        """Delete files that were written for nothing."""
        assert self._objects is not None
        with suppress(OmnigraphError):
            delete_files(self._objects, files, table)
