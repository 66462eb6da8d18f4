"""The best common ancestors of two commits, over all their parents.

A common ancestor is best when no other one comes from it. Criss-cross merges have several. One
whose branch was deleted and cleaned up cannot be read any more; then those before it count instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.history.ancestry import Parents, parents_in
from omnigraph.history.lineage import Lineage
from omnigraph.history.store import History


def independent(parents: Parents, commits: list[str]) -> list[str]:
    """Of several commits, those that no other one comes from, the newest first."""
    if len(commits) < 2:
        return commits
    below: set[str] = set()
    for id in commits:
        todo, seen = list(parents(id)), {id}
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += parents(each)
        below |= seen - {id}
    return sorted((id for id in commits if id not in below), reverse=True)


class Ancestry:
    """The commits that some branches know, and which of them can be read."""

    def __init__(self, history: History, *branches: str) -> None:
        self._history = history
        self.branches = tuple(dict.fromkeys(branches))
        self._lineages = [history.lineage(branch) for branch in self.branches]

    def parents(self, id: str) -> tuple[str, ...]:
        """The parents of a commit; none when they are not known."""
        return parents_in(self._lineages, id)

    def home(self, id: str) -> str | None:
        """A branch that has all of a commit; None when it cannot be read any more."""
        return self._history.home(id, self.branches)

    def bases(self, ours: str, theirs: str) -> list[str]:
        """The best common ancestors that can be read."""
        common, _ = self._history.common_ancestors(
            ours, theirs, self.branches, lambda id: self.home(id) is not None
        )
        return independent(self.parents, common)


def fork_point(ours: Lineage, our_commit: str, theirs: Lineage, their_commit: str) -> str | None:
    """Where the chains of first parents of two commits meet.

    Every table at either commit comes from what it was there.
    """
    seen: tuple[set[str], set[str]] = (set(), set())
    chains: list[Iterator[str]] = [
        (commit.id for commit in ours.chain(our_commit)),
        (commit.id for commit in theirs.chain(their_commit)),
    ]
    # Step by step on both sides, so that the cost follows the distance.
    going = [True, True]
    while any(going):
        for side in (0, 1):
            id = next(chains[side], None) if going[side] else None
            if id is None:
                going[side] = False
                continue
            if id in seen[1 - side]:
                return id
            seen[side].add(id)
    return None
