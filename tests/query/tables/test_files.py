"""Files that queries leave in `__cache/`, and who uses them."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import ColumnFiles, map_arrays, write_arrays
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage import cache_files
from omnigraph.storage.cache_files import write_file
from omnigraph.storage.tables import Tables
from tests.patience import PATIENCE

SCHEMA = """
node Person {
  name: String @key  age: I32?  born: Date?  tall: Bool?  bio: String?  tags: [String]?
}
edge Knows: Person -> Person
"""
PEOPLE: list[dict[str, Any]] = [
    {"name": "Ada", "age": 36, "born": dt.date(1815, 12, 10), "tall": True, "bio": "x"},
    {"name": "Bo", "age": None, "born": None, "tall": None, "bio": None},
    {"name": "Čeněk 🙂", "age": -5, "born": dt.date(1970, 1, 1), "tall": False, "bio": ""},
]
ALL = """query q() { match { $p: Person }
  return { $p.name as name, $p.age as age, $p.born, $p.tall, $p.bio, $p.tags }
  order { $p.name } }"""
FRIENDS = """query q($n: String) { match { $p: Person { name: $n }  $p knows $f }
  return { $f.name as name } order { $f.name } }"""
BY_AGE = """query q() { match { $p: Person }
  return { $p.age as age, count($p) as n } order { $p.age } }"""


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every version is worth keeping at once."""
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A graph; one person was deleted, so that there are gaps among the positions."""
    place = tmp_path / "g"
    with init(place, SCHEMA) as graph:
        rows = [{"name": "Gone"}, *PEOPLE]
        table = pa.Table.from_pylist(rows, schema=_schema(graph))
        edges = pa.table({"from": ["Ada", "Ada"], "to": ["Bo", "Čeněk 🙂"]})
        graph.load({"Person": table, "Knows": edges}, mode="append")
        graph.mutate('query q() { delete Person where name = "Gone" }')
    return place


def _schema(graph: Graph) -> pa.Schema:
    fields = graph.snapshot().read("Person").schema
    return pa.schema([field for field in fields if field.name != "id"])


def files(place: Path) -> list[Path]:
    return sorted(p for p in (place / "__cache" / "columns").rglob("*") if p.is_file())


def answers(place: Path) -> list[Any]:
    with open(place, mode="r") as graph:
        return [
            graph.query(ALL).to_rows(),
            graph.query(FRIENDS, params={"n": "Ada"}).to_rows(),
            graph.query(BY_AGE).to_rows(),
        ]


def test_a_new_process_answers_from_files_without_lance(place: Path, settled: None) -> None:
    expected = answers(place)
    assert {file.name for file in files(place)} >= {"#alive", "name", "age", "born", "tall", "bio"}
    code = """
import json, sys
from omnigraph.graph import open
place, text, params = json.load(sys.stdin)
with open(place, mode="r") as graph:
    print(json.dumps(graph.query(text, params=params).to_dict()["rows"]))
