"""The inline merge-insert is the compare-and-swap of the graph's manifest (`Ledger.publish`)."""

from __future__ import annotations

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from tests.lance_facts.lance_tables import NO_KEY, create, ids, rows


def publish(table, new, **delete):
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    if delete:
        merge = merge.when_not_matched_by_source_delete(delete["where"])
    return merge.conflict_retries(0).execute(new)


# Ledger.publish: the head row of a branch is changed by every publisher.
def test_a_concurrent_change_of_the_same_row_is_refused(tmp_path):
    create(tmp_path / "t", rows(1, 2))
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    publish(first, rows(1, text="first"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, rows(1, text="second"))
    assert lance.dataset(str(tmp_path / "t")).version == 3


# Ledger.publish: the first commit on a branch inserts its head row.
def test_a_concurrent_insert_of_the_same_key_is_refused(tmp_path):
    create(tmp_path / "t", rows(1))
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    publish(first, rows(9, text="first"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, rows(9, text="second"))
    assert ids(lance.dataset(str(tmp_path / "t"))) == ["r1", "r9"]


# history/formats: why a manifest without the key's metadata is migrated.
def test_without_the_keys_metadata_a_concurrent_insert_doubles_the_row(tmp_path):
    create(tmp_path / "t", rows(1, schema=NO_KEY), schema=NO_KEY)
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    publish(first, rows(9, schema=NO_KEY))
    publish(second, rows(9, schema=NO_KEY))
    assert ids(lance.dataset(str(tmp_path / "t"))) == ["r1", "r9", "r9"]


# Ledger.set_key.
def test_the_keys_metadata_can_be_added_later(tmp_path):
    table = create(tmp_path / "t", rows(1, schema=NO_KEY), schema=NO_KEY)
    table.update_field_metadata({"id": {"lance-schema:unenforced-primary-key": "true"}})
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    publish(first, rows(9))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, rows(9))


# Ledger.publish: writers of different branches share rows of none, on main they may share a table.
def test_changes_of_different_rows_both_succeed(tmp_path):
    create(tmp_path / "t", rows(1), rows(2))
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    publish(first, rows(1, text="first"))
    publish(second, rows(2, text="second"))
    texts = lance.dataset(str(tmp_path / "t")).to_table(columns=["text"])["text"].to_pylist()
    assert sorted(texts) == ["first 1", "second 2"]


# Ledger.publish with `prune`: rows of older versions go in the same step.
def test_other_rows_are_deleted_in_the_same_merge(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    publish(table, rows(3, 4), where="n < 2")
    assert ids(table) == ["r2", "r3", "r4"]
    assert table.version == 3


# Ledger.publish gives the version of the dataset it wrote with.
def test_the_dataset_that_merged_is_at_the_new_version(tmp_path):
    table = create(tmp_path / "t", rows(1))
    publish(table, rows(2))
    assert table.version == lance.dataset(table.uri).version == 3


# A merge of rows: ids are looked up in the index then, which must not change the outcome.
def test_a_merge_through_an_index_replaces_and_inserts(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    table.create_scalar_index("id", "BTREE")
    publish(table, rows(2, 3, text="new"))
    found = table.to_table(columns=["id", "text"]).sort_by("id").to_pylist()
    assert [row["text"] for row in found] == ["red fox 1", "new 2", "new 3"]


# history/formats: the stamp is in the schema's metadata.
def test_schema_metadata_can_be_changed_and_survives_a_merge(tmp_path):
    table = create(tmp_path / "t", rows(1))
    table.update_schema_metadata({"omnigraph:format": "3"})
    publish(table, rows(2))
    assert lance.dataset(table.uri).schema.metadata == {b"omnigraph:format": b"3"}


# Ledger.publish works on a copy of the version that was read, on any branch.
@pytest.mark.parametrize("branch", [None, "b"])
def test_a_merge_on_a_checked_out_version_is_refused_when_it_is_old(tmp_path, branch):
    table = create(tmp_path / "t", rows(1))
    table.create_branch("b")
    read = table.checkout_version((branch, None))
    publish(read.checkout_version((branch, read.version)), rows(1, text="first"))
    assert read.version == 2
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(read.checkout_version((branch, read.version)), rows(1, text="second"))


# Ledger.compact on the manifest: a publisher that read before it is not let through wrongly.
def test_a_merge_on_a_version_before_a_compaction_of_its_row_is_refused(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    read = lance.dataset(table.uri)
    lance.dataset(table.uri).optimize.compact_files()
    with pytest.raises(OSError, match=r"Too many concurrent writers|conflict"):
        publish(read, rows(1, text="new"))


def replace(table, key, new):
    fragments = write_fragments(
        new, table, schema=table.schema, data_storage_version="2.2", enable_stable_row_ids=True
    )
    updated, removed = [], []
    for fragment in table.get_fragments():
        if fragment.count_rows(filter=f"id = '{key}'"):
            left = fragment.delete(f"id = '{key}'")
            (removed.append(fragment.fragment_id) if left is None else updated.append(left))
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=list(fragments),
        update_mode="rewrite_rows",
    )
    transaction = Transaction(read_version=table.version, operation=operation)
    return LanceDataset.commit(table, transaction, max_retries=0)


# Ledger._replace: the compare-and-swap without a join.
@pytest.mark.parametrize("others", [(), (2,)], ids=["fragment removed", "fragment kept"])
def test_two_updates_that_delete_the_same_row_conflict(tmp_path, others):
    create(tmp_path / "t", rows(1, *others))
    first, second = (lance.dataset(str(tmp_path / "t")) for _ in range(2))
    made = replace(first, "r1", rows(1, text="first"))
    assert made.version == first.version + 1
    with pytest.raises(CommitConflictError):
        replace(second, "r1", rows(1, text="second"))
    table = lance.dataset(str(tmp_path / "t")).to_table(with_row_id=True)
    assert sorted(table["id"].to_pylist()) == [f"r{n}" for n in (1, *others)]
    assert len(set(table["_rowid"].to_pylist())) == 1 + len(others)
