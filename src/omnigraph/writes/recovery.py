"""Recovery: what becomes of a write whose writer died, or lost its lease.

Runs under the effect lock, on the next write or read-write open in any process. It may itself be
killed at any point and run again: every step either changes nothing or can be recognised by the
ids that the sidecar fixed beforehand. All tables of a write share one fate. On object stores the
writer may only have been paused: `fencing` keeps out what it still does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from omnigraph import failpoints
from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import NotFound, ReadSetConflict, RecoveryRequired
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import MAIN, PublishedTable, TableIdentity
from omnigraph.history.names import is_internal
from omnigraph.history.repository import Repository
from omnigraph.storage.lock import EffectLock
from omnigraph.writes.audit import Recovery, is_recorded, record
from omnigraph.writes.fencing import (
    foreign_below,
    how_to_drop,
    publish,
    put_back,
    recovery_commit,
)
from omnigraph.writes.schema_effects import are_created, remove_tables, show_schema
from omnigraph.writes.sidecar import (
    Sidecar,
    SidecarTable,
    as_published,
    list_sidecars,
    planned_commits,
    read_sidecar,
)

#: How often what a recovery has begun is taken up again after it has lost its lease.
_ATTEMPTS = 5


@contextmanager
def resolved(repository: Repository, begun: Sidecar | None = None) -> Iterator[EffectLock]:
    """Hold the effect lock, with every interrupted write resolved.

    Args:
        repository: The graph.
        begun: A write to be resolved even if another recovery has deleted its sidecar by now.

    Raises:
        RecoveryRequired: A write cannot be resolved without a person. It stays as it is.
        ReadSetConflict: The lease ran out again and again.
    """
    for attempt in range(_ATTEMPTS):
        with repository.lock() as lock:
            try:
                if begun is not None:
                    recover(repository, lock, begun)
                for path in list_sidecars(repository.objects):
                    begun = read_sidecar(repository.objects, path)
                    if begun is not None:
                        failpoints.hit("recovery.listed")
                        recover(repository, lock, begun)
            except ReadSetConflict:
                # The lease ran out. Whoever has it now may be done with this write by now, and
                # not know what was still on its way from here: that is looked after.
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            yield lock
            return


def recover(repository: Repository, lock: EffectLock, sidecar: Sidecar) -> Recovery:
    """Resolve one interrupted write, once more if need be. The caller holds the effect lock."""
    try:
        base = repository.history.read(sidecar.branch)
    except NotFound:
        base = None
    if base is None or base.identity != sidecar.branch_identity:
        remove_tables(repository, lock, sidecar.schema)
        return _conclude(repository, sidecar, "OrphanedBranchDiscarded", None, [])
    visible = _visible_outcome(repository, base, sidecar)
    if visible is not None:
        kind = "Finished" if visible == sidecar.commit_id else "RolledBack"
        _put_back(repository, lock, base, sidecar, new_ulid(), fence=False)
        # A sidecar may come late, of a write that was resolved before: others own the forks now.
        if not is_recorded(repository.tables, sidecar.operation_id):
            _drop_forks(repository, lock, sidecar)
        if sidecar.schema is not None:
            if kind == "RolledBack":
                remove_tables(repository, lock, sidecar.schema)
            show_schema(repository, lock)
        return _conclude(repository, sidecar, kind, visible, _versions(sidecar))
    is_done = all(_is_done(repository, steps) for steps in sidecar.by_table)
    if base.head == sidecar.head and is_done and are_created(repository, sidecar.schema):
        return _roll_forward(repository, lock, base, sidecar)
    return _roll_back(repository, lock, base, sidecar)


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


def _is_done(repository: Repository, steps: Sequence[SidecarTable]) -> bool:
    """True when the planned commits, and nothing else, came on top of the expected version."""
    table = steps[0]
    if table.fork_of is not None and table.branch not in repository.tables.branches(table.path):
        return False
    above = repository.tables.versions_after(table.ref, table.expected_version)
    return [version.transaction_id for version in above] == _transactions(steps)


def _transactions(steps: Sequence[SidecarTable]) -> list[str]:
    return [table.transaction_id for table in steps]


def _roll_forward(
    repository: Repository, lock: EffectLock, base: BranchState, sidecar: Sidecar
) -> Recovery:
    """All effects exist: publish them as the dead writer would have."""
    published: list[list[PublishedTable]] = []
    newest: dict[TableIdentity, PublishedTable] = {}
    for planned in sidecar.commits:
        published.append([])
        for table in planned.tables:
            version, rows = table.expected_version + 1, table.rows
            if rows is None:
                rows = repository.tables.open(table.ref, version).count()
            newest[table.table] = as_published(structs.replace(table, version=version, rows=rows))
            published[-1].append(newest[table.table])
    schema = sidecar.schema
    if schema is not None:
        published = [schema.tables(published[0])]
    commits = planned_commits(sidecar, base, published)
    publish(repository, lock, base, commits, list(newest.values()), schema)
    if schema is not None:
        show_schema(repository, lock)
    outcomes = [(steps[0], steps[-1].expected_version + 1) for steps in sidecar.by_table]
    return _conclude(repository, sidecar, "RolledForward", commits[-1].id, outcomes)


def _roll_back(
    repository: Repository, lock: EffectLock, base: BranchState, sidecar: Sidecar
) -> Recovery:
    """Some effects are missing, or the branch moved on: undo the effects that exist."""
    moved = False
    for steps in sidecar.by_table:
        moved |= _has_moved(repository, base, sidecar, steps)
    commit = _put_back(
        repository,
        lock,
        base,
        sidecar,
        sidecar.rollback_commit_id,
        fence=not repository.location.is_local,
    )
    _drop_forks(repository, lock, sidecar)
    remove_tables(repository, lock, sidecar.schema)
    if not moved:
        return _conclude(repository, sidecar, "Discarded", commit, [])
    # The log names the version whose content is back, not the commit that brought it back.
    outcomes = [(steps[0], steps[0].expected_version) for steps in sidecar.by_table]
    return _conclude(repository, sidecar, "RolledBack", commit, outcomes)


def _has_moved(
    repository: Repository, base: BranchState, sidecar: Sidecar, steps: Sequence[SidecarTable]
) -> bool:
    """True when there is something to undo.

    Raises:
        RecoveryRequired: Another program wrote to the table.
    """
    table = steps[0]
    now = base.state.tables.get(table.table)
    version = table.expected_version
    if now is not None and now.ref == table.ref:
        version = now.version
    elif _is_adopted(sidecar, table):
        pass
    elif table.fork_of is None or table.branch not in repository.tables.branches(table.path):
        return False
    above = repository.tables.versions_after(table.ref, version)
    foreign = foreign_below(repository, above, _transactions(steps), table.restore_id)
    if foreign is not None:
        # What another program wrote before stays, unpublished, for somebody to look at.
        return len(above) > foreign
    raise RecoveryRequired(
        f"{table.key} moved from version {version} to {above[-1].version} in a way that the"
        f" interrupted write {sidecar.operation_id} does not explain: another program wrote to"
        f" {repository.location.child(table.path)}. Nothing was changed."
        " `omnigraph repair` shows what it did."
        f" {how_to_drop(repository, table.ref, table.expected_version)}",
        operation_id=sidecar.operation_id,
    )


def _is_adopted(sidecar: Sidecar, table: SidecarTable) -> bool:
    """True for a table that the branch does not have yet, and that is no fork."""
    schema = sidecar.schema
    adopted = () if schema is None else schema.adopted
    return table.fork_of is None and table.table in {each.identity for each in adopted}


def _put_back(
    repository: Repository,
    lock: EffectLock,
    base: BranchState,
    sidecar: Sidecar,
    commit_id: str,
    *,
    fence: bool,
) -> str | None:
    """Restore the published content of the branch's tables; returns the commit, if any."""
    restored: list[PublishedTable] = []
    for steps in sidecar.by_table:
        table, own = steps[0], _transactions(steps)
        now = base.state.tables.get(table.table)
        if now is None and _is_adopted(sidecar, table):
            # No branch has published it: it is put back, and nothing is told of it.
            version = table.expected_version
            put_back(repository, lock, table.ref, version, table.restore_id, own, fence=fence)
            continue
        if now is None or now.ref != table.ref:
            continue
        head = put_back(
            repository, lock, table.ref, now.version, table.restore_id, own, fence=fence
        )
        if head is not None and head != now.version:
            restored.append(as_published(structs.replace(table, version=head, rows=now.rows)))
    # A writer that is only paused must not publish its schema, or a fork that goes, later: it needs
    # the head as it was.
    if not restored and not (fence and (sidecar.schema or _has_forks(repository, base, sidecar))):
        return None
    text = f"rolled back the interrupted write {sidecar.operation_id}"
    commit = recovery_commit(base, commit_id, text, restored)
    publish(repository, lock, base, [commit], restored)
    return commit_id


