"""Staged writes: files that are written, and the operation that would make them a version."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.storage.snapshot import TableRef, TableSnapshot

FILE_FORMAT: Literal["2.2"] = "2.2"

#: Rows of a full fragment. Replacing a row costs Lance time for each row of its fragment, so they
#: are smaller than what suits scans best.
ROWS_PER_FRAGMENT = 128 * 1024

Kind = Literal[
    "append", "merge", "overwrite", "delete", "restore", "indices", "schema", "compaction"
]


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """A change of one table that is written but that no version refers to."""

    ref: TableRef
    kind: Kind
    read_version: int
    transaction_id: str
    rows_written: int
    rows_replaced: int
    rows_deleted: int
    _operation: Any
    _dataset: Any


def staged(
    snapshot: TableSnapshot,
    kind: Kind,
    operation: Any,
    *,
    written: int = 0,
    replaced: int = 0,
    deleted: int = 0,
) -> StagedWrite:
    """Give an operation on a version of a table a transaction id of its own."""
    return StagedWrite(
        snapshot.ref,
        kind,
        snapshot.version,
        str(uuid.uuid4()),
        written,
        replaced,
        deleted,
        operation,
        snapshot._dataset,
    )
