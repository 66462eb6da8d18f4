"""Blob columns: what is written, what a scan gives, how values are read and written again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance.optimize import Compaction

from omnigraph.language import compile_schema
from omnigraph.language.schema.arrow import table_schema
from tests.lance_facts.lance_tables import commit, create, fork

SCHEMA = table_schema(compile_schema("node Doc { name: String @key  file: Blob? }").nodes["Doc"])
#: Kept in the data file, in a file with others, and in a file of its own; null; no bytes.
VALUES = (b"tiny", b"m" * 100_000, b"l" * 5_000_000, None, b"")
INLINE, PACKED, DEDICATED, EXTERNAL = range(4)
#: The row ids of the references in `linked`.
WHOLE, PART = range(2)
MEGABYTE = 1 << 20


def data(value: bytes | None) -> dict[str, Any] | None:
    return None if value is None else {"data": value}


def link(uri: str, position: int | None = None, size: int | None = None) -> dict[str, Any]:
    return {"uri": uri, "position": position, "size": size}


def rows(**values: dict[str, Any] | None) -> pa.Table:
    names = list(values)
    return pa.table({"id": names, "name": names, "file": list(values.values())}, schema=SCHEMA)


def append(table: LanceDataset, new: pa.Table, *, outside: bool = True) -> LanceDataset:
    made = write_fragments(
        new,
        table,
        schema=table.schema,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        allow_external_blob_outside_bases=outside,
    )
    return commit(table, LanceOperation.Append(list(made)))


def all_sizes() -> pa.Table:
    return rows(**{f"d{n}": data(value) for n, value in enumerate(VALUES)})


def contents(table: LanceDataset) -> dict[str, bytes | None]:
    """The values by id, read as streams."""
    found = table.to_table(columns=["id"], with_row_id=True)
    streams = table.take_blobs("file", ids=found["_rowid"].to_pylist())
    values = [None if stream is None else stream.read() for stream in streams]
    return dict(sorted(zip(found["id"].to_pylist(), values, strict=True)))


EXPECTED = {f"d{n}": value for n, value in enumerate(VALUES)}


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return append(create(tmp_path / "t", schema=SCHEMA), all_sizes())


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A file outside of the table."""
    path = tmp_path / "letters.txt"
    path.write_bytes(b"abcdefghij")
    return path


@pytest.fixture
def linked(tmp_path: Path, letters: Path) -> LanceDataset:
    """Three values: a whole file elsewhere, a part of it, and bytes."""
    table = create(tmp_path / "t", schema=SCHEMA)
    whole, part = link(letters.as_uri()), link(letters.as_uri(), 2, 3)
    return append(table, rows(whole=whole, part=part, own=data(b"mine")))


# --- values in the table ---


# storage.blobs: null is None, empty is a stream without bytes.
def test_values_of_all_sizes_come_back(table):
    assert contents(table) == EXPECTED
    assert table.take_blobs("file", ids=[3]) == [None]


# storage.blobs takes kind, position, size and uri from it.
def test_a_scan_gives_descriptors_and_no_bytes(table):
    table.io_stats_incremental()
    found = table.to_table()["file"].to_pylist()
    assert table.io_stats_incremental().read_bytes < 100_000
    assert [None if d is None else (d["kind"], d["size"], d["blob_uri"]) for d in found] == [
        (INLINE, 4, ""),
        (PACKED, 100_000, ""),
        (DEDICATED, 5_000_000, ""),
        None,
        (INLINE, 0, ""),
    ]
    assert table._take_rows([2], columns=["file"])["file"].to_pylist() == [found[2]]


# BlobStream reads in portions.
def test_a_stream_reads_what_is_asked_for_and_little_more(tmp_path):
    table = append(create(tmp_path / "t", schema=SCHEMA), rows(big=data(bytes(64 * MEGABYTE))))
    table.io_stats_incremental()
    (stream,) = table.take_blobs("file", ids=[0])
    assert stream is not None
    assert stream.size() == 64 * MEGABYTE
    assert table.io_stats_incremental().read_bytes < 10_000
    stream.seek(50 * MEGABYTE)
    assert stream.read(1000) == bytes(1000)
    assert table.io_stats_incremental().read_bytes <= MEGABYTE


