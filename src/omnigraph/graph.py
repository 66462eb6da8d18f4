"""Graph: what users hold. Thin calls into the packages below."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pyarrow as pa

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.formats import migrate, stamp_of
from omnigraph.history.manifest import FORMAT, MAIN, Commit, ManifestState, PublishedTable
from omnigraph.history.repository import (
    INIT_CLAIM,
    TABLE_FOLDERS,
    Repository,
    init_repository,
    open_repository,
    refuse_file,
)
from omnigraph.history.store import BranchInfo
from omnigraph.language import Catalog
from omnigraph.language.schema.arrow import table_schema
from omnigraph.maintenance.check import CheckResult, check
from omnigraph.settings import Settings
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.relocation import is_moved, settle
from omnigraph.writes import branches as branch_writes
from omnigraph.writes.audit import Recovery, recoveries
from omnigraph.writes.batches import Batches, write_batches
from omnigraph.writes.protocol import WriteResult
from omnigraph.writes.recovery import recover_all
from omnigraph.writes.sidecar import list_sidecars


def init(
    place: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        schema: The path of a `.pg` file, or the schema's text.
        actor: Who creates it.
        settings: Options; from the environment unless given.

    Raises:
        SchemaError: The schema does not compile.
        AlreadyExists: There is a graph already.

    Example:
        >>> g = init("graph.omni", schema="node Person { name: String @key }")
    """
    text, path = _schema_text(schema)
    settings = settings or Settings.from_env()
    repository = init_repository(
        Location.of(place), text, path=path, actor=actor, times=_times(settings)
    )
    return Graph(repository, read_only=False)


def open(
    place: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    settings: Settings | None = None,
) -> Graph:
    """Open a graph.

    Args:
        place: A local path or `s3://bucket/prefix`.
        mode: `rw` resolves interrupted writes first; `r` only looks and never changes anything.
        settings: Options; from the environment unless given.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        RecoveryRequired: An interrupted write needs a person.
    """
    if mode not in ("rw", "r"):
        raise UsageError(f"mode is `rw` or `r`, not `{mode}`")
    location = Location.of(place)
    refuse_file(location)
    times = _times(settings or Settings.from_env())
    if mode == "rw" and Objects(location).top_level() and _needs_migration(location):
        with effect_lock(location, Objects(location), times):
            migrate(location)
    repository = open_repository(location, times=times)
    moved = mode == "rw" and is_moved(repository.objects)
    if mode == "rw" and (
        moved
        or list_sidecars(repository.objects)
        or repository.objects.read(INIT_CLAIM) is not None
    ):
        with repository.lock() as lock:
            if moved:
                settle(repository.objects, TABLE_FOLDERS)
            recover_all(repository, lock)
            repository.objects.delete(INIT_CLAIM)
    return Graph(repository, read_only=mode == "r")


