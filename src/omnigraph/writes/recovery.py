"""Recovery: what becomes of a write whose writer died.

Runs under the effect lock, on the next write or read-write open in any process. It may itself be
killed at any point and run again: every step either changes nothing or can be recognised by the
ids that the sidecar fixed beforehand. All tables of a write share one fate.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from msgspec import structs

from omnigraph import failpoints
from omnigraph.errors import NotFound, RecoveryRequired
from omnigraph.history.manifest import MAIN, Commit, PublishedTable
from omnigraph.history.names import is_internal
from omnigraph.history.repository import Repository
from omnigraph.history.store import BranchState
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import version_path
from omnigraph.writes.audit import Recovery, record
from omnigraph.writes.sidecar import Sidecar, SidecarTable, list_sidecars, read_sidecar

ACTOR = "omnigraph:recovery"


class _Movement(Enum):
    """What happened to a table since the sidecar was written."""

    NONE = auto()
    OURS = auto()
    UNDONE = auto()


@dataclass(frozen=True, slots=True)
class _Found:
    """A table of a sidecar as it is now. `head` is None when a planned fork is not there."""

    table: SidecarTable
    movement: _Movement
    head: int | None


def recover_all(repository: Repository, lock: EffectLock) -> list[Recovery]:
    """Resolve every sidecar. The caller holds the effect lock.

    Raises:
        RecoveryRequired: A write cannot be resolved without a person. It is kept as it is.
    """
    outcomes = []
    for path in list_sidecars(repository.objects):
        sidecar = read_sidecar(repository.objects, path)
        if sidecar is not None:
            failpoints.hit("recovery.listed")
            outcomes.append(recover(repository, lock, sidecar))
    return outcomes


def recover(repository: Repository, lock: EffectLock, sidecar: Sidecar) -> Recovery:
    """Resolve one interrupted write. The caller holds the effect lock."""
    try:
        base = repository.history.read(sidecar.branch)
    except NotFound:
        base = None
    if base is None or base.identity != sidecar.branch_identity:
        return _conclude(repository, sidecar, "OrphanedBranchDiscarded", None, [])
    visible = _visible_outcome(repository, base, sidecar)
    if visible is not None:
        kind = "Finished" if visible == sidecar.commit_id else "RolledBack"
        _drop_forks(repository, base, sidecar)
        return _conclude(repository, sidecar, kind, visible, _versions(sidecar))
    found = [_inspect(repository, sidecar, table) for table in sidecar.tables]
    if all(f.movement is _Movement.NONE for f in found):
        _drop_forks(repository, base, sidecar)
        return _conclude(repository, sidecar, "Discarded", None, [])
    if all(f.movement is _Movement.OURS for f in found) and base.head == sidecar.head:
        return _roll_forward(repository, lock, base, sidecar, found)
    return _roll_back(repository, lock, base, sidecar, found)


def _visible_outcome(repository: Repository, base: BranchState, sidecar: Sidecar) -> str | None:
    """The commit of this write, or the one that undid it, if it is published."""
    if base.head == sidecar.head:
        return None
    for commit in repository.history.commits(sidecar.branch):
        if commit.id in (sidecar.commit_id, sidecar.rollback_commit_id):
            return commit.id
        if commit.id == sidecar.head:
            break
    return None


def _inspect(repository: Repository, sidecar: Sidecar, table: SidecarTable) -> _Found:
    tables = repository.tables
    if table.fork_of is not None and table.branch not in tables.branches(table.path):
        return _Found(table, _Movement.NONE, None)
    after = tables.versions_after(table.ref, table.expected_version)
    head = tables.head(table.ref)
    made = [v.transaction_id for v in after]
    if head == table.expected_version:
        return _Found(table, _Movement.NONE, head)
    if made == [table.transaction_id]:
        return _Found(table, _Movement.OURS, head)
    if made == [table.transaction_id, table.restore_id]:
        return _Found(table, _Movement.UNDONE, head)
    raise RecoveryRequired(
        f"{table.key} moved from version {table.expected_version} to {head} in a way that the"
        f" interrupted write {sidecar.operation_id} does not explain: another program wrote to"
        f" {repository.location.child(table.path)}. Nothing was changed."
        f" {how_to_drop(repository, table.ref, table.expected_version)}",
        operation_id=sidecar.operation_id,
    )


def how_to_drop(repository: Repository, ref: TableRef, version: int) -> str:
    """What a person can do about versions of a table that another program has added."""
    folder, _, name = version_path(ref, version).rpartition("/")
    return (
        "Look at what it wrote. To drop it, delete the files that sort before"
        f" {name} in {repository.location.child(folder)}, and run `omnigraph check`"
    )


def _roll_forward(
    repository: Repository,
    lock: EffectLock,
    base: BranchState,
    sidecar: Sidecar,
    found: list[_Found],
) -> Recovery:
    """All effects are there: publish them as the dead writer would have."""
    published = []
    for item in found:
        version = item.table.expected_version + 1
        rows = item.table.rows
        if rows is None:
            rows = repository.tables.open(item.table.ref, version).count()
        published.append(as_published(item.table, version, rows))
    commit = planned_commit(sidecar, base, published)
    lock.check()
    repository.history.publish(base, commit, published)
    failpoints.hit("recovery.published")
    outcomes = [(f.table, f.table.expected_version + 1) for f in found]
    return _conclude(repository, sidecar, "RolledForward", commit.id, outcomes)


def _roll_back(
    repository: Repository,
    lock: EffectLock,
    base: BranchState,
    sidecar: Sidecar,
    found: list[_Found],
) -> Recovery:
    """Some effects are missing, or the branch moved on: undo the effects that are there."""
    tables = repository.tables
    restored: list[PublishedTable] = []
    for item in found:
        table = item.table
        if table.fork_of is not None or item.movement is _Movement.NONE:
            continue
        if item.movement is _Movement.OURS:
            lock.check()
            staged = tables.stage_restore(table.ref, table.expected_version)
            tables.commit_staged(replace(staged, transaction_id=table.restore_id))
            failpoints.hit("recovery.table_restored")
        now = base.state.tables[table.table]
        restored.append(as_published(table, table.expected_version + 2, now.rows))
    commit_id = None
    if restored:
        commit_id = sidecar.rollback_commit_id
        commit = structs.replace(
            planned_commit(sidecar, base, restored),
            id=commit_id,
            actor=ACTOR,
            message=f"rolled back the interrupted write {sidecar.operation_id}",
            idempotency_key=None,
            request_digest=None,
        )
        lock.check()
        repository.history.publish(base, commit, restored)
    failpoints.hit("recovery.published")
    _drop_forks(repository, base, sidecar)
    # The log tells the version whose content is back, not the commit that brought it back.
    outcomes = [(f.table, f.table.expected_version) for f in found]
    return _conclude(repository, sidecar, "RolledBack", commit_id, outcomes)


def _drop_forks(repository: Repository, base: BranchState, sidecar: Sidecar) -> None:
    """Remove forks that the write made and that its branch does not read."""
    state = repository.history.read(sidecar.branch).state
    for table in sidecar.tables:
        if table.fork_of is None or table.branch is None:
            continue
        published = state.tables.get(table.table)
        if published is None or published.branch != table.branch:
            reclaim_fork(repository, table.path, table.branch)


def reclaim_fork(repository: Repository, path: str, name: str) -> None:
    """Remove a table's fork that no branch reads, and forks of it that were left behind.

    The caller holds the effect lock.
    """
    keep: set[str] = set()
    if name in repository.tables.branches(path):
        history = repository.history
        for branch in (b for b in (MAIN, *history.branch_names()) if not is_internal(b)):
            tables = history.read(branch).state.tables.values()
            keep |= {t.branch for t in tables if t.path == path and t.branch is not None}
    repository.tables.delete_branch(path, name, keep)


def _versions(sidecar: Sidecar) -> list[tuple[SidecarTable, int]]:
    return [(t, t.version if t.version is not None else t.expected_version) for t in sidecar.tables]


def _conclude(
    repository: Repository,
    sidecar: Sidecar,
    kind: str,
    commit: str | None,
    outcomes: list[tuple[SidecarTable, int]],
) -> Recovery:
    """Write the audit row, then delete the sidecar."""
    tables: list[dict[str, Any]] = [
        {"table": table.key, "from": table.expected_version, "to": version}
        for table, version in outcomes
    ]
    outcome = Recovery(
        sidecar.operation_id,
        commit,
        kind,
        sidecar.actor,
        sidecar.branch,
        sidecar.writer,
        tuple(tables),
        dt.datetime.now(dt.UTC),
    )
    record(repository.tables, outcome)
    failpoints.hit("recovery.audited")
    repository.objects.delete(sidecar.path)
    return outcome


def as_published(table: SidecarTable, version: int, rows: int) -> PublishedTable:
    """A table of a sidecar as the manifest will have it."""
    return PublishedTable(table.table, table.key, table.path, version, table.branch, rows)


def planned_commit(sidecar: Sidecar, base: BranchState, published: list[PublishedTable]) -> Commit:
    """The commit that a sidecar announced."""
    return Commit(
        sidecar.commit_id,
        (base.head,),
        sidecar.branch,
        sidecar.actor,
        dt.datetime.now(dt.UTC),
        sidecar.message,
        base.ledger.version + 1,
        sidecar.idempotency_key,
        {t.identity: (t.version, t.branch, t.rows) for t in published},
        sidecar.request_digest,
    )
