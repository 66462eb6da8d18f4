"""The ids that the last small commits have touched, version by version.

Most of what other writers have to know about a commit is whether it concerns their ids. The answer
needs no look at the tables if the commit was made in this process, or is one of the `recent` ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from msgspec import Struct

from omnigraph.storage.table_ref import TableRef

#: How many versions are known. More come and go while the slowest write waits for the lock.
_VERSIONS = 1024


class Touched(Struct, frozen=True, array_like=True):
    """The ids that one version of a table has inserted, replaced or deleted."""

    path: str
    branch: str | None
    version: int
    ids: tuple[str, ...]


class TouchedIds:
    """Ids that versions of tables have inserted, replaced or deleted. Safe between threads.

    The lifetime of its branch identifies a version, too: a branch that was recreated has other
    versions with the same numbers.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[tuple[str, TableRef, int], frozenset[str]] = {}

    def put(self, lifetime: str, touched: Iterable[Touched]) -> None:
        """Note what versions of tables have touched."""
        with self._guard:
            for each in touched:
                ref = TableRef(each.path, each.branch)
                self._known[lifetime, ref, each.version] = frozenset(each.ids)
            while len(self._known) > _VERSIONS:
                del self._known[next(iter(self._known))]

    def is_untouched(
        self, lifetime: str, ref: TableRef, after: int, until: int, ids: Iterable[str]
    ) -> bool:
        """True when it is known that none of the versions after one has touched any of some ids."""
        wanted = set(ids)
        with self._guard:
            return all(
                wanted.isdisjoint(self._known.get((lifetime, ref, version), wanted))
                for version in range(after + 1, until + 1)
            )
