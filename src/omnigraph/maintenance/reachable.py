"""All versions of tables that anybody can still read: by a branch, a tag, or a commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from omnigraph.errors import NotFound, StorageError
from omnigraph.history.archive import archived_commits
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import Commit, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.storage.table_ref import TableRef


@dataclass(slots=True)
class ReachedTable:
    """The versions of one table that can be read.

    Attributes:
        key: The table, as `node:Person`.
        versions: By the table, or a fork of it, all of them, each with who reads it.
        named: Those of them that the head of a branch, or a tag, has.
    """

    key: str
    versions: dict[TableRef, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    named: dict[TableRef, set[int]] = field(default_factory=lambda: defaultdict(set))


def readable_commits(repository: Repository, states: Iterable[BranchState]) -> list[Commit]:
    """All commits that branches have, and those of deleted ones that can still be read."""
    history = repository.history
    commits = {commit.id: commit for commit in archived_commits(history)}
    for state in states:
        # One that is deleted meanwhile is left out.
        with suppress(NotFound):
            commits |= {commit.id: commit for commit in history.commits(state.name)}
    return list(commits.values())


def readable_versions(
    repository: Repository, states: Sequence[BranchState], commits: Iterable[Commit]
) -> Mapping[str, ReachedTable]:
    """The versions that can be read, by the path of their table.

    Args:
        repository: The graph.
        states: All branches.
        commits: All commits that can be read. A type may have been dropped since.
    """
    history = repository.history
    reached: dict[str, ReachedTable] = {}

    def add(path: str, key: str, version: int, fork: str | None, who: str, named: bool) -> None:
        at = reached.setdefault(path, ReachedTable(key))
        ref = TableRef(path, fork)
        if named:
            at.named[ref].add(version)
            at.versions[ref][version] = who
        else:
            at.versions[ref].setdefault(version, who)

    for state in states:
        for table in state.state.tables.values():
            who = f"branch {state.name}"
            add(table.path, table.key, table.version, table.branch, who, True)
    for name, commit_id in history.present().state.tags.items():
        with suppress(NotFound, StorageError):
            for table in history.state_at(commit_id).tables.values():
                add(table.path, table.key, table.version, table.branch, f"tag {name}", True)
    keys: dict[TableIdentity, str] = {}
    for hash in {commit.schema for commit in commits}:
        # What is wrong with a schema is reported by itself.
        with suppress(StorageError):
            keys |= history.schemas.tables(hash)
    for commit in commits:
        for identity, (version, fork, _) in commit.changes.items():
            if (key := keys.get(identity)) is not None:
                path = identity.path(key.partition(":")[0])
                add(path, key, version, fork, f"commit {commit.id}", False)
    return reached
