"""The archive: on main, the commits of branches that were deleted, until a cleanup."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Collection

from omnigraph.history.branch_state import ARCHIVE
from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import MAIN, Commit
from omnigraph.history.manifest_rows import (
    ARCHIVED_FILTER,
    DELETED_BRANCH,
    DELETED_FILTER,
    DeletedBranch,
    archived_row,
    deleted_row,
    parse_deleted,
)
from omnigraph.history.names import is_internal
from omnigraph.history.store import History


def archive_branch(history: History, name: str) -> None:
    """Note the commits of a branch on main, so that they can be read when it is gone.

    The caller holds the effect lock, and deletes the branch next.
    """
    state = history.read(name)
    own = _own(history.lineage(name), state.head)
    if not own:
        return
    main = history.read(MAIN)
    assert state.fork is not None
    deleted = DeletedBranch(state.fork, state.head, dt.datetime.now(dt.UTC))
    rows = [*(archived_row(c, main.ledger.version) for c in own), deleted_row(deleted)]
    history.publish_aside(main, rows)


def deleted_branches(history: History) -> list[DeletedBranch]:
    """The deleted branches whose commits can still be read."""
    noted = _noted(history)
    # One that still exists was about to be deleted when its process died.
    names = [name for name in history.branch_names() if not is_internal(name)]
    existing = {history.read(name).fork for name in names}
    return [deleted for deleted in noted if deleted.fork not in existing]


def archived_commits(history: History, but: Collection[str] = ()) -> list[Commit]:
    """All commits in the archive that can be read, with or without some deleted branches.

    Args:
        history: The history.
        but: The names of the forks of deleted branches that do not count.
    """
    lineage = history.lineage(ARCHIVE)
    commits: dict[str, Commit] = {}
    for deleted in _noted(history):
        if deleted.fork not in but:
            commits |= {commit.id: commit for commit in _own(lineage, deleted.head)}
    return list(commits.values())


def archived_commits_of(history: History, deleted: DeletedBranch) -> list[Commit]:
    """The commits that a deleted branch had and main has not, newest first."""
    return _own(history.lineage(ARCHIVE), deleted.head)


def drop_deleted(history: History, forks: Collection[str]) -> None:
    """Forget deleted branches, and their commits. The caller holds the effect lock.

    Args:
        history: The history.
        forks: The names of the branches' forks.
    """
    remaining = {commit.id for commit in archived_commits(history, forks)}
    archived = history.rows(ARCHIVE, ARCHIVED_FILTER)["object_id"].to_pylist()
    doomed = [id for id in archived if id not in remaining]
    doomed += [f"{DELETED_BRANCH}:{fork}" for fork in forks]
    history.drop_archived(doomed)


def _noted(history: History) -> list[DeletedBranch]:
    return list(map(parse_deleted, history.rows(ARCHIVE, DELETED_FILTER).to_pylist()))


def _own(lineage: Lineage, head: str) -> list[Commit]:
    """The commits up to a head that were not made on main, newest first."""
    return list(itertools.takewhile(lambda commit: commit.branch != MAIN, lineage.chain(head)))
