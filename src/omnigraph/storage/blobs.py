"""Blob values: large bytes that are read as streams, or copied when their row is written again.

Lance keeps a value in the table's files, or only a reference to a file elsewhere. Reading a row
returns neither, but a descriptor that says where the bytes are. Here the descriptors are turned
into streams, and back into values that can be written.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobFile, BlobType

from omnigraph.errors import StorageError, UsageError
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.table_ref import ROW_ID, TableRef

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: First byte and the one after the last; None is the end of the value.
ByteRange = tuple[int, int | None]

#: What Lance's descriptors call a value that is stored elsewhere.
_EXTERNAL = 3
#: And those that share a file, or have one of their own.
_IN_FILES = (1, 2)
#: How many bytes of values are read at a time to tell them apart.
_TOKEN_BYTES = 64 << 20
_MARK = {b"ARROW:extension:name": b"lance.blob.v2", b"ARROW:extension:metadata": b""}


class BlobStream(io.RawIOBase):
    """The bytes of a blob value, or a range of them: a readable, seekable binary stream.

    Only what is read is loaded, and positions count from the start of the range. Close it, or use
    it as a context manager. What goes wrong underneath is raised as a `StorageError`.

    Attributes:
        size: How many bytes the stream has.
        total_size: How many bytes the whole value has.
        uri: Where the value is stored, if not in the graph.

    Example:
        >>> with graph.read_blob("node", "Doc", "d1", "file") as blob:
        ...     shutil.copyfileobj(blob, target)
    """

    def __init__(
        self, file: BlobFile, ref: TableRef, uri: str | None, range: ByteRange | None = None
    ) -> None:
        self._file = file
        self._ref = ref
        self._position = 0
        self.uri = uri
        self.total_size = int(file.size())
        self._start, end = _within(range, self.total_size)
        self.size = end - self._start

    def __repr__(self) -> str:
        return f"<BlobStream of {self.size} bytes>"

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Return the position in the stream."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position; after the end there is nothing to read."""
        self._check_open()
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}
        if whence not in origins:
            raise ValueError(f"there is no whence {whence}")
        if origins[whence] + offset < 0:
            raise ValueError(f"position {origins[whence] + offset} is before the start")
        self._position = origins[whence] + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Read that many bytes, or all that are left; fewer only at the end."""
        self._check_open()
        left = max(self.size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        with _blob_errors(self._ref, self.uri):
            self._file.seek(self._start + self._position)
            content = self._file.read(wanted)
        self._position += len(content)
        return content

    def readall(self) -> bytes:
        """Read all bytes that are left."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer; returns how many bytes were read."""
        view = memoryview(buffer).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the stream; closing it again does nothing."""
        if not self.closed:
            self._file.close()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the stream is closed")


def open_blob(
    snapshot: TableSnapshot, column: str, row_id: int, range: ByteRange | None = None
) -> BlobStream | None:
    """Open the value of a blob column; None when it is null. Reads nothing of the value.

    Args:
        snapshot: The table.
        column: A blob column.
        row_id: The row.
        range: Which bytes to return; all by default.

    Raises:
        NotFound: The row is not in this version.
        StorageError: The value is stored elsewhere, and is missing.
        UsageError: The column is no blob column, or the range is not within the value.
    """
    if column not in blob_columns(snapshot):
        raise UsageError(f"{column} is no blob column of table {snapshot.ref.path}")
    (descriptor,) = snapshot.take([row_id], [column])[column].to_pylist()
    if descriptor is None:
        return None
    uri = _uri(descriptor)
    with _blob_errors(snapshot.ref, uri):
        (file,) = snapshot._dataset.take_blobs(column, ids=[row_id])
    assert file is not None
    return BlobStream(file, snapshot.ref, uri, range)


def blob_columns(snapshot: TableSnapshot) -> tuple[str, ...]:
    """Return the names of a table's blob columns."""
    return tuple(field.name for field in snapshot.schema if isinstance(field.type, BlobType))


def blob_ends(descriptors: pa.Array) -> list[tuple[str, int]]:
    """The files of large values, in the folder beside their data file, and where the last one ends.

    Small values are in the data file itself; those elsewhere are in no file of the table.
    """
    kept = descriptors.drop_null()
    ends = pc.add(kept.field("position"), kept.field("size"))
    table = pa.table({"kind": kept.field("kind"), "id": kept.field("blob_id"), "end": ends})
    table = table.filter(pc.is_in(table["kind"], pa.array(_IN_FILES, table["kind"].type)))
    groups = table.group_by("id").aggregate([("end", "max")]).to_pylist()
    # The name is the number in binary, its lowest digit first.
    return [(f"{group['id']:032b}"[::-1] + ".blob", group["end_max"]) for group in groups]


def read_rewritable(
    snapshot: TableSnapshot, row_ids: Sequence[int], columns: Sequence[str]
) -> pa.Table:
    """Read rows with their blob values, in the form in which they can be written again.

    A value that the table keeps comes as bytes, all of them in memory: take large values in small
    portions. A reference to a file elsewhere stays a reference, and the file is not looked at.

    Args:
        snapshot: The table.
        row_ids: The rows, in the order in which they are returned.
        columns: What to read; blob columns among them have the struct of `table_schema`.

    Raises:
        NotFound: A row is not in this version.
    """
    return _with_values(snapshot, snapshot.take(row_ids, columns), row_ids)


