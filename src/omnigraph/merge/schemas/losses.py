"""What one side of a merge has dropped while the other has changed it: values that would go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.compute.arrays import as_arrow
from omnigraph.compute.equality import unequal
from omnigraph.language import Catalog, EdgeType, NodeType, Property
from omnigraph.language.schema.merge import renumber
from omnigraph.language.values import show
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.rows import RowChanges, aligned

Type = NodeType | EdgeType


def losses(
    catalog: Catalog, base: Base, ours: GraphState, theirs: GraphState
) -> Iterator[tuple[Conflict, str]]:
    """What one side has dropped while the other has changed its values, and which side that is.

    Args:
        catalog: The merged schema.
        base: The base, in its own terms.
        ours: Our side.
        theirs: Their side, in the terms of the merged schema.
    """
    terms = theirs.terms
    kept = {type.id for type in catalog.tables()}
    kept_properties = {p.id for type in catalog.tables() for p in type.properties.values()}
    before = {type.id: type for type in renumber(base.catalog, terms.numbers).tables()}
    our_types = {type.id: type for type in ours.catalog.tables()}
    their_catalog = renumber(theirs.catalog, terms.numbers)
    their_types = {type.id: type for type in their_catalog.tables()}
    for types, other, catalog_there, dropped_by, changed_by in (
        (our_types, theirs, their_catalog, "ours", "theirs"),
        (their_types, ours, ours.catalog, "theirs", "ours"),
    ):
        known = base.in_terms_of(catalog_there, terms)
        for type in catalog_there.tables():
            if type.id not in before:
                continue
            if type.id not in types and type.id not in kept:
                changes = known.changes(type, other)
                if not changes.is_empty:
                    what = _counted(len(changes.ids), changes.ids)
                    yield _loss(type, None, dropped_by, changed_by, what), dropped_by
                continue
            had = {property.id for property in before[type.id].properties.values()}
            lost = [p for p in type.stored_properties if p.id in had - kept_properties]
            if type.id not in kept or not lost:
                continue
            here = {p.id for p in types[type.id].properties.values()}
            changes = known.changes(type, other)
            for property in lost:
                ids = _changed_ids(changes, property)
                if property.id not in here and len(ids):
                    what = _counted(len(ids), ids)
                    yield _loss(type, property.name, dropped_by, changed_by, what), dropped_by


def _changed_ids(changes: RowChanges, property: Property) -> pa.Array:
    """The rows that have got another value of a property, and are there.

    New ones that have its default, or nothing, do not count.
    """
    ids = changes.ids
    if not len(ids):
        return ids
    (before, existed), (after, exists) = aligned(changes.before, ids), aligned(changes.after, ids)
    was, values = before[property.name], after[property.name]
    differs = unequal(was, values) & exists
    if property.has_default and property.default is not None and not property.type.is_blob:
        default = pa.array([property.default], values.type)
        plain = default.take(as_arrow(np.zeros(len(ids), np.int64)))
        differs &= existed | unequal(values, pa.chunked_array([plain]))
    return ids.filter(as_arrow(differs))


def _counted(count: int, ids: pa.Array) -> str:
    rows = "1 row" if count == 1 else f"{count:,} rows"
    return f"{rows}, such as {show(ids[0].as_py())}"


def _loss(type: Type, property: str | None, dropped: str, changed: str, rows: str) -> Conflict:
    what = type.name if property is None else f"{type.name}.{property}"
    message = (
        f"`{what}` was dropped on {dropped}, and {changed} has changed {rows}; settle it with"
        f" `{dropped}`, and the changes are lost, or undo the drop first"
    )
    return schema_conflict(type.kind, type.name, "values", property, message)


def schema_conflict(
    entity: Any, type: str, part: str, property: str | None, message: str
) -> Conflict:
    """A conflict of schemas; there are no values to show."""
    return Conflict("SchemaConflict", entity, type, part, property, None, None, None, message)
