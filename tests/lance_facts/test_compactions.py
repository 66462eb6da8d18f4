"""Compaction in steps, and what becomes of indexes (`storage/compaction.py`)."""

from __future__ import annotations

from dataclasses import replace

import lance
import pytest
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from tests.lance_facts.lance_tables import commit, covered, create, ids, index, rows


def indexed(path):
    table = create(path, rows(1, 2), rows(3, 4))
    made = [
        index(table, "id", "BTREE"),
        index(table, "n", "BITMAP"),
        index(table, "text", "INVERTED"),
    ]
    return commit(table, LanceOperation.CreateIndex(made, []))


def rewrite(table, first_id=None):
    groups = []
    for task in Compaction.plan(table, {}).tasks:
        made = task.execute(table).new_fragments
        for fragment in made:
            if first_id is not None:
                fragment.id, first_id = first_id, first_id + 1
        groups.append(LanceOperation.RewriteGroup(list(task.fragments), made))
    return groups


# stage_compaction gives None.
def test_a_table_that_is_compact_has_no_tasks(tmp_path):
    assert Compaction.plan(create(tmp_path / "t", rows(1, 2)), {}).num_tasks() == 0


# stage_compaction: one version, unlike Lance's own compaction, which reserves ids in another.
def test_a_rewrite_is_one_version_and_keeps_the_rows(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    made = commit(table, LanceOperation.Rewrite(rewrite(table, 2), []))
    assert made.version == table.version + 1
    assert [f.fragment_id for f in made.get_fragments()] == [2]
    assert made.to_table().equals(table.to_table().combine_chunks())


# stage_compaction gives the ids itself for this reason: coverage would name a wrong fragment.
def test_without_ids_for_new_fragments_indexes_lose_them(tmp_path):
    table = indexed(tmp_path / "t")
    made = commit(table, LanceOperation.Rewrite(rewrite(table), []))
    assert [f.fragment_id for f in made.get_fragments()] == [2]
    assert covered(made, "n_BITMAP") == {0}


# stage_compaction: indexes of row ids follow.
def test_with_ids_for_new_fragments_indexes_of_row_ids_follow(tmp_path):
    table = indexed(tmp_path / "t")
    made = commit(table, LanceOperation.Rewrite(rewrite(table, 2), []))
    assert covered(made, "n_BITMAP") == covered(made, "text_INVERTED") == {2}
    assert "n_BITMAP" in made.scanner(filter="n = 3").explain_plan()
    assert ids(made, "n = 3") == ["r3"]


# stage_compaction has new BTREE segments come with it for this reason.
def test_a_btree_loses_rewritten_fragments_and_reads_stay_right(tmp_path):
    table = indexed(tmp_path / "t")
    made = commit(table, LanceOperation.Rewrite(rewrite(table, 2), []))
    assert covered(made, "id_BTREE") == set()
    assert ids(made, "id = 'r3'") == ["r3"]


# compaction._indices and indices_after.
def test_an_index_of_rewritten_rows_is_built_before_they_are_committed(tmp_path):
    table = indexed(tmp_path / "t")
    operation = LanceOperation.Rewrite(rewrite(table, 2), [])
    detached = LanceDataset.commit(table, operation, read_version=table.version, detached=True)
    new = index(detached, "id", "BTREE")
    (tmp_path / f"t/_versions/d{detached.version}.manifest").unlink()
    made = commit(table, operation)
    new = replace(new, dataset_version=made.version)
    made = commit(made, LanceOperation.CreateIndex([new], []))
    assert covered(made, "id_BTREE") == {2}
    assert "id_BTREE" in made.scanner(filter="id = 'r3'").explain_plan()
    assert [ids(made, f"id = 'r{n}'") for n in (1, 2, 3, 4)] == [["r1"], ["r2"], ["r3"], ["r4"]]


# compaction.stage_compaction leaves room for the fragments of others.
def test_a_rewrite_may_skip_fragment_ids(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    groups = rewrite(table, 1000)
    lance.write_dataset(rows(3), table.uri, mode="append")
    made = commit(table, LanceOperation.Rewrite(groups, []))
    assert [f.fragment_id for f in made.get_fragments()] == [2, 1000]
    made = lance.write_dataset(rows(4), table.uri, mode="append")
    assert [f.fragment_id for f in made.get_fragments()] == [2, 1000, 1001]
    assert sorted(ids(made)) == ["r1", "r2", "r3", "r4"]


# stage_compaction fixes fragment ids: a stale one must not be re-based over an append.
def test_a_stale_rewrite_whose_fragment_ids_are_taken_is_refused(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    groups = rewrite(table, 2)
    lance.write_dataset(rows(3), table.uri, mode="append")
    with pytest.raises(OSError, match="two fragments with id 2"):
        commit(table, LanceOperation.Rewrite(groups, []))
