"""The write protocol, step by step. Everything that changes a graph goes through `write`.

0 prepare      read one state of the branch, stage the change: files that nothing refers to
1 lock         take the effect lock, for milliseconds
2 recover      a sidecar found now belongs to a dead writer: resolve it first
3 revalidate   what other commits have changed since is checked against what was read; rows that
               are staged stay staged, and only a real clash starts over
4 arm          write the sidecar: who, what, on which versions, with which ids
5 effects      fork tables that the branch touches for the first time, commit each table
6 confirm      note the resulting versions in the sidecar
7 publish      one compare-and-swap of the manifest: the commit is visible, whole
8 finish       delete the sidecar, release the lock
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from msgspec import structs

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import (
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    ReadSetConflict,
    StorageError,
    UsageError,
)
from omnigraph.history.manifest import Commit, PublishedTable
from omnigraph.history.repository import Repository
from omnigraph.history.store import BranchState
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.rebase import rebased
from omnigraph.storage.staged import staged_files
from omnigraph.storage.tables import StagedWrite, TableRef, Tables, TableSnapshot
from omnigraph.writes.fencing import restore_id, transaction_id, undo_strays
from omnigraph.writes.recheck import Reads, recheck
from omnigraph.writes.recovery import as_published, planned_commit, reclaim_fork, resolved
from omnigraph.writes.sidecar import Sidecar, SidecarTable
from omnigraph.writes.signs import sign_of_life
from omnigraph.writes.view import View

#: How often a write that may be repeated is prepared again when another writer was faster.
_ATTEMPTS = 256
_LONGEST_PAUSE = 0.2
#: What took so many seconds to prepare is checked again before the lock is taken, as often as it
#: takes until there is little left to check while others wait.
_LONG = 1.0
_SHORT = 0.1
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What a write did to one table."""

    inserted: int
    replaced: int
    deleted: int


class Change(Protocol):
    """A change of one table, against the state it was prepared on."""

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to stage."""

    @property
    def outcome(self) -> TableOutcome:
        """What it does to the table."""

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Stage it on the version it was made for, or on a fork of that."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What to write and under which conditions.

    Attributes:
        prepare: Gives the changes by the type's name, validated, on one state of the branch. It
            runs again when another writer was faster, if the write may be repeated.
        may_repeat: The write means the same on a newer state of the branch.
        if_commit: Write only if this is the branch's head.
        idempotency_key: A second write with the same key on the branch gives the first's commit.
        request_digest: What tells a repeated request from another one with the same key.
    """

    branch: str
    prepare: Callable[[View], Mapping[str, Change]]
    may_repeat: bool
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    idempotency_key: str | None = None
    writer: str = "write"
    request_digest: str | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The answer to a write. `commit` is None when nothing changed."""

    commit: Commit | None
    tables: Mapping[str, TableOutcome]
    repeated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Give the result as plain values."""
        return {
            "commit": self.commit.id if self.commit is not None else None,
            "repeated": self.repeated,
            "tables": {
                name: {"inserted": t.inserted, "replaced": t.replaced, "deleted": t.deleted}
                for name, t in self.tables.items()
            },
        }


