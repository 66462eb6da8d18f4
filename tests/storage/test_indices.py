"""Indexes are staged, several at once, and change no answer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import ReadSetConflict, UsageError
from omnigraph.storage.tables import IndexSpec, TableRef
from tests.storage.people import (
    INDICES,
    QUESTIONS,
    SCHEMA,
    append,
    commit,
    people,
    plan,
    stage_delete,
    stage_merge,
    vector,
)


def build(tables, ref, *specs, **options):
    return commit(tables, tables.stage_indices(tables.open(ref), specs or INDICES, **options))


def nearest(tables, ref, **options):
    rows = tables.open(ref).nearest("vec", vector(1), 5, columns=["id"], **options)
    return rows["id"].to_pylist()


def test_staging_moves_no_head_and_shows_no_index(tables, place):
    head = tables.head(place)
    tables.stage_indices(tables.open(place), INDICES)
    assert tables.head(place) == head
    assert tables.open(place).indices() == ()


def test_all_indexes_of_a_table_are_one_version(tables, place):
    head = tables.head(place)
    staged = tables.stage_indices(tables.open(place), INDICES)
    made = commit(tables, staged)
    assert made.version == head + 1
    assert made.transaction_id == staged.transaction_id
    assert [v.transaction_id for v in tables.versions_after(place, head)] == [made.transaction_id]
    found = {
        i.name: (i.column, i.kind, i.segments, i.uncovered) for i in tables.open(place).indices()
    }
    assert found == {spec.name: (spec.column, spec.kind, 1, 0) for spec in INDICES}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_predicate_uses_its_index_and_gives_the_same_rows(tables, place, name):
    before = tables.open(place).read(["id"], where=QUESTIONS[name])
    build(tables, place)
    assert name in plan(tables, place, QUESTIONS[name])
    after = tables.open(place).read(["id"], where=QUESTIONS[name])
    assert before.num_rows > 0
    assert sorted(after["id"].to_pylist()) == sorted(before["id"].to_pylist())


@pytest.mark.parametrize(
    "mode,text", [("any", "number7 number8"), ("all", "fox number7"), ("phrase", "brown fox")]
)
def test_text_search_gives_the_same_rows_with_and_without_an_index(tables, place, mode, text):
    before = tables.open(place).search("bio", text, mode=mode, columns=["id"])
    build(tables, place)
    after = tables.open(place).search("bio", text, mode=mode, columns=["id"])
    assert before.num_rows > 0
    assert sorted(after["id"].to_pylist()) == sorted(before["id"].to_pylist())


@pytest.mark.parametrize(
    "kind", ["ivf_flat", "ivf_pq", "ivf_hnsw_flat", "ivf_hnsw_sq", "ivf_hnsw_pq"]
)
def test_every_kind_of_vector_index_finds_the_nearest(tables, place, kind):
    exact = nearest(tables, place)
    build(tables, place, IndexSpec("vec", "vec", kind, {"num_partitions": 2}))
    (index,) = tables.open(place).indices()
    assert (index.kind, index.uncovered) == (kind, 0)
    assert nearest(tables, place, exact=True) == exact
    assert nearest(tables, place, probes=2, refine=20) == exact


def test_a_vector_index_is_by_cosine_distance_and_used(tables, place):
    build(tables, place)
    query = {"column": "vec", "q": vector(1), "k": 5, "metric": "cosine"}
    scanner = tables.open(place)._dataset.scanner(columns=["id", "_distance"], nearest=query)
    assert "name=vec_ivf, k=5" in scanner.explain_plan()
    assert "metric=Cosine" in scanner.explain_plan()


def test_an_index_of_the_same_name_is_replaced(tables, place):
    build(tables, place)
    build(
        tables, place, IndexSpec("team_bitmap", "team", "btree"), IndexSpec("new", "team", "bitmap")
    )
    kinds = {i.name: (i.kind, i.segments) for i in tables.open(place).indices()}
    assert kinds["team_bitmap"] == ("btree", 1)
    assert len(kinds) == len(INDICES) + 1
    assert tables.open(place).count("team = 'red'") == 134


def test_an_inherited_index_is_replaced_on_a_fork_only(tables, place):
    main = TableRef(place.path)
    build(tables, place)
    tables.create_branch(place, tables.head(place), "other")
    other = TableRef(place.path, "other")
    append(tables, other, 900, 910)
    build(tables, other)
    assert {i.uncovered for i in tables.open(other).indices()} == {0}
    assert tables.open(other).read(["id"], where="id = 'p905'").num_rows == 1
    assert tables.open(main).count("id = 'p905'") == 0


def test_extending_covers_new_rows_only(tables, place):
    build(tables, place)
    append(tables, place, 500, 600)
    assert {i.uncovered for i in tables.open(place).indices()} == {1}
    build(tables, place, extend=True)
    assert {(i.segments, i.uncovered) for i in tables.open(place).indices()} == {(2, 0)}
    for number in (7, 550):
        assert tables.open(place).count(f"id = 'p{number}'") == 1
        assert tables.open(place).search("bio", f"number{number}").num_rows == 1
    assert "id_btree" in plan(tables, place, "id = 'p550'")


def test_an_index_of_another_kind_is_not_extended_but_replaced(tables, place):
    build(tables, place, IndexSpec("x", "team", "bitmap"))
    append(tables, place, 500, 510)
    build(tables, place, IndexSpec("x", "team", "btree"), extend=True)
    (index,) = tables.open(place).indices()
    assert (index.kind, index.segments, index.uncovered) == ("btree", 1, 0)


def test_the_name_of_an_index_of_another_column_is_refused(tables, place):
    build(tables, place, IndexSpec("x", "team", "bitmap"))
    with pytest.raises(UsageError, match="x is of column team; drop it first"):
        build(tables, place, IndexSpec("x", "age", "btree"))


def test_extending_what_covers_everything_is_nothing(tables, place):
    build(tables, place)
    assert tables.stage_indices(tables.open(place), INDICES, extend=True) is None


def test_an_index_that_grows_row_by_row_has_few_segments(tables, place):
    spec = IndexSpec("id", "id", "btree")
    build(tables, place, spec)
    (first,) = tables.open(place).indices()
    for number in range(12):
        append(tables, place, 500 + number, 501 + number)
        build(tables, place, spec, extend=True)
    (index,) = tables.open(place).indices()
    assert index.uncovered == 0 and index.segments <= 4
    # The many rows that were there first are not indexed again.
    (described,) = tables.open(place)._dataset.describe_indices()
    assert first.fragments in [set(segment.fragment_ids) for segment in described.segments]


@pytest.mark.parametrize(
    "name,old,new",
    [
        ("age_btree", "age = 17", "age = 1000"),
        ("team_bitmap", "team = 'blue' and id = 'p17'", "team = 'pink'"),
        ("tags_labels", "array_has(tags, 't2') and id = 'p17'", "array_has(tags, 'new')"),
    ],
)
def test_values_that_a_row_had_are_not_found_when_an_index_is_extended(
    tables, place, name, old, new
):
    # Without the index of ids, which would answer in its place.
    spec = next(spec for spec in INDICES if spec.name == name)
    build(tables, place, spec)
    before = tables.open(place).count(old)
    changed = people(17, 18, age=1000, team="pink", tags=["new"])
    commit(tables, stage_merge(tables.open(place), changed))
    build(tables, place, spec, extend=True)
    assert tables.open(place).indices()[0].uncovered == 0
    assert tables.open(place).count(old) == before - 1
    assert tables.open(place).count(new) == 1


@pytest.mark.parametrize("spec", INDICES[2:4], ids=lambda spec: spec.name)
def test_an_index_of_few_values_is_extended_by_new_rows_alone(tables, place, spec):
    build(tables, place, spec)
    append(tables, place, 500, 510)
    build(tables, place, spec, extend=True)
    segments = tables.open(place).indices()[0].segments
    assert segments == (2 if place.branch is None else segments)


def test_indexes_can_be_dropped(tables, place):
    build(tables, place)
    commit(tables, tables.stage_indices(tables.open(place), [], drop=["id_btree", "bio_text"]))
    names = {i.name for i in tables.open(place).indices()}
    assert names == {spec.name for spec in INDICES} - {"id_btree", "bio_text"}
    assert tables.open(place).search("bio", "number7").num_rows == 1


def test_rows_replaced_after_an_index_was_built_are_found_by_their_new_values(tables, place):
    build(tables, place)
    new = people(17, 18, bio="slow turtle", age=1000)
    staged = stage_merge(tables.open(place), new)
    assert staged is not None
    assert (staged.rows_written, staged.rows_replaced) == (0, 1)
    commit(tables, staged)
    snapshot = tables.open(place)
    assert snapshot.read(["id"], where="age = 1000")["id"].to_pylist() == ["p17"]
    assert snapshot.count("id = 'p17'") == 1
    assert snapshot.search("bio", "turtle")["id"].to_pylist() == ["p17"]
    assert snapshot.search("bio", "number17").num_rows == 0


def test_rows_deleted_after_an_index_was_built_are_not_found(tables, place):
    build(tables, place)
    commit(tables, stage_delete(tables.open(place), "id = 'p1'"))
    snapshot = tables.open(place)
    assert snapshot.count("id = 'p1'") == 0
    assert snapshot.search("bio", "number1").num_rows == 0
    assert "p1" not in nearest(tables, place, probes=4)


def test_a_table_without_rows_gets_no_index(tables):
    tables.create("t", SCHEMA)
    assert tables.stage_indices(tables.open(TableRef("t")), INDICES) is None


def test_a_vector_index_without_vectors_is_left_out(tables):
    tables.create("t", SCHEMA)
    commit(tables, tables.stage_append(tables.open(TableRef("t")), people(0, 10, vec=None)))
    specs = [IndexSpec("vec", "vec", "ivf_flat"), IndexSpec("pq", "vec", "ivf_pq")]
    assert tables.stage_indices(tables.open(TableRef("t")), specs) is None


def test_a_fresh_and_a_stale_index_build_do_not_both_land(tables, place):
    first, second = (
        tables.stage_indices(tables.open(place), [IndexSpec(name, "age", "btree")])
        for name in ("one", "two")
    )
    commit(tables, first)
    with pytest.raises(ReadSetConflict):
        commit(tables, second)


@pytest.mark.parametrize(
    "spec,message",
    [
        (IndexSpec("x", "nothing", "btree"), "no such column"),
        (IndexSpec("x", "vec", "btree"), "cannot index vec as btree"),
        (IndexSpec("x", "age", "label_list"), "cannot index age as label_list"),
        (IndexSpec("x", "age", "full_text"), "cannot index age as full_text"),
        (IndexSpec("x", "age", "ivf_flat"), "cannot index age as ivf_flat"),
        (IndexSpec("x", "age", "hash"), "no index kind 'hash'"),  # type: ignore[arg-type]
    ],
)
def test_an_index_that_does_not_fit_its_column_is_refused(tables, spec, message):
    tables.create("t", SCHEMA)
    append(tables, TableRef("t"), 0, 10)
    with pytest.raises(UsageError, match=message):
        tables.stage_indices(tables.open(TableRef("t")), [spec])
    assert tables.head(TableRef("t")) == 2


def test_building_and_dropping_the_same_index_is_refused(tables):
    tables.create("t", pa.schema([pa.field("id", pa.utf8())]))
    with pytest.raises(UsageError, match="both build and drop"):
        tables.stage_indices(
            tables.open(TableRef("t")), [IndexSpec("a", "id", "btree")], drop=["a"]
        )
