"""Steps 1 to 8 of the protocol: prepared writes become commits, under the effect lock.

Threads of one process that write to the same branch share the lock, the sidecar and the publish.
Each write is a commit of its own, on table versions of its own, so that all of them can be read
later; they become visible together. What does not fit beside the others lands alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from omnigraph import failpoints
from omnigraph.compute.ulids import mint_ulids, new_ulid
from omnigraph.errors import NotFound, ReadSetConflict, StorageError
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit, PublishedTable
from omnigraph.history.manifest_rows import id_marks
from omnigraph.history.repository import Repository
from omnigraph.history.touched import Touched
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.staged import staged_files
from omnigraph.storage.tables import StagedWrite, TableRef
from omnigraph.writes.conditions import earlier_result
from omnigraph.writes.fencing import restore_id, transaction_id, undo_strays
from omnigraph.writes.prepared import Prepared, PreparedTable, Stale, as_it_is, caught_up, moved_to
from omnigraph.writes.reads import LookUp, Read
from omnigraph.writes.recovery import reclaim_fork, resolved
from omnigraph.writes.request import TableOutcome, WriteRequest, WriteResult
from omnigraph.writes.schema_effects import create_tables, show_schema
from omnigraph.writes.sidecar import (
    PlannedCommit,
    PlannedSchema,
    Sidecar,
    SidecarTable,
    as_published,
    planned_commits,
)

#: At most so many writes share a lock: others wait for it, too.
_MOST = 32


@dataclass(eq=False, slots=True)
class _Job:
    """A prepared write that waits to land.

    Attributes:
        alone: It does not share the lock with others.
        commit_id: The id of its commit, once it was armed.
        failure: The sidecar it was armed with, and what went wrong then.
        outcome: The answer, or why there is none. Without one, it has to be tried again.
    """

    request: WriteRequest
    prepared: Prepared
    alone: bool
    commit_id: str = ""
    failure: tuple[Sidecar, Exception] | None = None
    outcome: WriteResult | Exception | None = None

    @property
    def outcomes(self) -> Mapping[str, TableOutcome]:
        return {item.table.name: item.outcome for item in self.prepared.tables}


def land(repository: Repository, request: WriteRequest, prepared: Prepared) -> WriteResult:
    """Commit a prepared write.

    Raises:
        Stale: It has to be prepared again; nothing has happened.
    """
    alone = bool(request.merged or prepared.schema) or not _can_share(prepared)
    job = _Job(request, prepared, alone)
    while True:
        repository.turns.run(job, partial(_lead, repository, job))
        if isinstance(job.outcome, WriteResult):
            return job.outcome
        if job.outcome is not None:
            raise job.outcome
        if job.failure is not None:
            commit = _settled(repository, job, *job.failure)
            if commit is not None:
                return WriteResult(commit, job.outcomes)
            job.failure = None
        # It did not fit beside others, or one of them has failed.
        job.alone = True


def _can_share(prepared: Prepared) -> bool:
    return all(
        item.staged is not None
        and item.staged.kind in ("append", "merge", "delete")
        and item.change.footprint is not None
        and not item.makes_room
        for item in prepared.tables
    )


def _lead(repository: Repository, own: _Job) -> None:
    """Take the lock, and land a write with all others that fit beside it."""
    turns, branch = repository.turns, own.request.branch
    waiting = turns.waiting()
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(resolved(repository))
        except Exception as error:
            # Those who waited as long would wait in vain as long again.
            for job in turns.take(lambda job: job in waiting):
                job.outcome = error
            return
        failpoints.hit("write.locked")

        def is_wanted(job: _Job) -> bool:
            shares = not (own.alone or job.alone) and job.request.branch == branch
            return job is own or shares

        _land_group(repository, lock, branch, turns.take(is_wanted, _MOST))


class _Group:
    """Writes that land together: none of them sees a row that another one touches."""

    def __init__(self) -> None:
        self.jobs: list[_Job] = []
        self._keys: set[str | None] = set()
        self._ids: dict[str, set[str]] = {}
        self._rows: dict[str, list[pa.Table]] = {}

    def fits(self, job: _Job) -> bool:
        """True when a write means the same after those of the group."""
        if not self.jobs:
            return True
        request = job.request
        options = request.options
        if options.if_commit is not None or options.idempotency_key in self._keys:
            return False
        return not any(
            self._sees(name, read) for name, reads in job.prepared.reads.items() for read in reads
        )

    def _sees(self, name: str, read: Read) -> bool:
        if isinstance(read, LookUp) and read.column == "id":
            return not self._ids.get(name, set()).isdisjoint(read.values.to_pylist())
        for rows in self._rows.get(name, ()):
            missing = set(read.columns).difference(rows.column_names)
            if missing or pc.any(pc.fill_null(read.sees(rows), True)).as_py():
                return True
        return False

    def add(self, job: _Job) -> None:
        """Let a write land with the others."""
        self.jobs.append(job)
        if job.request.options.idempotency_key is not None:
            self._keys.add(job.request.options.idempotency_key)
        for item in job.prepared.tables:
            rows = [r for r in item.change.footprint or () if r.num_rows]
            self._rows.setdefault(item.table.name, []).extend(rows)
            self._ids.setdefault(item.table.name, set()).update(_ids(rows))


def _ids(tables: Iterable[pa.Table]) -> Iterator[str]:
    return (id for rows in tables for id in rows["id"].to_pylist())


class _HasMoved(Stale):
    """The branch had to be changed first."""


def _land_group(
    repository: Repository, lock: EffectLock, branch: str, jobs: Sequence[_Job]
) -> None:
    """Land those of some writes that fit beside each other; the others have no outcome then."""
    group = _Group()
    try:
        now = as_it_is(repository, branch)
        for job in jobs:
            _admit(repository, lock, now, job, group)
        if not group.jobs:
            return
        failpoints.hit("write.revalidated")
        sidecar = _arm(repository, now, group.jobs)
    except Exception as error:
        for job in group.jobs or jobs:
            job.outcome = job.outcome or error
        return
    interrupted = StorageError("the thread that committed this write was interrupted")
    for job, planned in zip(group.jobs, sidecar.commits, strict=True):
        job.commit_id, job.failure = planned.id, (sidecar, interrupted)
    try:
        failpoints.hit("write.armed")
        commits = _effects(repository, lock, now, sidecar, group.jobs)
    except Exception as error:
        failure = _reason(lock, error)
        for job in group.jobs:
            job.failure = (sidecar, failure)
        return
    for job, commit in zip(group.jobs, commits, strict=True):
        job.outcome = WriteResult(commit, job.outcomes)
    # The commits are visible. A sidecar that cannot be deleted is found and removed by the next
    # writer: no reason to report that the writes have failed.
    with suppress(StorageError):
        repository.objects.delete(sidecar.path)
    failpoints.hit("write.finished")


# --- step 3 ---


def _admit(
    repository: Repository, lock: EffectLock, now: BranchState, job: _Job, group: _Group
) -> None:
    """Let a write land with a group, if it fits the branch as it is now, and the group."""
    try:
        if now.head != job.prepared.base.head:
            job.outcome = earlier_result(repository, job.request, now)
            if job.outcome is not None:
                return
        job.prepared = caught_up(repository, job.request, job.prepared, now)
        if group.fits(job):
            _check_tables(repository, lock, now, job.prepared.tables)
            group.add(job)
    except _HasMoved as stale:
        job.outcome = stale
        raise
    except Exception as error:
        job.outcome = error


def _check_tables(
    repository: Repository,
    lock: EffectLock,
    now: BranchState,
    prepared: Sequence[PreparedTable],
) -> None:
    """Check that the tables are as published, and that what was staged still exists."""
    for item in prepared:
        if item.is_fork:
            # A fork that the manifest does not know is left from a deleted or interrupted branch.
            assert item.ref.branch is not None
            reclaim_fork(repository, lock, item.ref.path, item.ref.branch)
            continue
        if repository.tables.head(item.ref, item.table.version) != item.table.version:
            undo_strays(repository, lock, now, [i.table for i in prepared if not i.is_fork])
            text = f"{item.table.key} had to be put back first; read again and repeat this write"
            raise _HasMoved(ReadSetConflict(text, changed=(item.table.key,)))
        assert item.staged is not None
        if missing := repository.objects.missing(staged_files(item.staged)):
            raise Stale(
                ReadSetConflict(
                    f"{missing[0]}, which this write has staged, is gone: a cleanup of leftovers"
                    " as young as this removed it; run it again",
                    changed=(item.table.key,),
                )
            )


# --- steps 4 to 7 ---


def _arm(repository: Repository, now: BranchState, jobs: Sequence[_Job]) -> Sidecar:
    """Write down what is about to happen, with the ids that identify it later."""
    operation_id = new_ulid()
    versions: dict[TableRef, int] = {}
    commits: list[PlannedCommit] = []
    number = 0
    # They sort in the order of the commits.
    commit_ids = mint_ulids(len(jobs)).to_pylist()
    for job, commit_id in zip(jobs, commit_ids, strict=True):
        tables = []
        for item in job.prepared.tables:
            for kind in item.steps:
                id = transaction_id(operation_id, number)
                expected = versions.get(item.ref, item.table.version)
                versions[item.ref] = expected + 1
                number += 1
                tables.append(
                    SidecarTable(
                        str(item.table.identity),
                        item.table.key,
                        item.table.path,
                        item.ref.branch,
                        expected,
                        (item.table.branch or "") if item.is_fork else None,
                        kind,
                        id,
                        restore_id(id),
                    )
                )
        request = job.request
        commits.append(
            PlannedCommit(
                commit_id,
                request.writer,
                request.options.actor,
                request.options.message,
                request.options.idempotency_key,
                request.request_digest,
                tuple(tables),
                request.merged,
                None if job.prepared.schema is None else PlannedSchema.of(job.prepared.schema),
            )
        )
    sidecar = Sidecar(
        operation_id,
        now.name,
        now.identity,
        now.head,
        new_ulid(),
        dt.datetime.now(dt.UTC).isoformat(),
        tuple(commits),
    )
    sidecar.store(repository.objects)
    return sidecar


def _effects(
    repository: Repository,
    lock: EffectLock,
    now: BranchState,
    sidecar: Sidecar,
    jobs: Sequence[_Job],
) -> list[Commit]:
    newest: dict[TableRef, PublishedTable] = {}
    confirmed: list[PlannedCommit] = []
    published: list[list[PublishedTable]] = []
    touched: list[Touched] = []
    landed: list[list[StagedWrite]] = []
    for job, planned in zip(jobs, sidecar.commits, strict=True):
        done: list[SidecarTable] = []
        notes = iter(planned.tables)
        landed.append([])
        for item in job.prepared.tables:
            lock.check()
            if item.ref in newest:
                item = moved_to(repository, item, newest[item.ref])
            staged = item.staged or _fork_and_stage(repository, lock, item)
            staged = repository.tables.merge_tiers(staged)
            failpoints.hit("write.tiers_merged")
            if item.makes_room:
                room = repository.tables.stage_room(staged)
                done.append(_commit_table(repository, lock, room, next(notes)))
                staged = repository.tables.in_room(staged)
            for step in _steps(repository, staged):
                committed = _commit_table(repository, lock, step, next(notes))
                done.append(committed)
            if item.then is not None:
                # Rows are written for the columns that the table has only now.
                rows = item.then.stage(
                    repository.tables, repository.tables.open(item.ref, committed.version)
                )
                assert rows is not None
                committed = _commit_table(repository, lock, rows, next(notes))
                done.append(committed)
                staged = rows
            landed[-1].append(staged)
            newest[item.ref] = as_published(committed)
            if item.change.footprint is not None:
                ids = tuple(set(_ids(item.change.footprint)))
                touched += [
                    Touched(item.ref.path, item.ref.branch, version, ids)
                    for version in range(staged.read_version + 1, newest[item.ref].version + 1)
                ]
        confirmed.append(structs.replace(planned, tables=tuple(done)))
        published.append([newest[item.ref] for item in job.prepared.tables])
    schema = sidecar.schema
    if schema is not None:
        create_tables(repository, lock, schema)
        published = [schema.tables(published[0])]
    sidecar = sidecar.confirmed(tuple(confirmed))
    sidecar.store(repository.objects)
    failpoints.hit("write.confirmed")
    commits = repository.history.completed(now, planned_commits(sidecar, now, published))
    commits = [
        _with_notes(commit, job.prepared.tables, writes)
        for commit, job, writes in zip(commits, jobs, landed, strict=True)
    ]
    lock.check()
    failpoints.hit("write.publishing")
    repository.history.publish(now, commits, newest.values(), touched, schema)
    failpoints.hit("write.published")
    if schema is not None:
        show_schema(repository, lock)
    return commits


def _steps(repository: Repository, staged: StagedWrite) -> Iterator[StagedWrite]:
    """The versions that a staged write makes, each of them once the one before is committed."""
    yield staged
    if len(staged.steps) > 1:
        yield repository.tables.indices_after(staged)


def _with_notes(
    commit: Commit, tables: Sequence[PreparedTable], writes: Sequence[StagedWrite]
) -> Commit:
    """A commit with how many rows it has deleted, and which ids it has touched."""
    deleted = sum(write.rows_deleted for write in writes)
    ids: set[str] = set()
    for item, write in zip(tables, writes, strict=True):
        if write.kind in ("indices", "schema"):
            continue
        if item.change.footprint is None:
            return structs.replace(commit, deleted=deleted)
        ids.update(_ids(item.change.footprint))
    return structs.replace(commit, deleted=deleted, touched=id_marks(ids))


def _commit_table(
    repository: Repository, lock: EffectLock, staged: StagedWrite, note: SidecarTable
) -> SidecarTable:
    """Commit a table as the sidecar says; returns the note with what it became."""
    lock.check()
    failpoints.hit("write.table_committing")
    committed = repository.tables.commit_staged(replace(staged, transaction_id=note.transaction_id))
    failpoints.hit("write.table_committed")
    return structs.replace(note, version=committed.version, rows=committed.rows)


def _fork_and_stage(repository: Repository, lock: EffectLock, item: PreparedTable) -> StagedWrite:
    tables, name = repository.tables, item.ref.branch
    assert name is not None
    failpoints.hit("write.forking")
    try:
        tables.create_branch(item.table.ref, item.table.version, name)
    except StorageError:
        # A writer that has lost its lease may just have written to where the fork is to be.
        reclaim_fork(repository, lock, item.ref.path, name)
        tables.create_branch(item.table.ref, item.table.version, name)
    failpoints.hit("write.forked")
    # Not its HEAD, for the same reason.
    staged = item.change.stage(tables, tables.open(item.ref, item.table.version))
    assert staged is not None
    return staged


def _reason(lock: EffectLock, error: Exception) -> Exception:
    """Why a write has failed: if it has lost its lease, others may have removed its files."""
    if isinstance(error, StorageError):
        try:
            lock.check()
        except ReadSetConflict as lost:
            lost.__cause__ = error
            return lost
    return error


def _settled(
    repository: Repository, job: _Job, sidecar: Sidecar, failure: Exception
) -> Commit | None:
    """A failure after arming: finish or undo the write here and now, if that is possible.

    The lock is taken anew, because having lost it may be the failure. Somebody else may have
    finished or undone the write by now.

    Returns:
        The commit, or None when the write was undone together with others.

    Raises:
        Stale: It was undone, because something else was faster.
        Exception: What went wrong, if it cannot be distinguished from the others' faults.
    """
    commit: Commit | None = None
    try:
        with resolved(repository, sidecar), suppress(NotFound):
            commit = repository.history.commit(job.commit_id)
    except Exception:
        # The sidecar still exists: the next writer, or the next open, resolves it.
        raise failure from None
    if commit is not None or len(sidecar.commits) > 1:
        return commit
    if isinstance(failure, ReadSetConflict):
        raise Stale(failure) from None
    raise failure
