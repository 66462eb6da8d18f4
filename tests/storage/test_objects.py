"""Control objects on a local disk: whole or absent, and created by exactly one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.leftovers import UNFINISHED
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from tests.full_disk import no_file_larger_than
from tests.patience import PATIENCE
from tests.storage.children import claim, die_in, finish, start, write_often


@pytest.fixture
def objects(tmp_path):
    return Objects.at(Location.of(tmp_path / "graph"))


def read(objects, path):
    found = objects.read(path)
    return None if found is None else found.data


def test_looking_creates_nothing(tmp_path, objects):
    assert objects.read("a/b.json") is None
    assert objects.paths("a") == []
    assert objects.top_level() == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_read(objects):
    objects.write("a/b.json", b"one")
    objects.write("a/b.json", b"two")
    assert read(objects, "a/b.json") == b"two"


def test_create_does_not_replace(objects):
    assert objects.create("a", b"one")
    assert not objects.create("a", b"two")
    assert read(objects, "a") == b"one"


def test_one_of_several_processes_creates(tmp_path, objects):
    names = [f"child{n}" for n in range(4)]
    finish(
        *(start(claim, objects.location.uri, "claim", name, str(tmp_path / name)) for name in names)
    )
    winners = [name for name in names if (tmp_path / name).read_text() == "won"]
    assert len(winners) == 1
    assert read(objects, "claim") == winners[0].encode()


def test_a_reader_never_sees_half_an_object(objects):
    size = 200_000
    objects.write("a", b"\0" * size)
    writer = start(write_often, objects.location.uri, "a", size, 200)
    while writer.is_alive():
        data = read(objects, "a")
        assert data is not None
        assert len(data) == size
        assert len(set(data)) == 1
    finish(writer)


def test_paths_are_listed_below_a_folder_only(objects):
    for path in ("x/b", "x/a", "x/deep/c", "xy/d"):
        objects.write(path, b"")
    assert objects.paths("x") == ["x/a", "x/b", "x/deep/c"]
    assert objects.top_level() == ["x", "xy"]


def test_deleting_what_is_gone_is_fine(objects):
    objects.write("a/b", b"")
    objects.delete("a/b")
    objects.delete("a/b")
    objects.delete_folder("a")
    objects.delete_folder("a")
    assert objects.read("a/b") is None


def test_deleting_a_folder_deletes_what_is_in_it(objects):
    for path in ("x/b", "x/deep/c", "y"):
        objects.write(path, b"")
    objects.delete_folder("x")
    assert objects.top_level() == ["y"]


def test_an_object_that_cannot_be_read_is_an_error_that_names_it(tmp_path, objects):
    (tmp_path / "graph/a.json").mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        objects.write("a.json", b"x")
    assert f"{objects.location.uri}/a.json" in caught.value.message


def test_a_folder_is_not_an_object(tmp_path, objects):
    (tmp_path / "graph/a.json").mkdir(parents=True)
    assert objects.read("a.json") is None


# --- writes that do not succeed ---


@pytest.mark.parametrize("put", ["write", "create"])
def test_a_write_that_does_not_fit_leaves_what_was_there_and_nothing_else(put, tmp_path, objects):
    objects.write("x/a", b"old")
    path = "x/a" if put == "write" else "x/b"
    with no_file_larger_than(1000), pytest.raises(StorageError, match=f"graph/{path}: File too"):
        getattr(objects, put)(path, b"n" * 1001)
    assert [file.path for file in objects.files("")] == ["x/a"]
    assert read(objects, "x/a") == b"old"


def test_a_disk_that_takes_a_part_at_a_time_gets_all_of_it(monkeypatch, objects):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data)[:7]))
    objects.write("a", b"0123456789" * 3)
    assert read(objects, "a") == b"0123456789" * 3


def test_a_disk_that_says_at_the_end_that_it_is_full_is_believed(monkeypatch, objects):
    objects.write("a", b"old")
    close = os.close

    def closed(handle):
        close(handle)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed)
        with pytest.raises(StorageError, match="graph/a: No space left on device"):
            objects.write("a", b"new")
    assert [(file.path, file.size) for file in objects.files("")] == [("a", 3)]
    assert read(objects, "a") == b"old"


@pytest.mark.parametrize(
    ("put", "step"), [("write", "replace"), ("create", "link"), ("create", "unlink")]
)
def test_what_a_killed_process_had_not_finished_is_a_leftover_and_no_object(put, step, objects):
    objects.write("x/a", b"old")
    path = "x/a" if put == "write" else "x/b"
    process = start(die_in, objects.location.uri, put, path, step)
    process.join(PATIENCE)
    assert process.exitcode == -9
    there = ["x/a", "x/b"] if step == "unlink" else ["x/a"]
    assert objects.paths("x") == there
    assert read(objects, "x/a") == b"old"
    (left,) = {file.path for file in objects.files("x")} - set(there)
    assert UNFINISHED.fullmatch(left.removeprefix("x/"))
    objects.write("x/a", b"new")
    assert read(objects, "x/a") == b"new"


# --- moving ---


def test_an_object_moves_to_a_folder_that_is_made_for_it(objects):
    objects.write("x/a", b"one")
    objects.move("x/a", "y/deep/b")
    assert objects.files("x") == []
    assert read(objects, "y/deep/b") == b"one"


def test_moving_what_was_moved_is_fine(objects):
    objects.write("x/a", b"one")
    objects.move("x/a", "y/b")
    objects.move("x/a", "y/b")
    assert read(objects, "y/b") == b"one"


def test_what_is_nowhere_cannot_be_moved(objects):
    with pytest.raises(StorageError, match="graph/x/a: No such file"):
        objects.move("x/a", "y/b")
    assert objects.top_level() == []


# --- what it takes ---


def test_objects_behind_a_link_are_not_listed(tmp_path, objects):
    objects.write("x/a", b"")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b").touch()
    (tmp_path / "graph/x/link").symlink_to(tmp_path / "outside")
    assert objects.paths("x") == ["x/a"]


def test_an_object_is_described_without_reading_it(tmp_path, objects):
    objects.write("x/a", b"four")
    found = objects.stat("x/a")
    assert (found.path, found.size) == ("x/a", 4)
    assert found.modified == (tmp_path / "graph/x/a").stat().st_mtime
    assert objects.stat("x") is None
    assert objects.stat("x/a/b") is None
    assert objects.size("x/b") is None


def test_writing_to_a_local_graph_does_not_load_what_buckets_need(tmp_path):
    code = """
import sys
from omnigraph.graph import init
with init(sys.argv[1], "node Person { name: String @key }") as graph:
    graph.mutate('query q() { insert Person { name: "Ada" } }')
assert "obstore" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "graph")], check=True)
