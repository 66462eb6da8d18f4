"""Project: the columns that are returned, in chunks of a bounded size, however long texts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

import pyarrow as pa

from omnigraph.compute.evaluate import evaluate
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import Checked
from omnigraph.query.budget import Budget
from omnigraph.query.computed import is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.tables import policy
from omnigraph.query.tables.large_texts import fitted, is_large, usual
from omnigraph.query.values import Values

#: Columns of some rows of the answer.
Chunk = list[pa.Array]


def project(
    context: Context,
    expressions: Sequence[Checked],
    properties: AbstractSet[tuple[str, str]],
    texts: Sequence[tuple[str, str]],
    frame: Frame,
) -> Iterator[Chunk]:
    """What is returned of some matches.

    Args:
        context: What the operators share.
        expressions: What is returned.
        properties: The variables with the properties among it.
        texts: The properties among it whose values differ in size.
        frame: The matches.
    """

    def columns(start: int, stop: int) -> Chunk:
        part = frame if stop - start == frame.count else frame.slice(start, stop)
        values = Values(context.source, context.types, part)
        values.prepare(properties)
        return [evaluate(e, values.columns, part.count, context.parameters) for e in expressions]

    return in_chunks(context.budget, frame.count, _first_rows(context, texts, frame), columns)


def _first_rows(context: Context, texts: Sequence[tuple[str, str]], frame: Frame) -> int:
    """How many rows are read at first, by what is known about the texts and lists in them."""
    if frame.count <= policy.UNMEASURED_ROWS:
        return frame.count
    total = 0.0
    for variable, name in texts:
        width = _width(context, variable, name, frame.count)
        if width is None:
            return policy.FIRST_CHUNK_ROWS
        total += width
    most = context.budget.block_rows
    return min(int(policy.FIRST_CHUNK_BYTES / total), most) if total else most


def _width(context: Context, variable: str, name: str, count: int) -> float | None:
    """How many bytes a value has on average; None when that is not known."""
    types = context.types[variable]
    if len(types) > 1 or is_computed(name):
        return None
    table = context.source.catalog.type(types[0])
    columns, column = context.source.columns(types[0]), physical(name, table)
    if not columns.has([column]) and count < columns.rows // policy.ROWS_PER_ROW_READ:
        return None
    values = columns.columns([column], if_held=True).get(column)
    if values is None:
        return columns.width(column)
    return float(values.get_total_buffer_size() / max(1, len(values)))


def in_chunks(
    budget: Budget, count: int, first: int, columns: Callable[[int, int], Chunk]
) -> Iterator[Chunk]:
    """Columns of rows that follow each other.

    Args:
        budget: Its time is checked before each chunk.
        count: How many rows there are.
        first: How many rows the first chunk has at most; the others follow from how large it is.
        columns: Returns the columns from a row up to another one.
    """
    start, rows, width = 0, max(1, first), 1.0
    while start < count:
        budget.check_time("return")
        stop = min(start + rows, count)
        try:
            chunk = [fitted(column) for column in columns(start, stop)]
        except pa.ArrowInvalid:
            # A list of several texts may be too large for one column where each of them is not.
            if stop - start == 1:
                raise
            chunk = []
        if not chunk or (stop - start > 1 and any(is_large(column.type) for column in chunk)):
            rows = max(1, (stop - start) // policy.CHUNK_SHRINK)
            continue
        yield [column.cast(usual(column.type)) for column in chunk]
        if stop == count:
            return
        width = max(width, sum(column.nbytes for column in chunk) / (stop - start))
        size = policy.CHUNK_BYTES
        if budget.bytes is not None:
            size = min(size, budget.bytes // policy.CHUNK_PART)
        rows = max(1, min(rows * policy.CHUNK_GROWTH, int(size / width), budget.block_rows))
        start = stop
