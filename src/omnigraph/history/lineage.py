"""The commits that a branch knows, by id: the newest are read first, earlier ones when asked for.

Commits never change, so each is read once. Of commits that came with a merge just the branch and
the parents are known here; the whole of them is where they were made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from omnigraph.history.manifest import Commit, MergedCommit

#: How many versions of the manifest are looked through first; then twice as many each time.
_WINDOW = 64
#: A commit may be noted with a version a little before the one that it came with.
_MARGIN = 8
#: Reads the commits that are noted with a version above one, and not above another.
Read = Callable[[int, int], Iterable[Commit]]


class Lineage:
    """What a branch knows of commits: its own, those before it was created, and merged ones.

    Safe to share between threads.

    Args:
        epoch: How often the graph's folder was seen replaced when it was read.
        identity: The lifetime of the branch.
        version: The newest version of the branch's manifest.
        read: Reads commits from it.
        below: Knows the commits that are not here.
    """

    def __init__(
        self,
        epoch: int,
        identity: str,
        version: int,
        read: Read,
        below: Lineage | None = None,
    ) -> None:
        self.epoch = epoch
        self.identity = identity
        self._read = read
        self._below = below
        self._commits: dict[str, Commit] = {}
        self._merged: dict[str, MergedCommit] = {}
        #: Of both.
        self._parents: dict[str, tuple[str, ...]] = {}
        #: Every commit above the one and up to the other is in memory.
        self._low = self._high = version
        #: The newest version that a commit in memory is noted with.
        self._newest = 0
        self._width = _WINDOW
        self._guard = threading.RLock()

    def forked(self, identity: str, version: int, read: Read) -> Lineage | None:
        """What a branch knows that was just created from this one; None if not certain.

        Args:
            identity: The lifetime of the new branch.
            version: The version of the manifest that it was created from.
            read: Reads commits from its manifest.
        """
        with self._guard:
            if self._high != version or self._newest > version or self._below is not None:
                return None
            fork = Lineage(self.epoch, identity, version, read)
            fork._commits = self._commits.copy()
            fork._merged = self._merged.copy()
            fork._parents = self._parents.copy()
            fork._low, fork._width, fork._newest = self._low, self._width, self._newest
            return fork

    def grow(self, version: int, head: str | None) -> None:
        """Read what came since, if the branch has a newer version or a head that is not known."""
        with self._guard:
            if version > self._high or (head is not None and head not in self._commits):
                self._add(self._read(max(0, self._high - _MARGIN), version + _MARGIN))
                self._high = max(self._high, version)

    def extend(self, commits: Iterable[Commit], before: int, version: int) -> None:
        """Add commits that led from one version to the next, if everything before is known."""
        with self._guard:
            if self._high == before:
                self._add(commits)
                self._high = version

    def deepen(self) -> bool:
        """Read earlier commits; False when there are none."""
        with self._guard:
            if self._low <= 0:
                return self._below is not None and self._below.deepen()
            low = self._low - self._width
            self._add(self._read(low, self._low + _MARGIN))
            self._low, self._width = low, self._width * 2
            return True

    def own(self, id: str) -> Commit | None:
        """A commit that is here and not below, if it is in memory."""
        return self._commits.get(id)

    def known(self, id: str) -> Commit | None:
        """A commit, if it is in memory."""
        commit = self._commits.get(id)
        if commit is None and self._below is not None:
            return self._below.known(id)
        return commit

    def find(self, id: str) -> Commit | None:
        """A commit; reads until it is found, or there is nothing left to read."""
        commit = self.known(id)
        while commit is None and self.deepen():
            commit = self.known(id)
        return commit

    def parents(self, id: str) -> tuple[str, ...] | None:
        """The parents of a commit, if they are in memory."""
        parents = self._parents.get(id)
        return self._below.parents(id) if parents is None and self._below is not None else parents

    def branch_of(self, id: str) -> str | None:
        """The branch that a commit was made on, if that is in memory."""
        commit = self.known(id) or self._noted(id)
        return None if commit is None else commit.branch

    def chain(self, id: str) -> Iterator[Commit]:
        """A commit and all before it, newest first, along first parents."""
        current: str | None = id
        while current is not None:
            commit = self.find(current)
            if commit is None:
                return
            yield commit
            current = commit.parents[0] if commit.parents else None

    def _noted(self, id: str) -> MergedCommit | None:
        commit = self._merged.get(id)
        return self._below._noted(id) if commit is None and self._below is not None else commit

    def _add(self, commits: Iterable[Commit]) -> None:
        for commit in commits:
            self._commits[commit.id] = commit
            self._newest = max(self._newest, commit.manifest_version)
            self._parents[commit.id] = commit.parents
            self._merged.update(commit.merged)
            for id, merged in commit.merged.items():
                self._parents.setdefault(id, merged.parents)
