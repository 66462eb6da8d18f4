"""Sidecars: notes of writes in flight, by which anybody can finish or undo them.

A sidecar is written before the first effect and deleted after the last. One that is found while
the effect lock is held belongs to a writer that died, or that has lost its lease.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, convert, to_builtins
from msgspec.json import encode
from msgspec.structs import asdict, replace

from omnigraph.errors import RecoveryRequired
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import (
    Commit,
    PublishedTable,
    SchemaChange,
    TableIdentity,
    new_table,
)
from omnigraph.storage.table_ref import TableRef

if TYPE_CHECKING:
    from omnigraph.storage.objects import Objects

FOLDER = "__recovery"
_FORMAT = 3


class SidecarTable(Struct, frozen=True):
    """What a write is about to do to one table.

    Attributes:
        branch: The table's branch that is written (None is main).
        expected_version: The version it is written on.
        fork_of: The branch it is first forked from ("" is main); None when it is not forked.
        transaction_id: The id of the commit to be.
        restore_id: What the ids of commits that would undo it begin with.
        version: The version it became, once confirmed; `rows` likewise.
    """

    identity: str
    key: str
    path: str
    branch: str | None
    expected_version: int
    fork_of: str | None
    kind: str
    transaction_id: str
    restore_id: str
    version: int | None = None
    rows: int | None = None

    @property
    def ref(self) -> TableRef:
        """The table that is written."""
        return TableRef(self.path, self.branch)

    @property
    def table(self) -> TableIdentity:
        """The table's identity."""
        return TableIdentity.parse(self.identity)


class PlannedSchema(Struct, frozen=True):
    """The schema that a commit brings along.

    Attributes:
        schema: Its hash.
        created: The tables that are created for it: identity and name.
        renamed: The names that tables get, by identity.
        dropped: The tables whose types are gone.
        adopted: The tables of other branches that it has from now on: identity and name.
    """

    schema: str
    created: tuple[tuple[str, str], ...] = ()
    renamed: dict[str, str] = {}
    dropped: tuple[str, ...] = ()
    adopted: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(change: SchemaChange) -> PlannedSchema:
        """A change as it is noted."""
        return PlannedSchema(
            change.schema,
            tuple((str(table.identity), table.key) for table in change.created),
            {str(identity): key for identity, key in change.renamed.items()},
            tuple(map(str, change.dropped)),
            tuple((str(table.identity), table.key) for table in change.adopted),
        )

    @property
    def change(self) -> SchemaChange:
        """What it means for the manifest."""
        created, adopted = (
            tuple(new_table(TableIdentity.parse(identity), key) for identity, key in tables)
            for tables in (self.created, self.adopted)
        )
        return SchemaChange(
            self.schema,
            created,
            {TableIdentity.parse(identity): key for identity, key in self.renamed.items()},
            tuple(map(TableIdentity.parse, self.dropped)),
            adopted,
        )


class PlannedCommit(Struct, frozen=True):
    """A commit to be, and what it does to its tables.

    Attributes:
        merged: The commit that it merges.
        schema: The schema that it brings along; it is alone then.
    """

    id: str
    writer: str
    actor: str | None
    message: str | None
    idempotency_key: str | None
    request_digest: str | None
    tables: tuple[SidecarTable, ...]
    merged: str | None = None
    schema: PlannedSchema | None = None


