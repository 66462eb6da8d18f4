"""Which versions of tables anybody can still read: by a branch, a tag, or a commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.errors import NotFound
from omnigraph.history.archive import archived_commits
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import MAIN, Commit, PublishedTable
from omnigraph.history.names import is_internal
from omnigraph.history.repository import Repository
from omnigraph.history.store import History
from omnigraph.storage.table_ref import TableRef


@dataclass(slots=True)
class ReachedTable:
    """The versions of one table that can be read.

    Attributes:
        key: The table, as `node:Person`.
        versions: By the table, or a fork of it, all of them.
        named: Those of them that the head of a branch, or a tag, has.
    """

    key: str
    versions: dict[TableRef, set[int]] = field(default_factory=lambda: defaultdict(set))
    named: dict[TableRef, set[int]] = field(default_factory=lambda: defaultdict(set))


def branch_states(history: History) -> list[BranchState]:
    """All branches as they are now, main first."""
    states = []
    for name in (MAIN, *(b for b in history.branch_names() if not is_internal(b))):
        # One that is deleted meanwhile is left out.
        with suppress(NotFound):
            states.append(history.read(name))
    return states


def readable_commits(repository: Repository) -> list[Commit]:
    """All commits that branches have, and those of deleted ones that can still be read."""
    history = repository.history
    commits = {commit.id: commit for commit in archived_commits(history)}
    for state in branch_states(history):
        with suppress(NotFound):
            commits |= {commit.id: commit for commit in history.commits(state.name)}
    return list(commits.values())


def readable_versions(repository: Repository) -> Mapping[str, ReachedTable]:
    """The versions that can be read, by the path of their table."""
    history = repository.history
    states = branch_states(history)
    known = {t.identity: t for state in states for t in state.state.tables.values()}
    reached: dict[str, ReachedTable] = {}

    def add(table: PublishedTable, version: int, fork: str | None, *, named: bool) -> None:
        at = reached.setdefault(table.path, ReachedTable(table.key))
        ref = TableRef(table.path, fork)
        at.versions[ref].add(version)
        if named:
            at.named[ref].add(version)

    for state in states:
        for table in state.state.tables.values():
            add(table, table.version, table.branch, named=True)
    for commit in readable_commits(repository):
        for identity, change in commit.changes.items():
            if identity in known:
                add(known[identity], change[0], change[1], named=False)
    for commit_id in set(history.present().state.tags.values()):
        with suppress(NotFound):
            for table in history.state_at(commit_id).tables.values():
                add(table, table.version, table.branch, named=True)
    return reached