assert not {"lance", "obstore", "pandas", "pyspark"} & set(sys.modules), "they take long to load"
"""
    for text, params, rows in ((FRIENDS, {"n": "Ada"}, expected[1]), (BY_AGE, {}, expected[2])):
        told = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps([str(place), text, params]),
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(told.stdout) == rows


def test_answers_are_the_same_from_files(
    place: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "OFTEN", 0)
    monkeypatch.setattr(policy, "SOUGHT_OFTEN", 0)
    expected = answers(place)
    assert expected[0][0]["name"] == "Ada" and len(expected[0]) == 3
    names = {file.name for file in files(place)}
    assert {"name#order", "age#codes", "age#values"} <= names
    # Lists are not kept.
    monkeypatch.setattr(Tables, "open", lambda *_: pytest.fail("the files were not used"))
    with open(place, mode="r") as graph:
        assert graph.query(FRIENDS, params={"n": "Ada"}).to_rows() == expected[1]
        assert graph.query(BY_AGE).to_rows() == expected[2]


def test_what_was_just_written_is_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 60)
    answers(place)
    assert files(place) == []


def test_it_is_kept_once_it_has_been_there_for_a_moment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "SETTLED_AFTER", 60)
    with open(place) as graph:
        graph.query(BY_AGE)
        graph._caches.writer.finish()
        assert files(place) == []
        monkeypatch.setattr(cache_files, "SETTLED_AFTER", 0)
        graph.query(BY_AGE)
        graph._caches.writer.finish()
        assert files(place)


@pytest.mark.parametrize("content", [b"", b"nothing", b"OMNI\x02\0\0\0\xff\xff\xff\xff"])
def test_damaged_files_are_made_again(place: Path, settled: None, content: bytes) -> None:
    expected = answers(place)
    whole = {file: file.read_bytes() for file in files(place)}
    for file in whole:
        file.write_bytes(content)
    (place / "__cache" / "manifest.json").write_bytes(content)
    shutil.rmtree(place / "__cache" / "topology")
    assert answers(place) == expected
    assert {file: file.read_bytes() for file in files(place)} == whole


def test_shortened_files_are_made_again(place: Path, settled: None) -> None:
    expected = answers(place)
    for file in files(place):
        file.write_bytes(file.read_bytes()[:-1])
    assert answers(place) == expected


def test_every_version_has_files_of_its_own(place: Path, settled: None) -> None:
    for age in range(5):
        with open(place) as graph:
            graph.mutate(f'query q() {{ update Person set {{ age: {age} }} where name = "Bo" }}')
        (row,) = [row for row in answers(place)[0] if row["name"] == "Bo"]
        assert row["age"] == age
        # Files of old versions go.
        assert len(list((place / "__cache" / "columns").iterdir())) <= 2


def test_another_graph_with_the_same_versions_is_not_mistaken(
    place: Path, tmp_path: Path, settled: None
) -> None:
    """A backup that is put back has the versions, but not the content, of what was there."""
    backup = tmp_path / "backup"
    shutil.copytree(place, backup)
    for folder, age in ((place, 1), (backup, 2)):
        with open(folder) as graph:
            graph.mutate(f'query q() {{ update Person set {{ age: {age} }} where name = "Bo" }}')
    assert answers(place)[2][1] == {"age": 1, "n": 1}
    shutil.copytree(place / "__cache", backup / "__cache", dirs_exist_ok=True)
    assert answers(backup)[2][1] == {"age": 2, "n": 1}


@pytest.mark.parametrize("later", [0, 1])
def test_the_shape_of_another_graph_is_not_the_base_of_a_patch(
    later: int, place: Path, tmp_path: Path, settled: None
) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(place, backup)
    link = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    for folder, end in ((place, "Ada"), (backup, "Čeněk 🙂")):
        with open(folder) as graph:
            graph.mutate(link, params={"a": "Bo", "b": end})
    with open(place) as graph:
        assert graph.query(FRIENDS, params={"n": "Bo"}).to_rows() == [{"name": "Ada"}]
    shutil.copytree(place / "__cache", backup / "__cache", dirs_exist_ok=True)
    with open(backup) as graph:
        for _ in range(later):
            graph.mutate(link, params={"a": "Ada", "b": "Ada"})
        assert graph.query(FRIENDS, params={"n": "Bo"}).to_rows() == [{"name": "Čeněk 🙂"}]


def test_the_second_of_two_histories_with_the_same_times_is_not_answered_from_the_first(
    place: Path, tmp_path: Path, settled: None
) -> None:
    """Archives round times, and some copies set them: they do not tell histories apart."""
    histories = [Path(shutil.copytree(place, tmp_path / name)) for name in ("one", "two")]
    link = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
    for age, history in enumerate(histories):
        with open(history) as graph:
            graph.mutate(f'query q() {{ update Person set {{ age: {age} }} where name = "Bo" }}')
            graph.mutate(link, params={"a": "Bo", "b": PEOPLE[age * 2]["name"]})
        shutil.rmtree(history / "__cache", ignore_errors=True)
        for file in history.rglob("*"):
            os.utime(file, ns=(1_700_000_000_000_000_007,) * 2)
    for age, history in enumerate(histories):
        # The cache of the first one stays.
        for folder in ("__manifest", "nodes", "edges"):
            shutil.rmtree(place / folder)
            shutil.copytree(history / folder, place / folder)
        for _ in range(2):
            (row,) = [row for row in answers(place)[0] if row["name"] == "Bo"]
            assert row["age"] == age
            with open(place, mode="r") as graph:
                friends = graph.query(FRIENDS, params={"n": "Bo"}).to_rows()
            assert friends == [{"name": PEOPLE[age * 2]["name"]}]


def test_files_are_written_after_the_answer(place: Path, settled: None) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write(*_: Any, **__: Any) -> bool:
        begun.set()
        return go_on.wait(PATIENCE)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.query.tables.files.write_file", write)
        graph = open(place, mode="r")
        try:
            # The answer is there while no file can be written yet, and so is the next one.
            assert len(graph.query(ALL)) == 3
            assert begun.wait(PATIENCE)
            assert len(graph.query(BY_AGE)) == 3
        finally:
            go_on.set()
            graph.close()


def test_a_graph_that_was_removed_does_not_come_back_by_its_cache(
    place: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "SECONDS_BEFORE_WRITING", 60)
    with open(place, mode="r") as graph:
        graph.query(ALL)
        shutil.rmtree(place)
    assert not place.exists()


@pytest.mark.parametrize("folder", ["columns/*", "topology", "columns"])
def test_nothing_is_read_through_a_link(folder: str, place: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_files, "SETTLED_AFTER", 0)
        expected = answers(place)
    (found,) = (place / "__cache").glob(folder)
    outside = tmp_path / "outside"
    shutil.move(found, outside)
    opened: list[Path] = []

    def open_file(file: str) -> int | None:
        handle = cache_files.open_file(file)
        if handle is not None:
            opened.append(Path(os.path.realpath(file)))
        return handle

    with open(place, mode="r") as graph, pytest.MonkeyPatch.context() as patch:
        found.symlink_to(outside)
        patch.setattr("omnigraph.query.tables.files.open_file", open_file)
        assert graph.query(ALL).to_rows() == expected[0]
        assert graph.query(FRIENDS, params={"n": "Ada"}).to_rows() == expected[1]
    assert not [file for file in opened if file.is_relative_to(outside)]


def test_branches_of_one_name_are_told_apart(place: Path, settled: None) -> None:
    for age in (7, 8):
        with open(place) as graph:
            graph.branches.create("draft")
            text = f'query q() {{ update Person set {{ age: {age} }} where name = "Bo" }}'
            graph.mutate(text, branch="draft")
        for _ in range(2):
            with open(place, mode="r") as graph:
                rows = graph.query(BY_AGE, branch="draft").to_rows()
                assert {"age": age, "n": 1} in rows
        with open(place) as graph:
            graph.branches.delete("draft")


def test_a_disk_that_cannot_be_written_changes_nothing(
    place: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(place)
    shutil.rmtree(place / "__cache")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert answers(place) == expected
    left = [p for p in (place / "__cache").rglob("*") if p.is_file()]
    assert left == []


def test_many_threads_ask_at_once(place: Path, settled: None) -> None:
    expected = answers(place)
    shutil.rmtree(place / "__cache")
    found: list[Any] = []
    with open(place, mode="r") as graph:

        def ask() -> None:
            for _ in range(20):
                found.append(graph.query(BY_AGE).to_rows())
                found.append(graph.query(FRIENDS, params={"n": "Ada"}).to_rows())

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 160
    assert all(rows in expected for rows in found)


KEY = VersionKey("nodes/x", None, "", 3, "abc")
COLUMNS = {
    "numbers": pa.array([1, None, 3], pa.int64()),
    "bytes": pa.array([255, 0, None], pa.uint8()),
    "floats": pa.array([1.5, float("nan"), None]),
    "truth": pa.array([True, None, False] * 7),
    "dates": pa.array([dt.date(2026, 1, 1), None]),
    "times": pa.array([dt.datetime(2026, 1, 1, 12, 30, 1, 5), None], pa.timestamp("us")),
    "texts": pa.array(["", None, "ž", "a\0b"]),
    "empty": pa.array([], pa.utf8()),
    "all null": pa.nulls(5, pa.utf8()),
    "no texts": pa.array(["", ""]),
    "sliced": pa.array(["x", None, "y", "z"])[1:3],
    "sliced bits": pa.array([True, None, False, True] * 5)[3:9],
}


def column_files(folder: Path) -> ColumnFiles:
    (folder / "__cache").mkdir(exist_ok=True)
    return ColumnFiles(f"{folder}/__cache/columns", KEY)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    column = COLUMNS[name]
    column_files(tmp_path).write_column("c", column)
    again = column_files(tmp_path)
    found = again.column("c", column.type)
    assert found is not None
    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(column.to_pylist())
    assert found.null_count == column.null_count


def test_a_column_that_has_another_type_by_now_is_not_taken(tmp_path: Path) -> None:
    files = column_files(tmp_path)
    files.write_column("c", pa.array([1, 2], pa.int32()))
    assert files.column("c", pa.int32()) is not None
    assert files.column("c", pa.int64()) is None


def test_much_is_kept_little_by_little(
    place: Path, settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "WRITTEN_AT_ONCE", 1)
    with open(place, mode="r") as graph:
        seen = []
        for _ in range(9):
            graph.query(ALL)
            graph._caches.writer.finish()
            seen.append(len(files(place)))
    assert seen == [1, 2, 3, 4, 5, 6, 6, 6, 6]


def test_columns_of_lists_are_left_out(tmp_path: Path) -> None:
    files = column_files(tmp_path)
    files.write_column("c", pa.array([[1], None]))
    assert files.names == set()


def test_a_name_in_other_letters_is_another_column(tmp_path: Path) -> None:
    """On a file system that does not tell them apart, the file of one has the other's name."""
    files = column_files(tmp_path)
    files.write_column("name", pa.array(["a"]))
    (file,) = tmp_path.rglob("name")
    file.rename(file.with_name("Name"))
    again = column_files(tmp_path)
    assert again.names == {"Name"}
    assert again.column("Name", pa.utf8()) is None


