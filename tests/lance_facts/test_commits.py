"""What a commit does, and what staging does not do."""

from __future__ import annotations

import json
import os

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

from omnigraph.storage.version_file import transaction_id
from tests.lance_facts.lance_tables import commit, create, fragments, head, ids, index, rows


# Tables.stage_append: the files are there, the table does not know them.
def test_writing_fragments_moves_no_head(tmp_path):
    table = create(tmp_path / "t", rows(1))
    fragments(table, rows(2))
    assert head(table) == 2
    assert ids(lance.dataset(table.uri)) == ["r1"]


# A merge of rows.
def test_an_uncommitted_merge_moves_no_head(tmp_path):
    table = create(tmp_path / "t", rows(1))
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    transaction, stats = merge.execute_uncommitted(rows(1, 2, text="new"))
    assert head(table) == 2
    assert (stats["num_inserted_rows"], stats["num_updated_rows"]) == (1, 1)
    assert ids(commit(table, transaction.operation)) == ["r1", "r2"]


# A deletion.
def test_a_fragment_delete_moves_no_head(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    left = table.get_fragments()[0].delete("n = 1")
    assert left is not None
    assert head(table) == 2
    assert ids(table) == ["r1", "r2"]
    assert ids(commit(table, LanceOperation.Delete([left], [], "n = 1"))) == ["r2"]


# A deletion: a fragment that becomes empty goes into the list of removed ones.
def test_a_fragment_without_rows_left_is_removed_by_its_id(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    assert table.get_fragments()[0].delete("n = 1") is None
    assert ids(commit(table, LanceOperation.Delete([], [0], "n = 1"))) == ["r2"]


# Tables.stage_indices.
def test_an_uncommitted_index_moves_no_head_and_is_not_listed(tmp_path):
    table = create(tmp_path / "t", rows(1))
    for column, kind in (("n", "BTREE"), ("n", "BITMAP"), ("text", "INVERTED")):
        index(table, column, kind)
    assert head(table) == 2
    assert lance.dataset(table.uri).describe_indices() == []


# Tables.stage_schema with a value.
def test_writing_a_column_of_a_fragment_moves_no_head(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.get_fragments()[0].merge_columns({"m": "n + 1"})
    assert head(table) == 2
    assert "m" not in lance.dataset(table.uri).schema.names


# Tables.stage_compaction.
def test_executing_a_compaction_task_moves_no_head(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    (task,) = Compaction.plan(table, {}).tasks
    task.execute(table)
    assert head(table) == 3


# Tables.commit_staged and recovery: an effect is recognised by the id that the sidecar names.
def test_a_transaction_keeps_the_id_it_is_given(tmp_path):
    table = create(tmp_path / "t")
    identity = "0b2f4f0e-58ea-4c12-9d39-000000000001"
    made = commit(table, LanceOperation.Append(fragments(table, rows(1))), identity)
    transaction = lance.dataset(table.uri).read_transaction(made.version)
    assert transaction is not None
    assert transaction.uuid == identity


# Tables.commit_staged: `commit` with a dataset on a branch commits to that branch.
def test_a_commit_on_a_branch_leaves_the_parent_alone(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.create_branch("b")
    branch = table.checkout_version(("b", None))
    made = commit(branch, LanceOperation.Append(fragments(branch, rows(2))))
    assert ids(made) == ["r1", "r2"]
    assert ids(lance.dataset(table.uri)) == ["r1"]


# Tables.commit_staged checks the version that comes back, since Lance does not refuse this.
def test_a_stale_append_is_rebased_silently_and_gets_another_version(tmp_path):
    table = create(tmp_path / "t")
    stale = LanceOperation.Append(fragments(table, rows(1)))
    commit(table, LanceOperation.Append(fragments(table, rows(2))))
    made = commit(table, stale)
    assert table.version == 1
    assert made.version == 3
    assert ids(made) == ["r1", "r2"]


# Tables.commit_staged turns it into a ReadSetConflict.
def test_a_stale_change_of_the_same_row_is_a_conflict(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    stale = table.merge_insert("id").when_matched_update_all().execute_uncommitted(rows(1))[0]
    fresh = table.merge_insert("id").when_matched_update_all().execute_uncommitted(rows(1))[0]
    commit(table, fresh.operation)
    with pytest.raises(CommitConflictError):
        commit(table, stale.operation)


# The effect lock is there for this: exclusion cannot come from the key.
def test_two_uncommitted_merges_of_a_new_key_both_commit_and_double_it(tmp_path):
    table = create(tmp_path / "t")
    transactions = [
        table.merge_insert("id").when_not_matched_insert_all().execute_uncommitted(rows(1))[0]
        for _ in range(2)
    ]
    for transaction in transactions:
        made = commit(table, transaction.operation)
    assert ids(made) == ["r1", "r1"]


# Recovery's roll back.
def test_restore_brings_back_rows_and_schema_in_a_new_version(tmp_path):
    table = create(tmp_path / "t", rows(1))
    draft = lance.dataset(table.uri)
    draft.drop_columns(["text"])
    made = commit(draft, LanceOperation.Restore(2))
    assert made.version == 4
    assert made.to_table().equals(table.to_table())


# Recovery restores twice when it is killed in between: the second one changes nothing.
def test_restore_keeps_the_fragment_ids(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    emptied = commit(table, LanceOperation.Delete([], [0, 1], "true"))
    made = commit(emptied, LanceOperation.Restore(3))
    assert [f.fragment_id for f in made.get_fragments()] == [0, 1]


# Tables.stage_overwrite.
def test_overwrite_keeps_field_ids_metadata_and_stable_row_ids(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.drop_columns(["n"])
    new = rows(2).drop_columns(["n"]).cast(table.schema)
    made = commit(table, LanceOperation.Overwrite(table.lance_schema, fragments(table, new)))
    assert made.to_table().to_pylist() == [{"id": "r2", "text": "red fox 2"}]
    assert made.schema.equals(table.schema, check_metadata=True)
    assert made.has_stable_row_ids


# Tables.stage_overwrite gives a LanceSchema for this reason.
def test_overwrite_with_a_pyarrow_schema_loses_data_after_a_drop(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.drop_columns(["n"])
    new = rows(2).drop_columns(["n"]).cast(table.schema)
    made = commit(table, LanceOperation.Overwrite(table.schema, fragments(table, new)))
    assert made.to_table().to_pylist() == [{"id": "r2", "text": None}]


# Tables.stage_overwrite with zero rows.
def test_overwrite_with_no_fragments_empties_the_table(tmp_path):
    table = create(tmp_path / "t", rows(1))
    made = commit(table, LanceOperation.Overwrite(table.lance_schema, []))
    assert made.count_rows() == 0


# Tables.stage_overwrite: whoever overwrites has to build the indexes again.
def test_overwrite_drops_the_indexes(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table = commit(table, LanceOperation.CreateIndex([index(table, "n", "BTREE")], []))
    made = commit(table, LanceOperation.Overwrite(table.lance_schema, fragments(table, rows(2))))
    assert made.describe_indices() == []


# compaction.stage_compaction: builds an index on data that no version of the history has.
def test_a_detached_commit_can_be_read_and_is_in_no_history(tmp_path):
    table = create(tmp_path / "t", rows(1))
    operation = LanceOperation.Append(fragments(table, rows(2)))
    detached = LanceDataset.commit(table, operation, read_version=2, detached=True)
    assert ids(detached) == ["r1", "r2"]
    assert head(table) == 2
    assert [v["version"] for v in table.versions()] == [1, 2]
    assert (tmp_path / f"t/_versions/d{detached.version}.manifest").exists()


# compaction.stage_compaction does not pass max_retries for this reason.
def test_a_detached_commit_needs_retries(tmp_path):
    table = create(tmp_path / "t")
    operation = LanceOperation.Append(fragments(table, rows(1)))
    transaction = Transaction(read_version=1, operation=operation)
    with pytest.raises(CommitConflictError, match="unused random"):
        LanceDataset.commit(table, transaction, detached=True, max_retries=0)


# Ledger.newest: the file of each version is told by its number alone.
def test_the_file_of_a_version_is_named_by_what_is_left_to_the_last_number(tmp_path):
    table = create(tmp_path / "t", rows(1))
    for n in range(2, 5):
        table = commit(table, LanceOperation.Append(fragments(table, rows(n))))
    names = {path.name for path in (tmp_path / "t" / "_versions").glob("*.manifest")}
    versions = range(1, table.version + 1)
    assert names == {f"{2**64 - 1 - version:020}.manifest" for version in versions}


# TableSnapshot.fragments: the path without the class that `path` makes.
def test_a_data_file_knows_its_path(tmp_path):
    table = create(tmp_path / "t", rows(1))
    (file,) = table.get_fragments()[0].metadata.files
    assert file._path == str(file.path)


# storage.bulk: what a fragment is travels as JSON, and its file can be read before any commit.
def test_a_fragment_survives_json_and_its_file_is_readable(tmp_path):
    table = create(tmp_path / "t", rows(1))
    (made,) = fragments(table, rows(2, 3))
    again = FragmentMetadata.from_json(json.dumps(made.to_json()))
    path = tmp_path / "t" / "data" / again.files[0]._path
    read = LanceFileReader(str(path), columns=["id"]).read_all().to_table()
    assert read["id"].to_pylist() == ["r2", "r3"]
    assert ids(commit(table, LanceOperation.Append([again]))) == ["r1", "r2", "r3"]


def operations(table):
    """One of each kind that our tables get, prepared on the version that a table has."""
    whole = [f.metadata for f in table.get_fragments()]
    deleted = table.get_fragments()[0].delete("n = 1")
    return {
        "append": LanceOperation.Append(fragments(table, rows(7))),
        "overwrite": LanceOperation.Overwrite(table.lance_schema, fragments(table, rows(7))),
        "delete": LanceOperation.Delete([deleted], [], "n = 1"),
        "update": LanceOperation.Update(
            removed_fragment_ids=[],
            updated_fragments=[deleted],
            new_fragments=fragments(table, rows(7)),
            update_mode="rewrite_rows",
        ),
        "index": LanceOperation.CreateIndex([index(table, "n", "BTREE")], []),
        "columns": LanceOperation.Project(table.lance_schema),
        "values": LanceOperation.Merge(whole, table.lance_schema),
        "compaction": LanceOperation.Rewrite([_rewritten(table)], []),
    }


def _rewritten(table):
    old = [f.metadata for f in table.get_fragments()]
    return LanceOperation.RewriteGroup(old, fragments(table, table.to_table()))


KINDS = [
    "append",
    "overwrite",
    "delete",
    "update",
    "index",
    "columns",
    "values",
    "compaction",
]


# writes.fencing: nothing that was prepared before a restore is committed after it, ...
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [0, 2])
def test_a_restore_refuses_what_was_prepared_before_it(tmp_path, kind, after):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    prepared = operations(table)
    assert prepared.keys() == set(KINDS)
    now = commit(table, LanceOperation.Restore(table.version))
    for n in range(after):
        now = commit(now, LanceOperation.Append(fragments(now, rows(20 + n))))
    with pytest.raises(CommitConflictError):
        commit(table, prepared[kind])
    assert head(table) == now.version


# ... and without one, some of it is.
@pytest.mark.parametrize("kind", ["append", "delete", "update", "index"])
def test_an_append_does_not_refuse_what_was_prepared_before_it(tmp_path, kind):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    prepared = operations(table)[kind]
    now = commit(table, LanceOperation.Append(fragments(table, rows(20))))
    assert commit(table, prepared).version == now.version + 1


# writes.fencing.put_back: a restore is never refused, so it is told by its id.
@pytest.mark.parametrize("kind", [*KINDS, "restore"])
def test_a_restore_is_committed_after_anything(tmp_path, kind):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    if kind == "compaction":
        lance.dataset(table.uri).optimize.compact_files()
        now = lance.dataset(table.uri)
    else:
        between = {**operations(table), "restore": LanceOperation.Restore(2)}[kind]
        now = commit(table, between)
    made = commit(table, LanceOperation.Restore(3), "01ARZ3NDEKTSV4RRFFQ69G5FAV.0.restore-3")
    assert made.version == now.version + 1
    assert transaction_id(made) == "01ARZ3NDEKTSV4RRFFQ69G5FAV.0.restore-3"
    assert ids(made) == ["r1", "r2", "r3"]


# Ledger.prune: a change of the schema that changes nothing stops publishers that come late.
@pytest.mark.parametrize("kind", ["append", "update"])
def test_a_projection_refuses_what_was_prepared_before_it(tmp_path, kind):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    prepared = operations(table)[kind]
    now = commit(table, LanceOperation.Project(table.lance_schema))
    assert now.schema.equals(table.schema, check_metadata=True)
    with pytest.raises(CommitConflictError):
        commit(table, prepared)
    with pytest.raises(OSError, match="concurrent"):
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.conflict_retries(0).execute(rows(1, 9))


@pytest.fixture
def listed(tmp_path):
    """Tells if some work lists the files of a table's versions."""
    folder = tmp_path / "t/_versions"

    def is_listed(work):
        os.utime(folder, (1, folder.stat().st_mtime))
        work()
        return folder.stat().st_atime != 1

    create(tmp_path / "t", rows(1), rows(2))
    if not is_listed(lambda: os.listdir(folder)):
        pytest.skip("this file system does not note when a folder is read")
    return is_listed


# Tables.commit_staged, Tables.head: what lists all versions takes longer with every commit.
def test_a_commit_does_not_list_the_versions(tmp_path, listed):
    table = lance.dataset(str(tmp_path / "t"))
    staged = fragments(table, rows(3))
    made = []
    assert not listed(lambda: made.append(commit(table, LanceOperation.Append(staged))))
    assert not listed(lambda: ids(made[0]))
    assert not listed(lambda: made[0].checkout_version(2))
    assert not listed(lambda: lance.dataset(table.uri, version=3))
    # Opening the newest version does.
    assert listed(lambda: lance.dataset(table.uri))
