"""Compaction changes how a table is stored, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import ReadSetConflict
from omnigraph.storage.changes import LAST_UPDATED, changes_between
from omnigraph.storage.rebase import rebased
from omnigraph.storage.tables import NewColumn, TableRef
from tests.storage.people import (
    INDICES,
    QUESTIONS,
    SCHEMA,
    append,
    commit,
    content,
    people,
    plan,
    stage_delete,
    stage_merge,
    vector,
)


def stage(tables, ref, rows_per_fragment=100_000, build=None):
    table = tables.open(ref)
    tasks = tables.plan_compaction(table, rows_per_fragment=rows_per_fragment)
    rewritten = [tables.rewrite(table, task) for task in tasks]
    return tables.stage_compaction(table, rewritten, build)


def compact(tables, ref, **options):
    """Compact a table, with all indexes that it has."""
    names = {index.name for index in tables.open(ref).indices()}
    specs = [spec for spec in INDICES if spec.name in names]

    def build(compacted):
        return tables.stage_indices(compacted, specs, extend=True)

    staged = stage(tables, ref, build=build, **options)
    made = commit(tables, staged)
    return commit(tables, tables.indices_after(staged)) if len(staged.steps) > 1 else made


def test_staging_moves_no_head_and_leaves_no_version_behind(tables, place, tmp_path):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    head = tables.head(place)
    files = set(tmp_path.rglob("*.manifest"))
    assert stage(tables, place, build=lambda t: tables.stage_indices(t, INDICES)) is not None
    assert tables.head(place) == head
    assert set(tmp_path.rglob("*.manifest")) == files


def test_content_and_row_ids_stay(tables, one_row_gone):
    before, head = content(tables, one_row_gone), tables.head(one_row_gone)
    staged = stage(tables, one_row_gone)
    made = commit(tables, staged)
    assert (made.version, made.rows) == (head + 1, 399)
    assert [v.transaction_id for v in tables.versions_after(one_row_gone, head)] == [
        staged.transaction_id
    ]
    assert len(tables.open(one_row_gone).fragment_ids) == 1
    assert content(tables, one_row_gone) == before


def test_a_table_that_is_compact_has_nothing_to_do(tables, place):
    compact(tables, place)
    assert stage(tables, place) is None


def test_an_empty_table_has_nothing_to_do(tables):
    tables.create("t", SCHEMA)
    assert stage(tables, TableRef("t")) is None


def test_fragments_have_the_size_that_is_asked_for(tables, place):
    compact(tables, place, rows_per_fragment=200)
    assert len(tables.open(place).fragment_ids) == 2


def test_all_indexes_stay_in_use(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    answers = {q: tables.open(place).count(q) for q in QUESTIONS.values()}
    compact(tables, place)
    assert {(i.segments, i.uncovered) for i in tables.open(place).indices()} == {(1, 0)}
    for name, question in QUESTIONS.items():
        assert name in plan(tables, place, question)
        assert tables.open(place).count(question) == answers[question]
    assert tables.open(place).search("bio", "number7")["id"].to_pylist() == ["p7"]
    assert tables.open(place).nearest("vec", vector(7), 1)["id"].to_pylist() == ["p7"]


def test_rows_that_are_gone_take_no_places_of_others_in_searches(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    commit(tables, stage_delete(tables.open(place), "age < 80"))
    compact(tables, place)
    left = {f"p{n}" for n in range(400) if n % 90 >= 80}
    assert {i.uncovered for i in tables.open(place).indices()} == {0}
    for mode, text in (("any", "fox"), ("phrase", "brown fox"), ("fuzzy", "fix")):
        rows = tables.open(place).search("bio", text, mode=mode, columns=["id"])
        assert (set(rows["id"].to_pylist()), rows.num_rows) == (left, len(left))
    # There may be fewer than asked for, but nothing that is gone.
    rows = tables.open(place).nearest("vec", vector(7), 400, columns=["id"], probes=4)
    assert set(rows["id"].to_pylist()) == left


def test_every_row_is_found_by_a_rebuilt_btree(tables, one_row_gone):
    commit(tables, tables.stage_indices(tables.open(one_row_gone), INDICES[:2]))
    compact(tables, one_row_gone)
    snapshot = tables.open(one_row_gone)
    for number in range(0, 400, 7):
        rows = snapshot.read(["id", "bio"], where=f"id = 'p{number}'").to_pylist()
        assert rows == [{"id": f"p{number}", "bio": f"quick brown fox number{number}"}]
    assert snapshot.count("id = 'p5'") == 0


def test_an_index_in_several_segments_stays_in_use(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    for first in (500, 510):
        append(tables, place, first, first + 10)
    commit(tables, tables.stage_indices(tables.open(place), INDICES, extend=True))
    compact(tables, place)
    assert {i.uncovered for i in tables.open(place).indices()} == {0}
    assert [tables.open(place).count(f"id = 'p{n}'") for n in (5, 505, 515)] == [1, 1, 1]
    assert tables.open(place).search("bio", "fox").num_rows == 420


def test_inherited_indexes_stay_in_use_on_a_fork(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    tables.create_branch(place, tables.head(place), "other")
    other = TableRef(place.path, "other")
    compact(tables, other)
    assert {(i.segments, i.uncovered) for i in tables.open(other).indices()} == {(1, 0)}
    assert "id_btree" in plan(tables, other, "id = 'p7'")
    assert tables.open(other).count("id = 'p7'") == 1


def test_a_table_can_be_written_after_it(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    compact(tables, place)
    commit(tables, stage_merge(tables.open(place), people(398, 410, bio="turtle")))
    commit(tables, stage_delete(tables.open(place), "id = 'p0'"))
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    compact(tables, place)
    assert len(tables.open(place).fragment_ids) == 1
    assert tables.open(place).count() == 409
    assert tables.open(place).search("bio", "turtle").num_rows == 12
    assert [tables.open(place).count(f"id = 'p{n}'") for n in (0, 1, 399, 409)] == [0, 1, 1, 1]


def test_changed_columns_are_compacted(tables, place):
    new = [NewColumn(pa.field("n", pa.int64()), 7), NewColumn(pa.field("m", pa.utf8()))]
    commit(tables, tables.stage_schema(tables.open(place), adds=new, drops=["age"]))
    append_rows = people(400, 401).drop_columns(["age"])
    append_rows = append_rows.append_column("n", pa.array([1])).append_column("m", pa.array(["x"]))
    schema = tables.open(place).schema
    commit(tables, tables.stage_append(tables.open(place), append_rows.cast(schema)))
    before = content(tables, place)
    compact(tables, place)
    assert content(tables, place) == before
    assert tables.open(place).schema.equals(schema, check_metadata=True)


def test_fragment_ids_that_were_in_use_are_not_used_again(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES[:3]))
    append(tables, place, 500, 510)
    commit(tables, stage_delete(tables.open(place), "id >= 'p500' and id < 'p51'"))
    used = max(tables.open(place).fragment_ids) + 1
    compact(tables, place)
    assert min(tables.open(place).fragment_ids) > used


def test_it_goes_on_top_of_new_rows_with_its_indexes(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    old = tables.open(place)
    staged = stage(tables, place, build=lambda t: tables.stage_indices(t, INDICES, extend=True))
    append(tables, place, 500, 510)
    later = rebased(staged, old, tables.open(place))
    commit(tables, later)
    commit(tables, tables.indices_after(later))
    assert {i.uncovered for i in tables.open(place).indices()} == {1}
    assert [tables.open(place).count(f"id = 'p{n}'") for n in (5, 505)] == [1, 1]
    assert tables.open(place).search("bio", "fox").num_rows == 410


def test_it_leaves_alone_what_others_have_changed_meanwhile(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    old = tables.open(place)
    build = lambda t: tables.stage_indices(t, INDICES, extend=True)  # noqa: E731
    staged = stage(tables, place, rows_per_fragment=200, build=build)
    commit(tables, stage_delete(tables.open(place), "id = 'p5'"))
    changed = tables.open(place)
    later = rebased(staged, old, changed)
    assert later.steps == ("compaction",)
    commit(tables, later)
    compacted = tables.open(place)
    assert 1 < len(compacted.fragment_ids) < len(changed.fragment_ids)
    assert compacted.count() == 399
    assert [compacted.count(f"id = 'p{n}'") for n in range(0, 400, 9)] == [1] * 45
    assert compacted.count("id = 'p5'") == 0


def test_nothing_is_left_of_it_when_others_have_changed_everything(tables, place):
    old = tables.open(place)
    staged = stage(tables, place)
    commit(tables, stage_delete(tables.open(place), "id = 'p5'"))
    with pytest.raises(ReadSetConflict):
        rebased(staged, old, tables.open(place))


def test_many_versions_of_rows_are_told_in_few_bytes(tables):
    tables.create("t", SCHEMA)
    ref = TableRef("t")
    for number in range(400):
        append(tables, ref, number, number + 1)
    before = tables.open(ref)
    seen = before.read(["id", LAST_UPDATED], places=True)
    compact(tables, ref)
    after = tables.open(ref)
    now = after.read(["id", LAST_UPDATED], places=True)
    assert len(set(now[LAST_UPDATED].to_pylist())) <= 64
    was = dict(zip(seen["id"].to_pylist(), seen[LAST_UPDATED].to_pylist(), strict=True))
    newer = dict(zip(now["id"].to_pylist(), now[LAST_UPDATED].to_pylist(), strict=True))
    assert all(was[id] <= newer[id] <= before.version for id in was)
    assert changes_between(before, after, ["id"]).after.num_rows == 0


def test_a_compaction_can_be_undone(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    head, before = tables.head(place), content(tables, place)
    compact(tables, place)
    commit(tables, tables.stage_restore(place, head))
    assert content(tables, place) == before
    assert "id_btree" in plan(tables, place, "id = 'p7'")
    assert tables.open(place).count("id = 'p7'") == 1
