"""What changed between two versions of a table, row by row, and where rows have moved to.

Only fragments that are not in both versions are looked at, so the cost follows the change. A
fragment that was merged from others is no change: its rows have the same row ids and values.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, as_numpy, distinct, rows_where
from omnigraph.compute.equality import unequal
from omnigraph.storage.snapshot import FEW_ROWS, TableSnapshot
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS, ROW_ID, address

RowIds = npt.NDArray[np.uint64]
#: The column with the version that a row was written in; of merged rows it may look newer.
LAST_UPDATED = "_row_last_updated_at_version"
_FRAGMENT_BITS = np.uint64(OFFSET_BITS)
_OFFSET_MASK = np.uint64((1 << OFFSET_BITS) - 1)
_NONE = np.zeros(0, np.uint64)
#: From the first row of a fragment to the first one of the next.
_FRAGMENT_ENDS = np.array([0, 1 << OFFSET_BITS], np.uint64)
#: So many rows are found by their addresses, which Lance takes as text. For more, those of their
#: fragments are read.
_FEW_ADDRESSES = 1024
#: Of so many rows before and after, both are read at the same time.
_MANY_ROWS = 10_000
#: Taking a row takes about as long as scanning so many.
_SCANNED_FOR_TAKEN = 4


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows that differ between two versions.

    Attributes:
        before: Rows of the older version that are gone, or have other values in the newer one.
        after: Rows of the newer version that are new, or had other values in the older one.
        before_row_ids: The stable row ids of `before`, in its order.
        after_row_ids: The stable row ids of `after`, in its order.
        before_addresses: Where the rows of `before` are in the older version.
    """

    before: pa.Table
    after: pa.Table
    before_row_ids: RowIds
    after_row_ids: RowIds
    before_addresses: RowIds


def changes_between(
    old: TableSnapshot,
    new: TableSnapshot,
    columns: Sequence[str],
    *,
    old_columns: Sequence[str] | None = None,
    compare: bool = True,
) -> Changes:
    """Compare two versions of a table.

    Args:
        old: The older version.
        new: A later version of the same table, or of a fork of it. If a version between them
            went back to an earlier one, then to one that `old` comes from, too.
        columns: What to read of the rows that differ.
        old_columns: What to read of those in the older version, if it has other columns.
        compare: Leave out rows that were written again with equal values. Else there may be
            some, for callers who compare the rows themselves.
    """
    wanted = list(dict.fromkeys(columns))
    old_wanted = wanted if old_columns is None else list(dict.fromkeys(old_columns))
    moves = moves_between(old, new)
    gone = moves.gone([LAST_UPDATED, *old_wanted])
    fresh = moves.fresh([LAST_UPDATED, *wanted])
    return changes_of(old, new, gone, fresh, wanted, old_wanted=old_wanted, compare=compare)


def changes_of(
    old: TableSnapshot,
    new: TableSnapshot,
    gone: pa.Table,
    fresh: pa.Table,
    wanted: Sequence[str],
    *,
    old_wanted: Sequence[str] | None = None,
    compare: bool = True,
) -> Changes:
    """What changed between two versions, of rows or of all rows of some entities.

    Args:
        old: The older version.
        new: The later one; see `changes_between`.
        gone: The rows that are no longer where they were, with their places and `LAST_UPDATED`.
        fresh: The rows that are where none was before.
        wanted: What to read of the rows that differ.
        old_wanted: What to read of those in the older version, if it has other columns.
        compare: See `changes_between`.
    """
    old_wanted = wanted if old_wanted is None else old_wanted
    old_ids, fresh_ids = _numbers(gone, ROW_ID), _numbers(fresh, ROW_ID)
    was_updated, was_there = _looked_up(old_ids, _numbers(gone, LAST_UPDATED), fresh_ids)
    is_updated = _numbers(fresh, LAST_UPDATED)
    # Merged rows may look newer, but never older: that is what went back.
    went_back = was_there & (is_updated < was_updated)
    updated = (was_there & (is_updated > old.version)) | went_back
    if compare and (went_back.any() or (updated.any() and new.version > old.version + 1)):
        # The versions of merged rows are not exact: only their values tell.
        at = np.flatnonzero(updated)
        updated[at] = _differ(old, new, fresh_ids[at])
    is_after = ~was_there | updated
    is_before = ~_looked_up(fresh_ids, fresh_ids, old_ids)[1]
    is_before |= _looked_up(fresh_ids[updated], fresh_ids[updated], old_ids)[1]
    places = rows_where(gone, is_before), rows_where(fresh, is_after)
    if min(part.num_rows for part in places) > _MANY_ROWS:
        # Lance takes turns with its processor and its disk: two readers use both.
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read_rows, old, places[0], old_wanted)
            after = read_rows(new, places[1], wanted)
            before = reading.result()
    else:
        before = read_rows(old, places[0], old_wanted)
        after = read_rows(new, places[1], wanted)
    before_ids = _numbers(before, ROW_ID)
    return Changes(
        before.select(old_wanted),
        after.select(wanted),
        before_ids,
        _numbers(after, ROW_ID),
        _looked_up(old_ids, _numbers(gone, ROW_ADDRESS), before_ids)[0],
    )


