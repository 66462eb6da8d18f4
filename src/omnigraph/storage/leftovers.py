"""Leftovers of a table: files that nothing refers to, and forks that no branch has.

Writers that were killed, have failed or were overtaken leave them. Files that a living writer has
staged look just the same, so only old ones count, and a writer looks under the lock whether what it
has staged still exists. Versions are never removed here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.errors import StorageError
from omnigraph.storage.lock import EffectLock
from omnigraph.storage.objects import Objects, StoredFile
from omnigraph.storage.references import References, key_of
from omnigraph.storage.tables import Tables

#: Files of writes that were not finished, as Lance, object stores and `local_objects` name them.
UNFINISHED = re.compile(r"\.tmp\w+|.+#\d+|.+\.tmp\.[0-9a-f]{32}")
#: Versions outside of the history; a compaction that is killed leaves one.
_DETACHED = re.compile(r"d\d+\.manifest")


@dataclass(frozen=True, slots=True)
class Leftover:
    """What goes as a whole.

    Attributes:
        key: Tells it from others.
        files: Its files.
        fork: The fork that it is, if it is one.
    """

    key: str
    files: tuple[StoredFile, ...]
    fork: str | None = None

    @property
    def modified(self) -> float:
        """When something was last written to it."""
        return max((file.modified for file in self.files), default=0.0)

    @property
    def size(self) -> int:
        """How many bytes its files have."""
        return sum(file.size for file in self.files)


class TableLeftovers:
    """The leftovers of one table."""

    def __init__(self, tables: Tables, path: str) -> None:
        self.path = path
        self._tables = tables
        self._objects = Objects.at(tables.location)
        self._references = References(tables, path)

    def find(
        self, live: Collection[str] | None, until: float
    ) -> tuple[list[Leftover], list[Leftover]]:
        """The leftovers that are old, and those that are not.

        Args:
            live: The forks that branches have; None for all that Lance lists.
            until: Old is what was last written to before this moment.

        Raises:
            StorageError: It cannot be determined what is one.
        """
        # In this order: what is committed between the two steps is listed, and referred to.
        files = self._objects.files(self.path)
        known, live_forks = self._refresh(live)
        forks: dict[str, list[StoredFile]] = {name: [] for name in known if name not in live_forks}
        groups: dict[str, list[StoredFile]] = {}
        for file in files:
            below = file.path.removeprefix(f"{self.path}/")
            place = key_of(below)
            if place is not None and place[0] is not None and place[0] not in live_forks:
                forks.setdefault(place[0], []).append(file)
            elif (key := _candidate(below, place)) is not None and key not in self._references:
                groups.setdefault(key, []).append(file)
        old: list[Leftover] = []
        young: list[Leftover] = []
        holding: set[str | None] = set()
        for name in _children_first(forks, known):
            leftover = Leftover(f"tree/{name}", tuple(forks[name]), name)
            if leftover.modified > until or name in holding:
                young.append(leftover)
                holding.add(known[name]["parent_branch"] if name in known else None)
            else:
                old.append(leftover)
        for key, members in sorted(groups.items()):
            leftover = Leftover(key, tuple(members))
            (young if leftover.modified > until else old).append(leftover)
        return old, young

    def remove(
        self, leftovers: Sequence[Leftover], live: Collection[str] | None, lock: EffectLock
    ) -> list[Leftover]:
        """Remove what is still a leftover; returns what was.

        Args:
            leftovers: What `find` returned, or a part of it in the same order.
            live: The forks that branches have now; None for all that Lance lists.
            lock: The effect lock, which the caller holds.
        """
        _, live_forks = self._refresh(live)
        removed = []
        for leftover in leftovers:
            lock.check()
            if leftover.fork is not None:
                if leftover.fork in live_forks:
                    continue
                self._tables.unlist_branch(self.path, leftover.fork)
            elif leftover.key in self._references:
                continue
            # The file that a writer looks for goes first.
            paths = sorted((file.path for file in leftover.files), key=lambda p: (p.count("/"), p))
            self._objects.delete_all(paths)
            self._objects.drop_empty(f"{self.path}/{leftover.key}")
            removed.append(leftover)
        return removed

    def _refresh(self, live: Collection[str] | None) -> tuple[Mapping[str, Any], set[str]]:
        """All forks that Lance lists, and those that stay; learns what these refer to."""
        known = self._tables.branches(self.path)
        live_forks = _kept_forks(known, live)
        if lost := live_forks - known.keys():
            raise StorageError(
                f"table {self.path} has no fork {min(lost)}, which a branch reads; nothing of the"
                " table can be removed"
            )
        # What the others refer to elsewhere is also needed by what they were created from.
        self._references.refresh({name: known[name] for name in live_forks})
        return known, live_forks


def _candidate(below: str, place: tuple[str | None, str] | None) -> str | None:
    """The key of a file that may be a leftover; None for one that is surely not."""
    name = below.rpartition("/")[2]
    if UNFINISHED.fullmatch(name) and (place is None or "/_indices/" not in f"/{place[1]}"):
        return below
    if place is None:
        return None
    inside = place[1] if place[0] is None else place[1].removeprefix(f"tree/{place[0]}/")
    if inside.startswith("_versions/") and not _DETACHED.fullmatch(name):
        return None
    return place[1]


def _kept_forks(known: Mapping[str, Any], live: Collection[str] | None) -> set[str]:
    """The forks that stay: those that are used, and those that they were created from."""
    if live is None:
        return set(known)
    forks: set[str] = set()
    for name in live:
        at: str | None = name
        while at is not None and at not in forks:
            forks.add(at)
            at = known[at]["parent_branch"] if at in known else None
    return forks


def _children_first(forks: Collection[str], known: Mapping[str, Any]) -> list[str]:
    """Forks, each before the one that it was created from."""

    def depth(name: str | None) -> int:
        if name is None or name not in known:
            return 0
        return 1 + depth(known[name]["parent_branch"])

    return sorted(forks, key=lambda name: (-depth(name), name))
