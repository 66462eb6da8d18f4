"""Fragments, row ids and the columns that Lance keeps by itself."""

from __future__ import annotations

import json
import multiprocessing

import lance
import pytest
from lance import LanceOperation
from lance.fragment import FragmentMetadata
from lance.optimize import Compaction

from tests.lance_facts.lance_tables import (
    commit,
    create,
    fragments,
    head,
    ids,
    rows,
    write_in_child,
)
from tests.patience import PATIENCE


def row_ids(dataset):
    table = dataset.to_table(columns=["id"], with_row_id=True)
    return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def merge(dataset, new):
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return commit(dataset, builder.execute_uncommitted(new)[0].operation)


# Topology and search hold row ids of a snapshot.
def test_row_ids_survive_an_update(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    before = row_ids(table)
    assert row_ids(merge(table, rows(1, text="new"))) == before


# compaction.stage_compaction.
def test_row_ids_survive_a_compaction(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2), rows(3))
    before = row_ids(table)
    table.optimize.compact_files()
    assert len(table.get_fragments()) == 1
    assert row_ids(table) == before


# Diff and feed find what changed since a version.
def test_the_version_of_the_last_update_is_kept_for_each_row(tmp_path):
    table = merge(create(tmp_path / "t", rows(1, 2)), rows(2, 3, text="new"))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    found = table.to_table(columns=columns).sort_by("id").to_pylist()
    assert [(r[columns[1]], r[columns[2]]) for r in found] == [(2, 2), (2, 3), (3, 3)]


# TableSnapshot.take: in the order asked for, and rows that are gone are left out.
def test_rows_are_taken_by_row_id_in_order(tmp_path):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    by_id = row_ids(table)
    found = table._take_rows([by_id["r3"], 999, by_id["r1"]], columns=["id"])
    assert found["id"].to_pylist() == ["r3", "r1"]


# The Spark pipeline: executors write fragments, the driver commits them.
def test_fragments_written_in_another_process_can_be_committed(tmp_path):
    table = create(tmp_path / "t", rows(1))
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=write_in_child, args=(table.uri, str(tmp_path / "f.json")))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert head(table) == 2
    texts = json.loads((tmp_path / "f.json").read_text())
    made = [FragmentMetadata.from_json(json.dumps(text)) for text in texts]
    assert ids(commit(table, LanceOperation.Append(made))) == ["r1", "r5", "r6"]


# version_file: a transaction is recognised even when Lance cannot read it back.
def test_the_version_file_names_the_transaction_and_the_last_fragment(tmp_path):
    from omnigraph.storage.version_file import max_fragment_id, transaction_id

    table = create(tmp_path / "t")
    assert max_fragment_id(table) == -1
    for batch in (rows(1), rows(2)):
        table = commit(table, LanceOperation.Append(fragments(table, batch)))
    transaction = table.read_transaction(table.version)
    assert transaction is not None
    assert transaction_id(table) == transaction.uuid
    table = commit(table, LanceOperation.Delete([], [0, 1], "true"))
    assert max_fragment_id(table) == 1


# version_file is there because of this. When it fails, `read_transaction` may be used again.
def test_the_transaction_of_a_compaction_with_a_btree_cannot_be_read(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    table.create_scalar_index("id", "BTREE")
    Compaction.execute(table, {})
    with pytest.raises(TypeError, match="RewrittenIndex"):
        table.read_transaction(table.version)


# Tables: versions_after, head and the reader's patience rely on it.
def test_opening_a_version_that_is_not_there_is_a_value_error(tmp_path):
    table = create(tmp_path / "t")
    with pytest.raises(ValueError, match=r"[Nn]ot found"):
        lance.dataset(table.uri, version=9)


# Tables.exists, Ledger.exists.
def test_opening_a_table_that_is_not_there_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(str(tmp_path / "nothing"))


# Tables.create is called by one of several processes that lost no lock.
def test_creating_a_table_that_is_there_fails(tmp_path):
    create(tmp_path / "t")
    with pytest.raises(OSError, match="already exists"):
        create(tmp_path / "t")
