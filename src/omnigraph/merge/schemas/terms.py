"""Terms: how rows of one schema are read as rows of another one.

Columns are told by the ids of properties. One that rows do not have yet has what it would have if
the other schema were applied to them: the property's default, or null; and so has null where the
other schema has none. What a backfill has computed on one side is taken from there, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.history.manifest import TableIdentity
from omnigraph.language import EdgeType, NodeType

Type = NodeType | EdgeType
Values: TypeAlias = "pa.Array | pa.ChunkedArray"


class Backfilled(Struct, frozen=True):
    """The values that rows have got where they had none, by id."""

    ids: pa.Array
    values: pa.Array


class Terms(Struct, frozen=True):
    """How rows are read in the terms of a schema that is not their own.

    Attributes:
        numbers: Ids of properties that have another number in that schema, and which.
        identities: The tables of types that have another identity there: by that one, their own.
        backfilled: By the id of a property, values for rows that have none.
    """

    numbers: Mapping[int, int] = MappingProxyType({})
    identities: Mapping[TableIdentity, TableIdentity] = MappingProxyType({})
    backfilled: Mapping[int, Backfilled] = MappingProxyType({})

    def filled(self, type: Type, field: pa.Field, values: Values | None, ids: Values) -> Values:
        """A column of a type with what rows get that have no value.

        Args:
            type: The type.
            field: The column, as changes have it.
            values: What the rows have; None when the column is new to them.
            ids: The ids of the rows.
        """
        property = type.properties.get(field.name)
        if values is None:
            values = pa.nulls(len(ids), field.type)
        elif property is None or property.type.nullable:
            return values
        if property is None:
            return values
        backfilled = self.backfilled.get(property.id)
        if backfilled is not None:
            at = pc.index_in(ids, value_set=backfilled.ids)
            values = pc.coalesce(values, backfilled.values.take(_one(at)).cast(field.type))
        if property.has_default and property.default is not None:
            values = pc.coalesce(values, pa.scalar(property.default, field.type))
        return values


#: Rows as they are stored, by the ids of their properties.
AS_STORED = Terms()


def _one(values: Values) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
