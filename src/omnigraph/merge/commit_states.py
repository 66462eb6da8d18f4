"""The states before and after one commit, with just the tables that it changed.

Whoever asks what a commit did starts here: its diff, and the feed.
"""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType

from omnigraph.errors import NotFound
from omnigraph.history.manifest import Commit, ManifestState, PublishedTable, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.merge.changes import GraphState

_Version = tuple[int, str | None, int]


def states_around(
    repository: Repository, commit: Commit, branch: str
) -> tuple[GraphState, GraphState]:
    """The state at the first parent of a commit, and the state at the commit.

    Both have only the tables that the commit changed. Before the first commit there is no table.

    Args:
        repository: The graph.
        commit: The commit.
        branch: A branch that has it.

    Raises:
        NotFound: A commit before it is gone.
    """
    known = repository.history.read(branch).state.tables
    parent = commit.parents[0] if commit.parents else ""
    before = _versions_at(repository, parent, branch, commit.changes.keys())

    def state(id: str, versions: dict[TableIdentity, _Version]) -> GraphState:
        tables = {
            identity: PublishedTable(identity, table.key, table.path, *versions[identity])
            for identity, table in known.items()
            if identity in versions
        }
        nothing = MappingProxyType[str, str]({})
        manifest = ManifestState(
            commit.manifest_version, MappingProxyType(tables), nothing, nothing
        )
        return GraphState(repository, id, branch, manifest)

    return state(parent, before), state(commit.id, dict(commit.changes))


def _versions_at(
    repository: Repository, commit: str, branch: str, tables: Collection[TableIdentity]
) -> dict[TableIdentity, _Version]:
    """The versions that some tables had at a commit: what the last commit that wrote them says."""
    missing, found = set(tables), dict[TableIdentity, _Version]()
    before: str | None = commit or None
    for earlier in repository.history.lineage(branch).chain(commit):
        before = earlier.parents[0] if earlier.parents else None
        for identity in missing.intersection(earlier.changes):
            found[identity] = earlier.changes[identity]
        missing.difference_update(earlier.changes)
        if not missing:
            break
    if missing and before is not None:
        raise NotFound(f"the commit {before}, from which commit {commit} comes, is gone")
    return found
