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
        self._owners: dict[Hashable, _Measured] = {}
        #: By array, its bytes and how many owners hold it.
        self._arrays: dict[int, tuple[int, int]] = {}
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """How many bytes are held, as far as they were measured."""
        return self._bytes

    def measure(self, owners: Iterable[tuple[Hashable, Owner]]) -> None:
        """Look at what some owners hold now, and let go of what is too much among all."""
        with self._guard:
            for key, owner in owners:
                self._measure(key, owner)
            if self._bytes > self.limit:
                self._let_go()

    def forget(self, key: Hashable) -> None:
        """No longer count what an owner holds, because nobody holds the owner."""
        with self._guard:
            self._forget(key)

    def _measure(self, key: Hashable, owner: Owner) -> None:
        known = self._owners.get(key)
        state = owner.state
        if known is not None and known.owner is owner and known.state == state:
            return
        self._forget(key)
        parts = owner.held()
        sizes = {id: size for part in parts for id, size in part.sizes.items() if size}
        for id, size in sizes.items():
            before, count = self._arrays.get(id, (0, 0))
            self._bytes += size - before
            self._arrays[id] = size, count + 1
        if sizes:
            self._owners[key] = _Measured(owner, state, sizes)

    def _forget(self, key: Hashable) -> None:
        known = self._owners.pop(key, None)
        for id in {} if known is None else known.sizes:
            size, count = self._arrays[id]
            if count > 1:
                self._arrays[id] = size, count - 1
            else:
                del self._arrays[id]
                self._bytes -= size

    def _let_go(self) -> None:
        # Sizes may have changed since they were measured.
        for key, known in list(self._owners.items()):
            self._measure(key, known.owner)
        parts = [
            (part.used, key, known.owner, part.name)
            for key, known in self._owners.items()
            for part in known.owner.held()
        ]
        parts.sort(key=lambda part: part[0])
        for _, key, owner, name in parts:
            if self._bytes <= self.limit:
                return
            owner.let_go(name)
            self._measure(key, owner)
