"""Named places where tests make the program fail, die or wait.

A point costs one look into an empty dictionary while nothing is active. Every point is listed
here; a test checks that each is used, and used once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Every point and the moment it stands for.
POINTS: dict[str, str] = {
    "init.claimed": "init: the claim is written, nothing else",
    "init.schema_written": "init: the schema files are written",
    "init.table_created": "init: after each table",
    "init.manifest_created": "init: the graph exists, the claim still exists",
    "write.prepared": "write: everything is staged, the lock is not taken",
    "write.locked": "write: the lock is held",
    "write.rechecked": "write: what other commits have changed since does not concern this one",
    "write.revalidated": "write: the write fits the branch as it is now",
    "write.armed": "write: the sidecar is written",
    "write.forking": "write: before each first-touch fork of a table",
    "write.forked": "write: after each first-touch fork of a table",
    "write.tiers_merged": "write: before each table commit, with small fragments merged",
    "write.table_committing": "write: the lease was checked, the table is not committed yet",
    "write.table_committed": "write: after each table commit",
    "write.confirmed": "write: the sidecar names the resulting versions",
    "write.publishing": "write: the lease was checked for the last time, nothing is visible",
    "write.published": "write: the commit is visible, the sidecar still exists",
    "write.finished": "write: the sidecar is gone, the lock is still held",
    "schema.stored": "schema: it is stored, and columns are computed; no state has it",
    "schema.table_creating": "schema: the lease was checked, the table of a new type is not there",
    "schema.table_created": "schema: after the table of each new type",
    "schema.showing": "schema: the branch has it, the files that show it are still the old ones",
    "schema.shown": "schema: the files show it, the sidecar still exists",
    "load.staged": "load: the rows are staged, nothing that needs all of them is checked",
    "load.checked": "load: everything is checked, faults are not reported yet",
    "load.merged": "load: all files are written, the protocol does not have them yet",
    "merge.compared": "merge: what changed on their side is known, nothing is merged",
    "merge.combined": "merge: the rows are merged and checked, nothing is staged",
    "tasks.merged": "merge in tasks: all buckets are written, no rule about them is checked",
    "tasks.checked": "merge in tasks: the rules are checked, what is broken is not reported yet",
    "optimize.rewritten": "optimize: the new fragments are written, nothing is staged",
    "optimize.indexed": "optimize: after each table whose indexes are built; nothing is staged",
    "optimize.committed": "optimize: the tables are compact, the manifest is not",
    "manifest.rewritten": "optimize, cleanup: the manifest's rows are written anew, not replaced",
    "manifest.replaced": "optimize, cleanup: the manifest has them; the lock is still held",
    "indexes.built": "indexes in tasks: after each step of theirs; nothing is staged",
    "repair.checked": "repair: what can be published is known, the lock is not taken",
    "repair.publishing": "repair: before each branch's commit, which names the versions",
    "repair.published": "repair: after each branch's commit",
    "recovery.listed": "recovery: a sidecar was found and read",
    "recovery.table_restoring": "recovery: before each table that is rolled back or fenced",
    "recovery.table_restored": "recovery: after each table that was rolled back",
    "recovery.publishing": "recovery: the tables are as they have to be, nothing is visible",
    "recovery.published": "recovery: the outcome is visible, not yet in the audit log",
    "recovery.audited": "recovery: the audit row is written, the sidecar still exists",
    "branch.started": "branch create at an earlier commit: what it starts with is made, not seen",
    "branch.created": "branch create: the branch exists",
    "branch.archived": "branch delete: main has its commits, the branch still exists",
    "branch.deleted": "branch delete: the branch is gone, its table forks stay until a cleanup",
    "cleanup.old_found": "cleanup: the old versions of a table are known, the lock is not taken",
    "cleanup.old_removed": "cleanup: after each portion of old versions, the lock is still held",
    "cleanup.found": "cleanup: the leftovers of a place are known, the lock is not taken",
    "cleanup.checked": "cleanup: the lock is held, nothing was removed from this portion",
    "cleanup.removed": "cleanup: after each portion, the lock is still held",
    "backup.moment_taken": "backup: the moment is taken, the lock is still held",
    "backup.manifest_copied": "backup: the manifest is copied, the tables are not",
    "backup.file_copied": "backup: after each file",
    "backup.copied": "backup: all files are copied, the backup does not exist yet",
    "backup.written": "backup: the backup exists",
    "restore.claimed": "restore: the claim is written, nothing else",
    "restore.file_copied": "restore: after each file",
    "restore.tables_copied": "restore: all tables are there, main's manifest has no version",
    "restore.manifest_copied": "restore: the manifest is there, the graph cannot be opened yet",
    "restore.copied": "restore: the graph exists, the claim still exists",
    "restore.finished": "restore: the claim is gone",
}


class FailpointError(RuntimeError):
    """What an active point raises when a test wants that."""


_active: dict[str, Callable[[], None]] = {}


def hit(point: str) -> None:
    """Stand at a point: does nothing unless a test has activated it."""
    action = _active.get(point)
    if action is not None:
        action()


@contextmanager
def active(point: str, action: str | Callable[[], None], *, skip: int = 0) -> Iterator[None]:
    """Make a point active for a while.

    Args:
        point: One of `POINTS`.
        action: `raise`, `kill` (SIGKILL to this process), `stop` (SIGSTOP), `pause:SECONDS`, or a
            function.
        skip: How many times to pass the point unharmed first.
    """
    if point not in POINTS:
        raise KeyError(f"unknown failpoint {point}")
    act = _action(point, action) if isinstance(action, str) else action
    left = skip

    def counted() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            return
        act()

    _active[point] = counted
    try:
        yield
    finally:
        del _active[point]


def _action(point: str, action: str) -> Callable[[], None]:
    name, _, argument = action.partition(":")

    def fail() -> None:
        raise FailpointError(f"failpoint {point}")

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def pause() -> None:
        time.sleep(float(argument))

    return {"raise": fail, "kill": kill, "stop": stop, "pause": pause}[name]
