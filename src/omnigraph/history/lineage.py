"""The commits that a branch knows, by id, kept in memory and completed when the branch moves on.

Commits never change, so only those that came since are read. Of commits that came with a merge just
the branch and the parents are known here; the whole of them is where they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from omnigraph.history.manifest import Commit, MergedCommit


class Lineage(Struct, frozen=True):
    """What a branch knows of commits: its own, those before it was made, and merged ones.

    Attributes:
        epoch: How often the graph's folder was seen replaced when it was read.
        identity: The lifetime of the branch.
        version: The version of the manifest up to which it is complete.
    """

    epoch: int
    identity: str
    version: int
    commits: Mapping[str, Commit]
    merged: Mapping[str, MergedCommit]

    def parents(self, id: str) -> tuple[str, ...] | None:
        """The parents of a commit; None when it is not known here."""
        commit = self.commits.get(id)
        if commit is not None:
            return commit.parents
        merged = self.merged.get(id)
        return None if merged is None else merged.parents

    def branch_of(self, id: str) -> str | None:
        """The branch that a commit was made on; None when it is not known here."""
        commit = self.commits.get(id) or self.merged.get(id)
        return None if commit is None else commit.branch

    def chain(self, id: str) -> Iterator[Commit]:
        """A commit and all before it, newest first, along first parents."""
        current: str | None = id
        while current is not None and current in self.commits:
            commit = self.commits[current]
            yield commit
            current = commit.parents[0] if commit.parents else None

    def grown(self, version: int, found: Iterable[Commit]) -> Lineage:
        """The same with more commits. Shares its content with this one."""
        commits, merged = self.commits, self.merged
        assert isinstance(commits, dict) and isinstance(merged, dict)
        for commit in found:
            commits[commit.id] = commit
            merged.update(commit.merged)
        return Lineage(self.epoch, self.identity, version, commits, merged)


def merged_by(target: Lineage, source: Lineage, head: str) -> dict[str, MergedCommit]:
    """What a branch has to note of the commits that it merges and does not know yet."""
    found: dict[str, MergedCommit] = {}
    todo = [head]
    while todo:
        id = todo.pop()
        if id in found or target.parents(id) is not None:
            continue
        branch, parents = source.branch_of(id), source.parents(id)
        if branch is not None and parents is not None:
            found[id] = MergedCommit(branch, parents)
            todo += parents
    return found
