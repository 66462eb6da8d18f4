"""The rows of one type, merged: those that are written, and conflicts in the words of users.

A merged row takes its values from three tables: theirs, ours, and that of the base. Blobs are read
from the table that has them, and values that settle conflicts are made to fit their properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy, rows_where
from omnigraph.compute.keys import physical, property_name
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import UsageError
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.values import ValueFault, coerce
from omnigraph.merge.base import Doubts
from omnigraph.merge.changes import (
    as_change_rows,
    change_schema,
    compared_columns,
    stored_columns,
    stored_names,
)
from omnigraph.merge.conflicts import (
    Conflict,
    ConflictKind,
    Key,
    describe,
    describe_key,
)
from omnigraph.merge.rows import Bools, Places, RowChanges, places, with_ids
from omnigraph.merge.schemas.terms import Terms
from omnigraph.merge.three_way import (
    Choice,
    Merged,
    NewValue,
    RowConflict,
    Side,
    three_way,
)
from omnigraph.storage.blobs import read_rewritable
from omnigraph.storage.changes import kept_places, read_rows
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.delta import TableDelta, old_schema

if TYPE_CHECKING:
    from omnigraph.merge.combine import Settling, Sides

Type = NodeType | EdgeType
RULE_KINDS: dict[str, ConflictKind] = {
    "end": "OrphanEdge",
    "unique": "UniqueViolation",
    "cardinality": "CardinalityViolation",
}


class OurRows(Struct, frozen=True):
    """The rows of our side that a merge is about.

    Attributes:
        rows: What `old_schema` has of them.
        at: Where those with the `ids_to_merge` are among them; -1 where there is none.
        same: Which of them are as they were in the base. They are not read: the changes on their
            side have them.
    """

    rows: pa.Table
    at: Places
    same: Bools

    @staticmethod
    def of(rows: pa.Table, ids: pa.Array, sides: Sides) -> OurRows:
        """Rows that were looked up, of which nobody knows yet if they have changed."""
        same = np.zeros(rows.num_rows, bool)
        if sides.is_exact:
            same = kept_places(sides.ours, sides.base, addresses_of(rows))[1]
        return OurRows(rows, places(ids, rows), same)


def merged_rows(
    type: Type,
    sides: Sides,
    changes: RowChanges,
    our_rows: OurRows,
    settings: Settling,
    *,
    pins: Mapping[str, Side],
    new_values: Mapping[tuple[str, str], Any],
    doubts: Doubts,
) -> tuple[TableDelta, Merged]:
    """Merge rows of one type: all of them, or all of some ids.

    Args:
        type: The type.
        sides: The tables that the rows are from.
        changes: What changed on their side, and rows that are pinned.
        our_rows: The rows of our side that have one of the `ids_to_merge`.
        settings: How it is done.
        pins: See `three_way`.
        new_values: See `three_way`.
        doubts: See `three_way`.
    """
    at, same = our_rows.at, our_rows.same
    ours = _read(type, sides.ours, rows_where(our_rows.rows, ~same), sides.terms)
    choices = {
        (id, None if property is None else physical(property, type)): typed_choice(
            type, key, choice
        )
        for key, choice in settings.resolutions.items()
        for kind, name, id, property in [key]
        if name == type.name and kind not in RULE_KINDS.values()
    }
    merged = three_way(
        changes,
        ours,
        compared_columns(type),
        granularity=settings.granularity,
        prefer=settings.prefer,
        choices=choices,
        pins=pins,
        new_values=new_values,
        doubts=doubts,
        unchanged=same[at] & (at >= 0) if len(same) else None,
    )
    sources = [(sides.theirs, changes.after), (sides.ours, ours), (sides.base, changes.before)]
    rows = writable(type, merged.rows, sources, sides.terms)
    replaced = at[merged.places]
    old = our_rows.rows.cast(old_schema(type))
    delta = TableDelta.of(
        type,
        new=rows_where(rows, replaced < 0),
        changed=rows_where(rows, replaced >= 0),
        changed_from=old.take(as_arrow(replaced[replaced >= 0])),
        removed=with_ids(old, merged.removed),
        has_distinct_ids=True,
    )
    return delta, merged


def _read(type: Type, snapshot: TableSnapshot, places: pa.Table, terms: Terms) -> pa.Table:
    """Rows whose places are known, in the form that changes have."""
    if not places.num_rows:
        return change_schema(type).empty_table()
    places = places.select([ROW_ID, ROW_ADDRESS])
    names = stored_columns(type, snapshot, terms)
    return as_change_rows(type, snapshot, read_rows(snapshot, places, names), terms)


def writable(
    type: Type, rows: pa.Table, sources: list[tuple[TableSnapshot, pa.Table]], terms: Terms
) -> pa.Table:
    """Merged rows with the values of their blobs, as they are written to a table."""
    schema = table_schema(type)
    columns = []
    for column in schema:
        values: Any = rows[column.name]
        if values.type != column.type:
            named = [
                (snapshot, stored_names(type, snapshot, terms).get(column.name), each)
                for snapshot, each in sources
            ]
            values = _blob_values(column, values.combine_chunks(), named)
        columns.append(values)
    return pa.Table.from_arrays(columns, schema=schema)


def _blob_values(
    field: pa.Field, tokens: pa.Array, places: list[tuple[TableSnapshot, str | None, pa.Table]]
) -> pa.Array:
    """The values that tokens stand for, from rows that have the same tokens."""
    values: list[Any] = [None] * len(tokens)
    left = [place for place, token in enumerate(tokens.to_pylist()) if token is not None]
    for snapshot, stored, rows in places:
        if stored is None:
            continue
        usable = rows.filter(pc.is_valid(rows[ROW_ID]))
        wanted = tokens.take(pa.array(left, pa.int64()))
        at = pc.index_in(wanted, value_set=usable[field.name].combine_chunks()).to_pylist()
        hits = [(place, row) for place, row in zip(left, at, strict=True) if row is not None]
        if hits:
            row_ids = usable[ROW_ID].take(pa.array([row for _, row in hits])).to_pylist()
            read = read_rewritable(snapshot, row_ids, [stored])[stored].to_pylist()
            for (place, _), value in zip(hits, read, strict=True):
                values[place] = value
        done = {place for place, _ in hits}
        left = [place for place in left if place not in done]
    if left:
        raise UsageError(f"`{field.name}`: the value of the base cannot be read; name another side")
    return pa.array(values, field.type)


def addresses_of(rows: pa.Table) -> npt.NDArray[np.uint64]:
    """Where rows are in their table."""
    addresses: npt.NDArray[np.uint64] = as_numpy(rows[ROW_ADDRESS]).astype(np.uint64, copy=False)
    return addresses


def of_row(type: Type, conflict: RowConflict) -> Conflict:
    """A conflict of a row, in the words of users."""
    property = None if conflict.column is None else property_name(conflict.column, type)
    base, ours, theirs = (_named(type, v) for v in (conflict.base, conflict.ours, conflict.theirs))
    text = describe(conflict.kind, type.name, conflict.id, property, ours, theirs)
    kind: Any = conflict.kind
    return Conflict(kind, type.kind, type.name, conflict.id, property, base, ours, theirs, text)


def _named(type: Type, value: Any) -> Any:
    """A whole row with the names that users know."""
    if not isinstance(value, dict):
        return value
    return {property_name(column, type): each for column, each in value.items()}


def typed_choice(type: Type, key: Key, choice: Choice) -> Choice:
    """A choice whose value is of the property's type, or by column for a whole row.

    Raises:
        UsageError: The value does not fit.
    """
    if not isinstance(choice, NewValue):
        return choice
    where = describe_key(key)
    property = key[3]
    if property is not None:
        return NewValue(_typed_value(type, property, choice.value, where))
    if choice.value is None:
        return choice
    if not isinstance(choice.value, Mapping):
        raise UsageError(f"{where}: give a side, or a value with properties, or null for no entity")
    return NewValue(
        {
            physical(name, type): _typed_value(type, name, value, f"{where}, `{name}`")
            for name, value in choice.value.items()
        }
    )


def _typed_value(type: Type, property: str, value: Any, where: str) -> Any:
    known = type.columns.get(property)
    if known is None or property == "id":
        names = [name for name in type.columns if name != "id"]
        hint = did_you_mean(str(property), names) or f"it has {', '.join(names)}"
        raise UsageError(f"{where}: {type.name} has no such property; {hint}")
    if property in type.key:
        raise UsageError(f"{where}: it is part of the key, which never changes; name a side")
    if known.is_blob:
        raise UsageError(f"{where}: a Blob cannot be given here; name a side")
    try:
        return coerce(value, known)
    except ValueFault as fault:
        hint = f"; {fault.hint}" if fault.hint else ""
        raise UsageError(f"{where}: {fault.message}{hint}") from None
