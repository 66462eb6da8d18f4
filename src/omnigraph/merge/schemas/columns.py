"""The columns of a table in a merge: from those of a branch to those of the merged schema."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language import EdgeType, NodeType, Property
from omnigraph.language.schema.arrow import arrow_type, property_field
from omnigraph.merge.changes import stored_names
from omnigraph.merge.schemas.terms import Terms
from omnigraph.storage.tables import NewColumn, TableSnapshot
from omnigraph.writes.schema_columns import ColumnChange

Type = NodeType | EdgeType


def column_change(type: Type, snapshot: TableSnapshot, terms: Terms) -> ColumnChange:
    """What gives a version of a table the columns of a type, with the values of the terms."""
    names = stored_names(type, snapshot, terms)
    kept = set(names.values())
    drops = [field.name for field in snapshot.schema if field.name not in kept]
    adds: list[NewColumn] = []
    renames: dict[str, str] = {}
    nullable: dict[str, bool] = {}
    for property in type.stored_properties:
        stored = names.get(property.name)
        if stored is None:
            adds.append(_column(type, property, None, snapshot, terms))
            continue
        field = snapshot.schema.field(stored)
        is_other = not property.type.is_blob and field.type != arrow_type(property.type)
        tightens = field.nullable and not property.type.nullable
        if is_other or (tightens and snapshot.count(f"`{stored}` is null")):
            drops.append(stored)
            adds.append(_column(type, property, stored, snapshot, terms))
            continue
        if stored != property.name:
            renames[stored] = property.name
        if field.nullable != property.type.nullable:
            nullable[property.name] = property.type.nullable
    return ColumnChange(adds, drops, renames, nullable)


def _column(
    type: Type, property: Property, stored: str | None, snapshot: TableSnapshot, terms: Terms
) -> NewColumn:
    field = property_field(property)
    is_new = stored is None and property.id not in terms.backfilled
    if is_new and (property.type.nullable or property.default is not None):
        return NewColumn(field, property.default if property.has_default else None)
    if not snapshot.count():
        return NewColumn(field)

    def compute(rows: pa.RecordBatch) -> pa.Array:
        values = None if stored is None else rows[stored].cast(field.type)
        values = terms.filled(type, field, values, rows["id"])
        if not property.type.nullable and values.null_count:
            # Only in rows that are replaced, or go, in the same write.
            values = pc.coalesce(values, _any_value(field.type))
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values

    return NewColumn(field, compute=compute, reads=("id", *([] if stored is None else [stored])))


def _any_value(type: pa.DataType) -> pa.Scalar[Any]:
    if pa.types.is_list(type):
        return pa.scalar([], type)
    if pa.types.is_fixed_size_list(type):
        return pa.scalar([0.0] * type.list_size, type)
    if pa.types.is_string(type):
        return pa.scalar("", type)
    if pa.types.is_boolean(type):
        return pa.scalar(False, type)
    if pa.types.is_timestamp(type):
        return pa.scalar(dt.datetime(1970, 1, 1, tzinfo=dt.UTC), type)
    if pa.types.is_date(type):
        return pa.scalar(dt.date(1970, 1, 1), type)
    return pa.scalar(0, type)
