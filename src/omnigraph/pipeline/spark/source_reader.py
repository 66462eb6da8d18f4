"""Reading a node or edge type from Spark: one commit, in groups of fragments.

The driver finds out what is read; every task opens the table's version itself.

There is no `pushFilters`: Spark 4.3 keeps what was planned for one query of a DataFrame, and reads
with its filters in others too (`tests/pipeline/test_datasource.py` shows it). A condition for Lance
is part of what is read, as the columns are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.diagnostics import did_you_mean, with_hint
from omnigraph.errors import NotFound, ResourceLimit, StorageError, UsageError
from omnigraph.history.manifest import MAIN, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import revision_of
from omnigraph.language.types import Scalar, ValueType
from omnigraph.pipeline.export.run import fragment_groups, row_form
from omnigraph.pipeline.formats.json_writer import RowColumn
from omnigraph.pipeline.spark.source_errors import plain_errors
from omnigraph.storage.blobs import open_blob, with_blobs
from omnigraph.storage.location import Location
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.tables import Tables

#: What the first column of a DataFrame tells in its metadata: the commit that it is of.
COMMIT = "omnigraph.commit"
#: A table is read in about so many partitions, unless they would get too small or too large.
_PARTITIONS = 32
_LEAST_ROWS, _MOST_ROWS = 64 << 10, 1 << 20
_BLOB_BYTES = 16 << 20
_LARGEST_BLOB = 1 << 30
_SCALARS: dict[Scalar, DataType] = {
    Scalar.STRING: StringType(),
    Scalar.BOOL: BooleanType(),
    Scalar.I32: IntegerType(),
    Scalar.I64: LongType(),
    # Spark has no unsigned integers.
    Scalar.U32: LongType(),
    Scalar.U64: DecimalType(20, 0),
    Scalar.F32: FloatType(),
    Scalar.F64: DoubleType(),
    Scalar.DATE: DateType(),
    Scalar.DATETIME: TimestampType(),
    Scalar.BLOB: BinaryType(),
}


@dataclass(frozen=True)
class Pinned:
    """A type at one commit.

    Attributes:
        location: The graph.
        type: The type.
        branch: The branch that the commit is on.
        commit: The commit.
        table: The table's version.
        columns: All its columns.
        chosen: Those that are read.
        where: A predicate for the rows that are read.
    """

    location: str
    type: str
    branch: str
    commit: str
    table: PublishedTable
    columns: tuple[RowColumn, ...]
    chosen: tuple[RowColumn, ...]
    where: str | None = None

    @property
    def schema(self) -> StructType:
        """The columns that are read, as Spark knows them."""
        fields = [
            StructField(column.name, spark_type(column.type), column.type.nullable)
            for column in self.chosen
        ]
        fields[0].metadata = {COMMIT: self.commit}
        return StructType(fields)


def spark_type(type: ValueType) -> DataType:
    """What a value is in Spark."""
    scalar = _SCALARS[type.scalar]
    return scalar if type.is_scalar else ArrayType(scalar, containsNull=False)


def pin(
    repository: Repository,
    type: str,
    *,
    branch: str = MAIN,
    commit: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> Pinned:
    """Find out what is read.

    Args:
        repository: The graph.
        type: A node or edge type.
        branch: Read at the head of this branch.
        commit: Read at this commit, by its id or tag, instead.
        columns: Which columns; None is all but those of Blobs.
        where: A predicate for the rows.

    Raises:
        NotFound: There is no such branch, commit, type or column.
        UsageError: The predicate cannot be understood.
    """
    revision = revision_of(repository.history, branch, commit)
    state = revision.state
    table = state.by_name(type)
    if table is None:
        known = sorted(t.name for t in state.tables.values())
        raise NotFound(with_hint(f"the graph has no type `{type}`", type, known))
    snapshot = repository.tables.open(table.ref, table.version)
    every = row_form(table, snapshot, repository.catalog_of(state)).columns
    if columns is None:
        chosen = tuple(column for column in every if not column.type.is_blob)
    else:
        chosen = tuple(_column(type, every, name) for name in columns)
    if where is not None:
        snapshot.check_predicate(where)
    location = str(repository.location)
    return Pinned(location, type, revision.branch, revision.commit, table, every, chosen, where)


def _column(type: str, columns: Sequence[RowColumn], name: str) -> RowColumn:
    known = {column.name: column for column in columns}
    if name not in known:
        hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
        raise NotFound(f"{type} has no column `{name}`; {hint}")
    return known[name]


@dataclass(frozen=True)
class FragmentGroup(InputPartition):
    """Fragments of the table that one task reads."""

    fragments: tuple[int, ...]


class OmnigraphReader(DataSourceReader):
    """Reads a type at one commit.

    Args:
        pinned: What is read.
        schema: The columns that Spark wants.
    """

    def __init__(self, pinned: Pinned, schema: StructType) -> None:
        self.pinned = pinned
        self.schema = schema
        self.columns = tuple(_asked(pinned, field) for field in schema.fields)

    def partitions(self) -> Sequence[FragmentGroup]:
        """Divide the fragments into groups of a good size; see `DataSourceReader`."""
        with plain_errors():
            table = self.pinned.table
            snapshot = self._open()
            most = min(max(-(-table.rows // _PARTITIONS), _LEAST_ROWS), _MOST_ROWS)
            return [FragmentGroup(group) for group in fragment_groups(snapshot, most) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read some fragments; see `DataSourceReader`."""
        assert isinstance(partition, FragmentGroup)
        with plain_errors():
            if not partition.fragments:
                return
            try:
                yield from self._batches(self._open(), partition.fragments)
            except (NotFound, StorageError):
                self._refuse_cleaned()
                raise

    def _open(self) -> TableSnapshot:
        table = self.pinned.table
        return Tables(Location(self.pinned.location)).open(table.ref, table.version)

    def _batches(
        self, snapshot: TableSnapshot, fragments: Sequence[int]
    ) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self.schema, timezone="UTC")
        names = [column.stored for column in self.columns]
        where = self.pinned.where
        blobs = any(column.type.is_blob for column in self.columns)
        for batch in snapshot.batches(names, where, places=blobs, fragments=fragments):
            if not blobs:
                yield _fitted(batch, names, schema)
                continue
            for rows in with_blobs(snapshot, batch, _BLOB_BYTES):
                for column in self.columns:
                    if column.type.is_blob:
                        rows = _with_bytes(snapshot, rows, column.name)
                for part in rows.combine_chunks().to_batches():
                    yield _fitted(part, names, schema)

    def _refuse_cleaned(self) -> None:
        pinned, table = self.pinned, self.pinned.table
        known = Tables(Location(pinned.location)).branches(table.path)
        if table.branch is not None and table.branch not in known:
            raise NotFound(
                f"the branch `{pinned.branch}` was deleted and cleaned up while it was read"
            )