def relocated(
    old: TableSnapshot, new: TableSnapshot, addresses: RowIds
) -> tuple[RowIds, npt.NDArray[np.bool_]]:
    """Where rows of one version are in a later one.

    Returns:
        Their addresses, and which of the rows exist.
    """
    moves = moves_between(old, new)
    left = np.concatenate([np.array(moves.vanished, np.uint64), moves.deleted >> _FRAGMENT_BITS])
    moved = np.isin(addresses >> _FRAGMENT_BITS, left)
    known = np.ones(len(addresses), bool)
    if not moved.any():
        return addresses, known
    before, after = moves.gone(()), moves.fresh(())
    row_ids = _looked_up(_numbers(before, ROW_ADDRESS), _numbers(before, ROW_ID), addresses)
    looked_up = _looked_up(_numbers(after, ROW_ID), _numbers(after, ROW_ADDRESS), row_ids[0])
    # Others are where they were.
    moved = row_ids[1]
    return np.where(moved, looked_up[0], addresses), ~moved | looked_up[1]


def kept_places(
    one: TableSnapshot, other: TableSnapshot, addresses: RowIds
) -> tuple[RowIds, npt.NDArray[np.bool_]]:
    """Where rows of one version are in another one, if nothing has happened to them in between.

    A row that is changed moves to another file: those in the same place of the same file are the
    same rows.

    Args:
        one: The version that has the rows.
        other: Another version of the table, before or after it, or of a fork.
        addresses: Where the rows are.

    Returns:
        Their addresses in the other version, and which of the rows exist.
    """
    ours, theirs = one.fragments(), other.fragments()
    shared = {state.id: theirs[name].id for name, state in ours.items() if name in theirs}
    remains = np.zeros(len(addresses), bool)
    places = addresses.copy()
    owners = addresses >> _FRAGMENT_BITS
    for id in distinct(owners).tolist():
        if id in shared:
            here = owners == id
            places[here] = _at_fragment(shared[id], addresses[here] & _OFFSET_MASK)
            remains[here] = ~np.isin(places[here], other.deleted_rows(shared[id]))
    return places, remains


@dataclass(frozen=True, slots=True)
class Moves:
    """Where rows may have gone, or come from, between two versions.

    Attributes:
        vanished: The fragments that only the old version has.
        deleted: The addresses of rows that are deleted from fragments that both have.
        written: The fragments that only the new version has.
        restored: The addresses of rows that are back in fragments that both have: a version
            between them went back to an earlier one.
    """

    old: TableSnapshot
    new: TableSnapshot
    vanished: Sequence[int]
    deleted: RowIds
    written: Sequence[int]
    restored: RowIds

    def gone(self, columns: Sequence[str]) -> pa.Table:
        """The rows of the old version that are no longer where they were, with their places.

        If they are few, with columns. Of many just the first column is read, which is cheap; most
        of them may have been merged, and not be wanted.
        """
        cheap = columns if self.gone_count <= FEW_ROWS else columns[:1]
        return rows_at(self.old, self.vanished, self.deleted, cheap)

    def fresh(self, columns: Sequence[str]) -> pa.Table:
        """The rows of the new version that are where none was before; see `gone`."""
        cheap = columns if self.fresh_count <= FEW_ROWS else columns[:1]
        return rows_at(self.new, self.written, self.restored, cheap)

    @property
    def gone_count(self) -> int:
        """How many rows are `gone` at most."""
        return _row_count(self.old, self.vanished) + len(self.deleted)

    @property
    def fresh_count(self) -> int:
        """How many rows are `fresh` at most."""
        return _row_count(self.new, self.written) + len(self.restored)


def _row_count(table: TableSnapshot, fragments: Sequence[int]) -> int:
    rows = {state.id: state.rows for state in table.fragments().values()}
    return sum(rows[id] for id in fragments)


def moves_between(old: TableSnapshot, new: TableSnapshot) -> Moves:
    """Find out where rows may have gone, or come from, between two versions."""
    was, now = old.fragments(), new.fragments()
    deleted, restored = [_NONE], [_NONE]
    for name, state in now.items():
        before = was.get(name)
        if before is None or before.deleted == state.deleted:
            continue
        had, has = old.deleted_rows(before.id), new.deleted_rows(state.id)
        # In one fragment the same row has the same offset.
        had, has = had & _OFFSET_MASK, has & _OFFSET_MASK
        deleted.append(_at_fragment(before.id, np.setdiff1d(has, had, assume_unique=True)))
        restored.append(_at_fragment(state.id, np.setdiff1d(had, has, assume_unique=True)))
    return Moves(
        old,
        new,
        [fragment.id for name, fragment in was.items() if name not in now],
        np.concatenate(deleted),
        [fragment.id for name, fragment in now.items() if name not in was],
        np.concatenate(restored),
    )


def _at_fragment(fragment: int, offsets: RowIds) -> RowIds:
    return offsets + np.uint64(address(fragment, 0))


