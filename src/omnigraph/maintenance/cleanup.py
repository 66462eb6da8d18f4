"""Removing what nobody needs: leftovers, and, if that is asked for, old versions.

Leftovers are what writers that failed or died have left, and nothing refers to. Which versions are
old is told by `retention`.

What is a leftover is found without a lock, however long that takes. It is removed a portion at a
time under the effect lock, after another look at what has come to refer to it since. A process that
is killed in between leaves a sound graph, and the next cleanup goes on.

A writer that lives has staged files that nothing refers to either. They stay because they are
young, or because the writer has a heartbeat: nothing that is younger than a living writer is
removed. Should one lose its files all the same, it notices before it has any effect.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from omnigraph import failpoints
from omnigraph.compute.ulids import made_at
from omnigraph.errors import NotFound, RecoveryRequired, StorageError, UsageError
from omnigraph.history.archive import (
    archived_commits,
    archived_commits_of,
    deleted_branches,
    drop_deleted,
)
from omnigraph.history.branch_state import MANIFEST
from omnigraph.history.manifest import TableIdentity
from omnigraph.history.names import branch_of_fork, is_internal
from omnigraph.history.removed import note_removed
from omnigraph.history.repository import Repository
from omnigraph.maintenance.dropped import dropped_tables, versions_first, versions_in
from omnigraph.maintenance.loose_files import cache_leftovers, control_leftovers, scratch_leftovers
from omnigraph.maintenance.reached import branch_states
from omnigraph.maintenance.retention import Retention, kept_versions
from omnigraph.maintenance.trimming import Trimmed, trim, trimmed_copy
from omnigraph.plain import Plain
from omnigraph.storage.leftovers import Leftover, TableLeftovers
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.objects import Objects, StoredFile
from omnigraph.storage.table_ref import TableRef
from omnigraph.writes.audit import TABLE as RECOVERIES
from omnigraph.writes.heartbeat import HEARTBEAT, LASTS, SCRATCH
from omnigraph.writes.sidecar import list_sidecars

#: So many files are removed before others get the lock.
_PORTION = 500
#: How often a place is looked at again that somebody changed meanwhile.
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class CleanedPlace(Plain):
    """The leftovers of one place.

    Attributes:
        place: A table, as `node:Person`; or `manifest`, `recoveries`, `scratch`, `control` or
            `cache`.
        files: How many files.
        bytes: How large they are.
        forks: The forks of the table among them that no branch has.
        versions: How many old versions of the table; their files are counted, too.
    """

    place: str
    files: int
    bytes: int
    forks: tuple[str, ...] = ()
    versions: int = 0


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """What a cleanup has removed, or would remove.

    Attributes:
        confirmed: True when it was removed, False for a preview.
        places: The places with leftovers.
        errors: By place what stopped it there.
        younger: How many files nothing refers to either, but are too young.
        branches: Deleted branches whose commits can no longer be read.
        commits: How many other commits can no longer be read.
    """

    confirmed: bool
    places: tuple[CleanedPlace, ...]
    errors: dict[str, str] = field(default_factory=dict)
    younger: int = 0
    branches: tuple[str, ...] = ()
    commits: int = 0

    @property
    def versions(self) -> int:
        """How many old versions, of all tables."""
        return sum(place.versions for place in self.places)

    @property
    def files(self) -> int:
        """How many files, everywhere."""
        return sum(place.files for place in self.places)

    @property
    def bytes(self) -> int:
        """How large they are."""
        return sum(place.bytes for place in self.places)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "confirmed": self.confirmed,
            "files": self.files,
            "bytes": self.bytes,
            "versions": self.versions,
            "commits": self.commits,
            "younger": self.younger,
            "branches": list(self.branches),
            "places": [place.to_dict() for place in self.places],
            "errors": dict(self.errors),
        }


class _Place(Protocol):
    """Somewhere leftovers are."""

    def find(self, until: float) -> tuple[list[Leftover], list[Leftover]]:
        """The leftovers that are old, and those that are not."""

    def remove(self, leftovers: Sequence[Leftover], lock: EffectLock) -> list[Leftover]:
        """Remove what is still a leftover; returns what was. The caller holds the lock."""


def cleanup(
    repository: Repository,
    *,
    confirm: bool,
    leftovers_older_than: dt.timedelta,
    keep: int | None = None,
    older_than: dt.timedelta | None = None,
    grace: dt.timedelta = dt.timedelta(hours=1),
) -> CleanupResult:
    """Remove leftovers, and old versions if it is said which; see `Graph.cleanup`."""
    seconds = leftovers_older_than.total_seconds()
    if seconds < 0:
        raise UsageError("leftovers_older_than is 0 or more")
    if keep is not None and keep < 1:
        raise UsageError(f"keep is a number of commits, 1 or more, not {keep}")
    for name, span in (("older_than", older_than), ("grace", grace)):
        if span is not None and span < dt.timedelta(0):
            raise UsageError(f"{name} is 0 or more")
    until = _until(repository.objects, seconds)
    done: list[CleanedPlace] = []
    errors: dict[str, str] = {}
    younger = 0
    doomed = _deleted_before(repository, until)
    manifest = repository.objects.files(MANIFEST)
    if confirm and doomed:
        with _undisturbed(repository):
            drop_deleted(repository.history, doomed)
    retention = None
    if keep is not None or older_than is not None:
        # What a long write began with is read until it ends.
        spared = time.time() - _until(repository.objects, grace.total_seconds())
        grace = max(grace, dt.timedelta(seconds=spared))
        retention = Retention(keep, older_than, grace, () if confirm else doomed)
    unreadable = lost = frozenset[str]()
    if retention is not None:
        kept = kept_versions(repository, retention)
        unreadable, lost = kept.removed, kept.lost
    noted: list[Mapping[str, Collection[int]]] = []
    for name, place in _places(repository, doomed, retention):
        removed: list[Leftover] = []
        old = _NONE
        young: list[Leftover] = []
        try:
            if retention is not None and isinstance(place, _TablePlace):
                if place.path == MANIFEST:
                    old = _trimmed(repository, manifest, doomed, noted, unreadable, confirm=confirm)
                elif place.identity is not None:
                    old = _without_old(repository, place, retention, confirm=confirm)
                noted.append(old.noted)
            if not (isinstance(place, _TablePlace) and place.is_gone):
                removed, young = _leftovers(place, until)
            younger += sum(len(leftover.files) for leftover in young)
            if confirm and removed:
                leftovers, removed = removed, []
                failpoints.hit("cleanup.found")
                for portion in _portions(leftovers):
                    removed += _removed(repository, place, portion)
        except (StorageError, NotFound) as error:
            errors[name] = error.message
        if removed or old.versions or old.files:
            done.append(_cleaned(name, removed, old))
    branches = tuple(sorted(map(branch_of_fork, doomed)))
    return CleanupResult(confirm, tuple(done), errors, younger, branches, len(lost))


@dataclass(frozen=True, slots=True)
class _Old:
    """What was removed of a table besides leftovers.

    Attributes:
        versions: How many versions.
        files: How many files.
        bytes: How large they are.
        noted: The versions, by the folder of the table or fork; the manifest has a note of them.
    """

    versions: int = 0
    files: int = 0
    bytes: int = 0
    noted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def of(files: Sequence[StoredFile], noted: Mapping[str, tuple[int, ...]]) -> _Old:
        """Files that were removed, with versions."""
        size = sum(file.size for file in files)
        return _Old(sum(map(len, noted.values())), len(files), size, noted)


_NONE = _Old()
#: Versions, by the folder of the table or fork, and the files that go with them.
_Versions = tuple[Mapping[str, tuple[int, ...]], list[StoredFile]]


def _without_old(
    repository: Repository, place: _TablePlace, retention: Retention, *, confirm: bool
) -> _Old:
    """Remove old versions of a table, or tell what would be removed."""
    tables, path = repository.tables, place.path

    def kept() -> dict[str | None, set[int]]:
        versions = kept_versions(repository, retention).versions
        return {fork: v for (identity, fork), v in versions.items() if identity == place.identity}

    if not kept():
        place.is_gone = True
        return _without_all(repository, place, lambda: bool(kept()), confirm=confirm)
    pruner = tables.pruner(path)
    until = (
        time.time() - max(retention.grace, retention.older_than or retention.grace).total_seconds()
    )

    def look() -> _Versions:
        needed = {TableRef(path, fork): versions for fork, versions in kept().items()}
        old = pruner.old(needed, tables.branches(path), until)
        return {o.ref.folder: o.versions for o in old}, [file for o in old for file in o.files]

    return _taken_away(repository, look, pruner.remove, confirm=confirm)


def _without_all(
    repository: Repository, place: _TablePlace, is_needed: Callable[[], bool], *, confirm: bool
) -> _Old:
    """Remove a table that no branch has and no commit that stays."""

    def look() -> _Versions:
        files = [] if is_needed() else repository.objects.files(place.path)
        return versions_in(files), versions_first(files)

    def remove(files: Sequence[StoredFile], lock: EffectLock) -> None:
        lock.check()
        repository.objects.delete_all([file.path for file in files])
        repository.objects.drop_empty(place.path)

    return _taken_away(repository, look, remove, confirm=confirm)


def _taken_away(
    repository: Repository,
    look: Callable[[], _Versions],
    remove: Callable[[Sequence[StoredFile], EffectLock], None],
    *,
    confirm: bool,
) -> _Old:
    """Remove versions of a table, a portion at a time, and tell what was removed."""
    versions, files = look()
    if not confirm or not files:
        return _Old.of(files, versions)
    failpoints.hit("cleanup.old_found")
    noted: dict[str, set[int]] = {}
    removed: dict[str, StoredFile] = {}
    while True:
        with _undisturbed(repository) as lock:
            # Somebody may have come to need a version meanwhile: a new branch, or a tag. What is
            # removed is not listed any more.
            versions, files = look()
            left = [file for file in files if file.path not in removed]
            for folder, numbers in versions.items():
                noted.setdefault(folder, set()).update(numbers)
            note_removed(repository.history, versions)
            portion = left[:_PORTION]
            remove(portion, lock)
            removed |= {file.path: file for file in portion}
            failpoints.hit("cleanup.old_removed")
        if len(left) <= _PORTION:
            all_noted = {folder: tuple(sorted(numbers)) for folder, numbers in noted.items()}
            return _Old.of(list(removed.values()), all_noted)


def _trimmed(
    repository: Repository,
    before: Sequence[StoredFile],
    doomed: Collection[str],
    noted: Sequence[Mapping[str, Collection[int]]],
    unreadable: Collection[str],
    *,
    confirm: bool,
) -> _Old:
    """Trim the manifest, or tell what that would free."""
    if confirm:
        trim(repository.history, lambda: _undisturbed(repository), unreadable)
        trimmed = Trimmed.between(before, repository.objects.files(MANIFEST))
    else:
        trimmed = trimmed_copy(repository, doomed, noted, unreadable)
    return _Old(trimmed.versions, trimmed.files, trimmed.bytes)


def _deleted_before(repository: Repository, until: float) -> list[str]:
    """Branches that were deleted before a moment and have no tag, by the names of their forks."""
    history = repository.history
    tagged = set(history.present().state.tags.values())
    forks = []
    for deleted in deleted_branches(history):
        own = archived_commits_of(history, deleted)
        if deleted.time.timestamp() <= until and tagged.isdisjoint(commit.id for commit in own):
            forks.append(deleted.fork)
    return forks


def _leftovers(place: _Place, until: float) -> tuple[list[Leftover], list[Leftover]]:
    for attempt in range(_ATTEMPTS):
        try:
            return place.find(until)
        except (StorageError, NotFound):
            # A branch may be deleted, or a version of the manifest dropped, while it is read.
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


@contextmanager
def _undisturbed(repository: Repository) -> Iterator[EffectLock]:
    """Hold the lock while there is no interrupted write."""
    with repository.lock() as lock:
        if pending := list_sidecars(repository.objects):
            raise RecoveryRequired(
                f"{pending[0]}: an interrupted write is not resolved yet, and may need what nothing"
                " refers to now. Open the graph for writing, which resolves it, and clean up again"
            )
        yield lock


def _removed(repository: Repository, place: _Place, portion: Sequence[Leftover]) -> list[Leftover]:
    with _undisturbed(repository) as lock:
        failpoints.hit("cleanup.checked")
        removed = place.remove(portion, lock)
        failpoints.hit("cleanup.removed")
    return removed


def _portions(leftovers: Sequence[Leftover]) -> Iterator[list[Leftover]]:
    portion: list[Leftover] = []
    count = 0
    for leftover in leftovers:
        portion.append(leftover)
        count += len(leftover.files)
        if count >= _PORTION:
            yield portion
            portion, count = [], 0
    if portion:
        yield portion


def _cleaned(name: str, leftovers: Sequence[Leftover], old: _Old) -> CleanedPlace:
    forks = tuple(leftover.fork for leftover in leftovers if leftover.fork is not None)
    files = sum(len(leftover.files) for leftover in leftovers) + old.files
    size = sum(leftover.size for leftover in leftovers) + old.bytes
    return CleanedPlace(name, files, size, forks, old.versions)


# --- what is old ---


def _until(objects: Objects, seconds: float) -> float:
    """The moment before which leftovers are old: none is younger than a writer that may live.

    A writer may live while something in its folder is young, or its last heartbeat is.
    """
    now = time.time()
    folders: dict[str, list[StoredFile]] = {}
    for file in objects.files(SCRATCH):
        folders.setdefault(file.path.split("/")[1], []).append(file)
    begun = [now - seconds]
    for name, files in folders.items():
        newest = max(file.modified for file in files)
        beats = any(file.path.endswith(f"/{name}/{HEARTBEAT}") for file in files)
        if newest > now - seconds or (beats and newest > now - LASTS):
            # Its clock may differ from that of the storage.
            begun.append(_moment(name, files) - LASTS)
    return min(begun)


def _moment(name: str, files: Sequence[StoredFile]) -> float:
    """When the writer of a scratch folder began; the folder is named by it."""
    try:
        return made_at(name)
    except ValueError:
        return min(file.modified for file in files)


# --- where to look ---


def _places(
    repository: Repository, doomed: Sequence[str], retention: Retention | None
) -> Iterator[tuple[str, _Place]]:
    states = branch_states(repository.history)
    tables = {table.path: table for state in states for table in state.state.tables.values()}
    for table in sorted(tables.values(), key=lambda t: (t.key.startswith("edge:"), t.key)):
        yield table.key, _TablePlace(repository, table.path, table.identity, doomed)
    for dropped in dropped_tables(repository):
        if dropped.is_known and (dropped.has_versions or retention is not None):
            yield dropped.name, _TablePlace(repository, dropped.path, dropped.identity, doomed)
        else:
            yield dropped.name, _TableRemains(repository, dropped.path)
    yield "manifest", _TablePlace(repository, MANIFEST)
    if repository.tables.exists(RECOVERIES):
        yield "recoveries", _TablePlace(repository, RECOVERIES)
    yield "scratch", _LoosePlace(repository, scratch_leftovers)
    yield "control", _LoosePlace(repository, control_leftovers)
    yield "cache", _LoosePlace(repository, cache_leftovers)


class _TablePlace:
    """A table; without an identity, one whose forks are not those of branches."""

    def __init__(
        self,
        repository: Repository,
        path: str,
        identity: TableIdentity | None = None,
        doomed: Sequence[str] = (),
    ) -> None:
        self._repository = repository
        self.path = path
        self.identity = identity
        #: The forks of deleted branches that go.
        self._doomed = doomed
        self._leftovers = TableLeftovers(repository.tables, path)
        #: True when all of it goes.
        self.is_gone = False

    def find(self, until: float) -> tuple[list[Leftover], list[Leftover]]:
        return self._leftovers.find(self._live(), until)

    def remove(self, leftovers: Sequence[Leftover], lock: EffectLock) -> list[Leftover]:
        forks = any(leftover.fork is not None for leftover in leftovers)
        live = self._live() if forks else None
        return self._leftovers.remove(leftovers, live, lock)

    def _live(self) -> Collection[str] | None:
        """The forks of the table that a branch reads, or a commit that can be read."""
        if self.identity is None:
            return None
        history = self._repository.history
        states = branch_states(self._repository.history)
        listed = set(self._repository.tables.branches(self._leftovers.path))
        # What internal branches read is not known here.
        live = {name for name in history.branch_names() if is_internal(name)} & listed
        for state in states:
            table = state.state.tables.get(self.identity)
            if table is not None and table.branch is not None:
                live.add(table.branch)
        if listed <= live:
            return live
        commits = archived_commits(history, self._doomed)
        for state in states:
            # One that is deleted meanwhile is in the archive, or was looked through.
            with suppress(NotFound):
                commits += history.commits(state.name)
        for commit in commits:
            change = commit.changes.get(self.identity)
            if change is not None and change[1] is not None:
                live.add(change[1])
        return live


class _LoosePlace:
    """Files beside the tables."""

    def __init__(
        self, repository: Repository, finds: Callable[[Repository], list[Leftover]]
    ) -> None:
        self._repository = repository
        self._finds = finds

    def find(self, until: float) -> tuple[list[Leftover], list[Leftover]]:
        leftovers = self._finds(self._repository)
        old = [leftover for leftover in leftovers if leftover.modified <= until]
        return old, [leftover for leftover in leftovers if leftover.modified > until]

    def remove(self, leftovers: Sequence[Leftover], lock: EffectLock) -> list[Leftover]:
        objects = self._repository.objects
        for leftover in leftovers:
            lock.check()
            objects.delete_all([file.path for file in leftover.files])
            objects.drop_empty(leftover.key)
        return list(leftovers)


class _TableRemains(_LoosePlace):
    """What a killed change of the schema, or a killed cleanup, has left of a table."""

    def __init__(self, repository: Repository, path: str) -> None:
        super().__init__(repository, self._files)
        self._path = path

    def remove(self, leftovers: Sequence[Leftover], lock: EffectLock) -> list[Leftover]:
        # It may have been about to be published.
        remains = {
            table.path
            for table in dropped_tables(self._repository)
            if not (table.is_known and table.has_versions)
        }
        return super().remove(leftovers if self._path in remains else [], lock)

    def _files(self, repository: Repository) -> list[Leftover]:
        return [Leftover(self._path, tuple(repository.objects.files(self._path)))]
