"""What another program did to a table: kinds of transactions, and if rows stayed the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.equality import unequal
from omnigraph.storage.blobs import with_tokens
from omnigraph.storage.protobuf import fields
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.version_file import transaction_file

#: What transactions do, by the numbers that Lance's `transaction.proto` has for it.
_KINDS = {
    100: "append",
    101: "delete",
    102: "overwrite",
    103: "indexes",
    104: "compaction",
    105: "columns",
    106: "restore",
    107: "reservation",
    108: "update",
    109: "columns",
    110: "settings",
    111: "replacement",
}
#: The kind of a transaction whose file is gone, or of which nothing is known here.
UNKNOWN = "unknown"
#: What a compaction consists of: it reserves the numbers of its fragments first.
COMPACTION = frozenset({"reservation", "compaction"})
#: So many rows are compared at a time.
_TOGETHER = 8192


def kind_of(table: TableSnapshot) -> str:
    """What the transaction that made a version says it did.

    It is read from the file: `read_transaction` of Lance 14 raises a `TypeError` for a compaction
    that has rewritten an index.
    """
    name = transaction_file(table._dataset)
    stored = table._objects.read(f"{table.ref.folder}/_transactions/{name}") if name else None
    numbers = [] if stored is None else [number for number, _ in fields(stored.data)]
    return next((_KINDS[number] for number in numbers if number in _KINDS), UNKNOWN)


def has_same_columns(old: TableSnapshot, new: TableSnapshot) -> bool:
    """True when two versions have the same columns, as the table's files number them."""
    if len(old.schema) != len(new.schema) or not new._dataset.has_stable_row_ids:
        return False
    pairs = zip(old.schema, new.schema, strict=True)
    return _numbered(old) == _numbered(new) and all(
        before.equals(after, check_metadata=True) for before, after in pairs
    )


def _numbered(table: TableSnapshot) -> list[tuple[str, int]]:
    return [(field.name(), field.id()) for field in table._dataset.lance_schema.fields()]


def has_same_rows(old: TableSnapshot, new: TableSnapshot) -> bool:
    """True when two versions with the same columns have the same rows, whatever their order.

    Rows are matched by their stable row ids, and compared value by value. Only those are read
    whose files are not in both versions.
    """
    kept = set(_parts(old)) & set(_parts(new))
    old_ids, new_ids = (
        _row_ids(table, [id for part, id in _parts(table).items() if part not in kept])
        for table in (old, new)
    )
    if old.count() != new.count() or not np.array_equal(old_ids, new_ids):
        return False
    return all(_are_equal(old, new, ids) for ids in _portions(old_ids))


def _parts(table: TableSnapshot) -> dict[tuple[object, ...], int]:
    """The ids of fragments by what tells their rows: all their files, and which rows are gone."""
    parts: dict[tuple[object, ...], int] = {}
    with table_errors(table.ref):
        for fragment in table._dataset.get_fragments():
            metadata = fragment.metadata
            deleted = metadata.deletion_file
            gone = None if deleted is None else (deleted.read_version, deleted.id)
            files = tuple((file._path, tuple(file.fields)) for file in metadata.files)
            parts[files, gone, metadata.physical_rows] = fragment.fragment_id
    return parts


def _row_ids(table: TableSnapshot, fragments: list[int]) -> npt.NDArray[np.uint64]:
    if not fragments:
        return np.zeros(0, np.uint64)
    rows = table.read([], places=True, fragments=fragments)
    return np.sort(as_numpy(rows[ROW_ID]).astype(np.uint64, copy=False))


def _portions(ids: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.uint64]]:
    return (ids[start : start + _TOGETHER] for start in range(0, len(ids), _TOGETHER))


def _are_equal(old: TableSnapshot, new: TableSnapshot, ids: npt.NDArray[np.uint64]) -> bool:
    numbers = pa.chunked_array([pa.array(ids)])
    before, after = (with_tokens(table, table.take(ids.tolist()), numbers) for table in (old, new))
    return not any(unequal(before[name], after[name]).any() for name in before.column_names)