@dataclass(frozen=True, slots=True)
class _PreparedTable:
    """One table of a prepared write. `staged` is None while the table is still to be forked."""

    table: PublishedTable
    change: Change
    staged: StagedWrite | None
    ref: TableRef

    @property
    def is_fork(self) -> bool:
        return self.staged is None

    @property
    def outcome(self) -> TableOutcome:
        """What becomes of the table; other commits may have made new rows replace some."""
        planned = self.change.outcome
        if self.staged is None or self.staged.kind not in ("append", "merge"):
            return planned
        more = self.staged.rows_replaced - planned.replaced
        return TableOutcome(planned.inserted - more, planned.replaced + more, planned.deleted)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A prepared write: the state it was prepared on, what it has read of it, and its tables."""

    base: BranchState
    reads: Reads
    tables: tuple[_PreparedTable, ...]


def write(repository: Repository, request: WriteRequest) -> WriteResult:
    """Write to a branch in one commit, or not at all.

    Raises:
        UsageError: What comes with the write is no text, or the idempotency key is empty.
        PreconditionFailed: The branch is not at `if_commit`.
        ReadSetConflict: Another writer was faster, and the write cannot simply be repeated.
        RecoveryRequired: An interrupted write is in the way that needs a person.
    """
    _check_texts(request)
    may_repeat = request.may_repeat and request.if_commit is None
    with sign_of_life(repository.objects):
        return _repeated(repository, request, may_repeat)


def _repeated(repository: Repository, request: WriteRequest, may_repeat: bool) -> WriteResult:
    """Write, and prepare it again while another writer is faster."""
    deadline = time.monotonic() + repository.lock_times.wait
    for attempt in range(_ATTEMPTS):
        base = repository.history.read(request.branch)
        earlier = _check_conditions(repository, request, base)
        if earlier is not None:
            return earlier
        begun = time.monotonic()
        try:
            prepared = _prepare(repository, request, base)
            if not prepared.tables:
                return WriteResult(None, {})
            failpoints.hit("write.prepared")
            if time.monotonic() - begun > _LONG:
                prepared = _nearly_caught_up(repository, request, prepared)
            return _under_lock(repository, request, prepared)
        except _Stale as stale:
            too_late = attempt + 1 == _ATTEMPTS or time.monotonic() > deadline
            if not may_repeat or too_late:
                earlier = _check_conditions(
                    repository, request, repository.history.read(request.branch)
                )
                if earlier is not None:
                    return earlier
                raise stale.conflict from None
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.002 * 2**attempt)))
    raise AssertionError("unreachable")


def _check_texts(request: WriteRequest) -> None:
    for name in ("actor", "message", "if_commit", "idempotency_key"):
        given = getattr(request, name)
        if given is not None and not isinstance(given, str):
            raise UsageError(f"{name} is a text, not {given!r}")
    if request.idempotency_key == "":
        # Whoever forgot to fill it in would lose every write but the first.
        raise UsageError("the idempotency key is empty; give one of your own to each write")


class _Stale(Exception):
    """What was prepared no longer fits; nothing has happened yet."""

    def __init__(self, conflict: OmnigraphError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


def _check_conditions(
    repository: Repository, request: WriteRequest, base: BranchState
) -> WriteResult | None:
    """Check what the caller demands of the branch; gives the answer of an earlier same write."""
    if request.idempotency_key is not None:
        earlier = repository.history.find_idempotent(base, request.idempotency_key)
        if earlier is not None:
            _refuse_other(request, earlier)
            return WriteResult(earlier, {}, repeated=True)
    if request.if_commit is not None and base.head != request.if_commit:
        raise PreconditionFailed(
            f"branch `{request.branch}` is at commit {base.head}, not at {request.if_commit};"
            " nothing was written",
            expected=request.if_commit,
            actual=base.head,
        )
    return None


def _refuse_other(request: WriteRequest, earlier: Commit) -> None:
    digests = {request.request_digest, earlier.request_digest}
    if None not in digests and len(digests) > 1:
        raise UsageError(
            f"the idempotency key {request.idempotency_key!r} belongs to another write on branch"
            f" `{request.branch}`, commit {earlier.id}; nothing was written: give each write a key"
            " of its own"
        )


# --- step 0 ---


def _prepare(repository: Repository, request: WriteRequest, base: BranchState) -> _Prepared:
    try:
        return _stage(repository, request, base)
    except StorageError:
        # A branch may be deleted, together with its tables, while a write to it is prepared.
        if repository.history.branch_identity(request.branch)[0] == base.identity:
            raise
        raise _Stale(_made_anew(request.branch)) from None


def _made_anew(branch: str) -> ReadSetConflict:
    text = f"branch `{branch}` was made anew, or restored, while this write was prepared"
    return ReadSetConflict(text, changed=("branch",))


def _stage(repository: Repository, request: WriteRequest, base: BranchState) -> _Prepared:
    tables: list[_PreparedTable] = []
    view = View(repository, base)
    for name, change in request.prepare(view).items():
        if change.is_empty:
            continue
        table = view.published(name)
        target = TableRef(table.path, base.native)
        if table.branch == base.native:
            staged = change.stage(repository.tables, view.table(name).snapshot)
            if staged is not None:
                tables.append(_PreparedTable(table, change, staged, target))
        else:
            # Its files belong below the fork, which is made under the lock.
            tables.append(_PreparedTable(table, change, None, target))
    return _Prepared(base, view.reads, tuple(tables))


# --- steps 1 to 8 ---


def _under_lock(repository: Repository, request: WriteRequest, prepared: _Prepared) -> WriteResult:
    with resolved(repository) as lock:
        failpoints.hit("write.locked")
        try:
            now = _now(repository, request, prepared.base)
            if now.head != prepared.base.head:
                earlier = _check_conditions(repository, request, now)
                if earlier is not None:
                    return earlier
                prepared = _caught_up(repository, prepared, now)
            _check_tables(repository, lock, now, prepared.tables)
        except ReadSetConflict as conflict:
            raise _Stale(conflict) from None
        failpoints.hit("write.revalidated")
        outcomes = {item.table.name: item.outcome for item in prepared.tables}
        sidecar = _arm(repository, request, now, prepared.tables)
        try:
            failpoints.hit("write.armed")
            commit = _effects(repository, lock, now, sidecar, prepared.tables)
        except Exception as error:
            failure = error
        else:
            # The commit is visible. A sidecar that cannot be deleted is found and removed by the
            # next writer: no reason to tell the caller that the write has failed.
            with suppress(StorageError):
                repository.objects.delete(sidecar.path)
            failpoints.hit("write.finished")
            return WriteResult(commit, outcomes)
    return WriteResult(_resolve(repository, sidecar, failure), outcomes)


def _now(repository: Repository, request: WriteRequest, base: BranchState) -> BranchState:
    """The branch as it is now."""
    try:
        now = repository.history.read(request.branch)
    except NotFound as error:
        raise _Stale(error) from None
    if now.identity != base.identity or now.epoch != base.epoch:
        raise _Stale(_made_anew(request.branch))
    return now


def _nearly_caught_up(
    repository: Repository, request: WriteRequest, prepared: _Prepared
) -> _Prepared:
    """A long write on a state of the branch that is as new as can be had without the lock."""
    for _ in range(_ROUNDS):
        begun = time.monotonic()
        now = _now(repository, request, prepared.base)
        if now.head == prepared.base.head:
            break
        try:
            prepared = _caught_up(repository, prepared, now)
        except ReadSetConflict as conflict:
            raise _Stale(conflict) from None
        if time.monotonic() - begun < _SHORT:
            break
    return prepared


def _caught_up(repository: Repository, prepared: _Prepared, now: BranchState) -> _Prepared:
    """The same write on a later state of the branch, if it means the same there."""
    anew = recheck(repository.tables, now.name, prepared.reads, prepared.base.state, now.state)
    tables = tuple(
        _rebased(repository, item, now, anew.get(item.table.name)) for item in prepared.tables
    )
    failpoints.hit("write.rechecked")
    return _Prepared(now, prepared.reads, tables)


def _rebased(
    repository: Repository, item: _PreparedTable, now: BranchState, anew: pa.Array | None
) -> _PreparedTable:
    old, new = item.table, now.state.tables.get(item.table.identity)
    if new is None:
        raise ReadSetConflict(f"{old.name} is gone since this write was prepared")
    if (old.version, old.branch) == (new.version, new.branch):
        return item
    if item.staged is None:
        # Rows are staged below the fork; they are told by their places in the version before.
        raise ReadSetConflict(
            f"{old.name} was first written to on branch `{now.name}` while this write was prepared",
            changed=(old.key,),
        )
    tables = repository.tables
    staged = rebased(
        item.staged, tables.open(old.ref, old.version), tables.open(new.ref, new.version), anew
    )
    return replace(item, table=new, staged=staged)


def _check_tables(
    repository: Repository,
    lock: EffectLock,
    now: BranchState,
    prepared: Sequence[_PreparedTable],
) -> None:
    """Check that the tables are as published, and that what was staged is still there."""
    for item in prepared:
        if item.is_fork:
            # A fork that the manifest does not know is left from a deleted or interrupted branch.
            assert item.ref.branch is not None
            reclaim_fork(repository, lock, item.ref.path, item.ref.branch)
            continue
        if repository.tables.head(item.ref, item.table.version) != item.table.version:
            undo_strays(repository, lock, now, [i.table for i in prepared if not i.is_fork])
            text = f"{item.table.key} had to be put back first; read again and repeat this write"
            raise _Stale(ReadSetConflict(text, changed=(item.table.key,)))
        assert item.staged is not None
        if missing := repository.objects.missing(staged_files(item.staged)):
            raise _Stale(
                ReadSetConflict(
                    f"{missing[0]}, which this write has staged, is gone: a cleanup of leftovers"
                    " as young as this removed it; run it again",
                    changed=(item.table.key,),
                )
            )


def _arm(
    repository: Repository,
    request: WriteRequest,
    base: BranchState,
    prepared: Sequence[_PreparedTable],
) -> Sidecar:
    operation_id = new_ulid()
    ids = [transaction_id(operation_id, number) for number in range(len(prepared))]
    tables = tuple(
        SidecarTable(
            str(item.table.identity),
            item.table.key,
            item.table.path,
            item.ref.branch,
            item.table.version,
            (item.table.branch or "") if item.is_fork else None,
            item.change.kind,
            id,
            restore_id(id),
        )
        for item, id in zip(prepared, ids, strict=True)
    )
    sidecar = Sidecar(
        operation_id,
        request.writer,
        request.branch,
        base.identity,
        base.head,
        new_ulid(),
        new_ulid(),
        request.actor,
        request.message,
        request.idempotency_key,
        dt.datetime.now(dt.UTC).isoformat(),
        tables,
        request_digest=request.request_digest,
    )
    sidecar.store(repository.objects)
    return sidecar


def _effects(
    repository: Repository,
    lock: EffectLock,
    base: BranchState,
    sidecar: Sidecar,
    prepared: Sequence[_PreparedTable],
) -> Commit:
    done: list[SidecarTable] = []
    for item, note in zip(prepared, sidecar.tables, strict=True):
        lock.check()
        staged = item.staged or _fork_and_stage(repository, item)
        staged = repository.tables.merge_tiers(staged)
        failpoints.hit("write.tiers_merged")
        lock.check()
        failpoints.hit("write.table_committing")
        made = repository.tables.commit_staged(replace(staged, transaction_id=note.transaction_id))
        failpoints.hit("write.table_committed")
        done.append(structs.replace(note, version=made.version, rows=made.rows))
    sidecar = sidecar.confirmed(tuple(done))
    sidecar.store(repository.objects)
    failpoints.hit("write.confirmed")
    published = [as_published(t, t.version or 0, t.rows or 0) for t in sidecar.tables]
    commit = planned_commit(sidecar, base, published)
    lock.check()
    failpoints.hit("write.publishing")
    repository.history.publish(base, commit, published)
    failpoints.hit("write.published")
    return commit


def _fork_and_stage(repository: Repository, item: _PreparedTable) -> StagedWrite:
    assert item.ref.branch is not None
    failpoints.hit("write.forking")
    repository.tables.create_branch(item.table.ref, item.table.version, item.ref.branch)
    failpoints.hit("write.forked")
    staged = item.change.stage(repository.tables, repository.tables.open(item.ref))
    assert staged is not None
    return staged


def _resolve(repository: Repository, sidecar: Sidecar, failure: Exception) -> Commit:
    """A failure after arming: finish or undo the write here and now, if that is possible.

    The lock is taken anew, because having lost it may be the failure. Somebody else may have
    finished or undone the write by now.
    """
    commit: Commit | None = None
    try:
        with resolved(repository, sidecar), suppress(NotFound):
            commit = repository.history.commit(sidecar.commit_id)
    except Exception:
        # The sidecar is still there: the next writer, or the next open, resolves it.
        raise failure from None
    if commit is not None:
        return commit
    if isinstance(failure, ReadSetConflict):
        raise _Stale(failure) from None
    raise failure
