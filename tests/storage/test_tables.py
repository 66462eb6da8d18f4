"""Tables: staged rows, exact commits, forks, and errors that name the table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import ReadSetConflict, StorageError
from omnigraph.storage.tables import TableRef, Tables
from tests.storage.people import SCHEMA, append, commit, content, people, stage_delete, stage_merge


def ages(tables, ref, version=None):
    return {row["id"]: row["age"] for row in content(tables, ref, version)}


@pytest.fixture
def table(tables):
    """Two people in one fragment, at version 2."""
    tables.create("nodes/a", SCHEMA)
    ref = TableRef("nodes/a")
    append(tables, ref, 0, 2)
    return ref


def stage_one(tables, ref, kind):
    snapshot = tables.open(ref)
    return {
        "append": lambda: tables.stage_append(snapshot, people(7, 8)),
        "merge": lambda: stage_merge(snapshot, people(1, 3, age=50)),
        "overwrite": lambda: tables.stage_overwrite(snapshot, people(7, 8)),
        "empty": lambda: tables.stage_overwrite(snapshot, SCHEMA.empty_table()),
        "delete": lambda: stage_delete(snapshot, "id = 'p0'"),
        "restore": lambda: tables.stage_restore(ref, 1),
    }[kind]()


OUTCOMES = {
    "append": ({"p0": 0, "p1": 1, "p7": 7}, (1, 0, 0)),
    "merge": ({"p0": 0, "p1": 50, "p2": 50}, (1, 1, 0)),
    "overwrite": ({"p7": 7}, (1, 0, 2)),
    "empty": ({}, (0, 0, 2)),
    "delete": ({"p1": 1}, (0, 0, 1)),
    "restore": ({}, (0, 0, 0)),
}


@pytest.mark.parametrize("kind", OUTCOMES)
def test_staging_moves_no_head_and_a_commit_moves_it_by_one(tables, table, kind):
    staged = stage_one(tables, table, kind)
    assert tables.head(table) == 2
    assert ages(tables, table) == {"p0": 0, "p1": 1}
    made = commit(tables, staged)
    after, counts = OUTCOMES[kind]
    assert (made.version, made.rows) == (3, len(after))
    assert ages(tables, table) == after
    assert (staged.rows_written, staged.rows_replaced, staged.rows_deleted) == counts
    assert [(v.version, v.transaction_id) for v in tables.versions_after(table, 2)] == [
        (3, staged.transaction_id)
    ]


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_stale_write_is_a_conflict(tables, table, kind):
    staged = stage_one(tables, table, kind)
    append(tables, table, 20, 21)
    with pytest.raises(ReadSetConflict):
        commit(tables, staged)


def test_what_changes_nothing_stages_nothing(tables, table):
    snapshot = tables.open(table)
    assert tables.stage_append(snapshot, SCHEMA.empty_table()) is None
    assert stage_merge(snapshot, SCHEMA.empty_table()) is None
    assert stage_delete(snapshot, "id = 'nobody'") is None


def test_a_delete_over_several_fragments(tables, table):
    append(tables, table, 2, 4)
    append(tables, table, 4, 6)
    commit(tables, stage_delete(tables.open(table), "age in (0, 2, 3)"))
    assert ages(tables, table) == {"p1": 1, "p4": 4, "p5": 5}


def test_earlier_versions_can_be_read(tables, table):
    commit(tables, stage_one(tables, table, "overwrite"))
    assert ages(tables, table, 2) == {"p0": 0, "p1": 1}
    assert ages(tables, table, 1) == {}


def test_an_open_snapshot_does_not_move(tables, table):
    snapshot = tables.open(table)
    append(tables, table, 5, 9)
    assert (snapshot.version, snapshot.count()) == (2, 2)


def test_another_handle_sees_a_commit(tables, table):
    other = Tables(tables.location)
    assert other.head(table) == 2
    append(tables, table, 5, 6)
    assert other.head(table) == 3


def test_a_fork_starts_at_a_version_and_goes_its_own_way(tables, table):
    append(tables, table, 2, 3)
    tables.create_branch(table, 2, "draft")
    fork = TableRef(table.path, "draft")
    assert tables.head(fork) == 2
    commit(tables, stage_merge(tables.open(fork), people(0, 1, age=70)))
    assert ages(tables, fork) == {"p0": 70, "p1": 1}
    assert ages(tables, table) == {"p0": 0, "p1": 1, "p2": 2}


def test_deleting_a_fork_deletes_what_was_made_from_it(tables, table):
    tables.create_branch(table, 2, "a")
    tables.create_branch(TableRef(table.path, "a"), 2, "a/b")
    tables.delete_branch(table.path, "a")
    tables.delete_branch(table.path, "a")
    assert tables.branches(table.path) == {}
    tables.create_branch(table, 2, "a")
    assert ages(tables, TableRef(table.path, "a")) == {"p0": 0, "p1": 1}


def test_a_fork_that_others_need_is_kept(tables, table):
    tables.create_branch(table, 2, "a")
    tables.create_branch(TableRef(table.path, "a"), 2, "b")
    with pytest.raises(StorageError, match="b is created from it"):
        tables.delete_branch(table.path, "a", keep=["b"])
    assert set(tables.branches(table.path)) == {"a", "b"}


def test_the_schema_is_stored_with_keys_and_property_ids(tables, table):
    for kind in ("merge", "overwrite", "empty"):
        commit(tables, stage_one(tables, table, kind))
        assert tables.open(table).schema.equals(SCHEMA, check_metadata=True)


def test_rows_that_do_not_fit_the_columns_are_an_error_that_names_the_table(tables, table):
    with pytest.raises(StorageError, match="nodes/a"):
        tables.stage_append(tables.open(table), pa.table({"id": ["x"], "other": [1]}))
    assert tables.head(table) == 2


# --- what is not there, damaged or foreign ---


def test_a_table_that_is_not_there(tables):
    assert not tables.exists("nodes/none")
    with pytest.raises(StorageError, match="nodes/none"):
        tables.open(TableRef("nodes/none"))


def test_a_branch_and_a_version_that_are_not_there(tables, table):
    with pytest.raises(StorageError, match=r"nodes/a \(branch gone\)"):
        tables.open(TableRef(table.path, "gone"))
    with pytest.raises(StorageError, match="nodes/a"):
        tables.open(table, 9)


def test_a_table_is_not_created_twice(tables, table):
    with pytest.raises(StorageError, match="nodes/a"):
        tables.create(table.path, SCHEMA)
    assert tables.head(table) == 2


@pytest.mark.parametrize("data", [b"", b"x", b"something else entirely" * 9], ids=len)
def test_a_damaged_version_is_an_error_that_names_the_table(tables, table, tmp_path, data):
    newest = min((tmp_path / "graph/nodes/a/_versions").glob("*.manifest"))
    newest.write_bytes(data)
    with pytest.raises(StorageError, match="nodes/a"):
        Tables(tables.location).open(table)


@pytest.mark.parametrize("data", [b"", b"something else entirely" * 9], ids=len)
def test_damaged_rows_are_an_error_that_names_the_table(tables, table, tmp_path, data):
    (file,) = (tmp_path / "graph/nodes/a/data").glob("*.lance")
    file.write_bytes(data)
    for read in ("read", "count"):
        with pytest.raises(StorageError, match="nodes/a"):
            snapshot = Tables(tables.location).open(table)
            snapshot.read() if read == "read" else snapshot.count("age = 1")


def test_rows_that_are_gone_are_an_error_that_names_the_table(tables, table, tmp_path):
    (file,) = (tmp_path / "graph/nodes/a/data").glob("*.lance")
    file.unlink()
    with pytest.raises(StorageError, match="nodes/a"):
        Tables(tables.location).open(table).read()
    with pytest.raises(StorageError, match="nodes/a"):
        list(Tables(tables.location).open(table).batches())


def test_a_foreign_file_in_place_of_a_table_is_an_error_that_names_it(tables, tmp_path):
    (tmp_path / "graph/nodes").mkdir(parents=True)
    (tmp_path / "graph/nodes/b").write_text("my shopping list")
    with pytest.raises(StorageError, match="nodes/b"):
        tables.open(TableRef("nodes/b"))