# BlobStream goes to its position before each read; that must not cost what was read ahead.
def test_seeking_to_where_a_stream_is_keeps_what_it_read_ahead(table):
    (stream,) = table.take_blobs("file", ids=[2])
    assert stream is not None
    table.io_stats_incremental()
    for start in range(0, 400_000, 1000):
        stream.seek(start)
        stream.read(1000)
    assert table.io_stats_incremental().read_iops == 1


# read_rewritable.
def test_bytes_are_read_in_the_order_of_the_row_ids_also_twice(table):
    found = table.read_blobs("file", ids=[4, 0, 3, 0], preserve_order=True)
    assert [value for _, value in found] == [b"", b"tiny", None, b"tiny"]
    with pytest.raises(ValueError, match="999 was deleted or not found"):
        table.read_blobs("file", ids=[999])


# storage.blobs: a column that a change of the schema added has no values in the old files.
def test_a_column_without_data_has_null_values(tmp_path):
    table = create(tmp_path / "t", schema=SCHEMA.remove(2))
    table = append(table, all_sizes().select(["id", "name"]))
    table.add_columns(pa.schema([SCHEMA.field("file")]))
    assert set(contents(table).values()) == {None}
    assert table._take_rows([0], columns=["file"])["file"].to_pylist() == [None]


# compaction.stage_compaction: old files may be removed afterwards, so bytes have to be copied.
def test_values_survive_a_compaction(table):
    table = append(table, rows(e=data(b"more"), f=data(b"x" * 70_000)))
    Compaction.execute(table, {})
    assert len(table.get_fragments()) == 1
    assert contents(table) == {**EXPECTED, "e": b"more", "f": b"x" * 70_000}


# Updates of other properties read a row with `read_rewritable` and write it again.
def test_values_survive_an_update_that_writes_their_rows_again(table):
    values = [data(value) for _, value in table.read_blobs("file", ids=[0, 1, 2, 3, 4])]
    again = table._take_rows([0, 1, 2, 3, 4], columns=["id", "name"])
    again = again.append_column(SCHEMA.field("file"), pa.array(values, SCHEMA.field("file").type))
    made = write_fragments(
        again,
        table,
        schema=table.schema,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )
    (old,) = table.get_fragments()
    operation = LanceOperation.Update(
        removed_fragment_ids=[old.fragment_id],
        new_fragments=list(made),
        update_mode="rewrite_rows",
    )
    table = commit(table, operation)
    assert contents(table) == EXPECTED


# A branch reads the values that were there when it was made.
def test_a_fork_reads_inherited_values_and_its_own(table):
    draft = append(fork(table, "draft"), rows(e=data(b"x" * 70_000)))
    assert contents(draft) == {**EXPECTED, "e": b"x" * 70_000}
    Compaction.execute(draft, {})
    assert contents(draft) == {**EXPECTED, "e": b"x" * 70_000}
    assert contents(table) == EXPECTED


