"""Texts of more bytes than one usual Arrow column can hold, which ends at 2 GiB.

Such a column, and one of lists of such texts, has offsets of 64 bits. Arrow computes with both
kinds alike, so that operators need not know which one it is. Answers have usual texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.compute.arrays import one_array
from omnigraph.query.tables import policy


def in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, of usual texts if these fit."""
    return one_array(fitted(column))


def joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Columns of one type, of whichever kind of texts, one after the other."""
    if len(columns) == 1:
        return fitted(columns[0])
    type = usual(columns[0].type)
    if _size(columns) > policy.LARGEST_TEXT_COLUMN:
        type = _large(type)
    return pa.concat_arrays(
        [column if column.type == type else column.cast(type) for column in columns]
    )


def joined_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables with the same columns as one, whose columns can be put into one piece."""
    whole = pa.concat_tables(tables, promote_options="permissive")
    return pa.Table.from_arrays([fitted(column) for column in whole.columns], whole.column_names)


def take(column: pa.Array, places: pa.Array) -> pa.Array:
    """The values at some places; a place may be named many times."""
    try:
        return fitted(column.take(places))
    except pa.ArrowInvalid:
        if not has_texts(column.type):
            raise
        return column.cast(_large(column.type)).take(places)


def fitted(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of usual texts if these fit, and of large ones if not."""
    if not has_texts(column.type):
        return column
    fits = column.nbytes <= policy.LARGEST_TEXT_COLUMN
    type = usual(column.type) if fits else _large(column.type)
    return column if column.type == type else column.cast(type)


def usual(type: pa.DataType) -> pa.DataType:
    """The type of a column of usual texts."""
    if pa.types.is_large_string(type):
        return pa.utf8()
    return pa.list_(pa.utf8()) if _is_list_of_texts(type) else type


def is_large(type: pa.DataType) -> bool:
    """True for the type of a column with more texts than a usual one can hold."""
    return bool(type != usual(type))


def has_texts(type: pa.DataType) -> bool:
    """True for texts and for lists of them, of either kind."""
    is_text = pa.types.is_string(type) or pa.types.is_large_string(type)
    return bool(is_text or _is_list_of_texts(type))


def _large(type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.large_utf8()) if _is_list_of_texts(type) else pa.large_utf8()


def _is_list_of_texts(type: pa.DataType) -> bool:
    return pa.types.is_list(type) and has_texts(type.value_type)


def _size(columns: Sequence[pa.Array]) -> int:
    return sum(column.nbytes for column in columns) if has_texts(columns[0].type) else 0
