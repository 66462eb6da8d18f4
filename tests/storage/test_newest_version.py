"""The newest version of a table is noticed by the times of its folder, and else by its files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.storage import newest_version
from omnigraph.storage.location import Location
from omnigraph.storage.newest_version import NewestVersion
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import newest_stamp, version_path

TABLE = TableRef("t")
#: More than the clock of any file system that tests run on takes for a tick.
TICK = 0.05


class Folder:
    """The files of a table's versions, and how often they were listed."""

    def __init__(self, root: Path) -> None:
        self.location = Location.of(str(root))
        self.newest = NewestVersion(self.location, TABLE.path)
        self.listings = 0

    def file(self, version: int) -> Path:
        return Path(self.location.child(version_path(TABLE, version)))

    def write(self, version: int, content: str = "") -> None:
        file = self.file(version)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content or f"version {version}")

    def look(self) -> int | None:
        """The newest version, which has to be the one that the list of files has."""
        stamp = self.newest.stamp()
        listed = newest_stamp(self.location, TABLE.path)
        assert stamp == listed
        return None if stamp is None else stamp.version


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder with two versions, which has not changed for a while."""
    monkeypatch.setattr(newest_version, "_TICK", TICK)
    folder = Folder(tmp_path)
    folder.write(1)
    folder.write(2)

    def counted(location: Location, path: str) -> object:
        folder.listings += 1
        return newest_stamp(location, path)

    monkeypatch.setattr(newest_version, "newest_stamp", counted)
    wait()
    assert folder.look() == 2
    return folder


def wait() -> None:
    time.sleep(2 * TICK)


def test_a_folder_that_stays_the_same_is_listed_once(folder: Folder) -> None:
    for _ in range(5):
        assert folder.look() == 2
    assert folder.listings == 1


def remove_the_newest(folder: Folder) -> None:
    folder.file(2).unlink()


def rewrite_the_newest(folder: Folder) -> None:
    folder.file(2).write_text("version X")


def replace_the_folder(folder: Folder) -> None:
    versions = folder.file(2).parent
    shutil.copytree(versions, versions.with_name("other"))
    shutil.rmtree(versions)
    versions.with_name("other").rename(versions)


def remove_the_folder(folder: Folder) -> None:
    shutil.rmtree(folder.file(2).parent)


def keep_a_version_that_is_not_the_newest(folder: Folder) -> None:
    for version in (3, 4, 5):
        folder.write(version)
    folder.file(3).unlink()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda folder: folder.write(3), 3),
        (keep_a_version_that_is_not_the_newest, 5),
        (remove_the_newest, 1),
        (rewrite_the_newest, 2),
        (replace_the_folder, 2),
        (remove_the_folder, None),
    ],
)
def test_a_change_is_seen_at_once(
    folder: Folder, change: Callable[[Folder], None], expected: int | None
) -> None:
    assert folder.look() == 2
    change(folder)
    assert folder.look() == expected
    wait()
    assert [folder.look(), folder.look()] == [expected, expected]


def test_versions_that_follow_each_other_quickly_are_all_seen(folder: Folder) -> None:
    for version in range(3, 300):
        folder.write(version)
        assert folder.look() == version


def test_a_folder_that_has_just_changed_is_listed_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_version, "_TICK", 1e6)
    folder.write(3)
    before = folder.listings
    assert [folder.look(), folder.look()] == [3, 3]
    assert folder.listings == before + 2


def test_times_of_folders_that_do_not_change_are_not_relied_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems show a time that has nothing to do with the files."""
    stat = os.stat
    mounted = stat(folder.file(2).parent)

    def same(path: str, **options: object) -> os.stat_result:
        status = stat(path)
        if not str(path).endswith("_versions"):
            return status
        names = {name: getattr(mounted, name) for name in dir(mounted) if name.startswith("st_")}
        return os.stat_result(tuple(mounted), {**names, "st_ctime_ns": 1_000_000_000})

    monkeypatch.setattr(os, "stat", same)
    folder.newest = NewestVersion(folder.location, TABLE.path)
    assert folder.look() == 2
    folder.write(3)
    assert folder.look() == 3


def test_buckets_are_asked_in_another_way() -> None:
    assert NewestVersion(Location.of("s3://bucket/graph"), TABLE.path).stamp() is None
