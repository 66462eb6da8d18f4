"""The columns of an answer, piece by piece: each has a bounded size, however long texts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from omnigraph.query.budget import Budget

#: How large a piece should be at most, in bytes, and which part of the budget.
_PIECE = 16 << 20
_PART = 32
#: A piece has at most so many times the rows of the one before.
_GROWTH = 4
#: A piece that is too large is tried again with such a part of its rows.
_SHRINK = 16


def in_pieces(
    budget: Budget, count: int, first: int, columns: Callable[[int, int], list[pa.Array]]
) -> Iterator[list[pa.Array]]:
    """Columns of rows that follow each other.

    Args:
        budget: Its time is checked before each piece.
        count: How many rows there are.
        first: How many rows the first piece has at most; the others follow from how large it is.
        columns: Returns the columns from a row up to another one.
    """
    start, rows, width = 0, max(1, first), 1.0
    while start < count:
        budget.check_time("return")
        stop = min(start + rows, count)
        try:
            made = columns(start, stop)
        except pa.ArrowInvalid:
            # Texts of more than 2 GiB do not fit into one column.
            if stop - start == 1:
                raise
            rows = max(1, (stop - start) // _SHRINK)
            continue
        yield made
        if stop == count:
            return
        width = max(width, sum(column.nbytes for column in made) / (stop - start))
        size = _PIECE if budget.bytes is None else min(_PIECE, budget.bytes // _PART)
        rows = max(1, min(rows * _GROWTH, int(size / width), budget.block_rows))
        start = stop