def _asked(pinned: Pinned, field: StructField) -> RowColumn:
    column = _column(pinned.type, pinned.columns, field.name)
    have = spark_type(column.type).simpleString()
    if field.dataType.simpleString() != have:
        raise UsageError(
            f"`{field.name}` of {pinned.type} is {have} in Spark, not"
            f" {field.dataType.simpleString()}: leave the schema out, and cast afterwards"
        )
    return column


def _fitted(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(name).cast(field.type) for name, field in zip(names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_bytes(snapshot: TableSnapshot, rows: pa.Table, name: str) -> pa.Table:
    """Put the bytes of a Blob in the place of what describes it, wherever they are stored."""
    all_bytes: list[bytes | None] = []
    values = zip(rows[ROW_ID].to_pylist(), rows[name].to_pylist(), strict=True)
    for row_id, value in values:
        data = None if value is None else value["data"]
        if value is not None and data is None:
            stream = open_blob(snapshot, name, row_id)
            assert stream is not None
            with stream:
                _refuse_large(name, stream.size)
                data = stream.read()
        if data is not None:
            _refuse_large(name, len(data))
        all_bytes.append(data)
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, name, pa.array(all_bytes, pa.binary()))


def _refuse_large(name: str, size: int) -> None:
    if size > _LARGEST_BLOB:
        raise ResourceLimit(
            f"a value of `{name}` has {size:,} bytes, which is too much for a row of Spark's; read"
            " it with `Graph.read_blob`",
            resource="blob_bytes",
            limit=_LARGEST_BLOB,
        )
