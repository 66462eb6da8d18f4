"""Walking back from two commits at once, over all their parents, to what they have in common.

Ids sort by time, but clocks differ: the order only decides how much is looked at, never the answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import MergedCommit

Parents = Callable[[str], tuple[str, ...]]
_OURS, _THEIRS, _BELOW = 1, 2, 4
_BOTH = _OURS | _THEIRS


def parents_in(lineages: Sequence[Lineage], id: str) -> tuple[str, ...]:
    """The parents of a commit that one of some branches knows; none when no branch does."""
    while True:
        for lineage in lineages:
            parents = lineage.parents(id)
            if parents is not None:
                return parents
        # All of them, one step each: the one that knows it may be any.
        if not [lineage for lineage in lineages if lineage.deepen()]:
            return ()


def common_ancestors(
    parents: Parents, ours: str, theirs: str, is_readable: Callable[[str], bool] = lambda _: True
) -> tuple[list[str], list[str]]:
    """Find where two commits come together, looking no further back than that.

    Args:
        parents: Gives the parents of a commit; none when they are not known.
        ours: A commit.
        theirs: Another one.
        is_readable: Tells if the state at a commit can be read. Others are passed over.

    Returns:
        Commits that both come from, among them all the best ones; and those that only `theirs`
        comes from, itself included.
    """
    marks: dict[str, int] = {ours: _OURS}
    marks[theirs] = marks.get(theirs, 0) | _THEIRS
    queue = [(_turned(id), id) for id in marks]
    heapq.heapify(queue)
    candidates: list[str] = []
    # Those in the queue that are not below an answer; a commit may be in the queue twice.
    waiting = set(marks)
    upcoming: str | None = None
    while waiting:
        id = heapq.heappop(queue)[1] if upcoming is None else upcoming
        upcoming = None
        waiting.discard(id)
        mark = marks[id]
        passed = mark
        if mark == _BOTH and is_readable(id):
            candidates.append(id)
            passed |= _BELOW
        for parent in parents(id):
            known = marks.get(parent, 0)
            if known | passed == known:
                continue
            marks[parent] = known | passed
            if marks[parent] & _BELOW:
                waiting.discard(parent)
            else:
                waiting.add(parent)
            # Most commits have one parent, which is next: it need not go through the queue.
            if upcoming is None and (not queue or parent > queue[0][1]):
                upcoming = parent
            else:
                heapq.heappush(queue, (_turned(parent), parent))
    common = list(dict.fromkeys(id for id in candidates if not marks[id] & _BELOW))
    return common, [id for id, mark in marks.items() if mark == _THEIRS]


def merged_by(source: Lineage, commits: Iterable[str]) -> dict[str, MergedCommit]:
    """What a branch has to note of the commits that it gets by a merge.

    Args:
        source: What the branch that is merged knows.
        commits: The commits.
    """
    merged = {}
    for id in commits:
        branch, parents = source.branch_of(id), source.parents(id)
        if branch is not None and parents is not None:
            merged[id] = MergedCommit(branch, parents)
    return merged


#: Every letter for another one, so that ids sort the other way round.
_TURN = {code: 127 - code for code in range(128)}


def _turned(id: str) -> str:
    """What sorts newer ids before older ones."""
    return id.translate(_TURN)
