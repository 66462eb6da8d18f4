"""Ids from keys: the canonical text of a key, for whole columns at once.

Integers are decimal, booleans `true` or `false`, dates and times ISO text. A key of several
properties is a JSON array of those texts in the key's stable order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import scalar
from omnigraph.language.schema.catalog import ENDS, ENDS_AS_COLUMNS, EdgeType, TableType

#: An edge's ends, by their names in schemas, in mutations and in tables.
PHYSICAL_ENDS = dict(zip(ENDS, ("src", "dst"), strict=True))
#: What a JSON text escapes one by one; other control characters are rare.
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"


def physical(name: str, type: TableType) -> str:
    """The column of a property; an edge's `from` and `to` are stored as `src` and `dst`."""
    return PHYSICAL_ENDS.get(name, name) if isinstance(type, EdgeType) else name


def property_name(column: str, type: TableType) -> str:
    """What users call a column."""
    return ENDS_AS_COLUMNS.get(column, column) if isinstance(type, EdgeType) else column


def ids_of(type: TableType, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The ids of rows by their key.

    Args:
        type: A type with a key.
        columns: The key's columns by their physical names.

    Returns:
        Texts; null where a part of the key is null.
    """
    texts = [key_text(columns[physical(name, type)]) for name in type.key]
    if len(texts) == 1:
        return texts[0]
    quoted = [_json_text(text) for text in texts]
    inner = pc.binary_join_element_wise(*quoted, ",")
    return pc.binary_join_element_wise("[", inner, "]", "")


def key_text(column: pa.Array) -> pa.Array:
    """The canonical texts of the values of one key property."""
    if pa.types.is_timestamp(column.type):
        text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(pc.replace_substring_regex(text, r"\.000$", ""), "Z", "")
    return pc.cast(column, pa.utf8())


def one_zero(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Floats with one zero: hashes tell it from minus zero, and comparisons do not."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(column, scalar(0.0, column.type))


def _json_text(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _RARE)).as_py():
        texts = [
            None if t is None else json.dumps(t, ensure_ascii=False) for t in column.to_pylist()
        ]
        return pa.array(texts, pa.utf8())
    for plain, escaped in _ESCAPES:
        column = pc.replace_substring(column, plain, escaped)
    return pc.binary_join_element_wise('"', column, '"', "")
