"""The best common ancestors of two commits, over all their parents.

A common ancestor is best when no other one comes from it. Criss-cross merges have several. One
whose branch is deleted cannot be read any more; then those before it count instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from omnigraph.errors import NotFound
from omnigraph.history.lineage import Lineage
from omnigraph.history.store import History

Parents = Callable[[str], tuple[str, ...]]
_OURS, _THEIRS, _BELOW = 1, 2, 4
_BOTH = _OURS | _THEIRS


def best_common_ancestors(
    parents: Parents, ours: str, theirs: str, is_readable: Callable[[str], bool]
) -> list[str]:
    """Find the best common ancestors of two commits, the newest first.

    Only commits back to the answer are looked at. Ids sort by time, but clocks differ: the order
    only decides how much is looked at, never the answer.

    Args:
        parents: Gives the parents of a commit; none when they are not known.
        ours: A commit.
        theirs: Another one.
        is_readable: Tells if the state at a commit can be read. Others are passed over.
    """
    marks: dict[str, int] = {ours: _OURS}
    marks[theirs] = marks.get(theirs, 0) | _THEIRS
    queue = [_Newest(id) for id in marks]
    heapq.heapify(queue)
    found: list[str] = []
    # Those in the queue that are not below an answer; a commit may be in the queue twice.
    waiting = set(marks)
    while waiting:
        id = heapq.heappop(queue).id
        waiting.discard(id)
        mark = marks[id]
        passed = mark
        if mark == _BOTH and is_readable(id):
            found.append(id)
            passed |= _BELOW
        for parent in parents(id):
            known = marks.get(parent, 0)
            if known | passed == known:
                continue
            marks[parent] = known | passed
            heapq.heappush(queue, _Newest(parent))
            if marks[parent] & _BELOW:
                waiting.discard(parent)
            else:
                waiting.add(parent)
    found = list(dict.fromkeys(id for id in found if not marks[id] & _BELOW))
    return _independent(parents, found)


class _Newest:
    """A commit in a queue that gives the newest first."""

    __slots__ = ("id",)

    def __init__(self, id: str) -> None:
        self.id = id

    def __lt__(self, other: _Newest) -> bool:
        return self.id > other.id


def _independent(parents: Parents, found: list[str]) -> list[str]:
    """Of several commits, those that no other one comes from."""
    if len(found) < 2:
        return found
    below: set[str] = set()
    for id in found:
        todo, seen = list(parents(id)), {id}
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += parents(each)
        below |= seen - {id}
    return sorted((id for id in found if id not in below), reverse=True)


class Ancestry:
    """The commits that some branches know, and which of them can be read."""

    def __init__(self, history: History, *branches: str) -> None:
        self._history = history
        self.branches = tuple(dict.fromkeys(branches))
        self._lineages = [history.lineage(branch) for branch in self.branches]

    def parents(self, id: str) -> tuple[str, ...]:
        """The parents of a commit; none when they are not known."""
        for lineage in self._lineages:
            parents = lineage.parents(id)
            if parents is not None:
                return parents
        return ()

    def home(self, id: str) -> str | None:
        """A branch that has all of a commit; None when it was deleted."""
        for branch, lineage in zip(self.branches, self._lineages, strict=True):
            if id in lineage.commits:
                return branch
        for lineage in self._lineages:
            branch_of = lineage.branch_of(id)
            if branch_of is not None:
                try:
                    if id in self._history.lineage(branch_of).commits:
                        return branch_of
                except NotFound:
                    pass
        return None

    def bases(self, ours: str, theirs: str) -> list[str]:
        """The best common ancestors that can be read."""
        return best_common_ancestors(
            self.parents, ours, theirs, lambda id: self.home(id) is not None
        )


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
