"""Changes between two versions of a table, for more rows than one process has room for.

First the ids and places of rows that may have changed are read, a few fragments at a time; whoever
reads them divides them by entity id. Then the rows of one part are compared alone; see
`storage.changes.changes_of`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.storage.changes import LAST_UPDATED, RowIds, moves_between, rows_at
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS, ROW_ID

#: What is read of rows that may have changed.
PLACES = pa.schema(
    [
        ("id", pa.utf8()),
        (LAST_UPDATED, pa.uint64()),
        (ROW_ID, pa.uint64()),
        (ROW_ADDRESS, pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of the rows that are not in the same place in two versions.

    Attributes:
        is_fresh: They are in a new place of the newer version; else no longer in one of the older.
        fragments: All rows of these fragments.
        addresses: And rows at these addresses.
        rows: How many rows they have.
    """

    is_fresh: bool
    fragments: tuple[int, ...] = ()
    addresses: RowIds | None = None
    rows: int = 0


def portions(old: TableSnapshot, new: TableSnapshot, most_rows: int) -> list[Portion]:
    """Divide the rows that may have changed from one version to a later one."""
    moves = moves_between(old, new)
    portions = []
    for is_fresh, table, fragments, addresses in (
        (False, old, moves.vanished, moves.deleted),
        (True, new, moves.written, moves.restored),
    ):
        rows = {state.id: state.rows for state in table.fragments().values()}
        portions += [
            Portion(is_fresh, ids, rows=sum(rows[id] for id in ids))
            for ids in grouped(fragments, rows, most_rows)
        ]
        # To find many of them, all rows of their fragments are read.
        owners = addresses >> np.uint64(OFFSET_BITS)
        for ids in grouped(np.unique(owners).tolist(), rows, most_rows):
            part = addresses[np.isin(owners, np.array(ids, np.uint64))]
            portions.append(Portion(is_fresh, (), part, len(part)))
    return portions


def grouped(
    fragments: Sequence[int], rows: Mapping[int, int], most_rows: int
) -> list[tuple[int, ...]]:
    """Put fragments together that have no more than so many rows, or are alone."""
    groups: list[list[int]] = []
    count = 0
    for id in fragments:
        if groups and count + rows[id] <= most_rows:
            groups[-1].append(id)
            count += rows[id]
        else:
            groups.append([id])
            count = rows[id]
    return [tuple(group) for group in groups]


def read_places(table: TableSnapshot, portion: Portion) -> pa.Table:
    """Read the ids and places of the rows of a portion, of the version that it is about."""
    none: RowIds = np.zeros(0, np.uint64)
    addresses = none if portion.addresses is None else portion.addresses
    rows = rows_at(table, portion.fragments, addresses, ["id", LAST_UPDATED])
    return rows.select(PLACES.names).cast(PLACES)
