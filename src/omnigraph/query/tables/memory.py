"""One budget of bytes for all derived data that an open graph holds in memory.

While a query runs it may hold what it needs. When it has ended, what was used longest ago is let go
until the rest is within the budget: single columns, topologies, open tables.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable
from typing import Protocol

from msgspec import Struct


class Held(Struct, frozen=True):
    """A part of an owner that can be let go by itself.

    Attributes:
        name: What the owner calls it.
        used: When it was last used; the unit does not matter.
        sizes: The bytes of its arrays, by what tells an array from all others: owners may share
            some.
    """

    name: str
    used: float
    sizes: dict[int, int]


class Owner(Protocol):
    """Something that holds derived data."""

    @property
    def state(self) -> Hashable:
        """What differs when something else is held."""

    def held(self) -> Collection[Held]:
        """What it holds now."""

    def let_go(self, name: str) -> None:
        """Let go of a part. Who uses it at the moment still has it."""


class _Measured(Struct, frozen=True):
    """What was held when it was last looked at."""

    owner: Owner
    state: Hashable
    sizes: dict[int, int]


class MemoryBudget:
    """The sizes of all that is held. Safe to share between threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        #: By the number that an owner has while it is here.
        self._owners: dict[int, _Measured] = {}
        #: By array, its bytes and how many owners hold it.
        self._arrays: dict[int, tuple[int, int]] = {}
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How many bytes are held, as far as they were measured."""
        return self._bytes

    def measure(self, owners: Iterable[Owner]) -> None:
        """Look at what some owners hold now, and let go of what is too much among all."""
        changed = [owner for owner in owners if not self._is_measured(owner)]
        if not changed and self._bytes <= self.limit:
            return
        with self._guard:
            for owner in changed:
                self._measure(owner)
            if self._bytes > self.limit:
                self._let_go()

    def forget(self, owner: Owner) -> None:
        """No longer count what an owner holds, because nobody else holds the owner."""
        with self._guard:
            self._forget(owner)

    def _is_measured(self, owner: Owner) -> bool:
        known = self._owners.get(id(owner))
        return known is not None and known.state == owner.state

    def _measure(self, owner: Owner) -> None:
        if self._is_measured(owner):
            return
        state = owner.state
        self._forget(owner)
        sizes = {array: size for part in owner.held() for array, size in part.sizes.items() if size}
        for array, size in sizes.items():
            before, count = self._arrays.get(array, (0, 0))
            self._bytes += size - before
            self._arrays[array] = size, count + 1
        self._owners[id(owner)] = _Measured(owner, state, sizes)

    def _forget(self, owner: Owner) -> None:
        known = self._owners.pop(id(owner), None)
        for array in {} if known is None else known.sizes:
            size, count = self._arrays[array]
            if count > 1:
                self._arrays[array] = size, count - 1
            else:
                del self._arrays[array]
                self._bytes -= size

    def _let_go(self) -> None:
        # Sizes may have changed since they were measured.
        for known in list(self._owners.values()):
            self._measure(known.owner)
        parts = [
            (part.used, known.owner, part.name)
            for known in self._owners.values()
            for part in known.owner.held()
        ]
        parts.sort(key=lambda part: part[0])
        for _, owner, name in parts:
            if self._bytes <= self.limit:
                return
            owner.let_go(name)
            self._measure(owner)
