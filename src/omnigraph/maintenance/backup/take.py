"""Backing up a graph, while others write to it.

A moment of the graph is taken (`moment`), and the files that it refers to are copied: first
those of the manifest, whose old versions go soon, then those of tables. A file that is gone when
its turn comes, because somebody has cleaned up, means that another moment is taken; what is copied
by then stays. The backup before it in the target says what need not even be looked at.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import NotFound, OmnigraphError, StorageError, UsageError
from omnigraph.history.branch_state import MANIFEST
from omnigraph.history.manifest import GRAPH_KEY, MAIN
from omnigraph.history.removed import Range, removed_versions
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import find_commit
from omnigraph.maintenance.backup.copies import Copies
from omnigraph.maintenance.backup.moment import Moment, manifest_versions, moment_of, table_versions
from omnigraph.maintenance.backup.target import (
    BACKUPS,
    FILES,
    FORMAT,
    SCHEMAS,
    BackedUpFile,
    BackupManifest,
    BackupTarget,
    check_apart,
    is_unique,
)
from omnigraph.plain import Plain
from omnigraph.storage.branch_files import branch_file
from omnigraph.storage.leftovers import UNFINISHED
from omnigraph.storage.location import Location
from omnigraph.storage.objects import StoredFile
from omnigraph.storage.references import References, key_of
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import version_path
from omnigraph.writes.heartbeat import heartbeat

if TYPE_CHECKING:
    from omnigraph.pipeline.engine import Progress

#: How many moments are taken, if files of the ones before are gone.
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class BackupResult(Plain):
    """A backup that was taken.

    Attributes:
        id: Its id; ids sort by time.
        target: Where it is.
        branches: By name the commits that they were at.
        parent: The backup in the target that it continues; None for the first one.
        files: How many files it has, and `bytes` how large they are.
        copied_files: How many of them were not there yet, and `copied_bytes` how large those are.
        warnings: What is wrong with other backups in the target.
    """

    id: str
    target: str
    branches: dict[str, str]
    parent: str | None
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    warnings: tuple[str, ...] = ()


def backup(
    repository: Repository,
    target: Location,
    *,
    branches: Sequence[str] | None,
    since: str | None,
    read_only: bool,
    progress: Progress | None,
    program: str,
) -> BackupResult:
    """Back a graph up; see `Graph.backup`. `program` is the version of Omnigraph."""
    check_apart(repository.location, target, "inside of")
    place = BackupTarget(target)
    _check_target(place)
    work = _Backup(repository, place, branches, progress, program, read_only=read_only)
    if read_only:
        return work.run(since)
    with heartbeat(repository.objects):
        return work.run(since)


def _check_target(target: BackupTarget) -> None:
    """Refuse a place that has something else."""
    foreign = [name for name in target.objects.top_level() if name not in (BACKUPS, FILES)]
    if foreign:
        raise UsageError(
            f"{target.location} is not empty (it has {', '.join(foreign[:3])}); give a new or empty"
            " folder, or one that has backups of this graph"
        )


class _Gone(Exception):
    """What a moment refers to is not there any more; the error says what."""

    def __init__(self, error: OmnigraphError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class _Before:
    """The backup that this one continues, with its files: by path, and by the table's path."""

    manifest: BackupManifest
    files: Mapping[str, BackedUpFile]
    by_table: Mapping[str, Sequence[BackedUpFile]]


@dataclass(slots=True)
class _Taken:
    """The files of a moment, as far as they are in the target."""

    moment: Moment
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    files: dict[str, BackedUpFile] = field(default_factory=dict)


