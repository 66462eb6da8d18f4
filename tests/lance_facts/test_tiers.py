"""What `storage/tiers.py`, `ids.py` and `changes.py` build on: fragments that are used as given."""

from __future__ import annotations

import json
from typing import Any

import lance
import pytest
from lance import LanceOperation
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta, RowIdSequence
from lance.optimize import Compaction, CompactionTask

from omnigraph.storage.row_versions import encode_versions
from omnigraph.storage.tiers import _OPTIONS, LARGEST_ROWS
from tests.lance_facts.lance_tables import (
    commit,
    covered,
    create,
    fork,
    fragments,
    ids,
    index,
    rows,
)

VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]


def placed(table):
    """Per id: the row's id, and the versions it was created and updated in."""
    found = table.scanner(columns=["id", *VERSIONS], with_row_id=True).to_table().to_pylist()
    return {row["id"]: (row["_rowid"], *(row[name] for name in VERSIONS)) for row in found}


def metadata(table):
    return [fragment.metadata for fragment in table.get_fragments()]


def merged(table, sources):
    """One fragment with the rows of some, which no version refers to."""
    task = {
        "task": {"fragments": [source.to_json() for source in sources]},
        "read_version": table.version,
        "options": dict(_OPTIONS),
    }
    rewrite: Any = CompactionTask
    (made,) = rewrite.from_json(json.dumps(task)).execute(table).new_fragments
    return made


def replacing(made, gone, new=()):
    return LanceOperation.Update(
        removed_fragment_ids=list(gone),
        updated_fragments=[made],
        new_fragments=list(new),
        fields_for_preserving_frag_bitmap=sorted(
            {field for part in new for file in part.files for field in file.fields}
        ),
        update_mode="rewrite_rows",
    )


# stage_tier_merge: which fragments are rewritten is chosen by us, not by Lance's plan.
def test_a_task_of_chosen_fragments_keeps_row_ids_and_versions_in_their_order(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2, 3), rows(4), rows(5))
    first, second, _, last = metadata(table)
    before = placed(table)
    made = merged(table, [first, second, last])
    assert table.version == lance.dataset(table.uri).version
    made.id = first.id
    after = commit(table, replacing(made, [second.id, last.id]))
    assert [f.metadata.num_rows for f in after.get_fragments()] == [4, 1]
    assert after.to_table(columns=["id"])["id"].to_pylist() == ["r1", "r2", "r3", "r5", "r4"]
    assert placed(after) == before
    assert placed(table.checkout_version(table.version)) == before


# stage_tier_merge.
def test_a_task_leaves_deleted_rows_out(tmp_path):
    table = create(tmp_path / "t", rows(1, 2), rows(3, 4))
    table.delete("n in (2, 3)")
    made = merged(table, metadata(table))
    assert (made.physical_rows, made.deletion_file) == (2, None)
    made.id = 0
    after = commit(table, replacing(made, [1]))
    assert ids(after) == ["r1", "r4"]


