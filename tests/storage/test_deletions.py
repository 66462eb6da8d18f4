"""Which rows of a fragment are deleted, compared with a scan of those that are left."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.deletions import roaring_numbers
from omnigraph.storage.table_ref import ROW_ADDRESS
from omnigraph.storage.tables import TableRef, Tables
from tests.storage.people import commit, stage_delete

ROWS = 70_000


def deleted(tables: Tables, ref: TableRef, rows: int) -> None:
    """Check what is deleted in each fragment of a table."""
    table = tables.open(ref)
    left = table.read([], places=True)[ROW_ADDRESS].to_numpy()
    count = 0
    for state in table.fragments().values():
        every = np.arange(state.rows, dtype=np.uint64) + np.uint64(state.id << 32)
        gone = table.deleted_rows(state.id)
        assert gone.tolist() == np.setdiff1d(every, left).tolist()
        count += len(gone)
    assert count == rows


def test_few_deleted_rows_are_found_wherever_they_were_deleted(tables, place):
    deleted(tables, place, 0)
    commit(tables, stage_delete(tables.open(place), "id = 'p5' or id = 'p105'"))
    deleted(tables, place, 2)
    commit(tables, stage_delete(tables.open(place), "id like '%9'"))
    deleted(tables, place, 42)


def test_what_a_fork_was_made_with_is_found_below_what_it_was_made_from(tables, one_row_gone):
    made = TableRef(one_row_gone.path, "another")
    tables.create_branch(one_row_gone, tables.head(one_row_gone), "another")
    deleted(tables, made, 1)


@pytest.mark.parametrize(
    ("where", "rows"),
    [("age % 2 = 0", 35_000), ("id != 'p1'", ROWS - 1), ("age < 8", 6_224)],
    ids=["bitmaps", "all_but_one", "arrays"],
)
def test_many_deleted_rows(tables, where, rows):
    ref = TableRef("nodes/people")
    numbers = np.arange(ROWS)
    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False), ("age", pa.int32())])
    tables.create(ref.path, schema)
    people = pa.table({"id": [f"p{n}" for n in numbers], "age": numbers % 90}).cast(schema)
    commit(tables, tables.stage_append(tables.open(ref), people))
    commit(tables, stage_delete(tables.open(ref), where))
    deleted(tables, ref, rows)


def test_a_bitmap_with_runs():
    """Three containers: two runs, an array, a bitmap; without and with places of containers."""

    def words(*numbers: int) -> bytes:
        return np.array(numbers, "<u2").tobytes()

    def long(*numbers: int) -> bytes:
        return np.array(numbers, "<u4").tobytes()

    bits = np.zeros(1 << 16, np.uint8)
    bits[np.arange(0, 10_000)] = 1
    bitmap = np.packbits(bits, bitorder="little").tobytes()
    contents = [words(2, 5, 3, 100, 0), words(1, 7, 65_535), bitmap]
    header = words(0, 4, 2, 2, 9, 9_999)
    expected = [5, 6, 7, 8, 100]
    expected += [(2 << 16) + n for n in (1, 7, 65_535)] + [(9 << 16) + n for n in range(10_000)]
    data = long(12347 | 2 << 16) + bytes([0b001]) + header + b"".join(contents)
    assert roaring_numbers(data).tolist() == expected
    places = long(0, 0, 0, 0)
    data = long(12347 | 3 << 16) + bytes([0b1001]) + header + words(11, 2) + places
    data += b"".join(contents) + words(1, 9, 2)
    assert roaring_numbers(data).tolist() == [*expected, *((11 << 16) + n for n in (9, 10, 11))]
    with pytest.raises(StorageError, match="form"):
        roaring_numbers(long(1, 0))
    assert roaring_numbers(long(12346, 0)).tolist() == []
