"""`QueryBatches`: the answer to a query in Arrow batches, computed while they are read."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from types import TracebackType

import pyarrow as pa

from omnigraph.language.query.compiled import ResultField
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.results.header import ResultHeader

#: A batch does not get larger than about this, however many rows it may have.
_BATCH_BYTES = 8 << 20


class QueryBatches(ResultHeader):
    """The rows that a query returns, batch by batch; they can be read once.

    Close it when not all of it was read, or use it as a context manager.

    Args:
        batches: The batches, with one column for each field, of the field's Arrow type.
        fields: The columns.
        commit: The commit that is read.
        branch: The branch that it is on, if there is one.
        query: The query's name.

    Example:
        >>> with graph.query_batches(text) as batches:
        ...     for batch in batches:
        ...         print(batch.num_rows)
    """

    __slots__ = ("_batches",)

    def __init__(
        self,
        batches: Generator[pa.RecordBatch],
        fields: tuple[ResultField, ...],
        commit: str,
        branch: str | None,
        query: str,
    ) -> None:
        self._batches = batches
        super().__init__(fields, commit, branch, query)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        return schema_of(self._fields)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a pyarrow reader of the batches, which DuckDB, polars and others read as well."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def close(self) -> None:
        """Stop the query."""
        self._batches.close()

    def __enter__(self) -> QueryBatches:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueryBatches: {', '.join(self.columns)}, commit {self._commit}>"


def schema_of(fields: Iterable[ResultField]) -> pa.Schema:
    """The Arrow schema of an answer."""
    return pa.schema([(field.name, arrow_type(field.type)) for field in fields])


def as_fields(table: pa.Table, fields: Sequence[ResultField]) -> pa.Table:
    """A table with the Arrow types of an answer."""
    if table.schema.types == [arrow_type(field.type) for field in fields]:
        return table
    return table.cast(schema_of(fields))


def in_batches(
    blocks: Iterable[list[pa.Array]], schema: pa.Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    """Columns that come piece by piece, as batches of at most so many rows.

    Small pieces are put together, so that selective queries do not return batches of a row each.
    """
    pending: list[pa.Table] = []
    count = size = 0
    for columns in blocks:
        table = pa.Table.from_arrays(columns, names=schema.names)
        pending.append(table if table.schema.types == schema.types else table.cast(schema))
        count += table.num_rows
        size += table.nbytes
        if count >= rows or size >= _BATCH_BYTES:
            yield from _batches(pending, rows)
            pending, count, size = [], 0, 0
    if pending:
        yield from _batches(pending, rows)


def _batches(tables: list[pa.Table], rows: int) -> Iterator[pa.RecordBatch]:
    yield from pa.concat_tables(tables).combine_chunks().to_batches(max_chunksize=rows)
