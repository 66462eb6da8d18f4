"""What differs between two versions, compared with a model of both."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage import changes
from omnigraph.storage.changes import changes_between, kept_places, relocated
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.storage.tables import TableRef, Tables, TableSnapshot
from tests.storage.people import INDICES, SCHEMA, append, commit, people, stage_delete, stage_merge
from tests.storage.table_model import TableModel, rows_of

REF = TableRef("nodes/people")


def pairs(rows: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(rows["id"].to_pylist(), rows["age"].to_pylist(), strict=True))


def check_changes(model: TableModel, old: TableSnapshot, new: TableSnapshot) -> None:
    """Compare what differs with what the model says: rows by row id, with their values."""
    was, now = model.states[old.version], model.states[new.version]
    before = {(row.row_id, id, row.age) for id, row in was.items()}
    after = {(row.row_id, id, row.age) for id, row in now.items()}
    found = changes_between(old, new, ["id", "age", "id"])
    assert found.before.column_names == found.after.column_names == ["id", "age"]
    rows = old.read(["id"], places=True)
    ids = dict(zip(rows[ROW_ADDRESS].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert [ids[at] for at in found.before_addresses.tolist()] == found.before["id"].to_pylist()
    where = (old.version, new.version)
    assert pairs(found.before) == sorted((id, age) for _, id, age in before - after), where
    assert pairs(found.after) == sorted((id, age) for _, id, age in after - before), where


def check_places(model: TableModel, old: TableSnapshot, new: TableSnapshot) -> None:
    """Compare where rows are now with a scan."""
    before = old.read([], places=True)
    after = new.read([], places=True)
    now = dict(zip(after[ROW_ID].to_pylist(), after[ROW_ADDRESS].to_pylist(), strict=True))
    addresses = before[ROW_ADDRESS].to_numpy()
    moved, known = relocated(old, new, addresses)
    kept = {row.row_id: row for row in model.states[new.version].values()}
    was = {row.row_id: row for row in model.states[old.version].values()}
    for row_id, start, place, is_known in zip(
        before[ROW_ID].to_pylist(), addresses.tolist(), moved.tolist(), known.tolist(), strict=True
    ):
        if row_id in kept and kept[row_id] == was[row_id]:
            assert is_known
            assert place == now[row_id]
        elif is_known and row_id in kept:
            # Replaced since: at its new place, or where it was when its fragment is still there.
            assert place in (now[row_id], start)
        elif is_known:
            assert place == start


def check_kept(old: TableSnapshot, new: TableSnapshot) -> None:
    """Compare which rows are in the same place of the same file with scans of both."""

    def files(table: TableSnapshot) -> dict[int, tuple[str, int]]:
        names = {state.id: name for name, state in table.fragments().items()}
        places = table.read([], places=True)[ROW_ADDRESS].to_pylist()
        return {at: (names[at >> 32], at & 0xFFFFFFFF) for at in places}

    for one, other in ((old, new), (new, old)):
        ours, theirs = files(one), files(other)
        found, kept = kept_places(one, other, np.array(list(ours), np.uint64))
        there = set(theirs.values())
        assert kept.tolist() == [place in there for place in ours.values()]
        for place, address, is_kept in zip(ours.values(), found.tolist(), kept, strict=True):
            assert not is_kept or theirs[address] == place


def check_pairs(model: TableModel, *, places: bool = True) -> None:
    tables = Tables(model.tables.location)
    snapshots = {v: tables.open(model.refs[v], v) for v in model.states}
    for old, new in itertools.combinations(sorted(snapshots), 2):
        check_changes(model, snapshots[old], snapshots[new])
        if places:
            check_places(model, snapshots[old], snapshots[new])
            check_kept(snapshots[old], snapshots[new])


# --- a model over everything that makes versions ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("forks", [0, 1, 2], ids=["main", "fork", "fork_of_fork"])
def test_every_pair_of_versions_differs_as_the_model_says(tables, forks, seed):
    model = TableModel(tables, REF, seed)
    model.insert(6)
    for step in range(24):
        if step in (8, 16)[:forks]:
            model.fork(("draft", "team/deep")[step // 8 - 1])
        kind = model.chance.choices(("step", "compact", "index", "overwrite"), (12, 1.5, 1.5, 0.5))[
            0
        ]
        if kind == "compact":
            model.compact()
        elif kind == "index" and model.state:
            model.index(*INDICES[:3])
        elif kind == "overwrite":
            model.overwrite(3)
        else:
            model.random_step()
    check_pairs(model)


@pytest.mark.parametrize("scanned", [True, False], ids=["scanned", "taken"])
def test_many_rows_are_read_in_another_way_than_few(tables, scanned, monkeypatch):
    monkeypatch.setattr(changes, "FEW_ROWS", 0)
    monkeypatch.setattr(changes, "_FEW_ADDRESSES", 0)
    monkeypatch.setattr(changes, "_SCANNED_FOR_TAKEN", 1000 if scanned else 0)
    model = TableModel(tables, REF, 3)
    model.insert(6)
    for step in range(16):
        if step == 8:
            model.fork("draft")
        if step % 7 == 6:
            model.compact()
        else:
            model.random_step()
    check_pairs(model)


def test_small_commits_with_merges_in_tiers(tables):
    model = TableModel(tables, REF, 4)
    for number in range(24):
        model.insert()
        if number % 5 == 4:
            model.update([f"p{number - 2}"])
    check_pairs(model)


@pytest.mark.parametrize("seed", range(3))
def test_random_writes_and_versions_that_go_back_to_earlier_ones(tables, seed):
    model = TableModel(tables, REF, seed)
    model.insert(6)
    # The versions that the newest one comes from.
    lineage = [model.version]
    for step in range(24):
        if step % 6 == 5:
            back = model.chance.randrange(len(lineage))
            model.restore(lineage[back])
            del lineage[back + 1 :]
        else:
            model.random_step()
        lineage.append(model.version)
    check_pairs(model)


def test_a_version_that_goes_back_to_an_earlier_one(tables):
    model = TableModel(tables, REF, 8)
    model.insert(3)
    for _ in range(3):
        model.insert()
    model.update(["p1", "p3"])
    model.delete(["p0", "p4"])
    model.restore(model.version - 2)
    model.insert()
    model.delete(["p5"])
    model.restore(3)
    check_pairs(model)


# --- one by one ---


@pytest.fixture
def table(tables: Tables) -> TableRef:
    """Twenty people in two fragments, at version 3."""
    tables.create(REF.path, SCHEMA)
    append(tables, REF, 0, 10)
    append(tables, REF, 10, 20)
    return REF


def test_the_same_version_does_not_differ(tables, table):
    found = changes_between(tables.open(table), tables.open(table), ["id"])
    assert (found.before.num_rows, found.after.num_rows) == (0, 0)
    assert found.before.schema.names == found.after.schema.names == ["id"]


def test_only_what_is_asked_for_is_read(tables, table):
    old = tables.open(table)
    append(tables, table, 20, 21)
    found = changes_between(old, tables.open(table), ["bio", "age"])
    assert found.after.to_pylist() == [{"bio": "quick brown fox number20", "age": 20}]


def test_a_row_that_was_written_again_with_the_same_values_is_no_change(tables, table):
    old = tables.open(table)
    commit(tables, stage_merge(old, people(5, 6)))
    append(tables, table, 20, 21)
    found = changes_between(old, tables.open(table), ["id"])
    assert found.before.num_rows == 0
    assert found.after["id"].to_pylist() == ["p20"]


@pytest.mark.parametrize("column", ["age", "team", "tags", "bio", "vec"])
@pytest.mark.parametrize("to_null", [True, False])
def test_a_change_of_any_column_is_seen(tables, table, column, to_null):
    values = {"age": 80, "team": "black", "tags": ["new"], "bio": "turtle", "vec": [1.0] * 8}
    new = {column: None if to_null else values[column]}
    old = tables.open(table)
    commit(tables, stage_merge(old, people(5, 6, **new)))
    middle = tables.open(table)
    append(tables, table, 20, 21)
    commit(tables, stage_merge(tables.open(table), people(5, 6)))
    last = tables.open(table)
    for before, after in ((old, middle), (middle, last)):
        found = changes_between(before, after, ["id", column])
        assert "p5" in found.before["id"].to_pylist()
        assert "p5" in found.after["id"].to_pylist()
    assert changes_between(old, last, ["id"]).before.num_rows == 0


def test_the_rows_that_differ_are_all_that_is_read(tables):
    tables.create(REF.path, SCHEMA)
    append(tables, REF, 0, 20_000)
    append(tables, REF, 20_000, 20_010)
    old = tables.open(REF)
    append(tables, REF, 20_010, 20_011)
    new = tables.open(REF)
    new._dataset.io_stats_incremental()
    assert changes_between(old, new, ["id", "bio"]).after.num_rows == 1
    assert new._dataset.io_stats_incremental().read_bytes < 20_000


def test_a_row_that_is_replaced_in_a_large_fragment_is_all_that_is_read_of_it(tables):
    tables.create(REF.path, SCHEMA)
    append(tables, REF, 0, 20_000)
    commit(tables, stage_delete(tables.open(REF), "id = 'p7'"))
    old = tables.open(REF)
    commit(tables, stage_merge(old, people(19_000, 19_001, age=80)))
    new = tables.open(REF)
    for table in (old, new):
        table._dataset.io_stats_incremental()
    found = changes_between(old, new, ["id", "age"])
    assert (pairs(found.before), pairs(found.after)) == ([("p19000", 10)], [("p19000", 80)])
    assert sum(t._dataset.io_stats_incremental().read_bytes for t in (old, new)) < 40_000


def test_neighbours_that_are_replaced_are_all_that_is_read_of_a_large_fragment(tables):
    tables.create(REF.path, SCHEMA)
    append(tables, REF, 0, 40_000)
    commit(tables, stage_delete(tables.open(REF), "id in ('p7', 'p25000')"))
    old = tables.open(REF)
    commit(tables, stage_merge(old, people(20_000, 35_000, age=80)))
    new = tables.open(REF)
    old._dataset.io_stats_incremental()
    whole = old.read(["id", "vec"])
    bytes_of_all = old._dataset.io_stats_incremental().read_bytes
    differing = changes_between(old, new, ["id", "vec"])
    expected = {f"p{number}" for number in range(20_000, 35_000)} - {"p25000"}
    assert set(differing.before["id"].to_pylist()) == expected
    assert set(whole["id"].to_pylist()) > expected
    assert old._dataset.io_stats_incremental().read_bytes < bytes_of_all


def test_an_index_and_a_compaction_are_no_changes(tables, table):
    old = tables.open(table)
    commit(tables, tables.stage_indices(old, INDICES))
    commit(tables, tables.stage_compaction(tables.open(table)))
    found = changes_between(old, tables.open(table), ["id"])
    assert (found.before.num_rows, found.after.num_rows) == (0, 0)


def test_a_fork_is_compared_with_what_it_was_made_from(tables, table):
    old = tables.open(table)
    tables.create_branch(table, old.version, "draft")
    fork = TableRef(table.path, "draft")
    commit(tables, stage_merge(tables.open(fork), people(19, 21, age=80)))
    found = changes_between(old, tables.open(fork), ["id", "age"])
    assert pairs(found.before) == [("p19", 19)]
    assert pairs(found.after) == [("p19", 80), ("p20", 80)]


# --- places ---


def test_rows_of_fragments_that_are_still_there_stay_in_place(tables, table):
    old = tables.open(table)
    addresses = old.read([], places=True)[ROW_ADDRESS].to_numpy()
    append(tables, table, 20, 21)
    moved, known = relocated(old, tables.open(table), addresses)
    assert moved is addresses
    assert known.all()


def test_rows_are_found_again_after_merges_and_compactions(tables):
    model = TableModel(tables, REF)
    for _ in range(4):
        model.insert(2)
    old = tables.open(REF)
    before = old.read(["id"], places=True)
    for _ in range(5):
        model.insert(2)
    model.compact()
    new = tables.open(REF)
    # In any order, and some twice.
    order = np.array([5, 0, 7, 3, 3, 1])
    moved, known = relocated(old, new, before[ROW_ADDRESS].to_numpy()[order])
    assert known.all()
    rows = new.read(["id"], places=True)
    ids = dict(zip(rows[ROW_ADDRESS].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert [ids[a] for a in moved.tolist()] == before["id"].take(pa.array(order)).to_pylist()


def test_rows_that_are_gone_are_not_known(tables, table):
    old = tables.open(table)
    addresses = old.read(["id"], places=True)[ROW_ADDRESS].to_numpy()
    commit(tables, tables.stage_overwrite(old, rows_of({"x": 1})))
    _, known = relocated(old, tables.open(table), addresses)
    assert not known.any()


def test_no_rows_are_nowhere(tables, table):
    old = tables.open(table)
    commit(tables, tables.stage_overwrite(old, rows_of({"x": 1})))
    moved, known = relocated(old, tables.open(table), np.zeros(0, np.uint64))
    assert (len(moved), len(known)) == (0, 0)
