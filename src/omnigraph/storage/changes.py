"""What changed between two versions of a table, row by row, and where rows have moved to.

Only fragments that are not in both versions are looked at, so the cost follows the change. A
fragment that was merged from others is no change: its rows have the same row ids and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.equality import unequal
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS, ROW_ID

RowIds = npt.NDArray[np.uint64]
#: The column with the version that a row was written in; of merged rows it may look newer.
LAST_UPDATED = "_row_last_updated_at_version"
_FRAGMENT_BITS = np.uint64(OFFSET_BITS)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows that differ between two versions.

    Attributes:
        before: Rows of the older version that are gone, or have other values in the newer one.
        after: Rows of the newer version that are new, or had other values in the older one.
        before_row_ids: The stable row ids of `before`, in its order.
        after_row_ids: The stable row ids of `after`, in its order.
    """

    before: pa.Table
    after: pa.Table
    before_row_ids: RowIds
    after_row_ids: RowIds


def changes_between(old: TableSnapshot, new: TableSnapshot, columns: Sequence[str]) -> Changes:
    """Compare two versions of a table.

    Args:
        old: The older version.
        new: A later version of the same table, or of a fork of it. If a version between them
            went back to an earlier one, then to one that `old` comes from, too.
        columns: What to read of the rows that differ.
    """
    was, now = old.fragments(), new.fragments()
    written = [fragment.id for name, fragment in now.items() if name not in was]
    reduced = [name for name in now if name in was and was[name].deleted != now[name].deleted]
    touched = [fragment.id for name, fragment in was.items() if name not in now]
    touched += [was[name].id for name in reduced]
    wanted = list(dict.fromkeys(columns))
    fresh = new.read([*wanted, LAST_UPDATED], places=True, fragments=written)
    gone = old.read([LAST_UPDATED], places=True, fragments=touched)
    left = [now[name].id for name in reduced]
    still = new.read([], places=True, fragments=left)
    back = ~np.isin(_numbers(still, ROW_ADDRESS), _numbers(gone, ROW_ADDRESS), assume_unique=True)
    if back.any():
        # A version between them went back to an earlier one: rows are no longer deleted.
        places = pa.array(_numbers(still, ROW_ADDRESS)[back])
        again = new.read([*wanted, LAST_UPDATED], places=True, fragments=left)
        again = again.filter(pc.is_in(again[ROW_ADDRESS], value_set=places))
        fresh = pa.concat_tables([fresh, again])
    old_ids, fresh_ids = _numbers(gone, ROW_ID), _numbers(fresh, ROW_ID)
    still_ids = np.union1d(fresh_ids, _numbers(still, ROW_ID))
    removed = np.setdiff1d(old_ids, still_ids, assume_unique=True)
    was_there, updated, went_back = written_again(
        old.version,
        (old_ids, _numbers(gone, LAST_UPDATED)),
        (fresh_ids, _numbers(fresh, LAST_UPDATED)),
    )
    if went_back or (updated.any() and new.version > old.version + 1):
        # The versions of merged rows are not exact: only their values tell.
        at = np.flatnonzero(updated)
        updated[at] = _differ(old, new, fresh_ids[at])
    is_after = ~was_there | updated
    after = fresh.filter(pa.array(is_after)).select(wanted)
    before_ids = np.concatenate([removed, fresh_ids[updated]])
    return Changes(taken(old, before_ids, wanted), after, before_ids, fresh_ids[is_after])


def written_again(
    version: int, gone: tuple[RowIds, RowIds], fresh: tuple[RowIds, RowIds]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], bool]:
    """Tell rows that are new from those that were moved, or written again.

    Args:
        version: The older version.
        gone: The row ids of rows that are no longer where they were, and when they were written.
        fresh: The same of rows that are in a new place.

    Returns:
        Which of the fresh rows were there; which of these may have other values; and if some went
        back to earlier values.
    """
    fresh_ids, is_updated = fresh
    was_updated, was_there = _looked_up(*gone, fresh_ids)
    # Merged rows may look newer, but never older: that is what went back.
    went_back = was_there & (is_updated < was_updated)
    updated = (was_there & (is_updated > version)) | went_back
    return was_there, updated, bool(went_back.any())


def relocated(
    old: TableSnapshot, new: TableSnapshot, addresses: RowIds
) -> tuple[RowIds, npt.NDArray[np.bool_]]:
    """Where rows of one version are in a later one.

    Returns:
        Their addresses, and which of the rows are there.
    """
    was, now = old.fragments(), new.fragments()
    changed = [name for name in was if name not in now or was[name].deleted != now[name].deleted]
    touched = [was[name].id for name in changed]
    moved = np.isin(addresses >> _FRAGMENT_BITS, np.array(touched, np.uint64))
    known = np.ones(len(addresses), bool)
    if not moved.any():
        return addresses, known
    candidates = [fragment.id for name, fragment in now.items() if name not in was]
    candidates += [now[name].id for name in changed if name in now]
    before = old.read([], places=True, fragments=touched)
    after = new.read([], places=True, fragments=candidates)
    row_ids = _looked_up(_numbers(before, ROW_ADDRESS), _numbers(before, ROW_ID), addresses[moved])
    found = _looked_up(_numbers(after, ROW_ID), _numbers(after, ROW_ADDRESS), row_ids[0])
    result = addresses.copy()
    result[moved] = found[0]
    known[moved] = row_ids[1] & found[1]
    return result, known


def _looked_up(
    keys: RowIds, values: RowIds, wanted: RowIds
) -> tuple[RowIds, npt.NDArray[np.bool_]]:
    """The values of some keys, and which keys are there."""
    if not len(keys):
        return np.zeros(len(wanted), np.uint64), np.zeros(len(wanted), bool)
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    return values[order[at]], keys[order[at]] == wanted


def _differ(old: TableSnapshot, new: TableSnapshot, row_ids: RowIds) -> npt.NDArray[np.bool_]:
    """Which rows have other values in two versions that both have them."""
    if old.schema != new.schema or any(_is_blob(field) for field in new.schema):
        # What is stored of a blob does not tell if it is the same.
        return np.ones(len(row_ids), bool)
    differs = np.zeros(len(row_ids), bool)
    names = new.schema.names
    before, after = taken(old, row_ids, names), taken(new, row_ids, names)
    for name in names:
        differs |= unequal(before[name], after[name])
    return differs


def _is_blob(field: pa.Field) -> bool:
    return b"lance-encoding:blob" in (field.metadata or {}) or "blob" in str(field.type).lower()


def taken(table: TableSnapshot, row_ids: RowIds, columns: Sequence[str]) -> pa.Table:
    """Read columns of rows by their row ids, of which there may be none."""
    if not len(row_ids):
        return table.read(list(columns), "false")
    return table.take(row_ids.tolist(), columns)


def _numbers(rows: pa.Table, column: str) -> RowIds:
    numbers: RowIds = as_numpy(rows[column]).astype(np.uint64, copy=False)
    return numbers
