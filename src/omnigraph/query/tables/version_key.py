"""What tells versions of tables apart, for everything that is derived from one."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from omnigraph.history.manifest import PublishedTable
from omnigraph.history.names import fork_of, split_fork
from omnigraph.storage.table_ref import TableRef


class VersionKey(Struct, frozen=True, array_like=True):
    """One version of a table. What has the same key has the same rows.

    Attributes:
        path: The table's folder below the root of the graph.
        branch: The branch that has written the version; None is main.
        lifetime: What tells the branch from others of its name, made before or after; empty for
            main.
        version: The number of the version.
        stamp: A digest of the version's file, which differs if the number was given out again, such
            as after a backup was restored; empty on object stores.
    """

    path: str
    branch: str | None
    lifetime: str
    version: int
    stamp: str = ""

    @staticmethod
    def of(table: PublishedTable, stamp: str) -> VersionKey:
        """The key of a published version."""
        branch, lifetime = (None, "") if table.branch is None else split_fork(table.branch)
        return VersionKey(table.path, branch, lifetime, table.version, stamp)

    @staticmethod
    def from_list(values: Any) -> VersionKey:
        """The key that `to_list` has described.

        Raises:
            msgspec.ValidationError: It does not describe one.
        """
        return msgspec.convert(values, VersionKey)

    def to_list(self) -> list[Any]:
        """The key as plain values, for the header of a file."""
        return [self.path, self.branch, self.lifetime, self.version, self.stamp]

    @property
    def ref(self) -> TableRef:
        """The table, or the branch of it, that the version is of."""
        return TableRef(self.path, self.fork)

    @property
    def fork(self) -> str | None:
        """What the branch calls its own tables; None for main."""
        return None if self.branch is None else fork_of(self.branch, self.lifetime)

    @property
    def table(self) -> tuple[str, str | None, str]:
        """What all versions of one table share."""
        return self.path, self.branch, self.lifetime

    @property
    def family(self) -> str:
        """The name that the files of all versions of the table share."""
        fork = self.fork
        digest = "" if fork is None else f"-{hashlib.sha256(fork.encode()).hexdigest()[:16]}"
        return f"{self.path.replace('/', '-')}{digest}"