# stage_tier_merge says what Lance's own plan would say.
def test_the_options_of_a_task_are_those_of_a_plan(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    plan: Any = Compaction.plan(table, {"target_rows_per_fragment": LARGEST_ROWS})
    planned = json.loads(plan.tasks[0].json())["options"]
    assert {name: planned[name] for name in _OPTIONS} == dict(_OPTIONS)


# with_merge: an updated fragment may have other files, rows, row ids and versions than it had.
def test_an_updated_fragment_is_used_as_given(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    (made,) = fragments(table, rows(7, 8, 9))
    made.id = 1
    made.row_id_meta = RowIdSequence([50, 40, 1]).to_inline_metadata()
    made.created_at_version_meta = encode_versions([(1, 2), (2, 1)])
    made.last_updated_at_version_meta = encode_versions([(2, 3), (1, 2)])
    after = commit(table, replacing(made, []))
    assert ids(after) == ["r1", "r7", "r8", "r9"]
    found = placed(after)
    assert found["r7"] == (50, 2, 3)
    assert found["r8"] == (40, 1, 3)
    assert found["r9"] == (1, 1, 2)
    assert placed(lance.dataset(table.uri)) == found
    assert [f.metadata.files[0].path for f in after.get_fragments()][1] == made.files[0].path


# with_merge: an append becomes an update, and its rows are new all the same.
def test_new_rows_of_an_update_get_ids_and_versions_of_their_own(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    before = placed(table)
    made = merged(table, metadata(table))
    made.id = 0
    after = commit(table, replacing(made, [1], fragments(table, rows(3, 4))))
    found = placed(after)
    assert [f.fragment_id for f in after.get_fragments()] == [0, 2]
    assert {id: found[id] for id in before} == before
    assert found["r3"] == (2, after.version, after.version)
    assert found["r4"] == (3, after.version, after.version)


# row_versions reads and writes this.
def test_versions_of_rows_are_runs_in_a_message_in_the_fragment(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    (only,) = metadata(table)
    encoded = json.loads(only.last_updated_at_version_meta.json())["inline"]
    assert encoded == json.loads(encode_versions([(2, 2)]).json())["inline"]
    again = RowDatasetVersionMeta.from_json(json.dumps({"inline": encoded}))
    assert again.json() == only.last_updated_at_version_meta.json()


# stage_tier_merge on a fork: the files of the merged fragment are the fork's own.
def test_a_task_on_a_fork_writes_to_the_fork(tmp_path):
    table = create(tmp_path / "t", rows(1), rows(2))
    branch = fork(table, "b")
    made = merged(branch, metadata(branch))
    made.id = 0
    assert made.files[0].base_id is None
    assert (tmp_path / "t/tree/b/data" / made.files[0].path).exists()
    after = commit(branch, replacing(made, [1]))
    assert placed(after) == placed(table)
    assert len(lance.dataset(table.uri).get_fragments()) == 2


# stage_tier_merge leaves fragments of indexes alone; others do not change what an index covers.
@pytest.mark.parametrize("kind,column", [("BTREE", "id"), ("BITMAP", "n"), ("INVERTED", "text")])
def test_a_merge_of_other_fragments_leaves_indexes_alone(tmp_path, kind, column):
    table = create(tmp_path / "t", rows(1, 2))
    table = commit(table, LanceOperation.CreateIndex([index(table, column, kind)], []))
    for number in (3, 4):
        table = commit(table, LanceOperation.Append(fragments(table, rows(number))))
    _, second, third = metadata(table)
    made = merged(table, [second, third])
    made.id = second.id
    after = commit(table, replacing(made, [third.id], fragments(table, rows(5))))
    assert covered(after, f"{column}_{kind}") == {0}
    if kind == "INVERTED":
        found = after.to_table(full_text_query={"query": "fox", "columns": ["text"]})
        assert sorted(found["id"].to_pylist()) == ["r1", "r2", "r3", "r4", "r5"]
    else:
        asked = [f"id = 'r{n}'" if kind == "BTREE" else f"n = {n}" for n in range(1, 6)]
        assert [ids(after, where) for where in asked] == [[f"r{n}"] for n in range(1, 6)]


# TableSnapshot._find_ids: what the index does not cover is looked up in memory.
def test_a_fast_search_by_a_filter_returns_what_the_index_covers(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    table = commit(table, LanceOperation.CreateIndex([index(table, "id", "BTREE")], []))
    table = commit(table, LanceOperation.Append(fragments(table, rows(4))))
    table.delete("id = 'r2'")
    table = lance.dataset(table.uri)
    where = "id in ('r1', 'r2', 'r4', 'r9')"
    assert ids(table, where) == ["r1", "r4"]
    fast = table.scanner(columns=["id"], filter=where, fast_search=True).to_table()
    assert fast["id"].to_pylist() == ["r1"]


# IdCache._load, changes_between: what is read of chosen fragments comes fragment by fragment.
def test_a_scan_of_chosen_fragments_returns_each_in_one_piece(tmp_path):
    table = create(tmp_path / "t", *(rows(*range(n * 9, n * 9 + 9)) for n in range(20)))
    chosen = table.get_fragments()[1::3]
    found = table.scanner(columns=["id"], with_row_address=True, fragments=chosen).to_table()
    owners = [address >> 32 for address in found["_rowaddr"].to_pylist()]
    assert [a for a, b in zip(owners, [None, *owners[:-1]], strict=True) if a != b] == [
        f.fragment_id for f in chosen
    ]


# IdCache, TableSnapshot.fragments: a name stands for the same rows for ever.
def test_the_name_of_a_file_is_never_used_again(tmp_path):
    table = create(tmp_path / "t", *(rows(n) for n in range(10)))
    again = create(tmp_path / "u", *(rows(n) for n in range(10)))
    names = [f.files[0].path for t in (table, again) for f in metadata(t)]
    assert len(set(names)) == 20


# IdCache: a list of deleted rows is told by the version it was made on, and a random number.
def test_two_deletions_of_one_version_differ(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    (fragment,) = table.get_fragments()
    left: list[Any] = [fragment.delete_rows([offset]) for offset in (0, 1)]
    files = [part.deletion_file for part in left]
    assert files[0].read_version == files[1].read_version == table.version
    assert files[0].id != files[1].id


# stage_tier_merge: sizes of files are known without looking at them.
def test_fragments_know_the_sizes_of_their_files(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    for part in metadata(lance.dataset(table.uri)):
        for file in part.files:
            assert file.file_size_bytes == (tmp_path / "t/data" / file.path).stat().st_size


# stage_tier_merge: the JSON of a fragment is all that a task has to know of it.
def test_a_fragment_survives_json(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    table.delete("n = 1")
    (only,) = metadata(table)
    again = FragmentMetadata.from_json(json.dumps(only.to_json()))
    assert again.to_json() == only.to_json()
    assert again.num_rows == 1
