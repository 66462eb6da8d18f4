"""Snapshot: one state of a graph, for reading."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.arguments import checks_arguments
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.history.manifest import ManifestState, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Revision
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.arrow import table_schema
from omnigraph.query.budget import Budget
from omnigraph.query.engine import Execution
from omnigraph.query.explain import ExplainedStep, Ran, explained
from omnigraph.query.matching import Measured
from omnigraph.query.prepared import prepare
from omnigraph.query.source import Source
from omnigraph.query.tables.caches import Caches
from omnigraph.results.batches import in_batches

if TYPE_CHECKING:
    from omnigraph.blobs import EntityKind
    from omnigraph.pipeline.export.run import ExportSource
    from omnigraph.storage.blobs import BlobStream, ByteRange
    from omnigraph.storage.tables import TableSnapshot


@checks_arguments
class Snapshot(Struct, frozen=True):
    """One state of the graph. It never changes, whatever others write.

    Also when its branch is deleted it can be read, until a cleanup removes what only that had.
    """

    _repository: Repository
    branch: str
    commit: str
    _state: ManifestState
    _home: str
    _epoch: int

    @staticmethod
    def _of(repository: Repository, found: Revision) -> Snapshot:
        """The state that was found."""
        return Snapshot(
            repository, found.branch, found.commit, found.state, found.home, found.epoch
        )

    @property
    def _revision(self) -> Revision:
        return Revision(self.branch, self._home, self.commit, self._state, self._epoch)

    def __repr__(self) -> str:
        return f"<Snapshot of {self._repository.location}: {self.branch} at {self.commit}>"

    @property
    def tables(self) -> tuple[PublishedTable, ...]:
        """The tables with their published versions: node types, then edge types, by name."""
        return tuple(
            sorted(self._state.tables.values(), key=lambda t: (t.key.startswith("edge:"), t.key))
        )

    def read(
        self, type: str, columns: list[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Read the rows of a node or edge type.

        Args:
            type: The type.
            columns: Which columns; all unless given.
            where: A predicate for the rows, in SQL.

        Raises:
            NotFound: There is no such type or column, or the snapshot's branch was deleted.
            UsageError: The predicate cannot be understood, or a column is named twice.
        """
        table = self._table(type)
        self._check_columns(type, columns or [])
        with self._opened(table) as opened:
            if where is not None:
                opened.check_predicate(where)
            return opened.read(columns, where)

    def count(self, type: str) -> int:
        """How many rows a type has."""
        return self._table(type).rows

    def to_dict(self) -> dict[str, Any]:
        """Give the snapshot as plain values."""
        return {
            "branch": self.branch,
            "commit": self.commit,
            "tables": [t.to_dict() for t in self.tables],
        }

    def _blob(
        self, kind: EntityKind, type: str, id: str, property: str, range: ByteRange | None
    ) -> BlobStream:
        from omnigraph.blobs import check_kind, open_value

        table = self._table(type)
        check_kind(table, kind)
        with self._opened(table) as opened:
            return open_value(opened, type, id, property, range)

    def _run(
        self, plan: ReadPlan, values: Mapping[str, Any], budget: Budget, caches: Caches
    ) -> pa.Table:
        source = Source(self._repository, self._state, caches)
        try:
            with self._confirmed():
                prepared = caches.plans.get(plan, source)
                lookup = prepared.lookup
                table = None if lookup is None else lookup.table(source, values, budget)
                if table is None:
                    execution = Execution(
                        prepared, source, values, budget, embedder=caches.embedder
                    )
                    table = execution.table()
        finally:
            source.release()
        source.write_later()
        return table

    def _batches(
        self,
        plan: ReadPlan,
        values: Mapping[str, Any],
        budget: Budget,
        caches: Caches,
        schema: pa.Schema,
        rows: int,
    ) -> Generator[pa.RecordBatch]:
        source = Source(self._repository, self._state, caches)
        with self._confirmed():
            prepared = caches.plans.get(plan, source)
            execution = Execution(prepared, source, values, budget, embedder=caches.embedder)
        return self._read_batches(execution, schema, rows)

    def _read_batches(
        self, execution: Execution, schema: pa.Schema, rows: int
    ) -> Generator[pa.RecordBatch]:
        budget = execution.budget
        # The time before the first batch is asked for is not the query's.
        budget.restart()
        try:
            with self._confirmed():
                for batch in in_batches(execution.pieces(), schema, rows):
                    with budget.paused():
                        yield batch
        finally:
            execution.source.release()
        execution.source.write_later()

    def _explain(
        self,
        plan: ReadPlan,
        values: Mapping[str, Any],
        budget: Budget,
        caches: Caches,
        analyze: bool,
    ) -> tuple[ExplainedStep, ...]:
        source = Source(self._repository, self._state, caches)
        self._repository.history.confirm(self._epoch)
        prepared = prepare(plan, source)
        execution = Execution(prepared, source, values, budget, embedder=caches.embedder)
        if not analyze:
            return explained(plan, execution.steps, None)
        begun = time.perf_counter()
        try:
            rows = execution.table().num_rows
        finally:
            source.release()
        answer = Measured(rows, time.perf_counter() - begun)
        ran = Ran(execution.matcher.measured, execution.finished, answer)
        return explained(plan, execution.steps, ran)

    def _export_source(self) -> ExportSource:
        from omnigraph.pipeline.export.run import ExportSource

        tables = self.tables
        return ExportSource(self._repository, self.branch, self.commit, tables, self._confirmed)

    @contextmanager
    def _opened(self, table: PublishedTable) -> Iterator[TableSnapshot]:
        self._repository.history.confirm(self._epoch)
        with self._confirmed():
            yield self._repository.tables.open(table.ref, table.version)

    @contextmanager
    def _confirmed(self) -> Iterator[None]:
        """Check after reading that it was the graph, and tell if a branch is cleaned up."""
        try:
            yield
        except (NotFound, StorageError):
            self._repository.history.confirm(self._epoch)
            for table in self.tables:
                known = self._repository.tables.branches(table.path) if table.branch else ()
                if table.branch is not None and table.branch not in known:
                    raise NotFound(
                        f"the branch `{self.branch}` of this snapshot was deleted, and a cleanup"
                        " has removed its tables"
                    ) from None
            raise
        self._repository.history.confirm(self._epoch)

    def _check_columns(self, type: str, columns: list[str]) -> None:
        for name, count in Counter(columns).items():
            if count > 1:
                raise UsageError(f"the column `{name}` is named twice")
        declared = self._repository.catalog.table(type)
        known = [] if declared is None else table_schema(declared).names
        for name in columns if known else []:
            if name not in known:
                hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
                raise NotFound(f"{type} has no column `{name}`; {hint}")

    def _table(self, type: str) -> PublishedTable:
        table = self._state.by_name(type)
        if table is None:
            hint = did_you_mean(type, [t.name for t in self.tables])
            raise NotFound(f"the graph has no type `{type}`" + (f"; {hint}" if hint else ""))
        return table
