"""Making a branch fast to read again: few large fragments, and indexes that cover all rows.

It is one write of the protocol. Fragments are rewritten and indexes are built beside the tables,
however long that takes, while others write; under the lock, what they have changed meanwhile is
left out. What a row is, and which commit has written it, stays the same, and so does every version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.errors import ReadSetConflict
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.maintenance.index_tasks import IndexBuilder
from omnigraph.maintenance.indexes import IndexChange, missing
from omnigraph.pipeline.engine import LocalEngine, Progress
from omnigraph.pipeline.others_first import others_first
from omnigraph.pipeline.where import Where, check_engine, engine_for
from omnigraph.settings import Settings
from omnigraph.storage.compaction import bytes_of
from omnigraph.storage.indices import BuildSegments
from omnigraph.storage.location import Location
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import StagedWrite, Tables, TableSnapshot
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.recovery import resolved
from omnigraph.writes.request import Change, TableOutcome, WriteRequest
from omnigraph.writes.sidecar import list_sidecars
from omnigraph.writes.view import View

#: How often tables are done again that others have changed meanwhile.
_ROUNDS = 3
#: Of a table with fewer bytes to rewrite, this process does it, whatever the engine is.
SMALL = 16 << 20
#: Why a table without rows has no indexes.
EMPTY = "the table is empty"


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """What became of one table.

    Attributes:
        table: The table, as `node:Person`.
        fragments_removed: How many fragments were put together.
        fragments_added: How many there are in their place.
        committed: True when the table has changed.
        indexes: The indexes that were built, or cover more rows now.
        pending: Indexes that are missing, or do not cover all rows, and why.
        skipped: Why nothing was done, if there is a reason.
    """

    table: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    indexes: tuple[str, ...] = ()
    pending: Mapping[str, str] = field(default_factory=dict)
    skipped: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "table": self.table,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.committed,
            "indexes": list(self.indexes),
            "pending": dict(self.pending),
            "skipped": self.skipped,
        }


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """What an optimize has done.

    Attributes:
        branch: The branch.
        commit: The commit; None when there was nothing to do. If others wrote meanwhile, there may
            be more commits, of which it is the last.
        tables: Every table of the branch.
        manifest: True when the manifest was compacted, too.
    """

    branch: str
    commit: Commit | None
    tables: tuple[OptimizedTable, ...]
    manifest: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            "manifest": self.manifest,
            "tables": [table.to_dict() for table in self.tables],
        }


def optimize(
    repository: Repository,
    branch: str,
    *,
    where: Where,
    settings: Settings,
    progress: Progress,
    actor: str | None = None,
) -> OptimizeResult:
    """Compact the tables of a branch and build its indexes; see `Graph.optimize`."""
    check_engine(where)
    if list_sidecars(repository.objects):
        # Of a writer that lives, or of one that died: what cannot be resolved is refused here.
        with resolved(repository):
            pass
    work = _Work(repository, where, settings, progress)
    commits: list[Commit] = []
    for _ in range(_ROUNDS):
        request = WriteRequest(
            branch,
            work.prepare,
            True,
            CommitOptions(actor, "optimize"),
            writer="optimize",
            is_long=True,
            may_omit=True,
        )
        # Others may write so much that nothing fits: it is reported of each table.
        commit = None
        with suppress(ReadSetConflict), others_first():
            commit = write(repository, request).commit
        if commit is not None:
            commits.append(commit)
        if not _is_overtaken(repository, branch, work, commit):
            break
    failpoints.hit("optimize.committed")
    manifest = repository.history.compact(branch, lambda: resolved(repository))
    tables = tuple(_reports(repository, repository.history.read(branch), work, commits))
    return OptimizeResult(branch, commits[-1] if commits else None, tables, manifest)


@dataclass(frozen=True)
class _RewriteTask:
    """Some fragments of one table, to be put together anywhere."""

    location: str
    table: TableRef
    version: int
    task: str


def _rewrite(task: _RewriteTask) -> str:
    tables = Tables(Location(task.location))
    return tables.rewrite(tables.open(task.table, task.version), task.task)


@dataclass(frozen=True, slots=True)
class TableCompaction:
    """Fragments of a table that are rewritten, and indexes for it; both may be missing."""

    type: NodeType | EdgeType
    rewritten: Sequence[str]
    build: BuildSegments

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""
        return "compaction" if self.rewritten else "indices"

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to do; that is known once it is staged."""
        return False

    @property
    def outcome(self) -> TableOutcome:
        """Rows stay as they are."""
        return TableOutcome(0, 0, 0)

    @property
    def footprint(self) -> Sequence[pa.Table]:
        """No row is touched."""
        return ()

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Stage the new fragments, with indexes of them that are built beside the table."""

        def build(table: TableSnapshot) -> StagedWrite | None:
            rows = table.count()
            specs = missing(self.type, table, rows) if rows else []
            staged = IndexChange(specs, self.build).stage(tables, table) if specs else None
            failpoints.hit("optimize.indexed")
            return staged

        if not self.rewritten:
            return build(snapshot)
        return tables.stage_compaction(snapshot, self.rewritten, build)


class _Work:
    """One optimize: what is to be done, and where."""

    def __init__(
        self, repository: Repository, where: Where, settings: Settings, progress: Progress
    ) -> None:
        self._repository = repository
        self._where = where
        self._settings = settings
        self._progress = progress
        self._builder = IndexBuilder(repository, where, settings, progress)
        #: By types: why they were left alone; what was planned last, and on which version.
        self.skipped: dict[str, str] = {}
        self.planned: dict[str, TableCompaction] = {}
        self.versions: dict[str, int] = {}

    def prepare(self, view: View) -> Mapping[str, Change]:
        """Rewrite fragments of all tables that the branch owns, and that are as published."""
        tasks: dict[str, list[_RewriteTask]] = {}
        location = str(self._repository.location)
        for type in view.catalog.tables():
            table = view.published(type.name)
            if self._is_skipped(view.base, table):
                continue
            planned = self._repository.tables.plan_compaction(view.table(type.name).snapshot)
            tasks[type.name] = [
                _RewriteTask(location, table.ref, table.version, task) for task in planned
            ]
        rewritten = dict(zip(tasks, self._rewritten(list(tasks.values())), strict=True))
        failpoints.hit("optimize.rewritten")
        self._progress.stage("indexing", 0)
        self.planned = {
            name: TableCompaction(view.type(name), results, self._builder.build)
            for name, results in rewritten.items()
        }
        self.versions = {name: view.published(name).version for name in tasks}
        return self.planned

    def _is_skipped(self, base: BranchState, table: PublishedTable) -> bool:
        reason = None
        if not base.owns(table):
            reason = "the branch has not written to it: it is that of the branch it comes from"
        elif (head := self._repository.tables.head(table.ref, table.version)) != table.version:
            reason = (
                f"version {table.version} is published, but another program has made"
                f" {head}; `omnigraph repair` shows what it did, and publishes it if you want"
            )
        self.skipped.pop(table.name, None)
        if reason is not None:
            self.skipped[table.name] = reason
        return reason is not None

    def _rewritten(self, tasks: Sequence[Sequence[_RewriteTask]]) -> Iterator[list[str]]:
        """Rewrite fragments; returns what came of it, table by table."""
        sizes = [sum(bytes_of(task.task) for task in each) for each in tasks]
        engine = LocalEngine(max(1, self._settings.maintenance_concurrency))
        large = sum(size for size in sizes if size > SMALL)
        chosen = engine_for(self._where, self._settings, large) if large else engine
        if isinstance(chosen, LocalEngine):
            chosen = engine
        results: dict[_RewriteTask, str] = {}
        for runs, is_large in ((chosen, True), (engine, False)):
            some = [
                task
                for each, size in zip(tasks, sizes, strict=True)
                if (size > SMALL) == is_large
                for task in each
            ]
            if some:
                texts = runs.map(_rewrite, some, "compacting", self._progress)
                results |= dict(zip(some, texts, strict=True))
        return ([results[task] for task in each] for each in tasks)


def _is_overtaken(repository: Repository, branch: str, work: _Work, commit: Commit | None) -> bool:
    """True when others have changed a table meanwhile, and something is left to be done there."""
    base = repository.history.read(branch)
    for name, version in work.versions.items():
        table = base.state.by_name(name)
        if table is None:
            continue
        before = table.version
        if commit is not None and table.identity in commit.changes:
            before = commit.before[table.identity][0]
        if before == version:
            continue
        snapshot = repository.tables.open(table.ref, table.version)
        lacks = table.rows and missing(work.planned[name].type, snapshot, table.rows)
        if lacks or repository.tables.plan_compaction(snapshot):
            return True
    return False


def _reports(
    repository: Repository, base: BranchState, work: _Work, commits: Sequence[Commit]
) -> Iterator[OptimizedTable]:
    tables = repository.tables
    for table in base.state.tables.values():
        if table.name in work.skipped:
            yield OptimizedTable(table.key, skipped=work.skipped[table.name])
            continue
        removed = added = 0
        indexes: set[str] = set()
        own = [commit for commit in commits if table.identity in commit.changes]
        for commit in own:
            before, after = (
                tables.open(TableRef(table.path, table.branch), version)
                for version in (commit.before[table.identity][0], commit.changes[table.identity][0])
            )
            was, now = set(before.fragments()), set(after.fragments())
            removed, added = removed + len(was - now), added + len(now - was)
            indexes |= _covering(after) - _covering(before)
        type = repository.catalog_of(base.state).table(table.name)
        now_open = tables.open(table.ref, table.version)
        pending = {} if type is None else _pending(type, now_open, bool(own))
        yield OptimizedTable(table.key, removed, added, bool(own), tuple(sorted(indexes)), pending)


def _covering(table: TableSnapshot) -> set[str]:
    """The indexes that cover all rows."""
    return {index.name for index in table.indices() if not index.uncovered}


def _pending(type: NodeType | EdgeType, table: TableSnapshot, committed: bool) -> dict[str, str]:
    """The indexes that are not complete, and why."""
    rows = table.count()
    pending = {}
    for spec in missing(type, table, rows):
        if not rows:
            pending[spec.name] = EMPTY
        elif spec.kind.startswith("ivf"):
            pending[spec.name] = "there are too few vectors to learn from"
        elif committed:
            pending[spec.name] = "rows came while it was built"
        else:
            pending[spec.name] = "others wrote to the table all the time"
    return pending
