"""Do indexes find the rows that a look at all rows finds?

Of a small table every value is looked up, of a large one some hundred. Indexes of words and of
vectors are not exact by nature: of those it is checked that they answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.sql import element_literal, is_in, quoted
from omnigraph.errors import OmnigraphError
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.types import STRING, ValueType
from omnigraph.storage.segments import is_vector_kind
from omnigraph.storage.snapshot import TableIndex
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.tables import TableSnapshot

#: So many different values are looked up, of a table of any size, and so many at a time.
_VALUES = 1_000
_TOGETHER = 250
#: So many words are searched for, of the beginnings of texts.
_WORDS = 100
_BEGINNING = 200
#: So many elements of lists.
_ELEMENTS = 20


def index_problems(type: NodeType | EdgeType, table: TableSnapshot) -> Iterator[tuple[str, str]]:
    """The names of indexes that do not agree with the table, and what is wrong."""
    for index in table.indices():
        property = type.columns.get(index.column)
        try:
            reason = _disagreement(table, index, property or STRING)
        except OmnigraphError as error:
            reason = f"it cannot be used: {error.message}"
        if reason is not None:
            yield index.name, reason


def _disagreement(table: TableSnapshot, index: TableIndex, type: ValueType) -> str | None:
    match index.kind:
        case "label_list":
            return _lists_compared(table, index.column, type)
        case "full_text":
            table.search(index.column, _words(table, index.column), columns=[ROW_ID])
        case kind if is_vector_kind(kind):
            _ask_for_nearest(table, index.column)
        case _:
            # Of another program's kinds, too, a filter is answered by what the index has.
            return _compared(table, index.column, type)
    return None


def _compared(table: TableSnapshot, column: str, type: ValueType) -> str | None:
    rows = table.read([column], places=True)
    values = _sample(rows[column].combine_chunks().unique().drop_null())
    for start in range(0, len(values), _TOGETHER):
        some = values[start : start + _TOGETHER]
        try:
            where = is_in(column, some, type)
        except (TypeError, ValueError):
            # No query asks an index for such values.
            return None
        wanted = rows.filter(pc.is_in(rows[column], value_set=some))
        if (reason := _difference(table, where, wanted)) is not None:
            return reason
    return None


def _lists_compared(table: TableSnapshot, column: str, type: ValueType) -> str | None:
    rows = table.read([column], places=True)
    lists = rows[column].combine_chunks()
    owners = pc.list_parent_indices(lists)
    elements = pc.list_flatten(lists)
    for value in _sample(elements.unique().drop_null())[:_ELEMENTS]:
        where = f"array_has({quoted(column)}, {element_literal(value.as_py(), type)})"
        at = owners.filter(pc.fill_null(pc.equal(elements, value), False)).unique()
        if (reason := _difference(table, where, rows.take(at))) is not None:
            return reason
    return None


def _difference(table: TableSnapshot, where: str, wanted: pa.Table) -> str | None:
    """Compare the rows that a predicate finds with those that it has to find."""
    rows = np.sort(table.read([], where, places=True)[ROW_ID].to_numpy())
    expected = np.sort(wanted[ROW_ID].to_numpy())
    if np.array_equal(rows, expected):
        return None
    missed, wrong = np.setdiff1d(expected, rows), np.setdiff1d(rows, expected)
    return (
        f"it finds {len(rows):,} rows where a look at all of them finds {len(expected):,}"
        f" ({len(missed):,} are missed, {len(wrong):,} are wrong)"
    )


def _sample(values: pa.Array) -> pa.Array:
    if len(values) <= _VALUES:
        return values
    at = np.linspace(0, len(values) - 1, _VALUES).astype(np.int64)
    return values.take(pa.array(at))


def _words(table: TableSnapshot, column: str) -> str:
    """Some words of the texts, the first ones of the first rows."""
    texts = table.read([column], f"{quoted(column)} is not null", _TOGETHER)[column].to_pylist()
    words = dict.fromkeys(word for text in texts for word in text[:_BEGINNING].split()[:2])
    return " ".join(list(words)[:_WORDS]) or "word"


def _ask_for_nearest(table: TableSnapshot, column: str) -> None:
    rows = table.read([column], f"{quoted(column)} is not null", 1)
    if rows.num_rows:
        (vector,) = rows[column].to_pylist()
        table.nearest(column, vector, 1, columns=["id"])
