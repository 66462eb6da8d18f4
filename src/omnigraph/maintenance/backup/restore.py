"""Restoring a graph from a backup, and verifying backups.

A restore claims an empty place, copies every file, and checks its digest on the way. The tables
come first, then the manifest, and the schemas last: until they are there, the place holds no graph
that could be opened. Killed at any moment, a second call finishes the work.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph import failpoints
from omnigraph.errors import AlreadyExists, NotFound, StorageError, UsageError
from omnigraph.history.branch_state import MANIFEST
from omnigraph.history.creation import refuse_inside
from omnigraph.history.repository import RESTORE_CLAIM, refuse_file
from omnigraph.history.schemas import FOLDER as SCHEMAS
from omnigraph.history.schemas import SCHEMA_STATE
from omnigraph.history.store import History
from omnigraph.maintenance.backup.copies import Copies, Damaged
from omnigraph.maintenance.backup.target import (
    FILES,
    BackedUpFile,
    BackupInfo,
    BackupManifest,
    BackupTarget,
    check_apart,
    info_of,
)
from omnigraph.plain import Plain
from omnigraph.storage.links import refuse_links
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LOCK_FOLDER, EffectLock, LockTimes, effect_lock
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.pipeline.engine import Progress

_VERSIONS = f"{MANIFEST}/_versions/"


@dataclass(frozen=True, slots=True)
class RestoreResult(Plain):
    """A graph that was restored.

    Attributes:
        location: Where it is now.
        backup: The backup.
        time: When that was taken.
        branches: By name the commits that they are at.
        files: How many files it has, and `bytes` how large they are.
    """

    location: str
    backup: str
    time: str
    branches: dict[str, str]
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class VerifyResult(Plain):
    """What was verified, and what is wrong.

    Attributes:
        backups: The backups.
        files: How many files they have together, and `bytes` how large they are.
        problems: What is damaged or missing, each with the name of its file.
    """

    backups: tuple[str, ...]
    files: int
    bytes: int
    problems: tuple[str, ...]


def list_backups(source: Location) -> list[BackupInfo]:
    """The backups at a place, newest first.

    Raises:
        NotFound: There is none.
    """
    target = BackupTarget(source)
    if not target.ids():
        target.chosen(None)
    return [info_of(target.manifest(id)) for id in reversed(target.ids())]


def verify_backups(
    source: Location, *, backup: str | None, progress: Progress | None
) -> VerifyResult:
    """Read every file of all backups at a place, or of one, and compare their digests."""
    target = BackupTarget(source)
    ids = (target.chosen(backup).id,) if backup is not None else tuple(target.ids())
    if not ids:
        target.chosen(None)
    problems: dict[str, None] = {}
    stored: dict[str, BackedUpFile] = {}
    for id in ids:
        try:
            files = target.files(target.manifest(id))
        except StorageError as error:
            problems[error.message] = None
        else:
            stored |= {file.stored: file for file in files.values()}
    copies = Copies(progress)

    def problem(file: BackedUpFile) -> str | None:
        return _problem(copies, target.objects, file)

    verified = copies.each("verifying", list(stored.values()), problem)
    problems |= {text: None for text in verified if text is not None}
    size = sum(file.size for file in stored.values())
    return VerifyResult(ids, len(stored), size, tuple(problems))


def _problem(copies: Copies, objects: Objects, file: BackedUpFile) -> str | None:
    address = objects.location.child(file.stored)
    try:
        size = objects.size(file.stored)
        if size is None:
            return f"{address} is missing"
        if size != file.size:
            return f"{address} is damaged: it has {size:,} bytes, not {file.size:,}"
        if copies.digest(objects, file.stored) != file.sha256:
            return f"{address} is damaged: it does not have the content of its digest"
    except (StorageError, NotFound) as error:
        return error.message
    return None


def restore(
    source: Location,
    location: Location,
    *,
    backup: str | None,
    times: LockTimes,
    progress: Progress | None,
) -> RestoreResult:
    """Restore a graph; see `omnigraph.restore`."""
    check_apart(source, location, "inside of")
    target = BackupTarget(source)
    manifest = target.chosen(backup)
    files = target.files(manifest)
    refuse_file(location)
    refuse_links(location)
    refuse_inside(location)
    work = _Restore(target, manifest, files, location, Copies(progress))
    # Look before locking: the lock would leave a file in a place that is not ours.
    if not work.is_claimed():
        work.check_files()
    was_there = bool(Objects.at(location).top_level())
    try:
        with effect_lock(location, Objects.at(location), times) as lock:
            work.run(lock)
    except Damaged:
        if not was_there and location.is_local:
            _remove_lock(location)
        raise
    return RestoreResult(
        str(location),
        manifest.id,
        manifest.time,
        dict(manifest.branches),
        manifest.total_files,
        manifest.total_bytes,
    )


class _Restore:
    """One call."""

    def __init__(
        self,
        target: BackupTarget,
        manifest: BackupManifest,
        files: Mapping[str, BackedUpFile],
        location: Location,
        copies: Copies,
    ) -> None:
        self._target = target
        self._manifest = manifest
        self._files = files
        self._location = location
        self._objects = Objects.at(location)
        self._copies = copies

    def is_claimed(self) -> bool:
        """True when an interrupted restore of the same backup is to be finished.

        Raises:
            AlreadyExists: There is a graph.
            UsageError: There is something else.
        """
        names = [name for name in self._objects.top_level() if name != LOCK_FOLDER]
        claim = self._objects.read(RESTORE_CLAIM)
        if claim is None:
            if History(self._location).exists():
                raise AlreadyExists(
                    f"there is a graph at {self._location} already; restore to a new place, or move"
                    " it away first"
                )
            if names:
                raise UsageError(
                    f"{self._location} is not empty (it has {', '.join(names[:3])}); give a new or"
                    " empty folder"
                )
            return False
        try:
            claimed = str(json.loads(claim.data)["backup"])
        except (ValueError, KeyError, TypeError):
            claimed = "unknown"
        if claimed != self._manifest.id:
            raise UsageError(
                f"a restore of backup {claimed} to {self._location} was interrupted; finish it with"
                f" `--backup {claimed}`, or remove the folder"
            )
        return True

    def check_files(self) -> None:
        """Check that all files are there, before anything is made."""
        sizes = {file.path: file.size for file in self._target.objects.files(FILES)}
        for file in self._files.values():
            address = self._target.location.child(file.stored)
            size = sizes.get(file.stored)
            if size is None:
                raise StorageError(f"{address} is missing: backup {self._manifest.id} needs it")
            if size != file.size:
                raise Damaged(address, f"has {size:,} bytes, not {file.size:,}")

    def run(self, lock: EffectLock) -> None:
        if not self.is_claimed():
            claim = {
                "backup": self._manifest.id,
                "started_at": dt.datetime.now(dt.UTC).isoformat(),
            }
            lock.check()
            self._objects.write(RESTORE_CLAIM, json.dumps(claim).encode())
            failpoints.hit("restore.claimed")
        # If this file is there, all are, and others may have written since.
        if self._objects.stat(SCHEMA_STATE) is None:
            self._copy_all(lock)
        lock.check()
        self._objects.delete(RESTORE_CLAIM)
        failpoints.hit("restore.finished")

    def _copy_all(self, lock: EffectLock) -> None:
        tables, manifest, last = _in_order(self._files)
        try:
            self._copies.each("restoring", tables, self._copy)
            failpoints.hit("restore.tables_copied")
            for file in manifest:
                lock.check()
                self._copy(file)
            failpoints.hit("restore.manifest_copied")
            for file in last:
                lock.check()
                self._copy(file)
            failpoints.hit("restore.copied")
        except Damaged:
            self._undo()
            raise

    def _copy(self, file: BackedUpFile) -> None:
        if (
            self._objects.size(file.path) == file.size
            and self._copies.digest(self._objects, file.path) == file.sha256
        ):
            # An earlier call was interrupted.
            return
        try:
            self._copies.copy(
                self._target.objects,
                file.stored,
                self._objects,
                file.path,
                size=file.size,
                sha256=file.sha256,
            )
        except NotFound:
            address = self._target.location.child(file.stored)
            raise Damaged(address, "is missing") from None
        failpoints.hit("restore.file_copied")

    def _undo(self) -> None:
        """Remove what was copied: a backup that is damaged leaves no half of a graph."""
        self._objects.delete_all([*self._files, RESTORE_CLAIM])
        for folder in {path.partition("/")[0] for path in self._files if "/" in path}:
            self._objects.drop_empty(folder)


def _in_order(
    files: Mapping[str, BackedUpFile],
) -> tuple[list[BackedUpFile], list[BackedUpFile], list[BackedUpFile]]:
    """The files in the order in which they may become visible.

    Returns:
        Those that nobody looks at; the versions of main's manifest, the newest one first, since
        that is the graph; and the schemas, without which a graph cannot be opened.
    """
    # Names of versions count downwards.
    versions = sorted(path for path in files if path.startswith(_VERSIONS))
    schemas = sorted(path for path in files if path.startswith(f"{SCHEMAS}/"))
    if SCHEMA_STATE not in files or not versions:
        raise StorageError("the backup is damaged: it has no manifest, or no schema")
    last = [*schemas, SCHEMA_STATE]
    tables = [file for path, file in sorted(files.items()) if path not in {*versions, *last}]
    return tables, [files[path] for path in versions], [files[path] for path in last]


def _remove_lock(location: Location) -> None:
    """Remove the lock of a place that holds nothing else, and the place."""
    objects = Objects.at(location)
    if objects.top_level() == [LOCK_FOLDER]:
        with suppress(StorageError, OSError):
            objects.delete_folder(LOCK_FOLDER)
            os.rmdir(location.uri)
