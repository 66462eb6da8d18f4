"""Changes of one table as rows before and after, told by entity id. Pure functions over Arrow.

A blob stands for its content in such rows: as a text with its digest, or with the address of the
file elsewhere that it refers to (see `storage.blobs.with_tokens`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy, one_array, rows_where
from omnigraph.compute.equality import unequal

Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


class RowChanges(Struct, frozen=True, dict=True):
    """What became of some rows of a table, from one state to another.

    A row in `before` alone was deleted, one in `after` alone was inserted. Ids are unique in each.

    Attributes:
        before: Rows as they were.
        after: Rows as they are.
        addresses: Where the rows of `before` are in the table as it was; None when nobody knows.
        differs: By column, in which rows of `after` it is not as in `before`; None when nobody has
            compared them.
        matches: Where the rows of `before` are in `after`, -1 where there is none; None when nobody
            has looked.
    """

    before: pa.Table
    after: pa.Table
    addresses: npt.NDArray[np.uint64] | None = None
    differs: Mapping[str, Bools] | None = None
    matches: Places | None = None

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of all rows after, and then of those that are only before, each once."""
        after = one_array(self.after["id"])
        gone = self._matches < 0
        if not gone.any():
            return after
        return pa.concat_arrays([after, one_array(self.before["id"]).filter(as_arrow(gone))])

    @cached_property
    def places(self) -> tuple[Places, Places]:
        """Where the rows with the `ids` are in `before` and in `after`; -1 where there is none."""
        both = self._matches >= 0
        in_before = np.full(len(self.ids), -1)
        in_before[self._matches[both]] = np.flatnonzero(both)
        in_before[self.after.num_rows :] = np.flatnonzero(~both)
        in_after = np.arange(len(self.ids))
        in_after[self.after.num_rows :] = -1
        return in_before, in_after

    @cached_property
    def _matches(self) -> Places:
        if self.matches is not None:
            return self.matches
        return places(one_array(self.before["id"]), self.after)

    @property
    def is_empty(self) -> bool:
        """True when nothing has changed."""
        return not (self.before.num_rows or self.after.num_rows)

    def and_more(self, more: RowChanges) -> RowChanges:
        """These changes and those of other rows."""
        return RowChanges(
            pa.concat_tables([self.before, more.before]), pa.concat_tables([self.after, more.after])
        )

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
    return rows_where(rows, as_numpy(pc.is_in(rows["id"], value_set=ids)))


def without_ids(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows that have none of some ids."""
    return rows_where(rows, ~as_numpy(pc.is_in(rows["id"], value_set=ids))) if len(ids) else rows


def places(ids: pa.Array, rows: pa.Table) -> Places:
    """Where the rows with some ids are among others; -1 where there is none."""
    known = one_array(rows["id"])
    if ids.equals(known):
        return np.arange(len(ids))
    if not len(ids) or not len(known):
        return np.full(len(ids), -1)
    at = pc.fill_null(pc.index_in(ids, value_set=known), -1)
    return as_numpy(at).astype(np.int64)


def taken(column: pa.ChunkedArray, at: Places) -> pa.ChunkedArray:
    """The values at some places of a column, null where the place is -1.

    Nothing is copied if the places follow each other.
    """
    if len(at) and at[0] >= 0 and (at[1:] - at[:-1] == 1).all():
        return column.slice(int(at[0]), len(at))
    missing = at < 0
    return column.take(as_arrow(at, missing if missing.any() else None))


def aligned(rows: pa.Table, ids: pa.Array) -> tuple[pa.Table, Bools]:
    """Rows in the order of some ids, null where there is none; and which are there."""
    at = places(ids, rows)
    columns = [taken(column, at) for column in rows.columns]
    return pa.Table.from_arrays(columns, rows.column_names), at >= 0


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
    at = places(one_array(before["id"]), after)
    both = at >= 0
    if not both.any():
        return RowChanges(before, after, matches=at)
    was, now = np.flatnonzero(both), at[both]
    differs = {name: unequal(taken(before[name], was), taken(after[name], now)) for name in columns}
    differing = np.any(list(differs.values()), axis=0) if differs else np.zeros(len(was), bool)
    if keep:
        ids = one_array(before["id"]).filter(as_arrow(both))
        differing |= as_numpy(pc.is_in(ids, value_set=pa.array(list(keep), pa.utf8())))
    kept_before, kept_after = np.ones(before.num_rows, bool), np.ones(after.num_rows, bool)
    kept_before[both] = kept_after[now] = differing
    place_after = np.cumsum(kept_after) - 1
    return RowChanges(
        rows_where(before, kept_before),
        rows_where(after, kept_after),
        differs={
            name: _scattered(values, now, after.num_rows)[kept_after]
            for name, values in differs.items()
        },
        matches=np.where(both, place_after[at], -1)[kept_before],
    )


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


def _scattered(values: Bools, at: Places, count: int) -> Bools:
    """A longer column with some values at their places; False elsewhere."""
    scattered = np.zeros(count, bool)
    scattered[at] = values
    return scattered


def _is_chunked(column: pa.Array | pa.ChunkedArray) -> bool:
    return isinstance(column, pa.ChunkedArray)
