"""What `storage/patch.py` builds on: rows deleted by their places, and row ids that stay."""

from __future__ import annotations

import lance
from lance import LanceOperation
from lance.fragment import RowIdSequence

from tests.lance_facts.lance_tables import commit, create, fragments, head, ids, rows

VERSIONS = ["id", "_row_created_at_version", "_row_last_updated_at_version"]


def placed(table):
    """Per id: the row's id, and the versions it was created and updated in."""
    found = table.scanner(columns=VERSIONS, with_row_id=True).to_table().to_pylist()
    return {row["id"]: (row["_rowid"], *(row[name] for name in VERSIONS[1:])) for row in found}


def without(table, *offsets):
    """The first fragment with some rows fewer."""
    left = table.get_fragments()[0].delete_rows(offsets)
    assert left is not None
    return left


def field_ids(parts):
    return sorted({field for part in parts for file in part.files for field in file.fields})


# stage_patch: offsets are those in the files, also when rows before them are deleted already.
def test_rows_are_deleted_by_their_offsets(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3, 4))
    left = without(table, 1)
    table = commit(table, LanceOperation.Delete([left], [], "false"))
    left = without(table, 2)
    assert head(table) == 3
    assert ids(commit(table, LanceOperation.Delete([left], [], "false"))) == ["r1", "r4"]


# stage_patch: a fragment that becomes empty goes into the list of removed ones.
def test_deleting_all_rows_of_a_fragment_gives_none(tmp_path):
    table = create(tmp_path / "t", rows(1, 2))
    assert table.get_fragments()[0].delete_rows([0, 1]) is None


# stage_patch: the first rows of new fragments are replacements, the others are new.
def test_replaced_rows_keep_their_row_ids_and_new_ones_get_others(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    before = placed(table)
    left = without(table, 1)
    new = fragments(table, rows(2, 4, text="new"))
    new[0].row_id_meta = RowIdSequence([before["r2"][0]]).to_inline_metadata()
    operation = LanceOperation.Update(
        updated_fragments=[left],
        new_fragments=new,
        fields_for_preserving_frag_bitmap=field_ids(new),
        update_mode="rewrite_rows",
    )
    after = placed(commit(table, operation))
    version = head(table)
    assert after["r2"] == (*before["r2"][:2], version)
    assert after["r4"][0] not in {row[0] for row in before.values()}
    assert after["r4"][1:] == (version, version)
    assert after["r1"] == before["r1"]


# stage_patch: without the list of fields, Lance takes a new fragment for one that indexes cover.
def test_indexes_do_not_cover_rewritten_rows_when_their_fields_are_listed(tmp_path):
    for listed in (True, False):
        table = create(tmp_path / f"t{listed}", rows(1, 2))
        table.create_scalar_index("text", "INVERTED", with_position=True)
        left = without(table, 1)
        new = fragments(table, rows(2, text="turtle"))
        new[0].row_id_meta = RowIdSequence([placed(table)["r2"][0]]).to_inline_metadata()
        operation = LanceOperation.Update(
            updated_fragments=[left],
            new_fragments=new,
            fields_for_preserving_frag_bitmap=field_ids(new) if listed else [],
            update_mode="rewrite_rows",
        )
        table = lance.dataset(commit(table, operation).uri)
        found = table.to_table(full_text_query={"query": "turtle", "columns": ["text"]})
        assert found.num_rows == (1 if listed else 0)