# Whoever adds a value that is neither bytes nor a reference would notice only at the end.
@pytest.mark.parametrize(
    "value,message",
    [
        ({"data": b"a", "uri": "file:///a"}, "exactly one of `data` and `uri`"),
        ({}, "exactly one of `data` and `uri`"),
        (link("file:///a", 5), "both `position` and `size`, or neither"),
        (link("file:///a", None, 5), "both `position` and `size`, or neither"),
        (link("file:///a", 0, 0), "greater than zero"),
        (link("a.txt"), "not a valid absolute URI"),
        (link("/a.txt"), "not a valid absolute URI"),
        (link("http://localhost/a"), "Unknown scheme: http"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path, value, message):
    with pytest.raises(OSError, match=message):
        append(create(tmp_path / "t", schema=SCHEMA), rows(a=value))


# --- references to files elsewhere ---


# Tables.new_fragments has to allow references; which ones, is for us to say.
def test_a_reference_is_refused_unless_it_is_allowed(tmp_path, letters):
    table = create(tmp_path / "t", schema=SCHEMA)
    with pytest.raises(OSError, match="allow_external_blob_outside_bases"):
        append(table, rows(a=link(letters.as_uri())), outside=False)
    append(table, rows(a=link(letters.as_uri())))


# A merge of rows cannot be made of Lance's merge where there are references.
def test_merge_insert_takes_no_references(linked, letters):
    builder = linked.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(OSError, match="outside registered external bases"):
        builder.execute_uncommitted(rows(a=link(letters.as_uri())))


# read_rewritable: a whole file has no position and no size; a range of no bytes cannot be written.
def test_a_reference_is_read_back_as_it_was_written(linked, letters):
    assert contents(linked) == {"whole": b"abcdefghij", "part": b"cde", "own": b"mine"}
    found = linked.to_table().sort_by("id")["file"].to_pylist()
    assert [(d["kind"], d["position"], d["size"], d["blob_uri"]) for d in found] == [
        (INLINE, 0, 4, ""),
        (EXTERNAL, 2, 3, letters.as_uri()),
        (EXTERNAL, 0, 0, letters.as_uri()),
    ]


# This is why `read_rewritable` does not simply ask for bytes: references would become copies.
def test_a_scan_for_bytes_reads_references_too(linked):
    found = linked.to_table(blob_handling="all_binary").sort_by("id")["file"].to_pylist()
    assert found == [b"mine", b"cde", b"abcdefghij"]


# Whoever compares a URI with the allowed prefixes has to resolve it first, or it leads elsewhere.
@pytest.mark.parametrize(
    "given,kept",
    [
        ("file:///a/../b", "file:///b"),
        ("file:///a/%2e%2e/b", "file:///b"),
        ("file:///a/.%2E/b", "file:///b"),
        ("file:///a/..\\b", "file:///b"),
        ("file:///a/.\t./b", "file:///b"),
        ("s3://bucket/a/../b", "s3://bucket/b"),
        ("FILE:///a", "file:///a"),
        ("file:/a", "file:///a"),
        ("file://localhost/a", "file:///a"),
        ("file:///a b", "file:///a%20b"),
    ],
)
def test_a_uri_is_resolved_when_it_is_written(tmp_path, given, kept):
    table = append(create(tmp_path / "t", schema=SCHEMA), rows(a=link(given)))
    assert table.to_table()["file"][0].as_py()["blob_uri"] == kept


# open_blob and BlobStream turn both into a StorageError.
def test_a_file_that_is_gone_is_noticed_when_it_is_opened_or_read(linked, letters):
    letters.unlink()
    with pytest.raises(ValueError, match="Not found"):
        linked.take_blobs("file", ids=[WHOLE])
    (part,) = linked.take_blobs("file", ids=[PART])
    assert part is not None
    assert part.size() == 3
    with pytest.raises(ValueError, match="Not found"):
        part.read(1)


# BlobStream relies on it: a value that ends early is never taken for a whole one.
def test_a_file_that_became_shorter_is_an_error(linked, letters):
    letters.write_bytes(b"abc")
    for row_id in (WHOLE, PART):
        (stream,) = linked.take_blobs("file", ids=[row_id])
        letters.write_bytes(b"a")
        with pytest.raises(OSError, match="failed to fill whole buffer"):
            stream.read(2)
        letters.write_bytes(b"abc")


# compaction.stage_compaction.
def test_references_survive_a_compaction_without_their_files(linked, letters):
    text = letters.read_bytes()
    linked = append(linked, rows(z=data(b"z")))
    letters.unlink()
    Compaction.execute(linked, {})
    letters.write_bytes(text)
    assert len(linked.get_fragments()) == 1
    assert contents(linked)["part"] == b"cde"
    assert contents(linked)["whole"] == b"abcdefghij"


# A copied graph: bytes move with the table, references stay where they are.
def test_a_copy_of_the_table_has_its_own_bytes_and_the_same_references(tmp_path, linked):
    copy = lance.dataset(str(shutil.copytree(linked.uri, tmp_path / "copy")))
    before = contents(linked)
    shutil.rmtree(linked.uri)
    assert contents(copy) == before