class Graph:
    """An open graph. Safe to share between threads; a context manager."""

    def __init__(self, repository: Repository, *, read_only: bool) -> None:
        self._repository = repository
        self.read_only = read_only
        self.branches = Branches(self)
        self.tags = Tags(self)

    def __repr__(self) -> str:
        return f"<Graph {self._repository.location}{' (read-only)' if self.read_only else ''}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the graph. Nothing is ever left unwritten, so this cannot fail."""

    @property
    def location(self) -> str:
        """Where the graph lives."""
        return str(self._repository.location)

    @property
    def catalog(self) -> Catalog:
        """The accepted schema."""
        return self._repository.catalog

    # --- reading ---

    def snapshot(self, branch: str = MAIN, *, commit: str | None = None) -> Snapshot:
        """One consistent state of the graph: the head of a branch, or a commit or tag."""
        history = self._repository.history
        if commit is not None:
            found = self.commit(commit)
            id = found.id
            identity, _ = history.branch_identity(found.branch)
            return Snapshot(self._repository, found.branch, id, history.state_at(id), identity)
        branch_writes.known_branch(self._repository, branch)
        state = history.read(branch)
        return Snapshot(self._repository, branch, state.head, state.state, state.identity)

    def commits(
        self, branch: str = MAIN, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first."""
        if limit is not None and limit < 0:
            raise UsageError(f"limit is 0 or more, not {limit}")
        branch_writes.known_branch(self._repository, branch)
        return self._repository.history.commits(branch, actor=actor)[:limit]

    def commit(self, id: str) -> Commit:
        """A commit of any branch, by its id or tag."""
        tags = self._repository.history.read(MAIN).state.tags
        try:
            return self._repository.history.commit(tags.get(id, id))
        except NotFound:
            hint = did_you_mean(id, tags)
            raise NotFound(
                f"there is no commit or tag `{id}`" + (f"; {hint}" if hint else "")
            ) from None

    def recoveries(self) -> list[Recovery]:
        """What became of interrupted writes, newest first."""
        return recoveries(self._repository.tables)

    def check(self) -> CheckResult:
        """Check that everything published exists and belongs together. Changes nothing."""
        return check(self._repository)

    # --- writing ---

    def write_batches(
        self,
        batches: Batches,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> WriteResult:
        """Write rows of several types in one commit; see `omnigraph.writes.batches`."""
        repository = self._writable()
        branch_writes.known_branch(repository, branch)
        return write_batches(
            repository,
            branch,
            batches,
            actor=actor,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )

    def _writable(self) -> Repository:
        if self.read_only:
            raise UsageError("the graph is open for reading only; open it with mode `rw`")
        return self._repository


class Branches:
    """The branches of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[BranchInfo]:
        return iter(self.list())

    def list(self) -> list[BranchInfo]:
        """All branches, main first."""
        return self._graph._repository.history.branches()

    def create(self, name: str, *, source: str = MAIN) -> BranchInfo:
        """Create a branch at the head of another one. Copies nothing."""
        return branch_writes.create_branch(self._graph._writable(), name, source)

    def delete(self, name: str) -> None:
        """Delete a branch."""
        branch_writes.delete_branch(self._graph._writable(), name)


class Tags:
    """Lasting names of commits."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.list().items())

    def list(self) -> Mapping[str, str]:
        """Commit ids by tag."""
        return dict(sorted(self._graph._repository.history.read(MAIN).state.tags.items()))

    def create(self, name: str, commit: str) -> None:
        """Give a commit a name."""
        branch_writes.set_tag(self._graph._writable(), name, commit)

    def delete(self, name: str) -> None:
        """Remove a name; the commit stays."""
        branch_writes.delete_tag(self._graph._writable(), name)


@dataclass(frozen=True)
class Snapshot:
    """One state of the graph. It never changes, whatever others write.

    The tables of a branch go with the branch: once it is deleted, they can no longer be read.
    """

    _repository: Repository
    branch: str
    commit: str
    _state: ManifestState
    _identity: str

    def __repr__(self) -> str:
        return f"<Snapshot of {self._repository.location}: {self.branch} at {self.commit}>"

    @property
    def tables(self) -> tuple[PublishedTable, ...]:
        """The tables with their published versions: node types, then edge types, by name."""
        return tuple(
            sorted(self._state.tables.values(), key=lambda t: (t.key.startswith("edge:"), t.key))
        )

    def read(
        self, type: str, columns: list[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Read the rows of a node or edge type.

        Raises:
            NotFound: There is no such type or column, or the snapshot's branch was deleted.
        """
        table = self._table(type)
        self._check_columns(type, columns or [])
        try:
            return self._repository.tables.open(table.ref, table.version).read(columns, where)
        finally:
            # A branch of the same name, made later, has other tables under the same address.
            if table.branch is not None:
                self._check_branch()

    def count(self, type: str) -> int:
        """How many rows a type has."""
        return self._table(type).rows

    def to_dict(self) -> dict[str, Any]:
        """Give the snapshot as plain values."""
        return {
            "branch": self.branch,
            "commit": self.commit,
            "tables": [t.to_dict() for t in self.tables],
        }

    def _check_branch(self) -> None:
        if self._repository.history.branch_identity(self.branch)[0] != self._identity:
            raise NotFound(f"the branch `{self.branch}` of this snapshot was deleted")

    def _check_columns(self, type: str, columns: list[str]) -> None:
        declared = self._repository.catalog.table(type)
        known = [] if declared is None else table_schema(declared).names
        for name in columns if known else []:
            if name not in known:
                hint = did_you_mean(name, known) or f"it has {', '.join(known)}"
                raise NotFound(f"{type} has no column `{name}`; {hint}")

    def _table(self, type: str) -> PublishedTable:
        table = self._state.by_name(type)
        if table is None:
            hint = did_you_mean(type, [t.name for t in self.tables])
            raise NotFound(f"the graph has no type `{type}`" + (f"; {hint}" if hint else ""))
        return table


def _schema_text(schema: str | os.PathLike[str]) -> tuple[str, str | None]:
    if isinstance(schema, str) and ("{" in schema or "\n" in schema):
        return schema, None
    path = Path(schema)
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file; give a .pg file, or the schema's text") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _needs_migration(location: Location) -> bool:
    try:
        return stamp_of(location) < FORMAT
    except NotFound:
        return False


def _times(settings: Settings) -> LockTimes:
    return LockTimes(wait=settings.lock_wait_seconds, lease=settings.lease_seconds)
