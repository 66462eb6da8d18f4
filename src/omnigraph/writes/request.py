"""What a caller asks of the write protocol, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.history.manifest import Commit
from omnigraph.plain import Plain
from omnigraph.storage.tables import StagedWrite, Tables, TableSnapshot
from omnigraph.writes.options import NO_OPTIONS, CommitOptions
from omnigraph.writes.view import View


@dataclass(frozen=True, slots=True)
class TableOutcome(Plain):
    """What a write did to one table."""

    inserted: int
    replaced: int
    deleted: int


class Change(Protocol):
    """A change of one table, against the state it was prepared on."""

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to stage."""

    @property
    def outcome(self) -> TableOutcome:
        """What it does to the table."""

    @property
    def footprint(self) -> Sequence[pa.Table] | None:
        """The rows that it writes, replaces and removes; None when they are not at hand.

        Of rows that are replaced or removed some columns may be missing.
        """

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Stage it on the version it was built for, or on a fork of that."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What to write and under which conditions.

    Attributes:
        prepare: Gives the changes by the type's name, validated, on one state of the branch. It
            runs again when another writer was faster, if the write may be repeated.
        may_repeat: The write means the same on a newer state of the branch.
        options: What the caller says about the commit.
        writer: Which kind of write it is, for the log of recoveries.
        request_digest: Distinguishes a repeated request from another one with the same key.
        is_long: It takes seconds to prepare.
        merged: The commit that is merged, which becomes the second parent of the new one. There is
            a commit even if no table changes.
        may_omit: Tables that others have changed, so that what is staged for them does not fit any
            more, are left out; the answer says which tables were written.
        schema: The hash of the schema that the caller has compiled its request with. On a branch
            that has another one by now it is a conflict.
    """

    branch: str
    prepare: Callable[[View], Mapping[str, Change]]
    may_repeat: bool
    options: CommitOptions = NO_OPTIONS
    writer: str = "write"
    request_digest: str | None = None
    is_long: bool = False
    merged: str | None = None
    may_omit: bool = False
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The answer to a write. `commit` is None when nothing changed."""

    commit: Commit | None
    tables: Mapping[str, TableOutcome]
    repeated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "commit": self.commit.id if self.commit is not None else None,
            "repeated": self.repeated,
            "tables": {name: outcome.to_dict() for name, outcome in self.tables.items()},
        }
