"""The states before and after one commit, with just the tables that it changed.

Whoever asks what a commit did starts here: its diff, and the feed. A commit knows the versions of
its tables before it, so that this costs the same however long the history is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from omnigraph.errors import NotFound
from omnigraph.history.manifest import Commit, ManifestState, PublishedTable, TableIdentity
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import refuse_cleaned_up
from omnigraph.merge.changes import GraphState

#: Version and table branch.
_Version = tuple[int, str | None]


def states_around(
    repository: Repository, commit: Commit, branch: str | None = None
) -> tuple[GraphState, GraphState]:
    """The state at the first parent of a commit, and the state at the commit.

    Both have only the tables that the commit changed or dropped; how many rows those had is not
    known. Before the first commit there is no table.

    Args:
        repository: The graph.
        commit: The commit.
        branch: A branch that has it, if that is known.

    Raises:
        NotFound: The commit, or one that it comes from, is gone.
    """
    history = repository.history
    home = branch or history.home(commit.id, (commit.branch,))
    if home is None:
        raise NotFound(f"there is no commit {commit.id}; was it just cleaned up?")
    keys = history.schemas.tables(commit.schema)
    keys_before = history.schemas.tables(commit.parent_schema)
    parent = commit.parents[0] if commit.parents else ""
    before = dict(commit.before)
    dropped = keys_before.keys() - keys.keys()
    unknown = (commit.changes.keys() | dropped) - before.keys()
    if parent and unknown:
        before |= _versions_at(repository, parent, home, unknown)
    after = {identity: (change[0], change[1]) for identity, change in commit.changes.items()}

    def state(id: str, versions: Mapping[TableIdentity, _Version], schema: str) -> GraphState:
        tables = {
            identity: PublishedTable(
                identity, key, identity.path(key.partition(":")[0]), *versions[identity], rows=0
            )
            for identity, key in history.schemas.tables(schema).items()
            if identity in versions
        }
        nothing = MappingProxyType[str, str]({})
        manifest = ManifestState(
            commit.manifest_version, MappingProxyType(tables), nothing, nothing, schema
        )
        return GraphState(repository, id, home, manifest)

    states = (
        state(parent, before, commit.parent_schema),
        state(commit.id, after, commit.schema),
    )
    for around in states:
        if around.commit:
            refuse_cleaned_up(history, around.commit, around.state)
    return states


def _versions_at(
    repository: Repository, commit: str, branch: str, tables: Collection[TableIdentity]
) -> dict[TableIdentity, _Version]:
    """The versions that some tables had at a commit: what the last commit that wrote them says.

    Commits that an older Omnigraph made do not know what was before them.
    """
    missing = set(tables)
    versions: dict[TableIdentity, _Version] = {}
    before: str | None = commit
    for earlier in repository.history.lineage(branch).chain(commit):
        before = earlier.parents[0] if earlier.parents else None
        for identity in missing.intersection(earlier.changes):
            versions[identity] = earlier.changes[identity][:2]
        missing.difference_update(earlier.changes)
        if not missing:
            break
    if missing and before is not None:
        raise NotFound(f"the commit {before}, from which commit {commit} comes, is gone")
    return versions
