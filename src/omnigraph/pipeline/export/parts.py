"""One task of an export: some fragments of one table, written to one file.

A task is small and can be sent anywhere: it names the table, its version and its fragments, and
opens them itself. The rows are read, turned into text and written in portions.
"""

from __future__ import annotations

import base64
import platform
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmnigraphError, ResourceLimit, UsageError
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.pipeline.formats.json_writer import RowColumn, RowForm, json_cells, json_lines
from omnigraph.results.columns import slices, texts
from omnigraph.results.formats import csv_cells
from omnigraph.storage.blobs import open_blob, with_blobs
from omnigraph.storage.buckets import ObjectWriter, is_in_bucket
from omnigraph.storage.location import Location
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import ROW_ID, TableRef
from omnigraph.storage.tables import Tables

#: What an export writes.
Format = Literal["jsonl", "parquet", "csv"]
#: How files of JSON lines are compressed; None is not at all.
Compression = Literal["gzip", "zstd"]

#: So many bytes of blob values are in memory at a time.
_BLOB_BYTES = 16 << 20
#: The text of a larger value could not be in one column with anything else.
_LARGEST_BLOB = 1 << 30
#: Compression that is about as fast as making the text.
_LEVEL = 1
_ROW_GROUP_BYTES = 64 << 20
_ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class PartTask:
    """Fragments of a table that are written to one new file in a folder.

    Attributes:
        location: The graph.
        ref: The table.
        version: The version that is read.
        fragments: Which of its fragments.
        form: What its rows look like.
        format: How they are written.
        compression: How JSON lines are compressed.
        folder: Where the file is made; None for a stream.
    """

    location: str
    ref: TableRef
    version: int
    fragments: tuple[int, ...]
    form: RowForm
    format: Format
    compression: Compression | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What a task has written: the path of its file, and how many rows and bytes it has."""

    path: str
    rows: int
    bytes: int


def write_part(task: PartTask) -> Part:
    """Run a task. Each run makes a file of its own, so that a task may run twice."""
    assert task.folder is not None
    path = f"{task.folder}/part-{secrets.token_hex(8)}"
    try:
        with _new_file(path) as file:
            if task.format == "parquet":
                rows = _write_parquet(task, file)
            else:
                rows = 0
                for count, data in portions(task):
                    file.write(data)
                    rows += count
            size = file.tell()
    except FileNotFoundError:
        raise UsageError(
            f"the task on {platform.node()} does not see the folder {task.folder}: export to a"
            " folder that all machines share, or with the local engine"
        ) from None
    except OSError as error:
        raise OmnigraphError(
            f"{task.folder}: cannot be written: {error.strerror}", code="os_error"
        ) from error
    return Part(path, rows, size)


@contextmanager
def _new_file(path: str) -> Iterator[Any]:
    """A file to write, here or in a bucket; there it appears when it is whole."""
    if not is_in_bucket(path):
        with open(path, "xb") as file:
            yield file
        return
    writer = ObjectWriter(path)
    yield writer
    writer.close()


def portions(task: PartTask) -> Iterator[tuple[int, Any]]:
    """Give the text of a task, some rows at a time: their number, and bytes."""
    codec = None
    if task.compression is not None:
        codec = pa.Codec(task.compression, compression_level=_LEVEL)
    if task.format == "csv":
        yield 0, (",".join(column.name for column in task.form.columns) + "\n").encode()
    make = _csv_lines if task.format == "csv" else json_lines
    for rows in _rows(task):
        lines = make(task.form, _with_blob_texts(task.form, rows))
        data = _content(lines)
        # Compressed parts that follow each other are one compressed file.
        yield len(lines), data if codec is None else codec.compress(data)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of a table; the columns are in the order of the form."""

    snapshot: TableSnapshot
    batch: pa.RecordBatch
    columns: list[pa.Array]


def _rows(task: PartTask) -> Iterator[_Rows]:
    if not task.fragments:
        return
    snapshot = Tables(Location(task.location)).open(task.ref, task.version)
    names = [column.stored for column in task.form.columns]
    blobs = any(column.type.is_blob for column in task.form.columns)
    for batch in snapshot.batches(names, places=blobs, fragments=task.fragments):
        read = (
            with_blobs(snapshot, batch, _BLOB_BYTES) if blobs else [pa.Table.from_batches([batch])]
        )
        for table in read:
            for rows in slices(table):
                yield _Rows(snapshot, rows, [rows.column(name) for name in names])


def _content(lines: pa.Array) -> pa.Buffer:
    """The bytes of all texts of a column, one after the other."""
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    start, end = ends[lines.offset], ends[lines.offset + len(lines)]
    return data.slice(start, end - start)


def _csv_lines(form: RowForm, columns: Sequence[pa.Array]) -> pa.Array:
    cells = [_csv_column(c, a) for c, a in zip(form.columns, columns, strict=True)]
    lines = pc.binary_join_element_wise(*cells, ",", null_handling="replace", null_replacement="")
    return pc.binary_join_element_wise(lines, "\n", "")


def _csv_column(column: RowColumn, array: pa.Array) -> pa.Array:
    if not column.type.is_scalar:
        return csv_cells(json_cells(array, column.type))
    if column.type.is_blob:
        return csv_cells(array)
    cells = texts(array, column.type)
    return csv_cells(cells) if column.type.is_text else cells


# --- blobs ---


def _with_blob_texts(form: RowForm, rows: _Rows) -> list[pa.Array]:
    return [
        _blob_texts(rows, column, array) if column.type.is_blob else array
        for column, array in zip(form.columns, rows.columns, strict=True)
    ]


def _blob_texts(rows: _Rows, column: RowColumn, values: pa.Array) -> pa.Array:
    """Blob values as text: `base64:…`, or the URI of a file elsewhere."""
    texts: list[str | None] = []
    row_ids = rows.batch.column(ROW_ID).to_pylist()
    for row_id, value in zip(row_ids, values.to_pylist(), strict=True):
        if value is None:
            texts.append(None)
        elif value["uri"] is not None and value["size"] is None:
            texts.append(value["uri"])
        else:
            data = value["data"]
            if data is None:
                # A part of a file has no URI of its own.
                stream = open_blob(rows.snapshot, column.name, row_id)
                assert stream is not None
                with stream:
                    data = stream.read()
            if len(data) > _LARGEST_BLOB:
                raise ResourceLimit(
                    f"a value of `{column.name}` has {len(data):,} bytes, which is too much for a"
                    " line of text; export to Parquet instead",
                    resource="blob_bytes",
                    limit=_LARGEST_BLOB,
                )
            texts.append("base64:" + base64.b64encode(data).decode())
    return pa.array(texts, pa.utf8())


# --- Parquet ---


def _write_parquet(task: PartTask, file: Any) -> int:
    from pyarrow import parquet

    schema = pa.schema(
        [pa.field(c.name, arrow_type(c.type), c.type.nullable) for c in task.form.columns]
    )
    written = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        for rows in _rows(task):
            waiting.append(pa.record_batch(rows.columns, schema=schema))
            if (
                sum(b.nbytes for b in waiting) >= _ROW_GROUP_BYTES
                or sum(b.num_rows for b in waiting) >= _ROW_GROUP_ROWS
            ):
                written += _write_group(writer, waiting)
        written += _write_group(writer, waiting)
    return written


def _write_group(writer: Any, waiting: list[pa.RecordBatch]) -> int:
    if not waiting:
        return 0
    table = pa.Table.from_batches(waiting)
    writer.write_table(table, row_group_size=max(1, table.num_rows))
    waiting.clear()
    return int(table.num_rows)
