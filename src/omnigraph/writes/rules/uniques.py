"""The rule about unique groups: no two rows share their values; a null equals nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import key_text, one_zero, physical
from omnigraph.compute.sql import is_in
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.types import STRING, Scalar, ValueType
from omnigraph.writes.rules.keys import Broken, Ints, Lookup, every_key, ordered
from omnigraph.writes.rules.values import is_proper

#: Up to this many keys all columns of a group are looked up, for more only the first.
_FEW = 1000


def group_columns(type: NodeType | EdgeType, place: int) -> tuple[str, ...]:
    """The columns of a unique group."""
    return tuple(physical(name, type) for name in type.uniques[place])


def group_texts(type: NodeType | EdgeType, place: int, rows: pa.Table) -> pa.Array:
    """The values of a unique group as texts; null when one of them is null or not proper."""
    texts = []
    for name in group_columns(type, place):
        column = one_zero(rows[name].combine_chunks())
        text = key_text(column)
        if not pa.types.is_string(column.type):
            proper = pc.fill_null(is_proper(column), False)
            text = pc.if_else(proper, text, pa.scalar(None, pa.utf8()))
        texts.append(text)
    if len(texts) == 1:
        return texts[0]
    sizes = [pc.cast(pc.utf8_length(text), pa.utf8()) for text in texts]
    # With their lengths before them, different values never have the same text together.
    parts = [part for pair in zip(sizes, texts, strict=True) for part in pair]
    return pc.binary_join_element_wise(*parts, "\x1f")


def unique_keys(
    type: NodeType | EdgeType,
    place: int,
    rows: pa.Table,
    ids: pa.Array,
    numbers: Ints | None = None,
    *,
    whole: bool = True,
) -> pa.Table:
    """The keys of a unique group: the text, the row, its id, and the values by columns.

    Args:
        type: The rows' type.
        place: Which group of the type.
        rows: The rows.
        ids: Their ids; null where nobody knows the id.
        numbers: The numbers of the rows; None counts them.
        whole: All columns of the group, and not only the first, by which rows are looked up.
    """
    texts = group_texts(type, place, rows)
    keys = every_key(texts, numbers)
    valid = texts.is_valid() if texts.null_count else None
    columns = group_columns(type, place)
    values = {f"value {n}": one_zero(rows[n]) for n in columns[: None if whole else 1]}
    for name, column in {"id": ids, **values}.items():
        keys = keys.append_column(name, column if valid is None else column.filter(valid))
    return keys


def repeated_groups(type: NodeType | EdgeType, place: int, keys: pa.Table) -> Broken | None:
    """The rows that share their values with an earlier one that has another id."""
    if keys.num_rows < 2 or pc.count_distinct(keys["text"]).as_py() == keys.num_rows:
        return None
    counts = pc.value_counts(keys["text"])
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    shared, begins = ordered(keys.filter(pc.is_in(keys["text"], value_set=twice)))
    # The first row of a group keeps the values.
    first = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    other = shared["id"].take(pa.array(first)).combine_chunks()
    same = pc.fill_null(pc.equal(shared["id"].combine_chunks(), other), False)
    at_fault = pa.array(~begins & ~same.to_numpy(zero_copy_only=False))
    taken = shared.select(["part", "row"]).append_column("other", other).filter(at_fault)
    return _broken(type, place, "{value} is taken by {other} in the same write", taken)


def taken_groups(
    type: NodeType | EdgeType, place: int, keys: pa.Table, table: Lookup
) -> Broken | None:
    """The rows whose values a row of the table with another id has."""
    if not keys.num_rows:
        return None
    columns = group_columns(type, place)
    types = [_type(type, name) for name in columns]
    tests = [
        is_in(name, pc.unique(keys[f"value {name}"]), kind)
        for name, kind in zip(columns[1:], types[1:], strict=True)
        if keys.num_rows <= _FEW and f"value {name}" in keys.column_names
        if kind.scalar is not Scalar.F32
    ]
    also = " and ".join(tests) or None
    values = pc.unique(keys[f"value {columns[0]}"])
    old = table.find(columns[0], values, ["id", *columns], types[0], also=also)
    if not old.num_rows:
        return None
    at = pc.index_in(keys["text"].combine_chunks(), value_set=group_texts(type, place, old))
    other = old["id"].combine_chunks().take(at)
    same = pc.fill_null(pc.equal(keys["id"].combine_chunks(), other), False)
    at_fault = pc.and_(pc.is_valid(at), pc.invert(same))
    taken = keys.select(["part", "row"]).append_column("other", other).filter(at_fault)
    return _broken(type, place, "{value} is taken by {other} already", taken)


def _type(type: NodeType | EdgeType, column: str) -> ValueType:
    property = type.properties.get(column)
    return STRING if property is None else property.type


def _broken(type: NodeType | EdgeType, place: int, reason: str, taken: pa.Table) -> Broken | None:
    if not taken.num_rows:
        return None
    columns, property = group_columns(type, place), ", ".join(type.uniques[place])
    return Broken("unique", type.name, columns, property, reason, "rows", taken)
