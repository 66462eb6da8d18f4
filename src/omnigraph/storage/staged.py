"""Staged writes: files that are written, and the operation that would make them a version."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceOperation

from omnigraph.storage.snapshot import FEW_ROWS, TableSnapshot
from omnigraph.storage.table_ref import TableRef

FILE_FORMAT: Literal["2.2"] = "2.2"

#: Rows of a full fragment. Replacing a row costs Lance time for each row of its fragment, so they
#: are smaller than what suits scans best.
ROWS_PER_FRAGMENT = 128 * 1024

#: As many bytes of rows are cached until they are read.
_LITTLE = 1 << 16

Kind = Literal[
    "append", "merge", "overwrite", "delete", "restore", "indices", "schema", "compaction", "room"
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
    #: The rows, if a few are added and that is all.
    _added: pa.Table | None = None
    #: The addresses of rows that are replaced or deleted.
    _addresses: npt.NDArray[np.uint64] | None = None
    #: What makes one more version, on top of this one: the indexes that come with a compaction.
    _then: Any = None

    @property
    def steps(self) -> tuple[Kind, ...]:
        """What each of the versions that it makes is."""
        return (self.kind,) if self._then is None else (self.kind, "indices")


def staged(
    snapshot: TableSnapshot,
    kind: Kind,
    operation: Any,
    *,
    written: int = 0,
    replaced: int = 0,
    deleted: int = 0,
    added: pa.Table | None = None,
    addresses: npt.NDArray[np.uint64] | None = None,
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
        added if added is not None and _is_little(added) else None,
        addresses,
    )


def _is_little(rows: pa.Table) -> bool:
    """True for rows that may be cached in memory: few, and without large texts or blobs."""
    return bool(rows.num_rows <= FEW_ROWS and rows.nbytes <= _LITTLE)


def staged_files(write: StagedWrite) -> list[str]:
    """What a staged write brings along: paths of files, and of the folders of indexes."""
    folder = write.ref.folder
    new: list[Any] = []
    updated: list[Any] = []
    indices: list[str] = []
    match write._operation:
        case LanceOperation.Append() | LanceOperation.Overwrite() | LanceOperation.Merge() as op:
            new = list(op.fragments)
        case LanceOperation.Update() as op:
            new, updated = op.new_fragments, op.updated_fragments
        case LanceOperation.Delete() as op:
            updated = list(op.updated_fragments)
        case LanceOperation.CreateIndex() as op:
            indices = [index.uuid for index in op.new_indices]
        case LanceOperation.Rewrite() as op:
            new = [fragment for group in op.groups for fragment in group.new_fragments]
            if write._then is not None:
                indices = [index.uuid for index in write._then.new_indices]
    files = [f"{folder}/_indices/{uuid}" for uuid in indices]
    files += [f"{folder}/data/{f._path}" for one in new for f in one.files if f.base_id is None]
    for fragment in (*new, *updated):
        deleted = fragment.deletion_file
        if deleted is not None and deleted.base_id is None:
            files.append(f"{folder}/{deleted.path(fragment.id)}")
    return files
