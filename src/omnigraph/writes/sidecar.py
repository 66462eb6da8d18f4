"""Sidecars: notes of writes in flight, by which anybody can finish or undo them.

A sidecar is written before the first effect and deleted after the last. One that is found while
the effect lock is held belongs to a writer that died, or that has lost its lease.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from omnigraph.errors import RecoveryRequired
from omnigraph.history.manifest import TableIdentity
from omnigraph.storage.table_ref import TableRef

if TYPE_CHECKING:
    from omnigraph.storage.objects import Objects

FOLDER = "__recovery"
_FORMAT = 1


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


class Sidecar(Struct, frozen=True):
    """A write in flight."""

    operation_id: str
    writer: str
    branch: str
    branch_identity: str
    head: str
    commit_id: str
    rollback_commit_id: str
    actor: str | None
    message: str | None
    idempotency_key: str | None
    started_at: str
    tables: tuple[SidecarTable, ...]
    phase: Literal["armed", "confirmed"] = "armed"
    request_digest: str | None = None

    @property
    def path(self) -> str:
        """Where the sidecar is stored."""
        return _path(self.operation_id)

    def confirmed(self, tables: tuple[SidecarTable, ...]) -> Sidecar:
        """The same write with its resulting versions."""
        return replace(self, tables=tables, phase="confirmed")

    def store(self, objects: Objects) -> None:
        """Write the sidecar."""
        objects.write(self.path, json.dumps({"format": _FORMAT, **to_builtins(self)}).encode())


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
        if data.pop("format") != _FORMAT:
            raise ValueError("it has another format")
        tables = tuple(SidecarTable(**t) for t in data.pop("tables"))
        return Sidecar(tables=tables, **data)
    except (ValueError, KeyError, TypeError) as error:
        raise RecoveryRequired(
            f"{objects.location.child(path)} cannot be read ({error}); a newer Omnigraph may have"
            " written it: use that one, or look at the tables it names before you delete it",
            operation_id=path.rsplit("/", 1)[-1].removesuffix(".json"),
        ) from error
