"""Reading a column for a search: some rows, or all of them without keeping them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.query.budget import check_running, run_long
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.storage.table_ref import ROW_ID

#: Rows are looked at by themselves when they are fewer than this part of all.
_FEW = 8
#: Tables of up to this many rows are kept in memory.
_SMALL = 20_000
#: Splitting a text takes as long as computing with so many numbers.
_NUMBERS_PER_TEXT = 64

Result = TypeVar("Result")


def run_long_on_texts(count: int, function: Callable[[], Result]) -> Result:
    """Run what reads so many texts; see `run_long`."""
    return run_long("read texts", count * _NUMBERS_PER_TEXT, function)


def is_few(count: int, total: int) -> bool:
    """True when so many rows are read by themselves, and not with all others."""
    return count * _FEW < total


def is_small(image: TableColumns) -> bool:
    """True when all columns of a table are kept in memory."""
    return image.rows <= _SMALL


def read(
    image: TableColumns, column: str, positions: Positions | None = None
) -> Iterator[tuple[Positions, pa.Array]]:
    """Values of some rows, or of all, in blocks, with the positions."""
    many = positions is None or not is_few(len(positions), image.rows)
    if many and not is_small(image) and not image.has([column]):
        # The whole column is needed, but does not have to be kept.
        for batch in image.snapshot.batches([column], places=True):
            check_running("search")
            rows = as_numpy(batch[ROW_ID]).astype(np.int64)
            if positions is None:
                yield rows, batch[column]
            else:
                wanted = np.isin(rows, positions)
                yield rows[wanted], batch[column].filter(as_arrow(wanted))
        return
    if positions is None:
        positions = image.positions()
    for start in range(0, len(positions), _SMALL):
        check_running("search")
        part = positions[start : start + _SMALL]
        yield part, image.fetch(part, [column])[column]