class _Backup:
    """One call."""

    def __init__(
        self,
        repository: Repository,
        target: BackupTarget,
        branches: Sequence[str] | None,
        progress: Progress | None,
        program: str,
        *,
        read_only: bool,
    ) -> None:
        self._repository = repository
        self._source = repository.objects
        self._target = target
        self._branches = branches
        self._program = program
        self._read_only = read_only
        self._copies = Copies(progress)
        #: By path how many bytes were copied.
        self._copied: dict[str, int] = {}
        self._warnings: list[str] = []
        self._before: _Before | None = None
        #: By the folder of a table, or of a fork, which versions cleanups have removed.
        self._removed: Mapping[str, Sequence[Range]] = {}

    def run(self, since: str | None) -> BackupResult:
        self._before = self._chosen_before(since)
        for attempt in range(_ATTEMPTS):
            try:
                return self._finish(self._take(hold=attempt > 0))
            except _Gone as gone:
                if attempt + 1 == _ATTEMPTS:
                    raise gone.error from None
        raise AssertionError("unreachable")

    # --- the backup before ---

    def _chosen_before(self, since: str | None) -> _Before | None:
        """The backup to continue: the newest one, or the newest one at a commit."""
        history = self._repository.history
        graph = history.read(MAIN).ledger.metadata.get(GRAPH_KEY)
        commit = None if since is None else find_commit(history, since).id
        for id in reversed(self._target.ids()):
            try:
                manifest = self._target.manifest(id)
                if manifest.graph != graph:
                    raise UsageError(
                        f"{self._target.location} has backups of another graph, {manifest.graph};"
                        " give another place"
                    )
                if commit is None or commit in manifest.branches.values():
                    return _before(manifest, self._target.files(manifest))
            except StorageError as error:
                # A backup does not depend on those that are damaged.
                self._warnings.append(error.message)
        if commit is not None:
            raise NotFound(
                f"{self._target.location} has no backup with a branch at commit {commit}; without"
                " `since`, its newest backup is continued"
            )
        return None

    # --- taking a moment ---

    def _take(self, *, hold: bool) -> _Taken:
        """Copy the files of a moment.

        Args:
            hold: Hold the lock until the manifest is copied, whose old versions are dropped soon.
        """
        with moment_of(self._repository, self._branches, read_only=self._read_only) as moment:
            taken = _Taken(moment)
            failpoints.hit("backup.moment_taken")
            if hold:
                self._take_manifest(taken)
        if not hold:
            self._take_manifest(taken)
        failpoints.hit("backup.manifest_copied")
        self._take_tables(taken)
        return taken

    def _take_manifest(self, taken: _Taken) -> None:
        with _moving():
            wanted = manifest_versions(self._repository, taken.moment)
            files = self._referenced(MANIFEST, {b: sorted(v) for b, v in wanted.items()})
        taken.tables[MANIFEST] = {b or "": max(v) for b, v in wanted.items()}
        paths = [branch_file(MANIFEST, branch) for branch in wanted if branch is not None]
        self._copy("manifest", taken, files, paths)

    def _take_tables(self, taken: _Taken) -> None:
        files: list[StoredFile] = []
        paths: list[str] = []
        with _moving():
            self._removed = removed_versions(self._repository.history)
            for path, newest in sorted(table_versions(self._repository, taken.moment).items()):
                taken.tables[path] = {fork or "": version for fork, version in newest.items()}
                known = self._known(path, newest)
                taken.files |= {file.path: file for file in self._kept(path, newest, known)}
                wanted = {f: range(known.get(f, 0) + 1, last + 1) for f, last in newest.items()}
                if any(wanted.values()):
                    files += self._referenced(path, wanted)
                paths += [branch_file(path, fork) for fork in newest if fork is not None]
            schemas = self._source.files(SCHEMAS)
        files = [file for file in files if file.path not in taken.files]
        paths += [file.path for file in schemas if not UNFINISHED.fullmatch(file.path)]
        self._copy("tables", taken, files, paths)
        for path, data in taken.moment.schema.items():
            file, count = self._put(path, data)
            taken.files[path] = file
            self._note(path, count)

    def _known(self, path: str, newest: Mapping[str | None, int]) -> dict[str | None, int]:
        """By fork the version up to which the backup before has the table, if it is the same one.

        The graph may have been restored to an earlier moment since, and changed in another way.
        """
        if self._before is None:
            return {}
        versions = self._before.manifest.tables.get(path, {})
        known = {fork or None: v for fork, v in versions.items() if (fork or None) in newest}
        for fork, version in known.items():
            file = version_path(TableRef(path, fork), version)
            listed = self._before.files.get(file)
            if version > newest[fork] or listed is None or not self._is_same(listed):
                return {}
            if self._has_removed(TableRef(path, fork)):
                return {}
        return known

    def _has_removed(self, ref: TableRef) -> bool:
        """True when the backup before has versions that a cleanup has removed since."""
        assert self._before is not None
        ranges = self._removed.get(ref.folder, ())
        return any(
            version_path(ref, version) in self._before.files
            for first, last in ranges
            for version in range(first, last + 1)
        )

    def _is_same(self, file: BackedUpFile) -> bool:
        stored = self._source.read(file.path)
        return stored is not None and hashlib.sha256(stored.data).hexdigest() == file.sha256

    def _kept(
        self, path: str, newest: Mapping[str | None, int], known: Mapping[str | None, int]
    ) -> Iterator[BackedUpFile]:
        """The files of a table that are as in the backup before."""
        if self._before is None or not known:
            return
        for file in self._before.by_table.get(path, ()):
            place = key_of(file.path.removeprefix(f"{path}/"))
            if place is not None and place[0] in newest:
                yield file

    def _referenced(
        self, path: str, versions: Mapping[str | None, Sequence[int]]
    ) -> list[StoredFile]:
        """The files of a table that some versions of it refer to."""
        tables = self._repository.tables
        references = References(tables, path, versions)
        forks = tables.branches(path) if versions.keys() - {None} else {}
        if lost := versions.keys() - {None} - forks.keys():
            raise NotFound(f"table {path} has no fork {min(map(str, lost))}")
        references.refresh({name: forks[name] for name in versions if name is not None})
        missing = set(references.keys())
        files = []
        for file in self._source.files(path):
            known = key_of(file.path.removeprefix(f"{path}/"))
            if known is not None and known[1] in references:
                missing.discard(known[1])
                files.append(file)
        # Of a range, versions before the last one may have been cleaned up.
        paths = {file.path for file in files}
        for fork, numbers in versions.items():
            for number in numbers[-1:] if isinstance(numbers, range) else numbers:
                if (place := version_path(TableRef(path, fork), number)) not in paths:
                    missing.add(place.removeprefix(f"{path}/"))
        if missing:
            raise NotFound(
                f"{path}/{min(missing)} is missing, which the graph refers to; `omnigraph check`"
                " says who needs it"
            )
        return files

    # --- copying ---

    def _copy(
        self, label: str, taken: _Taken, files: Sequence[StoredFile], small: Sequence[str]
    ) -> None:
        """Copy files, and others whose sizes are not known, but small."""
        known = {} if self._before is None else self._before.files
        new = []
        for file in files:
            listed = known.get(file.path)
            if listed is not None and listed.size == file.size and is_unique(file.path):
                taken.files[file.path] = listed
            else:
                new.append(file)
        new += [StoredFile(path, 0, 0.0) for path in small]
        for stored, count in self._copies.each(label, new, self._stored):
            taken.files[stored.path] = stored
            self._note(stored.path, count)

    def _note(self, path: str, count: int) -> None:
        if count:
            self._copied[path] = self._copied.get(path, 0) + count

    def _stored(self, file: StoredFile) -> tuple[BackedUpFile, int]:
        """Copy a file, if it is not there yet; returns how many bytes were copied."""
        try:
            if not is_unique(file.path):
                data = b"".join(self._copies.portions(self._source, file.path))
                stored = self._put(file.path, data)
            else:
                stored = self._streamed(file)
        except NotFound as error:
            raise _Gone(error) from error
        failpoints.hit("backup.file_copied")
        return stored

    def _streamed(self, file: StoredFile) -> tuple[BackedUpFile, int]:
        place, target = f"{FILES}/{file.path}", self._target.objects
        if target.size(place) == file.size:
            # An earlier call was interrupted.
            digest = self._copies.digest(self._source, file.path)
            if self._copies.digest(target, place) == digest:
                return BackedUpFile(file.path, file.size, digest), 0
        digest = self._copies.copy(self._source, file.path, target, place, size=file.size)
        return BackedUpFile(file.path, file.size, digest), file.size

    def _put(self, path: str, data: bytes) -> tuple[BackedUpFile, int]:
        file = BackedUpFile(path, len(data), hashlib.sha256(data).hexdigest())
        existing = self._target.objects.read(file.stored)
        if existing is not None and existing.data == data:
            return file, 0
        self._target.objects.put_portions(file.stored, [data], size=len(data))
        return file, len(data)

    def _finish(self, taken: _Taken) -> BackupResult:
        failpoints.hit("backup.copied")
        before = self._before
        manifest = BackupManifest(
            format=FORMAT,
            id=new_ulid(),
            graph=taken.moment.graph,
            time=dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            omnigraph=self._program,
            branches=taken.moment.heads,
            parent=None if before is None else before.manifest.id,
            tables={path: dict(sorted(forks.items())) for path, forks in taken.tables.items()},
        )
        parent = None if before is None else (before.manifest, before.files)
        manifest = self._target.write(manifest, taken.files, parent)
        failpoints.hit("backup.written")
        return BackupResult(
            manifest.id,
            str(self._target.location),
            manifest.branches,
            manifest.parent,
            manifest.total_files,
            manifest.total_bytes,
            len(self._copied),
            sum(self._copied.values()),
            tuple(self._warnings),
        )


def _before(manifest: BackupManifest, files: Mapping[str, BackedUpFile]) -> _Before:
    by_table: dict[str, list[BackedUpFile]] = {}
    for path, file in files.items():
        parts = path.split("/", 2)
        is_typed = parts[0] in ("nodes", "edges")
        by_table.setdefault("/".join(parts[: 1 + is_typed]), []).append(file)
    return _Before(manifest, files, by_table)


@contextmanager
def _moving() -> Iterator[None]:
    """Look at what others may clean up meanwhile."""
    try:
        yield
    except (NotFound, StorageError) as error:
        raise _Gone(error) from error
