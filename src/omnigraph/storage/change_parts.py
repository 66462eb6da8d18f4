"""Changes between two versions of a table, for more rows than one process has room for.

First the ids and places of rows that may have changed are read, a few fragments at a time; whoever
reads them divides them by entity id. Then the rows of one part are compared alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.storage.changes import LAST_UPDATED, Changes, RowIds, taken, written_again
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import ROW_ID

#: What is read of rows that may have changed.
PLACES = pa.schema([("id", pa.utf8()), (ROW_ID, pa.uint64()), (LAST_UPDATED, pa.uint64())])


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of the fragments that are not the same in two versions.

    Attributes:
        written: Fragments that only the newer version has, by their ids there.
        gone: Fragments that only the older version has, by their ids there.
        reduced: Fragments in which other rows are deleted: their ids in both versions.
        rows: How many rows they have.
    """

    written: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    reduced: tuple[tuple[int, int], ...] = ()
    rows: int = 0


def portions(old: TableSnapshot, new: TableSnapshot, most_rows: int) -> list[Portion]:
    """Divide the fragments that two versions do not share; see `changes_between`."""
    was, now = old.fragments(), new.fragments()
    found: list[tuple[int, Portion]] = []
    for name, fragment in now.items():
        if name not in was:
            found.append((fragment.rows, Portion(written=(fragment.id,))))
        elif was[name].deleted != fragment.deleted:
            found.append((fragment.rows, Portion(reduced=((was[name].id, fragment.id),))))
    for name, fragment in was.items():
        if name not in now:
            found.append((fragment.rows, Portion(gone=(fragment.id,))))
    made: list[Portion] = []
    for rows, one in found:
        if made and made[-1].rows + rows <= most_rows:
            last = made.pop()
            one = Portion(
                last.written + one.written,
                last.gone + one.gone,
                last.reduced + one.reduced,
                last.rows,
            )
        made.append(Portion(one.written, one.gone, one.reduced, one.rows + rows))
    return made


def read_places(
    old: TableSnapshot, new: TableSnapshot, portion: Portion
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Read where the rows of a portion were and are, `PLACES`, without rows that stayed there.

    Yields:
        Rows that are no longer in their place of the older version, and rows that are in a place
        of the newer one that had no row.
    """
    none = PLACES.empty_table()
    if portion.gone:
        yield _read(old, portion.gone), none
    if portion.written:
        yield none, _read(new, portion.written)
    for before, after in portion.reduced:
        were, are = _read(old, (before,)), _read(new, (after,))
        yield _without(were, are), _without(are, were)


def changes_of(
    old: TableSnapshot,
    new: TableSnapshot,
    gone: pa.Table,
    fresh: pa.Table,
    columns: Sequence[str],
) -> Changes:
    """What changed between two versions, of the entities of one part.

    Rows that were written again with equal values may be among the changes.

    Args:
        old: The older version.
        new: The later one; see `changes_between`.
        gone: All rows of the entities that are no longer in their place; see `read_places`.
        fresh: All rows of the entities that are in a new place.
        columns: What to read of the rows that differ.
    """
    wanted = list(dict.fromkeys(columns))
    old_ids, fresh_ids = _numbers(gone, ROW_ID), _numbers(fresh, ROW_ID)
    was_there, updated, _ = written_again(
        old.version,
        (old_ids, _numbers(gone, LAST_UPDATED)),
        (fresh_ids, _numbers(fresh, LAST_UPDATED)),
    )
    removed = np.setdiff1d(old_ids, fresh_ids, assume_unique=True)
    # In the order in which they are stored they are read faster.
    before_ids = np.sort(np.concatenate([removed, fresh_ids[updated]]))
    after_ids = np.sort(fresh_ids[~was_there | updated])
    return Changes(
        taken(old, before_ids, wanted), taken(new, after_ids, wanted), before_ids, after_ids
    )


def _read(table: TableSnapshot, fragments: Sequence[int]) -> pa.Table:
    found = table.read(["id", LAST_UPDATED], places=True, fragments=fragments)
    return found.select(PLACES.names).cast(PLACES)


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    there = pc.is_in(rows[ROW_ID], value_set=others[ROW_ID].combine_chunks())
    return rows.filter(pc.invert(there))


def _numbers(rows: pa.Table, column: str) -> RowIds:
    numbers: RowIds = as_numpy(rows[column]).astype(np.uint64, copy=False)
    return numbers