def _drop_forks(repository: Repository, lock: EffectLock, sidecar: Sidecar) -> None:
    """Remove forks that the write created and that its branch does not read."""
    now = repository.history.read(sidecar.branch)
    for path, name in _unread_forks(now, sidecar):
        reclaim_fork(repository, lock, path, name)


def _has_forks(repository: Repository, base: BranchState, sidecar: Sidecar) -> bool:
    """True when there are forks to remove, whoever made them."""
    return any(repository.tables.has_branch(*fork) for fork in _unread_forks(base, sidecar))


def _unread_forks(now: BranchState, sidecar: Sidecar) -> Iterator[tuple[str, str]]:
    """The tables that a write forks, if its branch does not read the forks, and their names."""
    for table, *_ in sidecar.by_table:
        if table.fork_of is None or table.branch is None:
            continue
        published = now.state.tables.get(table.table)
        if published is None or published.branch != table.branch:
            yield table.path, table.branch


def reclaim_fork(repository: Repository, lock: EffectLock, path: str, name: str) -> None:
    """Remove a table's fork that no branch reads, and forks of it that were left behind.

    The caller holds the effect lock.
    """
    keep: set[str] = set()
    if repository.tables.has_branch(path, name):
        history = repository.history
        for branch in (b for b in (MAIN, *history.branch_names()) if not is_internal(b)):
            tables = history.read(branch).state.tables.values()
            keep |= {t.branch for t in tables if t.path == path and t.branch is not None}
    # There is no taking it back: others may have made the fork anew since the lease was lost.
    lock.check()
    repository.tables.delete_branch(path, name, keep)


def _versions(sidecar: Sidecar) -> list[tuple[SidecarTable, int]]:
    return [
        (steps[0], steps[0].expected_version if steps[-1].version is None else steps[-1].version)
        for steps in sidecar.by_table
    ]


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