def rows_at(
    table: TableSnapshot, fragments: Sequence[int], addresses: RowIds, columns: Sequence[str]
) -> pa.Table:
    """All rows of some fragments, and rows at some addresses, with their places."""
    parts = []
    if len(addresses) > _FEW_ADDRESSES:
        more = distinct(addresses >> _FRAGMENT_BITS).tolist()
        rows = table.read(columns, places=True, fragments=more)
        parts.append(rows.filter(pc.is_in(rows[ROW_ADDRESS], value_set=as_arrow(addresses))))
    elif len(addresses):
        listed = ", ".join(map(str, addresses.tolist()))
        parts.append(table.read(columns, f"{ROW_ADDRESS} in ({listed})", places=True))
    if fragments or not parts:
        parts.append(table.read(columns, places=True, fragments=fragments))
    return pa.concat_tables(parts) if len(parts) > 1 else parts[0]


def read_rows(table: TableSnapshot, places: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Read columns of rows whose places are known, with `_rowid`; in no certain order.

    Fragments of which most rows are wanted are scanned, of others the rows are taken.

    Args:
        table: The table.
        places: The columns `_rowid` and `_rowaddr`, and others.
        columns: What to read.
    """
    wanted = [*columns, ROW_ID]
    if set(columns) <= set(places.column_names):
        return places.select(wanted)
    row_ids, addresses = _numbers(places, ROW_ID), _numbers(places, ROW_ADDRESS)
    if len(addresses) <= _FEW_ADDRESSES:
        return rows_at(table, (), addresses, columns).select(wanted)
    owners = addresses >> _FRAGMENT_BITS
    rows = {state.id: state.rows for state in table.fragments().values()}
    dense = [
        id
        for id, count in zip(*(part.tolist() for part in np.unique_counts(owners)), strict=True)
        if count > FEW_ROWS and _SCANNED_FOR_TAKEN * count >= rows[id]
    ]
    parts = []
    scanned = np.isin(owners, np.array(dense, np.uint64))
    if dense:
        span = _span(table, set(dense), addresses[scanned])
        rows_read = table.read(columns, places=True, fragments=dense, span=span)
        if rows_read.num_rows > scanned.sum():
            is_wanted = np.isin(_numbers(rows_read, ROW_ID), row_ids[scanned])
            rows_read = rows_where(rows_read, is_wanted)
        parts.append(rows_read.select(wanted))
    left = row_ids[~scanned]
    if len(left):
        parts.append(_taken(table, left, columns).append_column(ROW_ID, as_arrow(left)))
    return pa.concat_tables(parts)


def _span(table: TableSnapshot, fragments: Collection[int], addresses: RowIds) -> range:
    """Which rows of some fragments, counted in the order of the table, have all of some addresses.

    A load or a merge often writes neighbours: then it is a small part of the fragments.
    """
    ordered = np.sort(addresses)
    rows_before, ranks = 0, []
    for state in table.fragments().values():
        if state.id not in fragments:
            continue
        start, end = np.searchsorted(ordered, _at_fragment(state.id, _FRAGMENT_ENDS))
        deleted = _NONE if state.deleted is None else table.deleted_rows(state.id)
        for at in (ordered[start], ordered[end - 1]):
            offset = int(at & _OFFSET_MASK)
            ranks.append(rows_before + offset - int(np.searchsorted(deleted, at)))
        rows_before += state.rows - len(deleted)
    return range(min(ranks), max(ranks) + 1)


def _looked_up(
    keys: RowIds, values: RowIds, wanted: RowIds
) -> tuple[RowIds, npt.NDArray[np.bool_]]:
    """The values of some keys, and which keys exist."""
    if not len(keys):
        return np.zeros(len(wanted), np.uint64), np.zeros(len(wanted), bool)
    if not (keys[1:] > keys[:-1]).all():
        order = np.argsort(keys)
        keys, values = keys[order], values[order]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return values[at], keys[at] == wanted


def _differ(old: TableSnapshot, new: TableSnapshot, row_ids: RowIds) -> npt.NDArray[np.bool_]:
    """Which rows have other values in two versions that both have them."""
    if old.schema != new.schema or any(_is_blob(field) for field in new.schema):
        # What is stored of a blob does not tell if it is the same.
        return np.ones(len(row_ids), bool)
    differs = np.zeros(len(row_ids), bool)
    names = new.schema.names
    before, after = _taken(old, row_ids, names), _taken(new, row_ids, names)
    for name in names:
        differs |= unequal(before[name], after[name])
    return differs


def _is_blob(field: pa.Field) -> bool:
    return b"lance-encoding:blob" in (field.metadata or {}) or "blob" in str(field.type).lower()


def _taken(table: TableSnapshot, row_ids: RowIds, columns: Sequence[str]) -> pa.Table:
    if not len(row_ids):
        return table.read(list(columns), "false")
    return table.take(row_ids.tolist(), columns)


def _numbers(rows: pa.Table, column: str) -> RowIds:
    numbers: RowIds = as_numpy(rows[column]).astype(np.uint64, copy=False)
    return numbers
