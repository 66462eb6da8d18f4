"""The manifest: which version of every table is published, and by which commit.

The manifest holds what is true now: the `table_version` row of every table (the ones before are
dropped when the manifest is compacted), one `graph_head` row per branch, and one `graph_commit` row
per commit. A commit row lists the table versions it changed, so that the state at any commit can be
computed from commit rows alone, and old versions of the manifest itself can be dropped. Reading a
snapshot and publishing cost what the tables cost, not what the history costs.

One `graph_schema` row per branch names the branch's schema (see `history.schemas`). A `table` row
is the registration of a table, and a `table_tombstone` row says that its type was dropped.

When a branch is deleted, main gets its commits as `archived_commit` rows and a `deleted_branch` row
that says which was the last one. They can be read by their ids until a cleanup drops them.

Commits that a cleanup has made unreadable are put together in `packed_commits` rows, see
`history.packing`. Nothing of them is lost.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field, structs

from omnigraph.history.names import MAIN as MAIN
from omnigraph.history.names import branch_of_fork
from omnigraph.storage.table_ref import TableRef

#: Version of the manifest's own shape; see `history.formats`.
FORMAT_KEY = "omnigraph:internal_schema_version"
FORMAT = 4
#: Which graph a manifest is of, however its folder is moved, copied or restored.
GRAPH_KEY = "omnigraph:graph_id"


class TableIdentity(Struct, frozen=True, order=True):
    """Which table: the stable id of its type and the incarnation of its lifetime."""

    type_id: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.type_id:016x}:{self.incarnation:016x}"

    @staticmethod
    def parse(text: str) -> TableIdentity:
        """Read an identity back from its text."""
        type_id, incarnation = text.split(":")
        return TableIdentity(int(type_id, 16), int(incarnation, 16))

    def path(self, kind: str) -> str:
        """Where the table lives below the root; `kind` is node or edge."""
        return f"{kind}s/{self.type_id:016x}-{self.incarnation:016x}"


class PublishedTable(Struct, frozen=True):
    """A table in a snapshot: the version that readers see."""

    identity: TableIdentity
    key: str
    path: str
    version: int
    branch: str | None
    rows: int

    @property
    def ref(self) -> TableRef:
        """The table (or the branch of it) to open."""
        return TableRef(self.path, self.branch)

    @property
    def name(self) -> str:
        """The type's name."""
        return self.key.partition(":")[2]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "table": self.key,
            "version": self.version,
            "branch": MAIN if self.branch is None else branch_of_fork(self.branch),
            "rows": self.rows,
        }


def new_table(identity: TableIdentity, key: str) -> PublishedTable:
    """A table as it is created: empty, at its first version."""
    path = identity.path(key.partition(":")[0])
    return PublishedTable(identity, key, path, version=1, branch=None, rows=0)


class MergedCommit(Struct, frozen=True, array_like=True):
    """What is known for ever of a commit that was merged: its branch and its parents."""

    branch: str
    parents: tuple[str, ...]


class Commit(Struct, frozen=True):
    """One commit of the whole graph.

    Attributes:
        id: A ULID.
        parents: The commit it was made on; for a merge also the merged one.
        changes: The table versions it published: version, table branch and row count.
        before: Of the same tables, version and table branch before it; what is not known, or was
            did not exist, is omitted.
        request_digest: What tells the request from others with its idempotency key.
        merged: Of a merge, the commits that came with it: their branch and their parents. They
            tell what was merged after the branch they were made on is gone.
        deleted: How many rows it has deleted; None when that is not known.
        touched: Marks of the ids that it has inserted, replaced or deleted (see `id_marks`); None
            when they are many, or not known.
        schema: The hash of the schema after it; empty if it was made when graphs had only one.
        schema_before: The one before, if the commit has changed it.
    """

    id: str
    parents: tuple[str, ...]
    branch: str
    actor: str | None
    time: dt.datetime
    message: str | None
    manifest_version: int
    idempotency_key: str | None = None
    changes: Mapping[TableIdentity, tuple[int, str | None, int]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    request_digest: str | None = None
    merged: Mapping[str, MergedCommit] = field(default_factory=lambda: MappingProxyType({}))
    before: Mapping[TableIdentity, tuple[int, str | None]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    deleted: int | None = None
    touched: str | None = None
    schema: str = ""
    schema_before: str | None = None

    @property
    def parent_schema(self) -> str:
        """The hash of the schema before the commit."""
        return self.schema if self.schema_before is None else self.schema_before

    def to_dict(self) -> dict[str, Any]:
        """Return the commit as plain values."""
        return {
            "id": self.id,
            "parents": list(self.parents),
            "branch": self.branch,
            "actor": self.actor,
            "time": self.time.isoformat().replace("+00:00", "Z"),
            "message": self.message,
            "manifest_version": self.manifest_version,
            "idempotency_key": self.idempotency_key,
        }


class SchemaChange(Struct, frozen=True):
    """What a change of the schema means for the manifest.

    Attributes:
        schema: The hash of the new schema.
        created: The tables of new types, at their first versions.
        renamed: Tables that are called otherwise now, and how.
        dropped: The tables whose types are gone.
        adopted: The tables of types that another branch has created; the commit writes to them.
    """

    schema: str
    created: tuple[PublishedTable, ...] = ()
    renamed: Mapping[TableIdentity, str] = field(default_factory=lambda: MappingProxyType({}))
    dropped: tuple[TableIdentity, ...] = ()
    adopted: tuple[PublishedTable, ...] = ()

    def tables(self, changed: Iterable[PublishedTable]) -> list[PublishedTable]:
        """The tables of the commit, with those that are new and with their new names."""
        named = [
            structs.replace(table, key=self.renamed.get(table.identity, table.key))
            for table in changed
        ]
        return [*named, *self.created]


class ManifestState(Struct, frozen=True, dict=True):
    """The folded present state of one branch.

    `schema` is the hash of its schema; empty for the one that the graph was created with, if that
    was before graphs could have several.
    """

    version: int
    tables: Mapping[TableIdentity, PublishedTable]
    heads: Mapping[str, str]
    tags: Mapping[str, str]
    schema: str = ""

    def by_name(self, name: str) -> PublishedTable | None:
        """Find a table by its type's name."""
        return self._by_name.get(name)

    @cached_property
    def magnitudes(self) -> tuple[int, ...]:
        """How many rows the tables have, in powers of two."""
        return tuple(table.rows.bit_length() for table in self.tables.values())

    @cached_property
    def _by_name(self) -> Mapping[str, PublishedTable]:
        return {table.name: table for table in self.tables.values()}


def advance(
    state: ManifestState,
    version: int,
    changed: Iterable[PublishedTable],
    commit: Commit,
    schema: SchemaChange | None = None,
) -> ManifestState:
    """The state after a commit, computed without reading it."""
    tables = {**state.tables, **{t.identity: t for t in changed}}
    if schema is not None:
        for identity, key in schema.renamed.items():
            tables[identity] = structs.replace(tables[identity], key=key)
        for identity in schema.dropped:
            del tables[identity]
    return ManifestState(
        version,
        MappingProxyType(tables),
        MappingProxyType({**state.heads, commit.branch: commit.id}),
        state.tags,
        state.schema if schema is None else schema.schema,
    )
