"""A table is the same wherever its graph stands, forks of forks and their indexes included."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.datasets import below
from omnigraph.storage.ledger import Ledger, LedgerVersion
from omnigraph.storage.leftovers import TableLeftovers
from omnigraph.storage.location import Location
from omnigraph.storage.tables import NewColumn, StagedWrite, TableRef, Tables, TableSnapshot
from tests.storage.entries import entries
from tests.storage.people import (
    INDICES,
    append,
    commit,
    content,
    people,
    plan,
    stage_delete,
    stage_merge,
)

WRITES: Mapping[str, Callable[[Tables, TableSnapshot], StagedWrite | None]] = {
    "append": lambda tables, at: tables.stage_append(at, people(600, 610)),
    "merge": lambda tables, at: stage_merge(at, people(250, 620, team="new")),
    "overwrite": lambda tables, at: tables.stage_overwrite(at, people(0, 3)),
    "delete": lambda tables, at: stage_delete(at, "age < 40"),
    "restore": lambda tables, at: tables.stage_restore(at.ref, at.version - 1),
    "indices": lambda tables, at: tables.stage_indices(at, INDICES, extend=True),
    "schema": lambda tables, at: tables.stage_schema(
        at, adds=[NewColumn(pa.field("size", pa.int32()), 7)], drops=["team"]
    ),
    "compaction": lambda tables, at: tables.stage_compaction(at),
}


@pytest.fixture
def used(tables: Tables, place: TableRef) -> TableRef:
    """A place with indexes that do not cover all rows, and with rows that are gone."""
    commit(tables, tables.stage_indices(tables.open(place), INDICES))
    append(tables, place, 500, 510)
    commit(tables, stage_delete(tables.open(place), "id in ('p5', 'p350', 'p501')"))
    return place


def moved(tmp_path: Path) -> Tables:
    (tmp_path / "graph").rename(tmp_path / "moved")
    return Tables(Location.of(tmp_path / "moved"))


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_every_version_is_read_at_the_new_place_and_nothing_is_rewritten(tables, used, tmp_path):
    first = tables.head(used) - 3
    before = [content(tables, used, first + n) for n in range(4)]
    lying = files(tmp_path / "graph")
    there = moved(tmp_path)
    assert [content(there, used, first + n) for n in range(4)] == before
    assert content(there, used) == before[-1]
    assert there.open(used).at(first).count() == len(before[0])
    assert "id_btree" in plan(there, used, "id = 'p7'")
    assert there.open(used).count("id = 'p7'") == 1
    assert there.open(used).search("bio", "number7").num_rows == 1
    assert files(tmp_path / "moved") == lying


@pytest.mark.parametrize("kind", WRITES)
def test_every_write_goes_on_at_the_new_place(kind, tables, used, tmp_path):
    shutil.copytree(tmp_path / "graph", tmp_path / "moved")
    write = commit(tables, WRITES[kind](tables, tables.open(used)))
    expected = content(tables, used)
    before = files(tmp_path / "graph")
    (tmp_path / "graph").rename(tmp_path / "hidden")
    there = Tables(Location.of(tmp_path / "moved"))
    assert commit(there, WRITES[kind](there, there.open(used))).rows == write.rows
    assert content(there, used) == expected
    # And again, on top of it, at a third place.
    (tmp_path / "moved").rename(tmp_path / "third")
    third = Tables(Location.of(tmp_path / "third"))
    append(third, used, 700, 703) if kind != "schema" else None
    third.create_branch(used, third.head(used), "newest")
    newest = TableRef(used.path, "newest")
    assert content(third, newest) == content(third, used)
    assert len(content(third, used)) == len(expected) + (0 if kind == "schema" else 3)
    (tmp_path / "hidden").rename(tmp_path / "graph")
    assert files(tmp_path / "graph") == before


def test_one_folder_is_written_to_by_two_addresses_in_turn(tables, used, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "graph")
    other = Tables(Location(str(tmp_path / "link")))
    expected = len(content(tables, used))
    for number in range(4):
        append((tables, other)[number % 2], used, 800 + number, 801 + number)
        for each in (tables, other):
            assert len(content(each, used)) == expected + number + 1
    for each, name in ((tables, "here"), (other, "there")):
        each.create_branch(used, each.head(used), name)
        fork = TableRef(used.path, name)
        append((other, tables)[each is other], fork, 900, 901)
        assert len(content(tables, fork)) == len(content(other, fork)) == expected + 5


def test_a_cleanup_knows_what_forks_need_at_the_new_place(tables, used, tmp_path):
    before = content(tables, used)
    there = moved(tmp_path)
    (tmp_path / "moved" / used.folder / "data/left.lance").touch()
    append(there, used, 900, 901)
    leftovers = TableLeftovers(there, used.path)
    old, young = leftovers.find(None, 1e12)
    assert (len(old), young) == (1, [])
    leftovers.remove(old, None, NoLock())
    assert not (tmp_path / "moved" / used.folder / "data/left.lance").exists()
    assert len(content(there, used)) == len(before) + 1


class NoLock:
    def check(self) -> None:
        return


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/a/nodes/1-1", ""),
        ("s3://bucket/some/graph/nodes/1-1", ""),
        ("/a/nodes/1-1/tree/x/y", "/tree/x/y"),
        ("/a\nb/nodes/1-1", ""),
        ("/a/nodes/1-1/tree/nodes/1-1", "/tree/nodes/1-1"),
        ("/a/nodes/1-1/b/nodes/1-1", ""),
    ],
)
def test_an_address_from_any_place_tells_the_part_of_the_table(address, expected):
    assert below("nodes/1-1", address) == expected


@pytest.mark.parametrize("address", ["/a/nodes/1-2", "/etc", "/a/nodes/1-1/tree/../../x", "nodes"])
def test_files_that_are_no_part_of_the_table_are_refused(address):
    with pytest.raises(StorageError, match="no part of it"):
        below("nodes/1-1", address)


# --- the ledger ---


def values(ledger: Ledger, branch: str | None = None) -> dict[str, int]:
    rows = ledger.rows(branch, "true").to_pylist()
    return {row["object_id"]: row["value"] for row in rows}


def read(ledger: Ledger, branch: str | None) -> LedgerVersion:
    return ledger.read(branch, "true", "head")[0]


def publish(ledger: Ledger, branch: str | None, change: dict[str, int]) -> None:
    ledger.publish(read(ledger, branch), entries(change))


@pytest.mark.parametrize("branch", [None, "b"])
def test_a_ledger_is_pruned_at_a_new_place_without_what_branches_read(branch, tmp_path):
    ledger = Ledger(Location.of(tmp_path / "graph"), "__manifest")
    ledger.create(entries({"head": 0}))
    for number in range(3):
        publish(ledger, None, {f"old{number}": number})
    ledger.create_branch("b", None)
    publish(ledger, "b", {"head": 10})
    ledger.create_branch("b2", "b")
    publish(ledger, "b2", {"head": 20})
    expected = {each: values(ledger, each) for each in (None, "b", "b2")}
    (tmp_path / "graph").rename(tmp_path / "moved")
    there = Ledger(Location.of(tmp_path / "moved"), "__manifest")
    assert {each: values(there, each) for each in expected} == expected
    for number in range(12):
        publish(there, branch, {"head": number, f"new{number}": number})
        publish(there, branch, {"head": number + 100})
    there.prune(read(there, branch), "object_id like 'old%' or object_id like 'new%'", 2)
    there.prune(read(there, branch), "false", 2)
    folder = tmp_path / "moved/__manifest" / ("" if branch is None else "tree/b")
    # The newest two, and the one that a branch was made from.
    assert len(list((folder / "_versions").glob("*.manifest"))) == 3
    assert len(list((folder / "data").glob("*.lance"))) <= 5
    again = Ledger(Location.of(tmp_path / "moved"), "__manifest")
    for each in expected:
        assert values(again, each) == ({"head": 111} if each == branch else expected[each])
