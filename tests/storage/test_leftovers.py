"""Which files belong together, and which are surely no leftovers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.errors import ReadSetConflict, StorageError
from omnigraph.storage.leftovers import TableLeftovers
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.references import key_of
from omnigraph.storage.staged import staged_files
from omnigraph.storage.tables import StagedWrite, TableRef, Tables, TableSnapshot
from tests.storage.people import INDICES, SCHEMA, append, commit, people, stage_delete, stage_merge

REF = TableRef("nodes/people")


@pytest.mark.parametrize(
    ("path", "fork", "key"),
    [
        ("data/0a.lance", None, "data/0a"),
        ("data/0a/1.blob", None, "data/0a"),
        ("_deletions/0-1-2.arrow", None, "_deletions/0-1-2.arrow"),
        ("_indices/u/staging/part", None, "_indices/u"),
        ("tree/a/data/0a.lance", "a", "tree/a/data/0a"),
        ("tree/a/b/_transactions/1-u.txn", "a/b", "tree/a/b/_transactions/1-u.txn"),
        ("tree/data/data/0a/1.blob", "data", "tree/data/data/0a"),
        ("tree/a/data/_indices/u/x", "a/data", "tree/a/data/_indices/u"),
        ("tree/_versions/_versions/1.manifest", "_versions", "tree/_versions/_versions/1.manifest"),
    ],
)
def test_files_that_belong_together_have_one_key(path: str, fork: str | None, key: str):
    assert key_of(path) == (fork, key)


@pytest.mark.parametrize(
    "path", ["_refs/branches/a.json", "README.md", "tree/a/x", "data", "x/data/0a"]
)
def test_other_files_have_none(path: str):
    assert key_of(path) is None


def made(tmp_path: Path) -> Tables:
    tables = Tables(Location.of(tmp_path / "graph"))
    tables.create(REF.path, SCHEMA)
    append(tables, REF, 0, 50)
    return tables


class Held:
    """A lock that is held, or was lost."""

    lost = False

    def check(self) -> None:
        if self.lost:
            raise ReadSetConflict("lost")


STAGES: dict[str, Callable[[Tables, TableSnapshot], StagedWrite | None]] = {
    "append": lambda tables, at: tables.stage_append(at, people(60, 70)),
    "merge": lambda tables, at: stage_merge(at, people(40, 70)),
    "overwrite": lambda tables, at: tables.stage_overwrite(at, people(0, 3)),
    "delete": lambda tables, at: stage_delete(at, "id = 'p5'"),
    "indices": lambda tables, at: tables.stage_indices(at, INDICES),
    "compaction": lambda tables, at: tables.stage_compaction(at),
}


def test_a_staged_write_of_any_kind_knows_when_its_files_are_gone(tmp_path: Path):
    tables = made(tmp_path)
    objects = Objects.at(tables.location)
    append(tables, REF, 50, 60)
    commit(tables, tables.stage_indices(tables.open(REF), INDICES))
    for kind, stage in STAGES.items():
        write = stage(tables, tables.open(REF))
        assert write is not None
        assert objects.missing(staged_files(write)) == [], kind
        leftovers = TableLeftovers(tables, REF.path)
        leftovers.remove(leftovers.find(None, 1e12)[0], None, Held())
        assert objects.missing(staged_files(write)), kind
    assert tables.open(REF).count() == 60


def test_a_table_that_refers_to_files_elsewhere_is_left_alone(tmp_path: Path):
    tables = made(tmp_path)
    tables.create_branch(REF, 2, "draft")
    for version in tmp_path.glob("graph/nodes/people/tree/draft/_versions/*.manifest"):
        version.write_bytes(version.read_bytes().replace(b"/nodes/people", b"/nodes/peopl3"))
    (tmp_path / "graph/nodes/people/data/left.lance").touch()
    with pytest.raises(StorageError, match="peopl3, which is no part of it"):
        TableLeftovers(tables, REF.path).find(None, 1e12)
    with pytest.raises(StorageError, match="peopl3, which is no part of it"):
        tables.open(TableRef(REF.path, "draft"))


def test_what_was_found_and_has_come_into_use_stays(tmp_path: Path):
    tables = made(tmp_path)
    write = tables.stage_append(tables.open(REF), people(60, 70))
    assert write is not None
    leftovers = TableLeftovers(tables, REF.path)
    old, young = leftovers.find(None, 1e12)
    assert len(old) == 1 and young == []
    tables.commit_staged(write)
    assert leftovers.remove(old, None, Held()) == []
    assert tables.open(REF).count() == 60
    assert leftovers.find(None, 1e12) == ([], [])


def test_nothing_goes_once_the_lock_is_lost(tmp_path: Path):
    tables = made(tmp_path)
    left = tmp_path / "graph/nodes/people/data/left.lance"
    left.touch()
    leftovers, lock = TableLeftovers(tables, REF.path), Held()
    old, _ = leftovers.find(None, 1e12)
    lock.lost = True
    with pytest.raises(ReadSetConflict):
        leftovers.remove(old, None, lock)
    assert left.exists()


def test_files_are_listed_as_they_lie(tmp_path: Path):
    objects = Objects.at(Location.of(tmp_path))
    for path in ("a/b/c", "a/.tmpX", "a/x.json#1", "top"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"four")
    (tmp_path / "a/link").symlink_to(tmp_path)
    listed = {file.path: file.size for file in objects.files("a")}
    assert {p: s for p, s in listed.items() if p != "a/link"} == {
        "a/b/c": 4, "a/.tmpX": 4, "a/x.json#1": 4
    }  # fmt: skip
    assert [file.path for file in objects.files("", deep=False)] == ["top"]
    assert objects.files("nowhere") == []
    assert objects.missing(["a/b", "a/b/c", "a/z"]) == ["a/z"]
    objects.delete_all(["a/b/c", "a/b/gone"])
    objects.drop_empty("a/b")
    assert not (tmp_path / "a/b").exists()
    objects.drop_empty("a")
    assert (tmp_path / "a/.tmpX").exists()
