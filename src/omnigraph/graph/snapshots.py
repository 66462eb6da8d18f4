"""Snapshot: one state of a graph, for reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.arguments import checks_arguments
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.confirmed import confirmed
from omnigraph.history.manifest import ManifestState, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import Revision
from omnigraph.language import Catalog
from omnigraph.language.schema.arrow import table_schema

if TYPE_CHECKING:
    from omnigraph.graph.blob_values import EntityKind
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
    def _of(repository: Repository, revision: Revision) -> Snapshot:
        """The state of a revision."""
        return Snapshot(
            repository,
            revision.branch,
            revision.commit,
            revision.state,
            revision.home,
            revision.epoch,
        )

    @property
    def _revision(self) -> Revision:
        return Revision(self.branch, self._home, self.commit, self._state, self._epoch)

    def __repr__(self) -> str:
        return f"<Snapshot of {self._repository.location}: {self.branch} at {self.commit}>"

    @property
    def manifest_version(self) -> int:
        """The version that the manifest of the branch had."""
        return self._state.version

    @property
    def catalog(self) -> Catalog:
        """The schema that the graph had in this state."""
        return self._repository.catalog_of(self._state)

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
            columns: Which columns; all by default.
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
        """Return the snapshot as plain values."""
        return {
            "branch": self.branch,
            "commit": self.commit,
            "tables": [t.to_dict() for t in self.tables],
        }

    def _blob(
        self, kind: EntityKind, type: str, id: str, property: str, range: ByteRange | None
    ) -> BlobStream:
        from omnigraph.graph.blob_values import check_kind, open_value

        table = self._table(type)
        check_kind(table, kind)
        with self._opened(table) as opened:
            return open_value(opened, type, id, property, range)

    def _export_source(self) -> ExportSource:
        from omnigraph.pipeline.export.run import ExportSource

        tables = self.tables
        return ExportSource(
            self._repository, self.branch, self.commit, tables, self.catalog, self._confirmed
        )

    @contextmanager
    def _opened(self, table: PublishedTable) -> Iterator[TableSnapshot]:
        self._repository.history.confirm(self._epoch)
        with self._confirmed():
            yield self._repository.tables.open(table.ref, table.version)

    def _confirmed(self) -> AbstractContextManager[None]:
        return confirmed(self._repository, self._revision)

    def _check_columns(self, type: str, columns: list[str]) -> None:
        for name, count in Counter(columns).items():
            if count > 1:
                raise UsageError(f"the column `{name}` is named twice")
        declared = self.catalog.table(type)
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
