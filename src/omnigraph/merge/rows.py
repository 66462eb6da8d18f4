"""Changes of one table as rows before and after, told by entity id. Pure functions over Arrow.

A blob stands for its content in such rows: as a text with its digest, or with the address of the
file elsewhere that it refers to (see `storage.blobs.with_tokens`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.equality import unequal

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowChanges:
    """What became of some rows of a table, from one state to another.

    A row in `before` alone was deleted, one in `after` alone was inserted. Ids are unique in each.
    """

    before: pa.Table
    after: pa.Table

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of all rows that are there before or after, ascending."""
        return ordered_union(self.before["id"], self.after["id"])

    @property
    def is_empty(self) -> bool:
        """True when nothing has changed."""
        return not (self.before.num_rows or self.after.num_rows)

    def of(self, ids: pa.Array) -> RowChanges:
        """The changes of just some rows."""
        return RowChanges(with_ids(self.before, ids), with_ids(self.after, ids))


def ordered_union(*columns: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Different ids of several columns, ascending."""
    chunks = [c for one in columns for c in (one.chunks if _is_chunked(one) else [one])]
    ids = pc.unique(pa.chunked_array(chunks, pa.utf8()))
    return ids.take(pc.sort_indices(ids))


def with_ids(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows that have one of some ids."""
    return rows.filter(pc.is_in(rows["id"], value_set=ids))


def without_ids(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows that have none of some ids."""
    return rows.filter(pc.invert(pc.is_in(rows["id"], value_set=ids))) if len(ids) else rows


def aligned(rows: pa.Table, ids: pa.Array) -> tuple[pa.Table, Bools]:
    """Rows in the order of some ids, null where there is none; and which are there."""
    at = pc.index_in(ids, value_set=rows["id"].combine_chunks())
    return rows.take(at), np.asarray(at.is_valid().to_numpy(zero_copy_only=False), bool)


def differing(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Bools:
    """In which rows two aligned tables differ."""
    found = np.zeros(left.num_rows, bool)
    for name in columns:
        found |= unequal(left[name], right[name])
    return found


def net(
    before: pa.Table, after: pa.Table, columns: Sequence[str], keep: Collection[str] = ()
) -> RowChanges:
    """Changes without rows that were only written again, with equal values.

    Args:
        before: Rows as they were.
        after: Rows as they are.
        columns: What is compared.
        keep: Ids of rows that stay in the changes even so.
    """
    ids = before["id"].filter(pc.is_in(before["id"], value_set=_array(after["id"])))
    if not len(ids):
        return RowChanges(before, after)
    ids = _array(ids)
    same = ~differing(aligned(before, ids)[0], aligned(after, ids)[0], columns)
    if keep:
        kept = pc.is_in(ids, value_set=pa.array(list(keep), pa.utf8()))
        same &= ~np.asarray(kept.to_numpy(zero_copy_only=False), bool)
    unchanged = ids.filter(pa.array(same))
    return RowChanges(without_ids(before, unchanged), without_ids(after, unchanged))


def across(
    to_old: RowChanges, to_new: RowChanges, columns: Sequence[str], keep: Collection[str] = ()
) -> RowChanges:
    """Changes from one state to another, told from a third one that both come from.

    Args:
        to_old: What changed from the third state to the old one.
        to_new: What changed from the third state to the new one.
        columns: What is compared.
        keep: Ids of rows that stay in the changes even if they are the same in both.
    """
    # What was touched on one side only is, on the other side, as it was in the third state.
    before = [to_old.after, without_ids(to_new.before, to_old.ids)]
    after = [to_new.after, without_ids(to_old.before, to_new.ids)]
    return net(pa.concat_tables(before), pa.concat_tables(after), columns, keep)


def composed(first: RowChanges, second: RowChanges) -> RowChanges:
    """Changes from one state to a third one, over a second one. Nothing is left out."""
    return RowChanges(
        pa.concat_tables([first.before, without_ids(second.before, first.ids)]),
        pa.concat_tables([second.after, without_ids(first.after, second.ids)]),
    )


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if _is_chunked(column) else column


def _is_chunked(column: pa.Array | pa.ChunkedArray) -> bool:
    return isinstance(column, pa.ChunkedArray)
