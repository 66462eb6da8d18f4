"""Blob values: streams, and rows that are read to be written again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.language import compile_schema
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.blobs import BlobStream, blob_columns, open_blob, read_rewritable
from omnigraph.storage.tables import TableRef, Tables, TableSnapshot
from tests.lance_facts import lance_tables

SCHEMA = table_schema(
    compile_schema("node Doc { name: String @key  file: Blob?  note: String? }").nodes["Doc"]
)
REF = TableRef("nodes/docs")
TEXT = b"hello world"
BIG = bytes(range(256)) * 20_000
#: By id; the row ids are 0, 1, 2 … in this order.
VALUES = {"text": TEXT, "none": None, "empty": b"", "middle": b"m" * 100_000, "big": BIG}
MEGABYTE = 1 << 20


def rows(values: dict[str, Any]) -> pa.Table:
    files = [{"data": v} if isinstance(v, bytes) else v for v in values.values()]
    names = list(values)
    return pa.table({"id": names, "name": names, "file": files, "note": names}, schema=SCHEMA)


def append(tables: Tables, new: pa.Table, ref: TableRef = REF) -> None:
    """Add rows, with references to any file."""
    dataset = tables.open(ref)._dataset
    made = write_fragments(
        new,
        dataset,
        schema=dataset.schema,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=True,
    )
    lance_tables.commit(dataset, LanceOperation.Append(list(made)))


def row_id(snapshot: TableSnapshot, id: str) -> int:
    (found,) = snapshot.read(["_rowid"], where=f"id = '{id}'")["_rowid"].to_pylist()
    return int(found)


def opened(snapshot: TableSnapshot, id: str, **options: Any) -> BlobStream:
    stream = open_blob(snapshot, "file", row_id(snapshot, id), **options)
    assert stream is not None
    return stream


def contents(snapshot: TableSnapshot) -> dict[str, bytes | None]:
    found = {}
    for row in snapshot.read(["id", "_rowid"]).to_pylist():
        stream = open_blob(snapshot, "file", row["_rowid"])
        found[row["id"]] = None if stream is None else stream.read()
    return found


@pytest.fixture
def docs(tables: Tables) -> TableSnapshot:
    tables.create(REF.path, SCHEMA)
    append(tables, rows(VALUES))
    return tables.open(REF)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    path = tmp_path / "letters.txt"
    path.write_bytes(b"abcdefghij")
    return path


@pytest.fixture
def linked(tables: Tables, letters: Path) -> TableSnapshot:
    """Values that are a whole file elsewhere, a part of it, and bytes."""
    tables.create(REF.path, SCHEMA)
    whole, part = {"uri": letters.as_uri()}, {"uri": letters.as_uri(), "position": 2, "size": 3}
    append(tables, rows({"whole": whole, "part": part, "own": b"mine"}))
    return tables.open(REF)


# --- opening ---


def test_values_come_back_and_null_is_none(docs):
    assert contents(docs) == VALUES


def test_values_come_back_after_a_compaction_and_on_a_fork(tables, docs):
    append(tables, rows({"more": b"more"}))
    staged = tables.stage_compaction(tables.open(REF))
    assert staged is not None
    tables.commit_staged(staged)
    assert contents(tables.open(REF)) == {**VALUES, "more": b"more"}
    tables.create_branch(REF, tables.head(REF), "draft")
    draft = TableRef(REF.path, "draft")
    append(tables, rows({"own": b"own"}), draft)
    assert contents(tables.open(draft)) == {**VALUES, "more": b"more", "own": b"own"}


def test_the_blob_columns_are_known(docs, tables):
    assert blob_columns(docs) == ("file",)


def test_a_row_that_is_gone_is_not_found(docs):
    with pytest.raises(NotFound, match="nodes/docs"):
        open_blob(docs, "file", 999)


@pytest.mark.parametrize("column", ["name", "nothing"])
def test_another_column_is_refused(docs, column):
    with pytest.raises(UsageError, match=f"{column} is no blob column of table nodes/docs"):
        open_blob(docs, column, 0)


def test_opening_and_reading_a_part_reads_little_of_a_large_value(tables, docs):
    append(tables, rows({"huge": bytes(60 * MEGABYTE)}))
    snapshot = tables.open(REF)
    place = row_id(snapshot, "huge")
    snapshot._dataset.io_stats_incremental()
    stream = open_blob(snapshot, "file", place)
    assert stream is not None
    assert stream.size == 60 * MEGABYTE
    assert snapshot._dataset.io_stats_incremental().read_bytes < 20_000
    stream.seek(50 * MEGABYTE)
    assert stream.read(1000) == bytes(1000)
    assert snapshot._dataset.io_stats_incremental().read_bytes <= MEGABYTE


def test_reading_in_small_portions_costs_few_reads(docs):
    stream = opened(docs, "big")
    docs._dataset.io_stats_incremental()
    assert b"".join(iter(lambda: stream.read(10_000), b"")) == BIG
    assert docs._dataset.io_stats_incremental().read_iops <= 12


# --- the stream ---


def test_a_stream_has_its_size_and_is_read_in_parts(docs):
    with opened(docs, "text") as stream:
        assert (stream.size, stream.total_size, stream.uri) == (11, 11, None)
        assert stream.readable() and stream.seekable() and not stream.writable()
        assert [stream.read(5), stream.tell(), stream.read(100), stream.read(1)] == [
            b"hello",
            5,
            b" world",
            b"",
        ]
    assert repr(stream) == "<BlobStream of 11 bytes>"


def test_a_stream_can_be_searched_from_start_place_and_end(docs):
    stream = opened(docs, "text")
    assert (stream.seek(6), stream.read(2)) == (6, b"wo")
    assert (stream.seek(-1, io.SEEK_CUR), stream.read(2)) == (7, b"or")
    assert (stream.seek(-3, io.SEEK_END), stream.read()) == (8, b"rld")
    assert (stream.seek(100), stream.read(), stream.tell()) == (100, b"", 100)
    for offset, whence in ((-1, io.SEEK_SET), (-12, io.SEEK_END), (0, 9)):
        with pytest.raises(ValueError, match=r"before the start|no whence"):
            stream.seek(offset, whence)
    assert stream.tell() == 100


def test_a_stream_works_with_buffers_lines_and_copies(tables, docs, tmp_path):
    append(tables, rows({"lines": b"one\ntwo\n\nthree"}))
    snapshot = tables.open(REF)
    assert list(opened(snapshot, "lines")) == [b"one\n", b"two\n", b"\n", b"three"]
    with io.TextIOWrapper(io.BufferedReader(opened(snapshot, "lines"))) as text:
        assert text.read().split() == ["one", "two", "three"]
    buffer = bytearray(6)
    stream = opened(snapshot, "text")
    assert [stream.readinto(buffer), bytes(buffer)] == [6, b"hello "]
    assert [stream.readinto(memoryview(buffer)), bytes(buffer)] == [5, b"world "]
    assert stream.readinto(buffer) == 0


@pytest.mark.parametrize(
    "range,expected",
    [
        (None, TEXT),
        ((0, None), TEXT),
        ((0, 11), TEXT),
        ((6, None), b"world"),
        ((2, 5), b"llo"),
        ((11, None), b""),
        ((3, 3), b""),
    ],
)
def test_a_range_restricts_a_stream(docs, range, expected):
    stream = opened(docs, "text", range=range)
    assert (stream.size, stream.total_size) == (len(expected), 11)
    assert stream.read() == expected
    stream.seek(-min(1, len(expected)), io.SEEK_END)
    assert stream.read() == expected[-1:]
    stream.seek(0)
    assert [stream.read(2), stream.readall()] == [expected[:2], expected[2:]]


@pytest.mark.parametrize("range", [(-1, 5), (5, 4), (0, 12), (12, None), (-5, None), (3, -1)])
def test_a_range_that_is_not_within_the_value_is_refused(docs, range):
    shown = f"{range[0]}:{'' if range[1] is None else range[1]}"
    with pytest.raises(UsageError, match=f"range {shown} is not within .* 11 bytes"):
        opened(docs, "text", range=range)


def test_a_closed_stream_is_closed_underneath_and_cannot_be_read(docs):
    stream = opened(docs, "text")
    stream.close()
    stream.close()
    assert stream.closed and stream._file.closed
    for use in (stream.read, stream.tell, lambda: stream.seek(0), stream.readall):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_value_whose_file_is_gone_is_a_storage_error(docs, tables):
    stream = opened(docs, "big")
    for path in Path(tables.location.child(REF.path)).rglob("*.blob"):
        path.unlink()
    with pytest.raises(StorageError, match="table nodes/docs: Not found"):
        stream.read(10)


# --- references to files elsewhere ---


def test_references_are_read_whole_and_in_part(linked, letters):
    assert contents(linked) == {"whole": b"abcdefghij", "part": b"cde", "own": b"mine"}
    assert opened(linked, "own").uri is None
    part = opened(linked, "part", range=(1, None))
    assert (part.uri, part.size, part.total_size) == (letters.as_uri(), 2, 3)
    assert part.read() == b"de"


def test_a_reference_to_nothing_is_a_storage_error_that_names_it(linked, letters):
    before = opened(linked, "whole")
    letters.unlink()
    with pytest.raises(StorageError, match=f"{letters.as_uri()} cannot be read: .*Not found"):
        opened(linked, "whole")
    for stream in (before, opened(linked, "part")):
        with pytest.raises(StorageError, match=f"{letters.as_uri()} cannot be read: .*Not found"):
            stream.read(1)


def test_a_file_that_became_shorter_is_a_storage_error(linked, letters):
    stream = opened(linked, "whole")
    letters.write_bytes(b"abc")
    with pytest.raises(StorageError, match=letters.as_uri()):
        stream.read()


# --- rows to write again ---


def test_rows_are_read_in_the_form_of_their_table(docs):
    found = read_rewritable(docs, [0, 1, 2, 3, 4], SCHEMA.names)
    assert found.schema.equals(SCHEMA, check_metadata=True)
    assert found.to_pylist() == rows(VALUES).to_pylist()


def test_rows_come_in_the_order_asked_for_with_the_columns_asked_for(docs):
    found = read_rewritable(docs, [4, 0, 1, 0], ["file", "id"])
    assert found.column_names == ["file", "id"]
    assert found["id"].to_pylist() == ["big", "text", "none", "text"]
    data = [None if v is None else v["data"] for v in found["file"].to_pylist()]
    assert data == [BIG, TEXT, None, TEXT]
    assert read_rewritable(docs, [2], ["note"]).to_pylist() == [{"note": "empty"}]


def test_no_rows_have_the_form_of_their_table_too(docs):
    found = read_rewritable(docs, [], SCHEMA.names)
    assert found.num_rows == 0
    assert found.schema.equals(SCHEMA, check_metadata=True)


def test_a_missing_row_is_not_found(docs):
    with pytest.raises(NotFound, match="1 of 2 rows"):
        read_rewritable(docs, [0, 999], ["file"])


def test_rows_that_are_written_again_have_the_same_values(tables, docs):
    found = read_rewritable(docs, [4, 3, 2, 1, 0], SCHEMA.names)
    staged = tables.stage_overwrite(docs, found)
    tables.commit_staged(staged)
    assert contents(tables.open(REF)) == VALUES


def test_references_stay_references_when_their_rows_are_written_again(tables, linked, letters):
    text = letters.read_bytes()
    letters.unlink()
    found = read_rewritable(linked, [1, 2, 0], SCHEMA.names)
    uri = letters.as_uri()
    assert found["file"].to_pylist() == [
        {"data": None, "uri": uri, "position": 2, "size": 3},
        {"data": b"mine", "uri": None, "position": None, "size": None},
        {"data": None, "uri": uri, "position": None, "size": None},
    ]
    other = TableRef("nodes/copies")
    tables.create(other.path, SCHEMA)
    append(tables, found, other)
    letters.write_bytes(text)
    copies = tables.open(other)
    assert contents(copies) == contents(linked)
    assert {id: opened(copies, id).uri for id in ("whole", "part", "own")} == {
        "whole": uri,
        "part": uri,
        "own": None,
    }


def test_a_blob_column_that_was_added_later_is_read_as_nulls(tables):
    tables.create(REF.path, SCHEMA.remove(2))
    append(tables, rows(VALUES).remove_column(2))
    dataset = tables.open(REF)._dataset
    dataset.add_columns(pa.schema([SCHEMA.field("file")]))
    found = read_rewritable(tables.open(REF), [0, 1], ["id", "file"])
    assert found.schema.field("file").equals(SCHEMA.field("file"), check_metadata=True)
    assert found["file"].to_pylist() == [None, None]