class Sidecar(Struct, frozen=True):
    """Writes in flight that become visible together, each in a commit of its own.

    Attributes:
        head: The commit that the first one is made on.
        commits: In the order in which they follow each other. Several may write to one table.
    """

    operation_id: str
    branch: str
    branch_identity: str
    head: str
    rollback_commit_id: str
    started_at: str
    commits: tuple[PlannedCommit, ...]
    phase: Literal["armed", "confirmed"] = "armed"

    @property
    def commit_id(self) -> str:
        """The last commit: when it is visible, all are."""
        return self.commits[-1].id

    @property
    def schema(self) -> SchemaChange | None:
        """What becomes of the schema, if it changes."""
        planned = self.commits[-1].schema
        return None if planned is None else planned.change

    @property
    def writer(self) -> str:
        """What wrote, for the audit log."""
        return ", ".join(dict.fromkeys(commit.writer for commit in self.commits))

    @property
    def actor(self) -> str | None:
        """Who wrote, for the audit log."""
        return ", ".join(dict.fromkeys(c.actor for c in self.commits if c.actor)) or None

    @property
    def by_table(self) -> list[tuple[SidecarTable, ...]]:
        """What is about to happen to each table, in the order in which it happens."""
        steps_by_table: dict[TableRef, list[SidecarTable]] = {}
        for commit in self.commits:
            for table in commit.tables:
                steps_by_table.setdefault(table.ref, []).append(table)
        return [tuple(steps) for steps in steps_by_table.values()]

    @property
    def path(self) -> str:
        """Where the sidecar is stored."""
        return _path(self.operation_id)

    def confirmed(self, commits: tuple[PlannedCommit, ...]) -> Sidecar:
        """The same writes with their resulting versions."""
        return replace(self, commits=commits, phase="confirmed")

    def store(self, objects: Objects) -> None:
        """Write the sidecar."""
        try:
            data = encode({"format": _FORMAT, **asdict(self)})
        except UnicodeEncodeError:
            # A message may have half of a surrogate pair, which JSON can only have escaped.
            data = json.dumps({"format": _FORMAT, **to_builtins(self)}).encode()
        objects.write(self.path, data)


def _path(operation_id: str) -> str:
    return f"{FOLDER}/{operation_id}.json"


def is_stored(objects: Objects, operation_id: str) -> bool:
    """True when a write has a sidecar."""
    return objects.read(_path(operation_id)) is not None


def list_sidecars(objects: Objects) -> list[str]:
    """The paths of all sidecars, oldest first."""
    return [p for p in objects.paths(FOLDER) if p.endswith(".json")]


def read_sidecar(objects: Objects, path: str) -> Sidecar | None:
    """Read a sidecar; None when it is gone by now.

    Raises:
        RecoveryRequired: It cannot be understood.
    """
    stored = objects.read(path)
    if stored is None:
        return None
    try:
        data: dict[str, Any] = json.loads(stored.data)
        format = data.pop("format")
        if format == 1:
            # It had one commit, and no list of them.
            names = ("writer", "actor", "message", "idempotency_key", "request_digest", "tables")
            planned = {name: data.pop(name, None) for name in names}
            data["commits"] = [{"id": data.pop("commit_id"), **planned}]
        elif format not in (2, _FORMAT):
            raise ValueError("it has another format")
        return convert(data, Sidecar)
    except (ValueError, KeyError, TypeError) as error:
        raise RecoveryRequired(
            f"{objects.location.child(path)} cannot be read ({error}); a newer Omnigraph may have"
            " written it: use that one, or look at the tables it names before you delete it",
            operation_id=path.rsplit("/", 1)[-1].removesuffix(".json"),
        ) from error


def as_published(table: SidecarTable) -> PublishedTable:
    """A table of a sidecar, which has been committed, as the manifest will have it."""
    assert table.version is not None and table.rows is not None
    return PublishedTable(
        table.table, table.key, table.path, table.version, table.branch, table.rows
    )


def planned_commits(
    sidecar: Sidecar, base: BranchState, published: Sequence[Sequence[PublishedTable]]
) -> list[Commit]:
    """The commits that a sidecar announced, with the tables that each of them has published."""
    time = dt.datetime.now(dt.UTC)
    parents = [base.head, *(planned.id for planned in sidecar.commits)]
    return [
        Commit(
            planned.id,
            (parent,) if planned.merged is None else (parent, planned.merged),
            sidecar.branch,
            planned.actor,
            time,
            planned.message,
            base.ledger.version + 1,
            planned.idempotency_key,
            {t.identity: (t.version, t.branch, t.rows) for t in tables},
            planned.request_digest,
            schema="" if planned.schema is None else planned.schema.schema,
        )
        for parent, planned, tables in zip(parents, sidecar.commits, published, strict=False)
    ]
