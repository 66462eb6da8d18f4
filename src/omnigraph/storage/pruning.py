"""Dropping old versions of a table, with the files that only they refer to.

Lance could do it, but it tells what branches need by the absolute addresses that they were written
with, and would remove files of branches after the graph was moved. Here every version stays that a
branch was created from: it refers to all that the branch has of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraph.storage.datasets import below, tracked_files
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.objects import Objects, StoredFile
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import version_path

_VERSIONS = "_versions/"


def drop_versions(objects: Objects, ref: TableRef, dataset: LanceDataset, keep: int) -> None:
    """Drop all but the newest versions of a table, and those that branches were created from.

    The caller holds the effect lock. Killed in between, files are left that nothing refers to.

    Args:
        objects: The files of the graph.
        ref: The table, or a branch of it.
        dataset: Its newest version.
        keep: How many of the newest stay.
    """
    objects.delete_all([f"{ref.folder}/{path}" for path in droppable(ref, dataset, keep)])


def droppable(ref: TableRef, dataset: LanceDataset, keep: int) -> list[str]:
    """What `drop_versions` removes, below the folder of the table or branch; versions first."""
    files = pa.Table.from_batches(list(tracked_files(dataset)))
    own = ref.folder.removeprefix(ref.path)
    bases = [
        base for base in files["base_uri"].unique().to_pylist() if below(ref.path, base) == own
    ]
    files = files.filter(pc.is_in(files["base_uri"], pa.array(bases, pa.utf8())))
    forks: dict[str, Any] = dataset.branches.list()
    versions = sorted(files["version"].unique().to_pylist())[-keep:] + [
        fork["parent_version"] for fork in forks.values() if fork["parent_branch"] == ref.branch
    ]
    stays = pc.is_in(files["version"], pa.array(versions, files["version"].type))
    needed = set(files["path"].filter(stays).to_pylist())
    dropped = set(files["path"].filter(pc.invert(stays)).to_pylist())
    # The versions go first: what they refer to is of no use without them.
    return sorted(dropped - needed, key=lambda path: (not path.startswith(_VERSIONS), path))


@dataclass(frozen=True, slots=True)
class OldVersions:
    """Versions of a table, or of a branch of it, that go, and the files that go with them."""

    ref: TableRef
    versions: tuple[int, ...]
    files: tuple[StoredFile, ...]


class VersionPruner:
    """Removes old versions of one table, and of all its branches."""

    def __init__(self, objects: Objects, path: str, datasets: Mapping[TableRef, LanceDataset]):
        """Look at what there is.

        Args:
            objects: The files of the graph.
            path: The table.
            datasets: The newest versions of the table and of its branches.
        """
        self._objects = objects
        self._path = path
        self._heads = {ref: int(dataset.version) for ref, dataset in datasets.items()}
        #: By the table or branch, which of its versions refers to which of its own files.
        self._files = {ref: _own_files(ref, dataset) for ref, dataset in datasets.items()}
        listed = objects.files(path)
        self._listed = {file.path: file for file in listed}
        #: Large blobs are beside the file of their rows, in a folder of its name.
        self._beside: dict[str, list[StoredFile]] = {}
        for file in listed:
            folder, _, name = file.path.rpartition("/")
            if name.endswith(".blob"):
                self._beside.setdefault(f"{folder}.lance", []).append(file)

    def old(
        self, needed: Mapping[TableRef, Collection[int]], forks: Mapping[str, Any], until: float
    ) -> list[OldVersions]:
        """The versions that can go.

        Args:
            needed: The versions that stay.
            forks: All branches of the table: what they were created from stays, too.
            until: A version that was written after this moment stays.
        """
        return [each for ref in self._files if (each := self._old(ref, needed, forks, until))]

    def _old(
        self,
        ref: TableRef,
        needed: Mapping[TableRef, Collection[int]],
        forks: Mapping[str, Any],
        until: float,
    ) -> OldVersions | None:
        files = self._files[ref]
        stay = {self._heads[ref], *needed.get(ref, ())}
        stay |= {f["parent_version"] for f in forks.values() if f["parent_branch"] == ref.branch}
        # What is above all that are needed was not published: another program may have made it.
        newest = max(needed.get(ref, stay), default=self._heads[ref])
        versions = []
        for version in files["version"].unique().to_pylist():
            file = self._listed.get(version_path(ref, version))
            is_old = version < newest and file is not None and file.modified <= until
            if is_old and version not in stay:
                versions.append(version)
        if not versions:
            return None
        goes = pc.is_in(files["version"], pa.array(versions, files["version"].type))
        kept = set(files["path"].filter(pc.invert(goes)).to_pylist())
        dropped = set(files["path"].filter(goes).to_pylist()) - kept
        paths = [version_path(ref, version) for version in sorted(versions)]
        paths += sorted({f"{ref.folder}/{path}" for path in dropped}.difference(paths))
        doomed = [self._listed[path] for path in paths if path in self._listed]
        doomed += [file for path in paths for file in self._beside.get(path, ())]
        return OldVersions(ref, tuple(sorted(versions)), tuple(doomed))

    def remove(self, files: Collection[StoredFile], lock: EffectLock) -> None:
        """Remove files of old versions. The caller holds the lock, and has looked again."""
        lock.check()
        self._objects.delete_all([file.path for file in files])
        for folder in {file.path.rpartition("/")[0] for file in files}:
            if "/_indices/" in folder or folder.rpartition("/")[0].endswith("/data"):
                self._objects.drop_empty(folder)


def _own_files(ref: TableRef, dataset: LanceDataset) -> pa.Table:
    """The files of a table, or of a branch, that its versions refer to: not those it inherits."""
    files = pa.Table.from_batches(list(tracked_files(dataset)))
    own = ref.folder.removeprefix(ref.path)
    bases = [b for b in files["base_uri"].unique().to_pylist() if below(ref.path, b) == own]
    return files.filter(pc.is_in(files["base_uri"], pa.array(bases, pa.utf8())))
