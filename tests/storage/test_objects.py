"""Control objects on a local disk: whole or absent, and created by exactly one."""

from __future__ import annotations

import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from tests.storage.children import claim, finish, start, write_often


@pytest.fixture
def objects(tmp_path):
    return Objects(Location.of(tmp_path / "graph"))


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