def test_arrays_come_back_aligned(tmp_path: Path) -> None:
    file = f"{tmp_path}/__cache/new/arrays"
    arrays: list[Any] = [np.arange(3, dtype=np.int32), np.zeros(0, np.int64), np.array([True])]
    assert write_arrays(file, arrays, about="them")
    found = map_arrays(file)
    assert found is not None and found[1] == {"about": "them"}
    for mine, theirs in zip(arrays, found[0], strict=True):
        assert mine.dtype == theirs.dtype and mine.tolist() == theirs.tolist()
        assert theirs.ctypes.data % 64 == 0 or not len(theirs)
        assert not theirs.flags.writeable


def test_every_damage_of_an_array_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "__cache" / "arrays"
    arrays: list[Any] = [np.arange(5000, dtype=np.int64), np.array([True, False]), np.zeros(9)]
    assert write_arrays(str(file), arrays)
    whole = file.read_bytes()
    used = np.zeros(len(whole), bool)
    # Between arrays there are bytes that nobody looks at.
    start = len(whole) - sum(-(-array.nbytes // 64) * 64 for array in arrays)
    used[:start] = True
    for array in arrays:
        used[start : start + array.nbytes] = True
        start += -(-array.nbytes // 64) * 64
    chance = np.random.default_rng(1)
    for place in chance.choice(np.flatnonzero(used), 300).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(chance.integers(8))
        file.write_bytes(damaged)
        assert map_arrays(str(file)) is None, place
    file.write_bytes(whole)
    assert map_arrays(str(file)) is not None


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    assert write_file(f"{tmp_path}/f", b"one") and write_file(f"{tmp_path}/f", b"t", b"wo")
    assert (tmp_path / "f").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["f"]
    # A folder is in the way.
    (tmp_path / "d" / "x").mkdir(parents=True)
    assert not write_file(f"{tmp_path}/d", b"one")
    assert sorted(os.listdir(tmp_path)) == ["d", "f"]
