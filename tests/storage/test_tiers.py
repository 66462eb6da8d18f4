"""Small fragments are merged as part of writes, and nobody notices."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.language import compile_schema
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.blobs import open_blob
from omnigraph.storage.tables import IndexSpec, NewColumn, TableRef, Tables
from omnigraph.storage.tiers import FAN_IN, LARGEST_BYTES, LARGEST_ROWS, MOST_FRAGMENTS, due
from tests.storage.people import (
    INDICES,
    QUESTIONS,
    SCHEMA,
    commit,
    people,
    plan,
    stage_delete,
    stage_merge,
    vector,
)
from tests.storage.table_model import UPDATED, TableModel, rows_of

REF = TableRef("nodes/people")
DOCS = table_schema(compile_schema("node Doc { name: String @key  file: Blob? }").nodes["Doc"])


def sizes(tables: Tables, ref: TableRef = REF) -> list[int]:
    """The live rows of each fragment."""
    return [f.metadata.num_rows for f in tables.open(ref)._dataset.get_fragments()]


def write(tables: Tables, rows: pa.Table, ref: TableRef = REF) -> None:
    """Append as a graph does."""
    staged = tables.stage_append(tables.open(ref), rows)
    assert staged is not None
    commit(tables, tables.merge_tiers(staged))


@pytest.fixture
def table(tables: Tables) -> TableRef:
    tables.create(REF.path, SCHEMA)
    return REF


# --- how many fragments there are ---


def test_one_row_writes_leave_a_few_fragments_per_tier(tables, table):
    for number in range(300):
        write(tables, people(number, number + 1))
        tiers = [
            0 if size < 4 else 1 if size < 16 else 2 if size < 64 else 3 for size in sizes(tables)
        ]
        assert max(tiers.count(tier) for tier in set(tiers)) <= FAN_IN
    assert sum(sizes(tables)) == 300
    assert len(sizes(tables)) <= 4 * FAN_IN


def test_updates_of_the_same_rows_leave_a_few_fragments(tables):
    model = TableModel(tables, REF)
    model.insert(20)
    for number in range(60):
        model.update([f"p{number % 20}"])
    assert len(sizes(tables)) <= 3 * FAN_IN
    model.check_all()


def test_small_fragments_between_large_ones_are_merged(tables, table):
    large = LARGEST_ROWS
    for number in range(FAN_IN):
        first = number * (large + 1)
        commit(tables, tables.stage_append(tables.open(table), people(first, first + large)))
        commit(
            tables,
            tables.stage_append(tables.open(table), people(first + large, first + large + 1)),
        )
    write(tables, people(900_000, 900_001))
    assert sorted(sizes(tables)) == [1, FAN_IN, *[large] * FAN_IN]
    ids = [f"p{number * (large + 1) + large}" for number in range(FAN_IN)]
    assert sorted(tables.open(table).find("id", pa.array(ids), ["id"])["id"].to_pylist()) == ids


def test_wide_rows_do_not_stop_small_ones_from_being_merged(tables, table):
    for number in range(2 * FAN_IN):
        wide = os.urandom(LARGEST_BYTES // FAN_IN // 2).hex()
        commit(
            tables, tables.stage_append(tables.open(table), people(number, number + 1, bio=wide))
        )
    for number in range(100, 100 + FAN_IN):
        write(tables, people(number, number + 1))
    assert sizes(tables) == [1] * 2 * FAN_IN + [1] * FAN_IN
    write(tables, people(200, 201))
    assert sorted(sizes(tables)) == sorted([1] * 2 * FAN_IN + [FAN_IN, 1])


def test_other_kinds_of_writes_merge_nothing(tables, table):
    for number in range(2 * FAN_IN):
        commit(tables, tables.stage_append(tables.open(table), people(number, number + 1)))
    snapshot = tables.open(table)
    for staged in (
        tables.stage_indices(snapshot, INDICES[:1]),
        tables.stage_overwrite(snapshot, people(0, 1)),
        tables.stage_schema(snapshot, drops=["team"]),
        tables.stage_compaction(snapshot),
        tables.stage_restore(table, 1),
    ):
        assert tables.merge_tiers(staged) is staged


# --- what is chosen ---


@dataclass
class Fragment:
    """As much of a fragment as the choice looks at."""

    id: int
    num_rows: int
    bytes: int = 1000
    files: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.files = [SimpleNamespace(file_size_bytes=self.bytes)]


def fragments(*rows: int, bytes: int = 1000) -> list[Any]:
    return [Fragment(id, count, bytes) for id, count in enumerate(rows)]


def chosen(*rows: int, bytes: int = 1000) -> list[int]:
    return [fragment.num_rows for fragment in due(fragments(*rows, bytes=bytes))]


def test_a_tier_is_merged_when_it_is_full():
    assert chosen(1, 1, 1) == []
    assert chosen(1, 1, 1, 1) == [1, 1, 1, 1]
    assert chosen(1, 2, 3, 1, 90) == [1, 2, 3, 1]
    assert chosen(1, 1, 1, 5, 5, 5) == []


def test_a_full_tier_that_fills_the_next_one_is_merged_with_it():
    assert chosen(5, 5, 5, 1, 1, 1, 1) == [5, 5, 5, 1, 1, 1, 1]
    assert chosen(20, 20, 20, 5, 5, 5, 1, 1, 1, 1) == [20, 20, 20, 5, 5, 5, 1, 1, 1, 1]
    assert chosen(5, 5, 1, 1, 1, 1) == [1, 1, 1, 1]


def test_a_merge_has_limits():
    assert len(chosen(*[1] * 1000)) == MOST_FRAGMENTS
    assert sum(chosen(*[4000] * 64)) <= LARGEST_ROWS
    assert len(chosen(*[4000] * 64)) == FAN_IN
    share = LARGEST_BYTES // FAN_IN
    assert len(chosen(*[10] * 64, bytes=share // 2)) == 2 * FAN_IN
    assert len(chosen(*[10] * 64, bytes=share)) == FAN_IN


def test_large_fragments_are_left_alone():
    assert chosen(*[LARGEST_ROWS // FAN_IN] * 9) == []
    assert chosen(*[1] * 9, bytes=LARGEST_BYTES // FAN_IN + 1) == []


def test_fragments_are_chosen_by_their_ids():
    mixed: list[Any] = [Fragment(id, 1) for id in (7, 3, 9, 1)]
    assert [fragment.id for fragment in due(mixed)] == [1, 3, 7, 9]


def test_bytes_beside_the_files_count():
    few = fragments(1, 1, 1, 1, 1)
    assert len(due(few)) == 5
    assert [f.id for f in due(few, {2: LARGEST_BYTES})] == [0, 1, 3, 4]
    assert due(few, {2: LARGEST_BYTES, 3: LARGEST_BYTES}) == []


# --- what stays ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("forks", [0, 1, 2], ids=["main", "fork", "fork_of_fork"])
def test_every_version_keeps_its_rows_through_any_writes(tables, forks, seed):
    model = TableModel(tables, REF, seed)
    for name in ("draft", "team/deep")[:forks]:
        for _ in range(15):
            model.random_step()
        model.fork(name)
    merged = 0
    for _ in range(60):
        before = len(tables.open(model.ref).fragment_ids)
        model.random_step()
        merged += len(tables.open(model.ref).fragment_ids) < before
    assert merged
    model.check_all()


def test_merges_on_a_fork_leave_its_origin_alone(tables):
    model = TableModel(tables, REF)
    for _ in range(10):
        model.insert()
    before = sizes(tables)
    files = [f.metadata.files[0]._path for f in tables.open(REF)._dataset.get_fragments()]
    model.fork("draft")
    for _ in range(20):
        model.insert()
    assert sizes(tables) == before
    assert [f.metadata.files[0]._path for f in tables.open(REF)._dataset.get_fragments()] == files
    model.check_all()


def test_deleted_rows_stay_deleted_and_leave_no_trace_in_merged_fragments(tables):
    model = TableModel(tables, REF)
    for _ in range(3):
        model.insert(3)
    model.delete(["p1", "p3", "p8"])
    model.insert(3)
    model.insert(1)
    model.insert(1)
    assert "p1" not in model.state
    merged = [f for f in tables.open(REF)._dataset.get_fragments() if f.metadata.num_rows > 3]
    assert merged
    assert all(f.metadata.deletion_file is None for f in merged)
    model.check_all()


def test_a_write_that_changes_a_fragment_does_not_merge_it(tables):
    model = TableModel(tables, REF)
    for _ in range(FAN_IN):
        model.write(new=model._new(2))
    model.delete(["p0"])
    assert sorted(sizes(tables)) == [1, 2, 2, 2]
    model.update(["p2"])
    model.check_all()


def test_columns_that_were_added_and_dropped_are_merged(tables, table):
    for number in range(FAN_IN - 1):
        write(tables, people(number, number + 1))
    new = [NewColumn(pa.field("n", pa.int64()), 7), NewColumn(pa.field("m", pa.utf8()))]
    commit(tables, tables.stage_schema(tables.open(table), adds=new, drops=["age"]))
    schema = tables.open(table).schema
    row = people(50, 51).drop_columns(["age"])
    row = row.append_column("n", pa.array([1])).append_column("m", pa.array(["x"])).cast(schema)
    write(tables, row)
    before = tables.open(table).read(["_rowid", *schema.names]).to_pylist()
    row = row.set_column(0, schema.field("id"), pa.array(["p51"]))
    write(tables, row)
    assert sizes(tables) == [FAN_IN, 1]
    after = tables.open(table).read(["_rowid", *schema.names], "id != 'p51'").to_pylist()
    assert after == before
    assert [r["n"] for r in after] == [7, 7, 7, 1]


def test_what_a_compaction_has_written_is_merged(tables):
    model = TableModel(tables, REF)
    model.insert(1)
    model.insert(1)
    model.compact()
    for _ in range(10):
        model.insert()
    assert len(sizes(tables)) < 6
    model.check_all()


def test_a_merge_can_be_undone(tables):
    model = TableModel(tables, REF)
    for _ in range(FAN_IN):
        model.insert()
    before = sizes(tables)
    model.insert()
    assert sizes(tables) != before
    commit(tables, tables.stage_restore(REF, model.version - 1))
    assert sizes(tables) == before
    rows = tables.open(REF).read(["id"], places=True).to_pylist()
    assert {r["id"]: r["_rowid"] for r in rows} == {
        id: row.row_id for id, row in model.states[model.version - 1].items()
    }


def test_the_versions_of_rows_are_one_run_per_merged_fragment(tables, table):
    for number in range(200):
        write(tables, people(number, number + 1))
    found = tables.open(table).read(["id", UPDATED]).to_pylist()
    true = {f"p{number}": number + 2 for number in range(200)}
    assert all(row[UPDATED] >= true[row["id"]] for row in found)
    # As many different versions as fragments and merged parts: not one per row.
    assert len({row[UPDATED] for row in found}) < 64


# --- indexes ---


def test_indexed_fragments_are_not_merged(tables, table):
    for number in range(3 * FAN_IN):
        commit(tables, tables.stage_append(tables.open(table), people(number, number + 1)))
    commit(tables, tables.stage_indices(tables.open(table), [INDICES[2]]))
    write(tables, people(100, 101))
    assert sizes(tables) == [1] * 3 * FAN_IN + [1]
    for number in range(101, 100 + FAN_IN):
        write(tables, people(number, number + 1))
    write(tables, people(200, 201))
    assert sizes(tables) == [1] * 3 * FAN_IN + [FAN_IN, 1]


@pytest.mark.parametrize("change", ["append", "update", "delete"])
def test_indexes_cover_what_they_covered_and_answer_as_before(tables, place, change):
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    covered = set(tables.open(place).fragment_ids)
    for number in range(400, 400 + FAN_IN):
        write(tables, people(number, number + 1), place)
    before = len(tables.open(place).fragment_ids)
    if change == "append":
        write(tables, people(500, 501), place)
    else:
        snapshot = tables.open(place)
        staged = (
            stage_delete(snapshot, "id = 'p9'")
            if change == "delete"
            else stage_merge(snapshot, people(9, 10, bio="turtle"))
        )
        commit(tables, tables.merge_tiers(staged))
    snapshot = tables.open(place)
    added = {"append": 1, "update": 1, "delete": 0}[change]
    assert len(snapshot.fragment_ids) == before - FAN_IN + 1 + added
    assert covered <= set(snapshot.fragment_ids)
    assert {index.uncovered for index in snapshot.indices()} == {1 + added}
    everybody = {f"p{n}" for n in range(400 + FAN_IN)} | ({"p500"} if change == "append" else set())
    everybody -= {"p9"} if change == "delete" else set()
    for name, question in QUESTIONS.items():
        assert name in plan(tables, place, question)
        slow = snapshot._dataset.scanner(filter=question, use_scalar_index=False).to_table()
        assert sorted(snapshot.read(["id"], question)["id"].to_pylist()) == sorted(
            slow["id"].to_pylist()
        )
    for id in everybody:
        assert snapshot.count(f"id = '{id}'") == 1
    foxes = everybody - ({"p9"} if change == "update" else set())
    assert set(snapshot.search("bio", "fox")["id"].to_pylist()) == foxes
    for number in (7, 401, 403):
        assert snapshot.search("bio", f"number{number}")["id"].to_pylist() == [f"p{number}"]
        assert snapshot.nearest("vec", vector(number), 1, probes=4)["id"].to_pylist() == [
            f"p{number}"
        ]
    assert snapshot.search("bio", "turtle").num_rows == (1 if change == "update" else 0)


def test_random_writes_beside_indexes_that_are_extended_now_and_then(tables):
    model = TableModel(tables, REF, 5)
    model.insert(30)
    for number in range(80):
        model.random_step()
        if number % 17 == 16 and model.state:
            model.index(INDICES[0], IndexSpec("bio_text", "bio", "full_text"))
    for text, remainder in (("fox", 0), ("dog", 1), ("turtle", 2)):
        found = tables.open(REF).search("bio", text)["id"].to_pylist()
        expected = [id for id, row in model.state.items() if row.age % 3 == remainder]
        assert sorted(found) == sorted(expected)
    model.check_all()


# --- blobs ---


def docs(name: str, value: bytes | None) -> pa.Table:
    content = None if value is None else {"data": value}
    return pa.table({"id": [name], "name": [name], "file": [content]}, schema=DOCS)


def test_blobs_of_all_kinds_survive_merges(tables):
    tables.create(REF.path, DOCS)
    values = {
        "inline": b"tiny", "packed": b"m" * 100_000, "none": None, "empty": b"",
        "other": b"x" * 70_000, "last": b"end",
    }  # fmt: skip
    for name, value in values.items():
        write(tables, docs(name, value))
    assert sorted(sizes(tables)) == [1, 1, FAN_IN]
    for version in range(2, len(values) + 2):
        snapshot = tables.open(REF, version)
        rows = snapshot.read(["id"], places=True).to_pylist()
        assert [row["id"] for row in rows] == list(values)[: version - 1]
        for row in rows:
            stream = open_blob(snapshot, "file", row["_rowid"])
            assert (stream.read() if stream is not None else None) == values[row["id"]]


def test_large_blobs_are_not_copied_while_the_lock_is_held(tables, tmp_path):
    tables.create(REF.path, DOCS)
    large = LARGEST_BYTES // FAN_IN + 1
    for number in range(2 * FAN_IN):
        write(tables, docs(f"d{number}", os.urandom(large)))
    assert sizes(tables) == [1] * 2 * FAN_IN
    kept = sum(path.stat().st_size for path in tmp_path.rglob("*.blob"))
    assert kept == 2 * FAN_IN * large
    for number in range(FAN_IN + 1):
        write(tables, docs(f"small{number}", b"small"))
    assert sorted(sizes(tables)) == sorted([1] * 2 * FAN_IN + [FAN_IN, 1])


def test_references_to_files_elsewhere_are_merged_without_looking_at_the_files(tables):
    tables.create(REF.path, DOCS)
    for number in range(FAN_IN + 1):
        link = {"uri": f"file:///nowhere/{number}.bin"}
        row = {"id": [f"d{number}"], "name": [f"d{number}"], "file": [link]}
        write(tables, pa.table(row, schema=DOCS))
    assert sizes(tables) == [FAN_IN, 1]
    found = tables.open(REF).read(["file"])["file"].to_pylist()
    assert [value["blob_uri"] for value in found] == [
        f"file:///nowhere/{number}.bin" for number in range(FAN_IN + 1)
    ]


# --- what is written when ---


def test_staging_a_merge_moves_no_head_and_changes_no_version(tables, table):
    for number in range(FAN_IN):
        write(tables, people(number, number + 1))
    head, before = tables.head(table), tables.open(table).read(places=True)
    staged = tables.stage_append(tables.open(table), people(9, 10))
    merged = tables.merge_tiers(staged)
    assert merged is not staged
    assert merged.transaction_id == staged.transaction_id
    assert tables.head(table) == head
    assert Tables(tables.location).open(table).read(places=True).equals(before)
    made = commit(tables, merged)
    assert (made.version, made.rows) == (head + 1, FAN_IN + 1)
    assert tables.versions_after(table, head)[0].transaction_id == staged.transaction_id


def test_a_merge_reads_what_the_model_says_with_rows_that_hold_nulls(tables, table):
    rows = rows_of({"p1": 3}).to_pylist()
    for number in range(FAN_IN + 1):
        empty = rows[0] | {"id": f"p{number}", "age": None, "bio": None, "tags": None, "vec": None}
        write(tables, pa.Table.from_pylist([empty], schema=SCHEMA))
    assert sizes(tables) == [FAN_IN, 1]
    found = tables.open(table).read().to_pylist()
    assert [row["id"] for row in found] == [f"p{n}" for n in range(FAN_IN + 1)]
    assert {(row["age"], row["bio"], row["tags"], row["vec"]) for row in found} == {(None,) * 4}
