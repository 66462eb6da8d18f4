"""Rows so long that Lance does not read as many at once as usual.

A batch has 8192 rows, and a column of texts in it ends at 2 GiB: beyond that Lance fails. And it
reads ahead up to 2 GiB, which suits no reader of long rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceDataset

#: The rows of a batch of Lance, unless it is told otherwise.
_USUAL_ROWS = 8192
#: How large batches of long rows should be, and how much is read ahead of them.
_BATCH_BYTES = 16 << 20
_AHEAD_BYTES = 128 << 20
#: What Lance raises when there is too much in a batch.
OVERFLOWS = (pa.ArrowInvalid, OSError)
#: With each attempt that fails, a batch has so many times fewer rows.
_FEWER = 8
#: Their texts are short.
_IDS = frozenset({"id", "src", "dst"})


def scan_options(
    schema: pa.Schema,
    columns: Sequence[str] | None,
    has_filter: bool,
    row_bytes: Callable[[], float],
    most: int | None,
) -> dict[str, Any]:
    """How a scan of some columns reads, as options of Lance.

    Args:
        schema: The columns of the table.
        columns: What is read; None is all.
        has_filter: There is a filter, which may read any column.
        row_bytes: Returns how many bytes a row has in its file.
        most: How many rows a batch has at most; None is as usual.
    """
    texts = {f.name for f in schema if pa.types.is_string(f.type)} - _IDS
    has_texts = has_filter or not texts.isdisjoint(texts if columns is None else columns)
    size = row_bytes() if has_texts else 0.0
    if size * _USUAL_ROWS <= _BATCH_BYTES:
        return {"batch_size": most}
    rows = max(1, int(_BATCH_BYTES / size))
    return {"batch_size": min(rows, most or rows), "io_buffer_size": _AHEAD_BYTES}


def bytes_of_row(dataset: LanceDataset) -> float:
    """How many bytes a row has in its file, on average."""
    size = rows = 0
    for fragment in dataset.get_fragments():
        size += sum(file.file_size_bytes or 0 for file in fragment.metadata.files)
        rows += fragment.metadata.physical_rows
    return size / max(1, rows)


def fewer_rows(batch_rows: int | None, error: Exception) -> int:
    """How many rows a batch should have in which there were too many; else raises the error."""
    if "ffset overflow" not in str(error) or batch_rows == 1:
        raise error
    return max(1, (batch_rows or _USUAL_ROWS) // _FEWER)
