"""What `storage/room.py` builds on: fragments that Lance knows may become others."""

from __future__ import annotations

import json

from lance import LanceOperation
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.storage.row_versions import encode_versions
from tests.lance_facts.lance_tables import commit, covered, create, fragments, ids, rows


def placeholder(fragment):
    return FragmentMetadata.from_json(json.dumps({**fragment.to_json(), "physical_rows": 1}))


# stage_room: an id is reserved by a fragment of one row, whatever its file has.
def test_a_placeholder_takes_one_row_id_and_the_next_fragment_id(tmp_path):
    table = create(tmp_path / "t", rows(1, 2), rows(3))
    made = commit(table, LanceOperation.Append([placeholder(fragments(table, rows(7, 8, 9))[0])]))
    assert [f.fragment_id for f in made.get_fragments()] == [0, 1, 2]
    again = commit(made, LanceOperation.Append(fragments(made, rows(10))))
    assert again.scanner(columns=["id"], filter="id = 'r10'", with_row_id=True).to_table()[
        "_rowid"
    ].to_pylist() == [4]


# in_room: what is put in a placeholder's place keeps the row ids and versions that it comes with,
# and no index takes it for a fragment that it covers.
def test_a_fragment_in_the_place_of_another_keeps_its_row_ids_and_versions(tmp_path):
    table = create(tmp_path / "t", rows(1, 2, 3))
    table.create_scalar_index("n", "BTREE", name="n_BTREE")
    table = table.checkout_version(table.latest_version)
    new = fragments(table, rows(2, 3, text="new"))[0]
    left = table.get_fragments()[0].delete_rows([1, 2])
    assert left is not None
    room = commit(table, LanceOperation.Append([placeholder(new)]))
    new.id = 1
    new.row_id_meta = RowIdSequence([1, 2]).to_inline_metadata()
    new.created_at_version_meta = encode_versions([(2, 2)])
    new.last_updated_at_version_meta = encode_versions([(2, room.version + 1)])
    operation = LanceOperation.Update(updated_fragments=[left, new], update_mode="rewrite_rows")
    made = commit(room, operation)
    columns = ["text", "_row_created_at_version", "_row_last_updated_at_version"]
    found = made.scanner(columns=columns, with_row_id=True).to_table().to_pylist()
    version = room.version + 1
    assert [(r["text"], r["_rowid"], *list(r.values())[1:3]) for r in found] == [
        ("red fox 1", 0, 2, 2),
        ("new 2", 1, 2, version),
        ("new 3", 2, 2, version),
    ]
    assert covered(made, "n_BTREE") == {0}
    assert ids(made, "n >= 2") == ["r2", "r3"]
