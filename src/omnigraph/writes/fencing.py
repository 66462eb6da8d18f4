"""Fences: what a writer does after it has lost its lease never stays.

A writer on an object store may be paused, lose its lease, and go on with the next request. Lance
would re-base its table commit onto whatever others have committed since. So whoever resolves the
write commits a restore of the published version to each of its tables: Lance refuses every
operation that was prepared before a restore. Only a restore itself it lets pass. One that comes too
late, by a paused recovery, is known by its transaction id, and put back by the next writer.

A fork that nobody has published has no version to restore. It is deleted, and others may make it
anew under the same name, where a paused writer may still commit. So the branch gets a commit before
a fork of it is deleted, even one without tables: whoever is about to publish needs the head as it
was, and so does whoever takes what it finds for a whole write.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.compute.ulids import is_ulid, new_ulid
from omnigraph.errors import ReadSetConflict, RecoveryRequired
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit, PublishedTable, SchemaChange
from omnigraph.history.repository import Repository
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import TableVersion
from omnigraph.storage.version_file import version_path
from omnigraph.writes.audit import Recovery, is_recorded, record
from omnigraph.writes.sidecar import is_stored

ACTOR = "omnigraph:recovery"

#: How often a restore is repeated because something else was committed just before it.
_ATTEMPTS = 16


def transaction_id(operation_id: str, number: int) -> str:
    """The id of a write's commit to one of its tables: it identifies the write."""
    return f"{operation_id}.{number}"


def restore_id(transaction: str) -> str:
    """The id that begins the ids of all restores that undo a commit."""
    return f"{transaction}.restore"


def are_explained(
    repository: Repository, versions: Iterable[TableVersion], own: Collection[str] = ()
) -> bool:
    """True when interrupted writes made all these versions: resolved ones, or ones in line for it.

    Args:
        repository: The graph.
        versions: Versions that nobody has published.
        own: The transactions of an interrupted write that need no asking for.
    """
    return all(
        version.transaction_id in own or _is_interrupted(repository, version.transaction_id)
        for version in versions
    )


def foreign_below(
    repository: Repository,
    versions: Sequence[TableVersion],
    own: Collection[str] = (),
    restore: str | None = None,
) -> int | None:
    """How many of some versions another program made, if interrupted writes made those after them.

    Args:
        repository: The graph.
        versions: Versions that nobody has published, oldest first.
        own: See `are_explained`.
        restore: The beginning of the ids of restores that count as explained, too.

    Returns:
        None when another program wrote on top of an interrupted write.
    """
    explained = [
        (restore is not None and str(version.transaction_id).startswith(f"{restore}-"))
        or are_explained(repository, [version], own)
        for version in versions
    ]
    foreign = explained.index(True) if True in explained else len(explained)
    return foreign if all(explained[foreign:]) else None


def is_undone(versions: Sequence[TableVersion], foreign: int) -> bool:
    """True when the last of some versions is a restore of the last one that another program made.

    Args:
        versions: Versions that nobody has published, oldest first.
        foreign: How many of them another program made; see `foreign_below`.
    """
    target = versions[foreign - 1].version
    return str(versions[-1].transaction_id).endswith(f".restore-{target}")


def _is_interrupted(repository: Repository, transaction: str | None) -> bool:
    operation = (transaction or "").partition(".")[0]
    if not is_ulid(operation):
        return False
    return is_stored(repository.objects, operation) or is_recorded(repository.tables, operation)


