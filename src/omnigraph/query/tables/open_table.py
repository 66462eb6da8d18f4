"""A version of a table that is opened when it is needed, and can be let go and opened again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.query.tables import policy
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import Stamp

if TYPE_CHECKING:
    from omnigraph.storage.tables import TableSnapshot


class OpenTable:
    """One version of a table. Safe to share between threads."""

    def __init__(
        self,
        key: VersionKey,
        rows: int,
        open: Callable[[], TableSnapshot],
        stamp: Stamp | None = None,
    ) -> None:
        self.key = key
        self.rows = rows
        self._open = open
        self._stamp = stamp
        self._snapshot: TableSnapshot | None = None

    @property
    def snapshot(self) -> TableSnapshot:
        """The table, opened."""
        snapshot = self._snapshot
        if snapshot is None:
            snapshot = self._snapshot = self._open()
        return snapshot

    @property
    def is_settled(self) -> bool:
        """True when the version has been there for a moment, so that files of it pay off."""
        return self._stamp is not None and self._stamp.is_settled

    @property
    def is_open(self) -> bool:
        """True when it takes memory."""
        return self._snapshot is not None

    @property
    def bytes(self) -> int:
        """How much memory it takes, about."""
        if self._snapshot is None:
            return 0
        size = 0 if self._stamp is None else self._stamp.size
        return policy.OPEN_TABLE_BYTES + policy.OPEN_TABLE_PART * size

    def close(self) -> None:
        """Let go of the table; it is opened again when it is needed."""
        self._snapshot = None