def mean_size(snapshot: TableSnapshot, fragments: Sequence[int], rows: int) -> int:
    """About how many bytes the blobs of a row have, estimated from some rows."""
    columns = blob_columns(snapshot)
    if not columns or not fragments:
        return 0
    sample = snapshot.read(columns, limit=rows, fragments=fragments)
    sizes = [pc.sum(pc.struct_field(sample[name], "size")).as_py() or 0 for name in columns]
    return int(sum(sizes) // max(sample.num_rows, 1))


def with_blobs(
    snapshot: TableSnapshot, batch: pa.RecordBatch, most_bytes: int
) -> Iterator[pa.Table]:
    """Return the rows of a batch with their blob values, not too many of them at a time.

    Args:
        snapshot: The table that the batch was read from.
        batch: Rows with `_rowid`; the values have the form that `read_rewritable` returns.
        most_bytes: How many bytes of values to give at a time; a larger value comes alone.
    """
    sizes = np.zeros(batch.num_rows, np.uint64)
    for name in blob_columns(snapshot):
        if name in batch.schema.names:
            column = pc.fill_null(pc.struct_field(batch.column(name), "size"), 0)
            sizes += column.to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = max(stop, start + 1)
        rows = pa.Table.from_batches([batch.slice(start, stop - start)])
        yield _with_values(snapshot, rows, rows[ROW_ID].to_pylist())
        start = stop


def with_tokens(snapshot: TableSnapshot, rows: pa.Table, row_ids: pa.ChunkedArray) -> pa.Table:
    """Rows with texts that stand for the content of their blobs, in place of the descriptors.

    Equal texts mean equal values: a value in the table is identified by its digest, a reference
    to a file elsewhere by the file's address. Values are read a few at a time.

    Args:
        snapshot: The table that the rows were read from.
        rows: Rows with descriptors in their blob columns.
        row_ids: The rows' ids, in the same order.
    """
    for column in blob_columns(snapshot):
        if column not in rows.column_names:
            continue
        tokens: list[str | None] = []
        place = rows.schema.get_field_index(column)
        numbered = pa.table({column: rows[column], ROW_ID: row_ids})
        for batch in numbered.combine_chunks().to_batches():
            for part in with_blobs(snapshot, batch, _TOKEN_BYTES):
                tokens += [_token(value) for value in part[column].to_pylist()]
        rows = rows.set_column(place, column, pa.array(tokens, pa.utf8()))
    return rows


def _token(value: dict[str, Any] | None) -> str | None:
    if value is None:
        return None
    if value["uri"] is None:
        return f"sha256:{hashlib.sha256(value['data']).hexdigest()}"
    part = "" if value["size"] is None else f"#{value['position']}+{value['size']}"
    return f"uri:{value['uri']}{part}"


def _with_values(snapshot: TableSnapshot, rows: pa.Table, row_ids: Sequence[int]) -> pa.Table:
    """Put blob values in the place of their descriptors."""
    for column in blob_columns(snapshot):
        if column in rows.column_names:
            values = _values(snapshot, column, row_ids, rows[column].to_pylist())
            place = rows.schema.get_field_index(column)
            rows = rows.set_column(place, _plain_field(snapshot.schema.field(column)), values)
    return rows


def _values(
    snapshot: TableSnapshot,
    column: str,
    row_ids: Sequence[int],
    descriptors: Sequence[dict[str, Any] | None],
) -> pa.Array:
    """Turn descriptors into values: bytes, or references."""
    stored_ids = [
        row_id
        for row_id, descriptor in zip(row_ids, descriptors, strict=True)
        if descriptor is not None and _uri(descriptor) is None
    ]
    blobs: Sequence[tuple[int, bytes | None]] = []
    if stored_ids:
        with table_errors(snapshot.ref):
            blobs = snapshot._dataset.read_blobs(column, ids=stored_ids, preserve_order=True)
    contents = iter(blobs)
    values: list[dict[str, Any] | None] = []
    for descriptor in descriptors:
        if descriptor is None:
            values.append(None)
        elif (uri := _uri(descriptor)) is None:
            values.append({"data": next(contents)[1]})
        else:
            values.append({"uri": uri, **_part(descriptor)})
    return pa.array(values, BlobType().storage_type)


def _uri(descriptor: dict[str, Any]) -> str | None:
    return str(descriptor["blob_uri"]) if descriptor["kind"] == _EXTERNAL else None


def _part(descriptor: dict[str, Any]) -> dict[str, int]:
    """The range of the file that a reference names; nothing when it is the whole file."""
    # Lance notes a whole file as no bytes, and refuses to write a range of no bytes.
    return {name: descriptor[name] for name in ("position", "size")} if descriptor["size"] else {}


def _plain_field(field: pa.Field) -> pa.Field:
    """A blob column as `table_schema` declares it: a struct that metadata marks as a blob."""
    return pa.field(
        field.name,
        BlobType().storage_type,
        nullable=field.nullable,
        metadata={**(field.metadata or {}), **_MARK},
    )


def _within(range: ByteRange | None, size: int) -> tuple[int, int]:
    """The first byte of a range and the one after the last."""
    start, end = range or (0, None)
    last = size if end is None else end
    if not 0 <= start <= last <= size:
        shown = f"{start}:{'' if end is None else end}"
        raise UsageError(f"the range {shown} is not within the value, which has {size} bytes")
    return start, last


@contextmanager
def _blob_errors(ref: TableRef, uri: str | None) -> Iterator[None]:
    """Turn what Lance raises into a `StorageError` that names the table, and the file if any."""
    try:
        with table_errors(ref):
            yield
    except StorageError as error:
        if uri is None:
            raise
        raise StorageError(
            f"the blob at {uri} cannot be read: {error.message}", transient=error.transient
        ) from error
