"""Reading a column for a search: some rows, or all of them without keeping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.query.budget import check_running, run_long
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.storage.table_ref import ROW_ID

Result = TypeVar("Result")


def run_long_on_texts(count: int, function: Callable[[], Result]) -> Result:
    """Run what reads so many texts; see `run_long`."""
    return run_long("read texts", count * policy.NUMBERS_PER_TEXT, function)


def is_few(count: int, total: int) -> bool:
    """True when so many rows are read by themselves, and not with all others."""
    return count * policy.READ_ALONE_PART < total


def is_small(columns: TableColumns) -> bool:
    """True when all columns of a table stay in memory."""
    return columns.rows <= policy.SMALL_SEARCHED_ROWS


def read(
    columns: TableColumns, column: str, positions: Positions | None = None
) -> Iterator[tuple[Positions, pa.Array]]:
    """Values of some rows, or of all, in blocks, with the positions."""
    many = positions is None or not is_few(len(positions), columns.rows)
    if many and not is_small(columns) and not columns.has([column]):
        # The whole column is needed, but does not have to stay in memory.
        for batch in columns.snapshot.batches([column], places=True):
            check_running("search")
            rows = as_numpy(batch[ROW_ID]).astype(np.int64)
            if positions is None:
                yield rows, batch[column]
            else:
                wanted = np.isin(rows, positions)
                yield rows[wanted], batch[column].filter(as_arrow(wanted))
        return
    if positions is None:
        positions = columns.positions()
    start = 0
    while start < len(positions):
        check_running("search")
        count = columns.rows_at_once(policy.SMALL_SEARCHED_ROWS, [column])
        part = positions[start : start + count]
        yield part, columns.fetch(part, [column])[column]
        start += count
