"""What is computed with: columns, and single values that stand for all rows.

A single value stays single until a whole column is asked for. A fault names its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

#: A column (`pa.Array`), or one value for all rows (`pa.Scalar`).
Datum = Any


class ComputeFault(Exception):
    """A value cannot be computed: it does not fit its type.

    Args:
        message: What does not fit into what.
        row: The first row where this happens; None when no column takes part.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.row = row


def first_row(fails: Callable[..., bool], *data: Datum) -> int | None:
    """Find the first row whose computation fails, by halving.

    Arrow says that something in a column fails, not where. All the halves together are as long
    as the column, so finding the row costs about one more computation.

    Args:
        fails: Says whether the computation of these data fails.
        data: Columns and single values, for which the computation is known to fail.

    Returns:
        The row, or None when there are only single values.
    """
    rows = next((len(d) for d in data if not isinstance(d, pa.Scalar)), None)
    if rows is None:
        return None
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        if fails(*(_between(d, low, middle) for d in data)):
            high = middle
        else:
            low = middle
    return low


def broadcast(datum: Datum, rows: int) -> pa.Array:
    """Return a column: itself, or the single value `rows` times."""
    if not isinstance(datum, pa.Scalar):
        return datum
    # Arrow repeats no list zero times.
    return pa.repeat(datum, rows) if rows and datum.is_valid else pa.nulls(rows, datum.type)


def at_row(datum: Datum, row: int | None) -> Any:
    """Return the plain value of a row."""
    return (datum if isinstance(datum, pa.Scalar) else datum[row]).as_py()


def _between(datum: Datum, low: int, high: int) -> Datum:
    return datum if isinstance(datum, pa.Scalar) else datum.slice(low, high - low)
