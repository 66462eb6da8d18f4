"""The changes of one table between two versions, in the order of ids, from any id on.

First only the ids of all rows that were touched are read, then whole rows, a few at a time: reading
a part of a large change costs little memory, and the rows of that part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.language import EdgeType, NodeType
from omnigraph.merge.changes import (
    as_change_rows,
    change_schema,
    compared_columns,
    stored_columns,
)
from omnigraph.merge.diff import (
    OPERATIONS,
    EntityChange,
    Operation,
    column_changes,
    entity_changes,
)
from omnigraph.merge.rows import Bools, RowChanges, net, ordered_union
from omnigraph.storage.changes import changes_between
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.tables import TableSnapshot

RowIds = npt.NDArray[np.uint64]
#: So many rows are read at a time at most.
_MOST_ROWS = 1024


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """The rows that may differ between two versions of a table, by entity id.

    Attributes:
        ids: The ids, ascending.
        before: Their row ids in the older version, in the same order.
        had: Which of them the older version has.
        after: Their row ids in the newer version.
        has: Which of them the newer version has.
    """

    ids: pa.Array
    before: RowIds
    had: Bools
    after: RowIds
    has: Bools

    def of(self, ops: Collection[Operation]) -> TouchedRows:
        """Those that may have been inserted, updated or deleted."""
        kinds = np.where(~self.had, 0, np.where(self.has, 1, 2))
        is_wanted = np.isin(kinds, [OPERATIONS.index(each) for each in ops])
        return TouchedRows(
            self.ids.filter(pa.array(is_wanted)),
            self.before[is_wanted],
            self.had[is_wanted],
            self.after[is_wanted],
            self.has[is_wanted],
        )


def touched_rows(
    old: TableSnapshot | None, new: TableSnapshot | None, also: pa.Array | None = None
) -> TouchedRows:
    """Find the rows that may differ. A table that one side does not have has no rows there.

    Args:
        old: The older version.
        new: A later version of the same table, or of a fork of it.
        also: The ids of more rows that may differ.
    """
    if old is not None and new is not None:
        differing = changes_between(old, new, ["id"])
        before, before_row_ids = differing.before["id"], differing.before_row_ids
        after, after_row_ids = differing.after["id"], differing.after_row_ids
        if also is not None and len(also):
            before, before_row_ids = _with_more(old, before, before_row_ids, also)
            after, after_row_ids = _with_more(new, after, after_row_ids, also)
    else:
        before, before_row_ids = _all_ids(old)
        after, after_row_ids = _all_ids(new)
    ids = ordered_union(before, after)
    return TouchedRows(
        ids, *_aligned(ids, before, before_row_ids), *_aligned(ids, after, after_row_ids)
    )


def changes_after(
    type: NodeType | EdgeType,
    touched: TouchedRows,
    old: TableSnapshot | None,
    new: TableSnapshot | None,
    ops: Collection[Operation],
    *,
    after: str | None = None,
    first: int = _MOST_ROWS,
) -> Iterator[EntityChange]:
    """The changes of a table in the order of ids.

    Args:
        type: Whose table.
        touched: The rows that may differ between the two versions, with operations in `ops`.
        old: The older version.
        new: The newer version.
        ops: Which operations are wanted.
        after: Only changes of ids after this one.
        first: How many changes the caller is likely to take.
    """
    at = 0 if after is None else pc.sum(pc.less_equal(touched.ids, after)).as_py() or 0
    size = min(first, _MOST_ROWS)
    while at < len(touched.ids):
        part = slice(at, at + size)
        changes = net(
            _rows(type, old, touched.before[part][touched.had[part]]),
            _rows(type, new, touched.after[part][touched.has[part]]),
            compared_columns(type),
        )
        yield from entity_changes(column_changes(type, changes, ops))
        at += size
        size = min(2 * size, _MOST_ROWS)


def all_rows(type: NodeType | EdgeType, table: TableSnapshot) -> Iterator[EntityChange]:
    """All rows of a table as inserts, in the order in which they are stored, a few at a time."""
    nothing = change_schema(type).empty_table()
    for batch in table.batches(stored_columns(type, table), places=True):
        rows = as_change_rows(type, table, pa.Table.from_batches([batch]))
        yield from entity_changes(column_changes(type, RowChanges(nothing, rows), OPERATIONS))


def _rows(type: NodeType | EdgeType, table: TableSnapshot | None, row_ids: RowIds) -> pa.Table:
    if table is None or not len(row_ids):
        return change_schema(type).empty_table()
    rows = table.take(row_ids.tolist(), stored_columns(type, table))
    return as_change_rows(type, table, rows.append_column(ROW_ID, pa.array(row_ids)))


def _all_ids(table: TableSnapshot | None) -> tuple[pa.ChunkedArray, RowIds]:
    if table is None:
        return pa.chunked_array([], pa.utf8()), np.zeros(0, np.uint64)
    rows = table.read(["id"], places=True)
    return rows["id"], as_numpy(rows[ROW_ID]).astype(np.uint64, copy=False)


def _with_more(
    table: TableSnapshot, ids: pa.ChunkedArray, row_ids: RowIds, also: pa.Array
) -> tuple[pa.ChunkedArray, RowIds]:
    """Ids and row ids, and those of more rows."""
    also = also.filter(pc.invert(pc.is_in(also, value_set=ids.combine_chunks())))
    rows = table.find("id", also, ["id"])
    more = as_numpy(rows[ROW_ID]).astype(np.uint64, copy=False)
    return pa.chunked_array([*ids.chunks, *rows["id"].chunks]), np.concatenate([row_ids, more])


def _aligned(ids: pa.Array, known_ids: pa.ChunkedArray, row_ids: RowIds) -> tuple[RowIds, Bools]:
    """Row ids in the order of entity ids, and which of them there are."""
    at = pc.index_in(ids, value_set=known_ids.combine_chunks())
    is_known = np.asarray(at.is_valid().to_numpy(zero_copy_only=False), bool)
    aligned = np.zeros(len(ids), np.uint64)
    aligned[is_known] = row_ids[as_numpy(at.drop_null())]
    return aligned, is_known