def put_back(
    repository: Repository,
    lock: EffectLock,
    ref: TableRef,
    version: int,
    restore: str,
    own: Collection[str] = (),
    *,
    fence: bool = False,
) -> int | None:
    """Undo what was committed to a table on top of its published version; returns HEAD.

    Args:
        repository: The graph.
        lock: The effect lock, which the caller holds.
        ref: The table.
        version: Its published version.
        restore: The beginning of the restore's transaction id.
        own: Transactions that may be undone; see `are_explained`.
        fence: Commit a restore even if there is nothing to undo.

    Returns:
        The version to publish, or None when there is a commit of somebody else.
    """
    for _ in range(_ATTEMPTS):
        lock.check()
        above = repository.tables.versions_after(ref, version)
        foreign = foreign_below(repository, above, own, restore)
        if foreign is None:
            return None
        # What another program wrote stays on top: nothing of it is published, or undone.
        target = above[foreign - 1].version if foreign else version
        # The version tells a restore from one that another recovery had planned earlier.
        planned = f"{restore}-{target}"
        head = above[-1].version if above else version
        if (head == target and not fence) or (above and above[-1].transaction_id == planned):
            return None if foreign else head
        staged = repository.tables.stage_restore(ref, target)
        lock.check()
        failpoints.hit("recovery.table_restoring")
        try:
            repository.tables.commit_staged(replace(staged, transaction_id=planned))
        except ReadSetConflict:
            # The interrupted write was not dead, and came in between.
            continue
        failpoints.hit("recovery.table_restored")
    raise ReadSetConflict(
        f"table {ref.path} changed while an interrupted write was undone", changed=(ref.path,)
    )


def undo_strays(
    repository: Repository, lock: EffectLock, base: BranchState, tables: Iterable[PublishedTable]
) -> Recovery:
    """Put tables back whose HEAD is not published, if interrupted writes explain it.

    The caller holds the effect lock.

    Raises:
        RecoveryRequired: Somebody else has written to one of them.
    """
    operation = new_ulid()
    restored: list[PublishedTable] = []
    outcomes = []
    for table in tables:
        above = repository.tables.versions_after(table.ref, table.version)
        if not above:
            continue
        # Named by what it undoes, a restore is explained even if its maker dies before publishing.
        restore = restore_id(str(above[0].transaction_id).partition(".")[0])
        head = put_back(repository, lock, table.ref, table.version, restore)
        if head is None:
            raise RecoveryRequired(
                f"{table.key} is at version {above[-1].version}, but version {table.version} is"
                " published and no interrupted write explains the difference: another program"
                " wrote to the table. `omnigraph repair` shows what it did, and publishes it if you"
                f" want. {how_to_drop(repository, table.ref, table.version)}"
            )
        restored.append(
            PublishedTable(table.identity, table.key, table.path, head, table.branch, table.rows)
        )
        outcomes.append({"table": table.key, "from": above[-1].version, "to": table.version})
    text = "undid what was left by writes that had lost their lease"
    commit = recovery_commit(base, operation, text, restored)
    publish(repository, lock, base, [commit], restored)
    outcome = Recovery(
        operation,
        commit.id,
        "StrayUndone",
        None,
        base.name,
        "recovery",
        tuple(outcomes),
        dt.datetime.now(dt.UTC),
    )
    record(repository.tables, outcome)
    return outcome


def how_to_drop(repository: Repository, ref: TableRef, version: int) -> str:
    """What a person can do about versions of a table that another program has added."""
    folder, _, name = version_path(ref, version).rpartition("/")
    return (
        "To drop what it wrote, delete the files that sort before"
        f" {name} in {repository.location.child(folder)}, and run `omnigraph check`"
    )


def publish(
    repository: Repository,
    lock: EffectLock,
    base: BranchState,
    commits: Sequence[Commit],
    tables: Sequence[PublishedTable],
    schema: SchemaChange | None = None,
) -> None:
    """Publish what became of an interrupted write."""
    lock.check()
    failpoints.hit("recovery.publishing")
    history = repository.history
    history.publish(base, history.completed(base, commits), tables, schema=schema)
    failpoints.hit("recovery.published")


def recovery_commit(
    base: BranchState, id: str, message: str, restored: Iterable[PublishedTable]
) -> Commit:
    """A commit that publishes tables whose content is back."""
    return Commit(
        id,
        (base.head,),
        base.name,
        ACTOR,
        dt.datetime.now(dt.UTC),
        message,
        base.ledger.version + 1,
        None,
        {t.identity: (t.version, t.branch, t.rows) for t in restored},
    )
