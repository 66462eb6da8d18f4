"""Ids of fragments that no index covers are looked up in memory."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.ids import PLACES, FragmentIds, IdCache
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.storage.tables import TableRef, Tables
from tests.storage.people import INDICES, SCHEMA, append, commit, people, stage_delete, stage_merge
from tests.storage.table_model import TableModel

REF = TableRef("nodes/people")
BUDGET = 64 << 20


@pytest.fixture
def table(tables: Tables) -> TableRef:
    """Thirty people in three fragments."""
    tables.create(REF.path, SCHEMA)
    for first in (0, 10, 20):
        append(tables, REF, first, first + 10)
    return REF


def find(tables: Tables, cache: IdCache, *ids: str, ref: TableRef = REF) -> pa.Table:
    dataset = tables.open(ref)._dataset
    return cache.find(dataset, dataset.get_fragments(), pa.array(ids, pa.utf8()))


def scanned(tables: Tables, *ids: str, ref: TableRef = REF) -> set[tuple[str, int, int]]:
    """Where ids are, by a scan of everything."""
    rows = tables.open(ref).read(["id"], places=True).to_pylist()
    return {(r["id"], r[ROW_ID], r[ROW_ADDRESS]) for r in rows if r["id"] in ids}


def places(rows: pa.Table) -> set[tuple[str, int, int]]:
    found = {(r["id"], r[ROW_ID], r[ROW_ADDRESS]) for r in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


def reads(tables: Tables, cache: IdCache, *ids: str) -> int:
    """How many times storage is read for a look-up."""
    dataset = tables.open(REF)._dataset
    fragments = dataset.get_fragments()
    dataset.io_stats_incremental()
    cache.find(dataset, fragments, pa.array(ids, pa.utf8()))
    return int(dataset.io_stats_incremental().read_iops)


# --- hits and misses ---


def test_ids_are_found_where_a_scan_finds_them(tables, table):
    cache = IdCache(BUDGET)
    for ids in (("p3",), ("p25", "p0", "p11"), tuple(f"p{n}" for n in range(30))):
        found = find(tables, cache, *ids)
        assert found.schema == PLACES
        assert places(found) == scanned(tables, *ids)
        assert found.num_rows == len(ids)


def test_ids_that_are_not_there_are_not_found(tables, table):
    cache = IdCache(BUDGET)
    assert find(tables, cache, "nobody").num_rows == 0
    assert find(tables, cache).num_rows == 0
    assert places(find(tables, cache, "nobody", "p7", "P7", "")) == scanned(tables, "p7")


def test_an_empty_table_has_none(tables):
    tables.create(REF.path, SCHEMA)
    found = find(tables, IdCache(BUDGET), "p1")
    assert (found.num_rows, found.schema) == (0, PLACES)


def test_a_fragment_is_read_once(tables, table):
    cache = IdCache(BUDGET)
    assert reads(tables, cache, "p3") > 0
    assert reads(tables, cache, "p25") == 0
    assert reads(tables, cache, "nobody") == 0
    append(tables, table, 30, 40)
    assert reads(tables, cache, "p35") > 0
    assert reads(tables, cache, "p35") == 0


def test_rows_that_were_just_written_are_not_read_at_all(tables, table):
    tables.open(table).find("id", pa.array(["p1"]), ["id"])
    append(tables, table, 30, 31)
    assert reads(tables, tables._ids, "p30", "p1") == 0
    assert places(find(tables, tables._ids, "p30")) == scanned(tables, "p30")


# --- versions ---


def test_deleted_rows_are_not_found_and_are_in_older_versions(tables, table):
    cache = IdCache(BUDGET)
    old = tables.open(table)
    assert find(tables, cache, "p5").num_rows == 1
    commit(tables, stage_delete(old, "id = 'p5'"))
    assert find(tables, cache, "p5").num_rows == 0
    assert places(find(tables, cache, "p4", "p6")) == scanned(tables, "p4", "p6")
    commit(tables, stage_delete(tables.open(table), "id = 'p6'"))
    assert find(tables, cache, "p5", "p6").num_rows == 0
    before = cache.find(old._dataset, old._dataset.get_fragments(), pa.array(["p5", "p6"]))
    assert before.num_rows == 2


def test_updated_rows_are_found_at_their_new_place_with_their_row_id(tables, table):
    cache = IdCache(BUDGET)
    ((_, row_id, address),) = places(find(tables, cache, "p5"))
    commit(tables, stage_merge(tables.open(table), people(5, 6, age=80)))
    ((_, new_row_id, new_address),) = places(find(tables, cache, "p5"))
    assert new_row_id == row_id
    assert new_address != address
    assert places(find(tables, cache, "p5")) == scanned(tables, "p5")


def test_forks_that_delete_different_rows_do_not_see_each_other(tables, table):
    forks = [TableRef(REF.path, name) for name in ("a", "b")]
    for fork, gone in zip(forks, ("p5", "p6"), strict=True):
        tables.create_branch(table, tables.head(table), fork.branch)
        commit(tables, stage_delete(tables.open(fork), f"id = '{gone}'"))
    cache = IdCache(BUDGET)
    for _ in range(2):
        for ref in (*forks, REF):
            found = find(tables, cache, "p5", "p6", "p7", ref=ref)
            assert places(found) == scanned(tables, "p5", "p6", "p7", ref=ref)


@pytest.mark.parametrize("forks", [0, 1], ids=["main", "fork"])
def test_a_small_cache_answers_as_a_large_one(tables, forks):
    model = TableModel(tables, REF, 11)
    small = IdCache(budget=1500)
    for step in range(50):
        if step == 20 and forks:
            model.fork("draft")
        model.random_step()
        ids = [f"p{n}" for n in range(model.number + 2)]
        found = find(tables, small, *ids, ref=model.ref)
        assert places(found) == scanned(tables, *ids, ref=model.ref)
        assert {row["id"]: row[ROW_ID] for row in found.to_pylist()} == {
            id: row.row_id for id, row in model.state.items()
        }


# --- beside an index ---


def test_what_an_index_covers_is_left_to_it(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES[:1]))
    append(tables, place, 500, 510)
    fresh = Tables(tables.location)
    wanted = pa.array(["p17", "p399", "p505", "nobody"])
    found = fresh.open(place).find("id", wanted, ["id"])
    assert places(found) == scanned(tables, "p17", "p399", "p505", ref=place)
    # Ten rows are in memory, not the four hundred that the index covers.
    assert [len(entry.ids) for _, entry in fresh._ids._entries.values()] == [10]


def test_changes_of_indexed_rows_are_found(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES[:1]))
    commit(tables, stage_delete(tables.open(place), "id in ('p17', 'p18')"))
    commit(tables, stage_merge(tables.open(place), people(19, 21, age=80)))
    commit(tables, tables.stage_append(tables.open(place), people(18, 19)))
    ids = [f"p{n}" for n in range(15, 25)]
    found = tables.open(place).find("id", pa.array(ids), ["id", "age"])
    assert places(found.drop_columns(["age"])) == scanned(tables, *ids, ref=place)
    ages = {row["id"]: row["age"] for row in found.to_pylist()}
    assert ages == {f"p{n}": 80 if n in (19, 20) else n for n in range(15, 25) if n != 17}


def test_an_index_of_another_column_is_no_index_of_ids(tables, place):
    commit(tables, tables.stage_indices(tables.open(place), INDICES[1:]))
    found = tables.open(place).find("id", pa.array(["p17", "p301"]), ["id"])
    assert places(found) == scanned(tables, "p17", "p301", ref=place)


def test_columns_come_in_the_order_of_the_rows_found(tables, table):
    commit(tables, tables.stage_indices(tables.open(table), INDICES[:1]))
    append(tables, table, 30, 40)
    found = tables.open(table).find("id", pa.array(["p35", "p2", "p31", "p14"]), ["bio", "id"])
    for row in found.to_pylist():
        assert row["bio"] == f"quick brown fox number{row['id'][1:]}"
        assert scanned(tables, row["id"]) == {(row["id"], row[ROW_ID], row[ROW_ADDRESS])}


# --- memory and threads ---


def test_the_budget_is_kept(tables, table):
    for first in range(100, 160, 10):
        append(tables, table, first, first + 10)
    cache = IdCache(budget=3000)
    for _ in range(3):
        for number in (3, 15, 105, 155, 3):
            assert find(tables, cache, f"p{number}").num_rows == 1
            assert cache.nbytes <= 3000
            assert cache.nbytes == sum(entry.nbytes for _, entry in cache._entries.values())
    assert cache._entries


def test_an_entry_that_replaces_another_is_counted_once(tables, table):
    cache = IdCache(BUDGET)
    (fragment, *_) = tables.open(table)._dataset.get_fragments()
    numbers = np.arange(10, dtype=np.uint64)
    for count in (10, 5, 8):
        entry = FragmentIds(pa.array(["x"] * count), numbers[:count], numbers[:count])
        cache.put(fragment.metadata, entry)
        assert cache.nbytes == entry.nbytes


def test_entries_own_their_memory(tables, table):
    cache = IdCache(BUDGET)
    find(tables, cache, "p1")
    for _, entry in cache._entries.values():
        assert len(entry.ids) == 10
        assert entry.ids.offset == 0
        assert entry.ids.get_total_buffer_size() < 400
        assert entry.row_ids.base is None
        assert entry.addresses.base is None


def test_threads_share_a_cache(tables, table):
    for first in range(100, 200, 10):
        append(tables, table, first, first + 10)
    cache = IdCache(budget=4000)
    expected = scanned(tables, *(f"p{n}" for n in range(200)))
    wrong: list[object] = []

    def look_up(seed: int) -> None:
        chance = np.random.default_rng(seed)
        try:
            for _ in range(40):
                ids = [f"p{n}" for n in chance.integers(0, 220, 8)]
                if places(find(tables, cache, *ids)) != {e for e in expected if e[0] in ids}:
                    wrong.append(ids)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=look_up, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.nbytes == sum(entry.nbytes for _, entry in cache._entries.values()) <= 4000


def test_only_the_newest_state_of_a_fragment_is_held(tables, table):
    cache = IdCache(BUDGET)
    find(tables, cache, "p1")
    before = cache.nbytes
    for number in (3, 14, 5, 6, 17):
        old = tables.open(table)
        commit(tables, stage_delete(old, f"id = 'p{number}'"))
        assert find(tables, cache, f"p{number}").num_rows == 0
        assert cache.nbytes < before
        # What is older is read again when somebody asks for it.
        again = cache.find(old._dataset, old._dataset.get_fragments(), pa.array([f"p{number}"]))
        assert again.num_rows == 1
        assert find(tables, cache, f"p{number}").num_rows == 0
    assert cache.nbytes == sum(entry.nbytes for _, entry in cache._entries.values())
