"""What a snapshot of a table can tell."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.storage.tables import IndexSpec
from tests.storage.people import INDICES, commit, people, stage_delete, stage_merge, vector


@pytest.fixture(params=[False, True], ids=["plain", "indexed"])
def snapshot(request, tables, place):
    if request.param:
        commit(tables, tables.stage_indices(tables.open(place), INDICES))
    return tables.open(place)


def names(rows):
    return rows["id"].to_pylist()


def test_rows_are_read_whole_in_part_and_in_batches(snapshot):
    assert snapshot.read().num_rows == snapshot.count() == 400
    assert snapshot.read(["age"], where="age < 3", limit=4).to_pydict().keys() == {"age"}
    assert snapshot.read(limit=4).num_rows == 4
    batches = list(snapshot.batches(["id"], where="team = 'red'"))
    assert sum(batch.num_rows for batch in batches) == snapshot.count("team = 'red'") == 134


# --- take ---


def test_rows_are_taken_in_the_order_of_their_ids(snapshot):
    rows = snapshot.read(["id", "_rowid"]).to_pylist()
    wanted = [rows[n] for n in (399, 0, 250, 0)]
    taken = snapshot.take([row["_rowid"] for row in wanted], ["id"])
    assert names(taken) == [row["id"] for row in wanted]
    assert taken.column_names == ["id"]
    assert snapshot.take([rows[7]["_rowid"]]).column_names == snapshot.schema.names


def test_nothing_is_taken_for_no_ids(snapshot):
    assert snapshot.take([], ["id"]).num_rows == 0


def test_a_row_that_is_gone_is_not_found(tables, one_row_gone):
    before = tables.open(one_row_gone, tables.head(one_row_gone) - 1)
    (gone,) = before.read(["_rowid"], where="id = 'p5'")["_rowid"].to_pylist()
    assert names(before.take([gone], ["id"])) == ["p5"]
    with pytest.raises(NotFound, match="1 of 2 rows are not in version"):
        tables.open(one_row_gone).take([gone, gone + 1])


def test_row_ids_stay_over_an_update_and_a_compaction(tables, place):
    (row,) = tables.open(place).read(["_rowid"], where="id = 'p5'")["_rowid"].to_pylist()
    commit(tables, stage_merge(tables.open(place), people(5, 6, age=99)))
    commit(tables, tables.stage_compaction(tables.open(place)))
    assert tables.open(place).take([row], ["id", "age"]).to_pylist() == [{"id": "p5", "age": 99}]


# --- text ---


def test_any_word_all_words_and_a_phrase(snapshot):
    def found(text, mode):
        return sorted(names(snapshot.search("bio", text, mode=mode, columns=["id"])))

    assert found("number7 number8", "any") == ["p7", "p8"]
    assert found("fox number7", "all") == ["p7"]
    assert len(found("brown fox", "phrase")) == 400
    assert found("fox brown", "phrase") == []
    assert found("nothing", "any") == []


def test_all_that_match_are_found_with_their_scores(snapshot):
    rows = snapshot.search("bio", "fox number7", columns=["id", "age"])
    assert rows.column_names == ["id", "age", "_score"]
    assert rows.num_rows == 400
    scores = dict(zip(names(rows), rows["_score"].to_pylist(), strict=True))
    assert max(scores, key=scores.__getitem__) == "p7"


def test_a_search_looks_only_at_rows_that_match(snapshot):
    rows = snapshot.search("bio", "fox", where="age = 30", columns=["id"])
    assert sorted(names(rows)) == ["p120", "p210", "p30", "p300", "p390"]


def test_spelling_mistakes_are_forgiven_in_rows_of_an_index(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))

    def found(text, edits):
        rows = tables.open(place).search("bio", text, mode="fuzzy", edits=edits, columns=["id"])
        assert len(set(names(rows))) == rows.num_rows
        return set(names(rows))

    near = (*range(10), *range(17, 98, 10), *range(70, 80))
    assert found("nunber7", 1) == {"p7"}
    assert found("number7", 1) == {f"p{n}" for n in near}
    assert len(found("qiuck", 2)) == 400
    # More similar words than Lance looks for by itself.
    assert len(found("number77", 2)) > 100
    rows = tables.open(place).search("bio", "quik", mode="fuzzy", where="age = 30", columns=["id"])
    assert set(names(rows)) == {"p120", "p210", "p30", "p300", "p390"}


def test_only_rows_of_an_index_are_searched_on_request(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    commit(tables, tables.stage_append(tables.open(place), people(400, 403)))
    assert tables.open(place).search("bio", "fox").num_rows == 403
    assert tables.open(place).search("bio", "fox", indexed_only=True).num_rows == 400


def test_an_unknown_mode_and_column_are_refused(snapshot):
    with pytest.raises(UsageError, match="search mode"):
        snapshot.search("bio", "x", mode="wild")
    with pytest.raises(StorageError, match="nothing"):
        snapshot.search("nothing", "x")


# --- vectors ---


def test_the_nearest_come_first_with_their_distance(snapshot):
    rows = snapshot.nearest("vec", vector(7), 3, columns=["id"], probes=4)
    assert rows.column_names == ["id", "_distance"]
    assert names(rows)[0] == "p7"
    distances = rows["_distance"].to_pylist()
    assert distances == sorted(distances)
    assert distances[0] == pytest.approx(0, abs=1e-5)


def test_nearness_does_not_depend_on_length(snapshot):
    longer = [10 * value for value in vector(7)]
    assert names(snapshot.nearest("vec", longer, 1)) == ["p7"]


def test_k_rows_are_found_among_those_that_match(snapshot):
    rows = snapshot.nearest("vec", vector(7), 5, where="age = 30", columns=["id"], probes=4)
    assert sorted(names(rows)) == ["p120", "p210", "p30", "p300", "p390"]


def test_a_vector_of_another_dimension_is_refused(snapshot):
    with pytest.raises(StorageError, match=snapshot.ref.path):
        snapshot.nearest("vec", [1.0, 2.0], 1)


def test_the_list_of_indexes_is_sorted_by_name(tables, place):
    specs = [IndexSpec("b", "age", "btree"), IndexSpec("a", "team", "bitmap")]
    commit(tables, tables.stage_indices(tables.open(place), specs))
    assert [i.name for i in tables.open(place).indices()] == ["a", "b"]


# --- ids, and rows that came ---


def test_ids_are_found_again_as_the_first_time(snapshot):
    asked = pa.array(["p3", "nobody", "p399", "p3"])
    first = snapshot.find("id", asked, ["id"])
    assert sorted(names(first)) == ["p3", "p399"]
    places = snapshot.read(["id"], places=True).to_pylist()
    expected = {row["id"]: (row["_rowid"], row["_rowaddr"]) for row in places}
    for again in (first, snapshot.find("id", asked, ["id"])):
        found = {row["id"]: (row["_rowid"], row["_rowaddr"]) for row in again.to_pylist()}
        assert found == {id: expected[id] for id in ("p3", "p399")}
    more = snapshot.find("id", pa.array(["p4", "p399", None]), ["id"])
    assert sorted(names(more)) == ["p399", "p4"]
    assert snapshot.find("id", pa.array(["nobody"]), ["id"]).schema == first.schema


def test_a_version_of_main_is_opened_once_while_it_is_held(tables, place):
    version = tables.head(place)
    held = tables.open(place, version)
    # A branch of the same name, made later, has other tables at the same versions.
    assert (tables.open(place, version) is held) == (place.branch is None)
    assert names(held.find("id", pa.array(["p3"]), ["id"])) == ["p3"]
    commit(tables, stage_delete(held, "id = 'p3'"))
    after = tables.open(place, version + 1)
    assert names(after.find("id", pa.array(["p3"]), ["id"])) == []
    assert names(held.find("id", pa.array(["p3"]), ["id"])) == ["p3"]


def test_rows_that_came_are_told_with_their_ids(tables, place):
    before = tables.open(place)
    assert before.next_row_id == before.count() == 400
    commit(tables, tables.stage_append(before, people(500, 503)))
    after = tables.open(place)
    assert after.next_row_id == 403
    came = after.appended(before, ["id", "age"])
    read = after.read(["id", "age"], "id >= 'p500' and id < 'p503'", places=True)
    assert came.sort_by("_rowid").to_pylist() == read.drop_columns("_rowaddr").to_pylist()
    # Not so easy: more than one write, a row that was replaced, many rows.
    commit(tables, tables.stage_append(after, people(503, 504)))
    assert tables.open(place).appended(before, ["id"]) is None
    one = tables.open(place)
    commit(tables, stage_merge(one, people(503, 505)))
    assert tables.open(place).appended(one, ["id"]) is None
    many = tables.open(place)
    commit(tables, tables.stage_append(many, people(1000, 1900)))
    assert tables.open(place).appended(many, ["id"]) is None


def test_large_rows_are_not_kept_after_they_were_written(tables, place):
    before = tables.open(place)
    for number, (bio, kept) in enumerate((("short", True), ("x" * 100_000, False))):
        staged = tables.stage_append(
            tables.open(place), people(600 + number, 601 + number, bio=bio)
        )
        assert (staged._added is not None) == kept
        commit(tables, staged)
    assert tables.open(place).appended(before, ["id"]) is None
