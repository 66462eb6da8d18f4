"""Filling vectors of rows that are there: those that are null, from the texts that `@embed` names.

Rows are read, embedded and written a portion at a time, to files that nothing refers to; all of
them become one commit at the end. Values that are not vectors stay as they are, blobs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.sql import quoted
from omnigraph.embedding.embedder import Embedder
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.pipeline.engine import Progress
from omnigraph.pipeline.formats.json_reader import Rows
from omnigraph.pipeline.load.embed_rows import TextEmbedding, embed_rows
from omnigraph.pipeline.load.run import BulkChange
from omnigraph.settings import Settings
from omnigraph.storage.blobs import with_blobs
from omnigraph.storage.bulk import WrittenFile, delete_files, write_files
from omnigraph.storage.staged import ROWS_PER_FRAGMENT
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, TableRef, TableSnapshot
from omnigraph.writes.digests import request_digest
from omnigraph.writes.mutate import MutationResult, TypeCounts
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.vectors import embedded
from omnigraph.writes.view import View

#: So many bytes of rows are gathered before they are written.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class LoadedEmbedding(TextEmbedding):
    """An embedder that the caller has loaded already."""

    loaded: Embedder

    def embedder(self) -> Embedder:
        """The embedder."""
        return self.loaded


def fill_vectors(
    repository: Repository,
    settings: Settings,
    embedder: Embedder,
    names: Sequence[str] | None,
    branch: str,
    options: CommitOptions,
    progress: Progress,
) -> MutationResult:
    """Fill vectors; see `Graph.embed`.

    Args:
        repository: The graph.
        settings: Its settings.
        embedder: What makes the vectors.
        names: Only these node and edge types; None is all.
        branch: Where.
        options: What the caller says about the commit.
        progress: Is called with how far it is.
    """
    schema = repository.history.present(branch).state.schema
    types = _types(repository.history.schemas.catalog(schema), names)
    filling = _Filling(repository, LoadedEmbedding(settings, embedder), types, schema, progress)
    digest = request_digest(options.idempotency_key, "embed", repr(names))
    return filling.run(branch, options, digest)


def _types(catalog: Catalog, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types whose vectors are filled, in the order of the schema."""
    filled = [type for type in catalog.tables() if embedded(type)]
    if names is None:
        return filled
    with_vectors = [type.name for type in filled]
    for name in names:
        if catalog.type(name).name not in with_vectors:
            others = f"; those with one are {', '.join(with_vectors)}" if with_vectors else ""
            raise UsageError(f"{name} has no vector with `@embed`{others}")
    return [type for type in filled if type.name in names]


@dataclass
class _Filled:
    """What is written for one table."""

    files: list[WrittenFile] = field(default_factory=list)
    replaced: list[npt.NDArray[np.uint64]] = field(default_factory=list)

    @property
    def addresses(self) -> npt.NDArray[np.uint64]:
        return np.concatenate([np.zeros(0, np.uint64), *self.replaced])


@dataclass
class _Filling:
    """One run over all tables."""

    repository: Repository
    embedding: TextEmbedding
    types: Sequence[NodeType | EdgeType]
    schema: str
    progress: Progress
    _filled: dict[str, _Filled] = field(default_factory=dict)
    _places: dict[str, TableRef] = field(default_factory=dict)
    #: The protocol has what was written: it may become part of the graph at any later time.
    _handed: bool = False

    def run(self, branch: str, options: CommitOptions, digest: str | None) -> MutationResult:
        request = WriteRequest(
            branch,
            self._prepare,
            True,
            options,
            writer="embed",
            is_long=True,
            request_digest=digest,
            schema=self.schema,
        )
        try:
            written = write(self.repository, request)
        finally:
            if not self._handed:
                self._discard()
        counts = {name: TypeCounts(updated=t.replaced) for name, t in written.tables.items()}
        catalog = self.repository.history.schemas.catalog(self.schema)
        return MutationResult(
            written.commit,
            branch,
            {name: counts[name] for name in catalog.nodes if name in counts},
            {name: counts[name] for name in catalog.edges if name in counts},
            written.repeated,
        )

    def _prepare(self, view: View) -> Mapping[str, Change]:
        # Another writer was faster: the files are for rows that may have changed since.
        self._handed = False
        self._discard()
        changes: dict[str, Change] = {}
        for type in self.types:
            table = view.published(type.name)
            self._places[type.name] = table.ref
            filled = self._filled[type.name] = _Filled()
            self._fill(type, view.table(type.name).noted(), filled)
            addresses = filled.addresses
            outcome = TableOutcome(0, len(addresses), 0)
            changes[type.name] = BulkChange(filled.files, addresses, False, table.ref, outcome)
        self._handed = True
        return changes

    def _fill(self, type: NodeType | EdgeType, snapshot: TableSnapshot, filled: _Filled) -> None:
        where = _missing(type)
        count = snapshot.count(where)
        if not count:
            return
        self.progress.stage(f"embedding {type.name}", count)
        waiting: list[pa.Table] = []
        done = 0
        for rows in _portions(type, snapshot, where):
            done += rows.num_rows
            waiting.append(self._embedded_rows(type, rows))
            enough = sum(table.num_rows for table in waiting) >= ROWS_PER_FRAGMENT
            if enough or sum(table.nbytes for table in waiting) >= _MOST_BYTES:
                _write(type, snapshot, waiting, filled)
                waiting = []
            self.progress.advance(done)
        _write(type, snapshot, waiting, filled)

    def _embedded_rows(self, type: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
        """The rows that have got a vector; those whose text is blank have not."""
        filled = embed_rows(
            type, Rows(rows, np.arange(rows.num_rows)), self.embedding, self.repository.objects
        )
        changed = pa.repeat(pa.scalar(False), rows.num_rows)
        for property in embedded(type):
            before, after = rows[property.name], filled[property.name]
            changed = pc.or_(changed, pc.not_equal(before.is_valid(), after.is_valid()))
        return filled.filter(changed)

    def _discard(self) -> None:
        """Delete files that were written for nothing; what stays is found by a cleanup."""
        for name, filled in self._filled.items():
            with suppress(OmnigraphError):
                delete_files(self.repository.objects, filled.files, self._places[name])
        self._filled.clear()


def _missing(type: NodeType | EdgeType) -> str:
    """Finds the rows that have a text but not its vector."""
    parts = [
        f"({quoted(p.name)} is null and {quoted(p.embed.source)} is not null)"
        for p in embedded(type)
        if p.embed is not None
    ]
    return " or ".join(parts)


def _portions(type: NodeType | EdgeType, snapshot: TableSnapshot, where: str) -> Iterator[pa.Table]:
    """Whole rows with their places, blobs in the form in which they can be written again."""
    for batch in snapshot.batches(table_schema(type).names, where, places=True):
        yield from with_blobs(snapshot, batch, _MOST_BYTES)


def _write(
    type: NodeType | EdgeType, snapshot: TableSnapshot, waiting: list[pa.Table], filled: _Filled
) -> None:
    rows = pa.concat_tables(waiting) if waiting else None
    if rows is None or not rows.num_rows:
        return
    schema = table_schema(type)
    whole = pa.Table.from_arrays([rows[name] for name in schema.names], schema=schema)
    filled.files += write_files(snapshot, whole, rows[ROW_ID])
    filled.replaced.append(rows[ROW_ADDRESS].to_numpy())
