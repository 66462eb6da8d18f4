"""The log of recoveries: what became of every interrupted write."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import ReadSetConflict
from omnigraph.plain import Plain
from omnigraph.storage.tables import TableRef, Tables

TABLE = "_graph_commit_recoveries.lance"

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("graph_commit_id", pa.string()),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("writer_kind", pa.string(), nullable=False),
        pa.field("per_table_outcomes", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Recovery(Plain):
    """One recovery.

    Attributes:
        operation_id: The interrupted write.
        commit: The commit that came of it, if any.
        kind: `RolledForward`, `RolledBack`, `Finished` (the commit was visible already),
            `Discarded` (nothing had happened), `OrphanedBranchDiscarded`, or `StrayUndone` (a write
            that had lost its lease was undone once more; see `fencing`).
        tables: Per table the versions before and after.
    """

    operation_id: str
    commit: str | None
    kind: str
    actor: str | None
    branch: str
    writer: str
    tables: tuple[dict[str, Any], ...]
    time: dt.datetime


def record(tables: Tables, recovery: Recovery) -> None:
    """Append a recovery, once per interrupted write. The caller holds the effect lock."""
    if is_recorded(tables, recovery.operation_id):
        return
    if not tables.exists(TABLE):
        tables.create(TABLE, _SCHEMA)
    snapshot = tables.open(TableRef(TABLE))
    row = {
        "id": recovery.operation_id,
        "graph_commit_id": recovery.commit,
        "recovery_kind": recovery.kind,
        "recovery_for_actor": recovery.actor,
        "branch": recovery.branch,
        "writer_kind": recovery.writer,
        "per_table_outcomes": json.dumps(list(recovery.tables)),
        "created_at": recovery.time,
    }
    staged = tables.stage_append(snapshot, pa.Table.from_pylist([row], schema=_SCHEMA))
    assert staged is not None
    try:
        tables.commit_staged(staged)
    except ReadSetConflict:
        # Another recovery, which has lost its lease, may have written to the log just before.
        if not is_recorded(tables, recovery.operation_id):
            raise


def is_recorded(tables: Tables, operation_id: str) -> bool:
    """True when a write was resolved."""
    if not tables.exists(TABLE):
        return False
    return tables.open(TableRef(TABLE)).count(f"id = '{operation_id}'") > 0


def recoveries(tables: Tables) -> list[Recovery]:
    """All recoveries, newest first."""
    if not tables.exists(TABLE):
        return []
    # A recovery that has lost its lease may log what another one has logged already.
    by_operation = {
        row["id"]: Recovery(
            row["id"],
            row["graph_commit_id"],
            row["recovery_kind"],
            row["recovery_for_actor"],
            row["branch"],
            row["writer_kind"],
            tuple(json.loads(row["per_table_outcomes"])),
            row["created_at"],
        )
        for row in tables.open(TableRef(TABLE)).read().to_pylist()[::-1]
    }
    return sorted(by_operation.values(), key=lambda r: r.operation_id, reverse=True)
