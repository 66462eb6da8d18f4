"""Columns added, dropped and renamed by their field ids (`storage/columns.py`)."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation

from tests.lance_facts.lance_tables import (
    PROPERTY,
    commit,
    create,
    fork,
    fragments,
    index,
    rows,
)


def field_ids(schema):
    return {field.name(): field.id() for field in schema.fields()}


def draft_of(table):
    """An empty table in memory with the columns of another one, as `columns._changed` makes it."""
    draft = lance.write_dataset(pa.table({"_": pa.array([], pa.bool_())}), "memory://draft")
    operation = LanceOperation.Overwrite(table.lance_schema, [])
    return LanceDataset.commit(draft, operation, read_version=draft.version)


# columns._changed: the whole method.
def test_a_draft_in_memory_keeps_field_ids_and_metadata(tmp_path):
    table = create(tmp_path / "t", rows(1))
    draft = draft_of(table)
    assert field_ids(draft.lance_schema) == {"id": 0, "n": 1, "text": 2}
    draft.drop_columns(["n"])
    draft.alter_columns({"path": "text", "name": "words"})
    draft.add_columns(pa.schema([pa.field("new", pa.int32(), metadata=PROPERTY)]))
    assert field_ids(draft.lance_schema) == {"id": 0, "words": 2, "new": 3}
    assert draft.schema.field("new").metadata == {b"omnigraph.stable_property_id": b"7"}
    assert lance.dataset(table.uri).version == table.version


# columns._changed: a new column whose rows all get a value may be required.
def test_a_column_of_an_empty_table_can_be_made_required(tmp_path):
    draft = draft_of(create(tmp_path / "t"))
    draft.alter_columns({"path": "n", "nullable": False})
    assert not draft.schema.field("n").nullable


# columns._changed pads the ids up to this one.
def test_the_highest_field_id_counts_columns_that_only_data_files_have(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.drop_columns(["text"])
    assert table.max_field_id == 2
    assert draft_of(table).max_field_id == 1


# stage_schema: drop, rename and null columns only change the schema, and keep indexes.
def test_project_drops_renames_and_adds_null_columns(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    table = commit(table, LanceOperation.CreateIndex([index(table, "text", "BTREE")], []))
    draft = draft_of(table)
    draft.drop_columns(["n"])
    draft.alter_columns({"path": "text", "name": "words"})
    draft.add_columns(pa.schema([pa.field("n", pa.utf8())]))
    made = commit(table, LanceOperation.Project(draft.lance_schema))
    assert made.to_table().to_pylist()[0] == {"id": "r1", "words": "red fox 1", "n": None}
    scanner = made.scanner(filter="words = 'red fox 2'")
    assert "text_BTREE" in scanner.explain_plan()
    assert scanner.to_table()["id"].to_pylist() == ["r2"]


# The trap that storage/columns.py is built around: silent corruption.
def test_project_with_a_pyarrow_schema_reads_other_columns(tmp_path):
    table = create(tmp_path / "t", rows(1))
    wrong = pa.schema([table.schema.field("id"), pa.field("text", pa.int32())])
    made = commit(table, LanceOperation.Project(wrong))
    assert made.to_table()["text"].to_pylist() == [1]


# stage_schema with a value: the new files join the old ones, the rest is untouched.
def test_merge_adds_a_column_with_values_and_keeps_indexes(tmp_path):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    table = commit(table, LanceOperation.CreateIndex([index(table, "n", "BTREE")], []))
    field = pa.field("m", pa.int64(), nullable=False, metadata=PROPERTY)

    def sevens(batch):
        return pa.record_batch([pa.repeat(7, batch.num_rows)], schema=pa.schema([field]))

    made = [f.merge_columns(sevens, columns=["id"]) for f in table.get_fragments()]
    assert field_ids(made[0][1])["m"] == table.max_field_id + 1
    done = commit(table, LanceOperation.Merge([m for m, _ in made], made[0][1]))
    assert done.to_table()["m"].to_pylist() == [7, 7, 7]
    assert done.schema.field("m").equals(field, check_metadata=True)
    assert "n_BTREE" in done.scanner(filter="n = 2").explain_plan()


# stage_schema: deleted rows are no trouble.
def test_a_column_can_be_added_to_a_fragment_with_deleted_rows(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    left = table.get_fragments()[0].delete("n = 2")
    assert left is not None
    table = commit(table, LanceOperation.Delete([left], [], "n = 2"))
    metadata, schema = table.get_fragments()[0].merge_columns({"m": "n * 10"})
    made = commit(table, LanceOperation.Merge([metadata], schema))
    assert made.to_table()["m"].to_pylist() == [10, 30]


# stage_schema on forks: old files stay where they are, new ones are the fork's.
def test_a_column_can_be_added_on_a_branch(tmp_path):
    branch = fork(create(tmp_path / "t", rows(1)), "b")
    metadata, schema = branch.get_fragments()[0].merge_columns({"m": "n * 10"})
    made = commit(branch, LanceOperation.Merge([metadata], schema))
    assert made.to_table()["m"].to_pylist() == [10]
    assert "m" not in lance.dataset(str(tmp_path / "t")).schema.names


# stage_schema writes nulls, or refuses, for these two reasons.
def test_merge_refuses_a_name_that_comes_to_stand_for_another_column(tmp_path):
    table = create(tmp_path / "t", rows(1))
    own = [fragment.metadata for fragment in table.get_fragments()]
    added, swapped = draft_of(table), draft_of(table)
    added.drop_columns(["n"])
    added.add_columns(pa.schema([pa.field("p1", pa.bool_()), pa.field("n", pa.utf8())]))
    swapped.drop_columns(["n"])
    swapped.alter_columns({"path": "text", "name": "n"})
    for draft in (added, swapped):
        with pytest.raises(OSError, match="remaps"):
            commit(table, LanceOperation.Merge(own, draft.lance_schema))


# Diff and feed: filling a new column counts as an update of every row.
def test_a_filled_column_marks_all_rows_as_updated(tmp_path):
    table = create(tmp_path / "t", rows(1))
    metadata, schema = table.get_fragments()[0].merge_columns({"m": "n"})
    made = commit(table, LanceOperation.Merge([metadata], schema))
    column = "_row_last_updated_at_version"
    assert made.to_table(columns=[column])[column].to_pylist() == [3]


# stage_append after a change of columns.
def test_rows_can_be_appended_after_columns_were_projected(tmp_path):
    table = create(tmp_path / "t", rows(1))
    draft = draft_of(table)
    draft.drop_columns(["n"])
    draft.add_columns(pa.schema([pa.field("new", pa.utf8())]))
    table = commit(table, LanceOperation.Project(draft.lance_schema))
    more = pa.table({"id": ["r2"], "text": ["t"], "new": ["x"]}, schema=table.schema)
    made = commit(table, LanceOperation.Append(fragments(table, more)))
    assert made.to_table()["new"].to_pylist() == [None, "x"]
