"""Values that rows have got as the schema was changed, and not by a write of the rows.

Nothing tells such rows from others but their values: a change of columns leaves their versions
alone. What every row gets, null or the default, is none of these values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, one_array
from omnigraph.compute.equality import unequal
from omnigraph.language import EdgeType, NodeType, Property
from omnigraph.merge.changes import GraphState, compared_columns, stored_names
from omnigraph.merge.rows import RowChanges, net

Type = NodeType | EdgeType


def filled_ids(type: Type, old: GraphState, new: GraphState) -> pa.Array:
    """The rows of a table that may have got values as the schema was changed.

    Args:
        type: The type, in the schema of the newer state.
        old: The earlier state.
        new: The later state.
    """
    ids: list[pa.Array] = [pa.array([], pa.utf8())]
    if old.state.schema != new.state.schema and old.has(type) and new.has(type):
        before = {p.id: p for table in old.catalog.tables() for p in table.properties.values()}
        for property in type.stored_properties:
            if is_filled(property, before):
                lacking = old if property.id in before else None
                ids.append(one_array(given_values(type, property, new, lacking)["id"]))
    return pc.unique(pa.concat_arrays(ids))


def with_filled(type: Type, old: GraphState, new: GraphState, changes: RowChanges) -> RowChanges:
    """Changes of a table, and the rows that have got values as the schema was changed."""
    ids = filled_ids(type, old, new)
    ids = ids.filter(pc.invert(pc.is_in(ids, value_set=changes.ids)))
    if not len(ids):
        return changes
    more = net(old.rows(type, ids), new.rows(type, ids), compared_columns(type))
    return changes.and_more(more)


def is_filled(property: Property, before: Mapping[int, Property]) -> bool:
    """True when rows may have got values of a property as the schema was changed.

    Args:
        property: The property afterwards.
        before: Those of the schema before, by their ids.
    """
    was = before.get(property.id)
    is_new = was is None or (was.type.nullable and not property.type.nullable)
    return is_new and not property.type.is_blob


def given_values(
    type: Type, property: Property, source: GraphState, lacking: GraphState | None
) -> pa.Table:
    """Ids and values of rows that have another value than the default, or than null.

    Args:
        type: The type.
        property: The property.
        source: Where.
        lacking: Only of rows that have null there.
    """
    table = source.snapshot(type)
    stored = stored_names(type, table, source.terms)[property.name]
    if lacking is None:
        rows = table.read(["id", stored])
    else:
        other = lacking.snapshot(type)
        name = stored_names(type, other, source.terms)[property.name]
        ids = other.read(["id"], f"`{name}` is null")["id"]
        rows = table.find("id", one_array(ids), ["id", stored]).select(["id", stored])
    default = pa.nulls(1, rows[stored].type)
    if property.has_default and property.default is not None:
        default = pa.array([property.default], rows[stored].type)
    plain = default.take(as_arrow(np.zeros(rows.num_rows, np.int64)))
    return rows.filter(as_arrow(unequal(rows[stored], pa.chunked_array([plain]))))
