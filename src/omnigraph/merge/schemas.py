"""The schema of a merge: what comes of the three schemas, and how rows are read in its terms.

What one side has dropped and the other has changed is a conflict, of the schema's parts as well as
of the values that would be gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct, structs

from omnigraph.compute.arrays import as_arrow, one_array
from omnigraph.compute.equality import unequal
from omnigraph.errors import UsageError
from omnigraph.language import Catalog, EdgeType, NodeType, Property
from omnigraph.language.schema.merge import MergedSchema, merge_schemas, renumber
from omnigraph.language.schema.merge import SchemaConflict as PartConflict
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.language.values import show
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState, identity_of, stored_names, table_changes
from omnigraph.merge.combine import Settling
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.rows import RowChanges, aligned, without_ids
from omnigraph.merge.terms import Backfilled, Terms

Type = NodeType | EdgeType


class SchemaOutcome(Struct, frozen=True):
    """What comes of the schemas of a merge.

    Attributes:
        plan: From our schema to the merged one; None when there are conflicts.
        conflicts: What is left to settle.
        settled: What was settled.
        base: The base, read in the terms of the merged schema.
        theirs: Their state, likewise.
        changes: What changed on their side, by type.
    """

    plan: SchemaPlan | None
    conflicts: tuple[Conflict, ...]
    settled: tuple[Conflict, ...]
    base: Base
    theirs: GraphState
    changes: Mapping[str, RowChanges]


def schemas_merged(
    ours: GraphState, base: Base, theirs: GraphState, settings: Settling
) -> SchemaOutcome:
    """Put the schemas of a merge together."""
    if base.overlay or base.doubts:
        raise UsageError(
            "both sides have several common ancestors, and the schema was changed since; such"
            " states cannot be merged: merge one branch into the other before its schema is"
            " changed, or apply the change on both"
        )
    catalogs = (base.state.catalog, ours.catalog, theirs.catalog)

    def choose(conflict: PartConflict) -> Literal["ours", "theirs"] | None:
        choice = settings.choice(_of_part(conflict, catalogs[1:]).key)
        return choice if choice in ("ours", "theirs") else None

    merged = merge_schemas(*catalogs, choose)
    settled = [_of_part(each, catalogs[1:]) for each in merged.settled]
    if merged.catalog is None:
        left = tuple(_of_part(each, catalogs[1:]) for each in merged.conflicts)
        return SchemaOutcome(None, left, tuple(settled), base, theirs, {})
    catalog = _as_known(merged, ours.catalog, theirs.catalog)
    conflicts: list[Conflict] = []
    for conflict, dropped_by in _losses(catalog, base.state, ours, theirs):
        if settings.choice(conflict.key) == dropped_by:
            settled.append(conflict)
        else:
            conflicts.append(conflict)
    terms = _terms(catalog, theirs.catalog, merged.renumbered)
    theirs, base = _in_terms(terms, catalog, theirs, base)
    changes = base.changes_to(theirs)
    backfilled = dict(_backfilled(catalog, base.state, ours, theirs, changes))
    if backfilled:
        terms = structs.replace(terms, backfilled=backfilled)
        theirs, base = _in_terms(terms, catalog, theirs, base)
        changes = base.changes_to(theirs)
    plan = plan_schema(ours.catalog, catalog, merged=True)
    return SchemaOutcome(plan, tuple(conflicts), tuple(settled), base, theirs, changes)


def schema_conflict(
    entity: Any, type: str, part: str, property: str | None, message: str
) -> Conflict:
    """A conflict of schemas; there are no values to show."""
    return Conflict("SchemaConflict", entity, type, part, property, None, None, None, message)


def _of_part(conflict: PartConflict, sides: tuple[Catalog, ...]) -> Conflict:
    entity = "schema" if conflict.type is None else "interface"
    for side in sides:
        table = side.table(conflict.type or "")
        if table is not None:
            entity = table.kind
    message = f"{conflict.message}; {conflict.hint}" if conflict.hint else conflict.message
    return schema_conflict(
        entity, conflict.type or "", conflict.part or "", conflict.property, message
    )


def _as_known(merged: MergedSchema, ours: Catalog, theirs: Catalog) -> Catalog:
    """The merged schema, as one of the two sides if it says the same: that one is stored."""
    assert merged.catalog is not None
    for side in (ours, *([] if merged.renumbered else [theirs])):
        same = structs.replace(merged.catalog, next_id=side.next_id)
        if same.identity_hash == side.identity_hash:
            return side
    return merged.catalog


# --- terms ---


def _terms(catalog: Catalog, theirs: Catalog, numbers: Mapping[int, int]) -> Terms:
    if not numbers:
        return Terms()
    known = {identity_of(type) for type in catalog.tables()}
    identities = {}
    for own, type in zip(theirs.tables(), renumber(theirs, numbers).tables(), strict=True):
        if identity_of(own) != identity_of(type) and identity_of(type) in known:
            identities[identity_of(type)] = identity_of(own)
    return Terms(numbers, identities)


def _in_terms(
    terms: Terms, catalog: Catalog, theirs: GraphState, base: Base
) -> tuple[GraphState, Base]:
    state = structs.replace(base.state, terms=terms)
    return structs.replace(theirs, terms=terms), structs.replace(base, state=state, catalog=catalog)


def _backfilled(
    catalog: Catalog,
    base: GraphState,
    ours: GraphState,
    theirs: GraphState,
    changes: Mapping[str, RowChanges],
) -> Iterator[tuple[int, Backfilled]]:
    """What rows have got on one side as its schema was changed, where the others have nothing.

    Rows that were changed there otherwise are left out: they are merged as others are.
    """
    before, here = (
        {p.id: p for type in state.catalog.tables() for p in type.properties.values()}
        for state in (base, ours)
    )
    ours = structs.replace(ours, terms=theirs.terms)
    for type in catalog.tables():
        if not all(state.has(type) for state in (base, ours, theirs)):
            continue
        for property in type.stored_properties:
            was, own = before.get(property.id), here.get(property.id)
            source, lacking = (theirs, ours) if own is None else (ours, base)
            tightens = not property.type.nullable and was is not None and was.type.nullable
            if tightens and own is not None and own.type.nullable:
                source, lacking = theirs, ours
            if property.type.is_blob or not (was is None or tightens):
                continue
            rows = _given(type, property, source, lacking if tightens else None)
            if not rows.num_rows:
                continue
            changed = changes.get(type.name) if source is theirs else None
            if source is ours:
                changed = table_changes(type, base, ours)
            if changed is not None:
                rows = without_ids(rows, changed.ids)
            if rows.num_rows:
                ids, values = (one_array(column) for column in rows.columns)
                yield property.id, Backfilled(ids, values)


def _given(
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


# --- what is dropped ---


def _losses(
    catalog: Catalog, base: GraphState, ours: GraphState, theirs: GraphState
) -> Iterator[tuple[Conflict, str]]:
    """What one side has dropped while the other has changed its values, and which side that is."""
    kept = {type.id for type in catalog.tables()}
    kept_properties = {p.id for type in catalog.tables() for p in type.properties.values()}
    for dropper, other, dropped_by, changed_by in (
        (ours, theirs, "ours", "theirs"),
        (theirs, ours, "theirs", "ours"),
    ):
        types = {type.id: type for type in dropper.catalog.tables()}
        before = {type.id: type for type in base.catalog.tables()}
        for type in other.catalog.tables():
            if type.id not in before or (
                base.place(type) == other.place(type) and base.state.schema == other.state.schema
            ):
                continue
            lost = [
                property
                for property in type.stored_properties
                if property.id not in kept_properties
                and property.id in {p.id for p in before[type.id].properties.values()}
            ]
            if type.id not in types and type.id not in kept:
                changes = table_changes(type, base, other)
                if not changes.is_empty:
                    what = _counted(len(changes.ids), changes.ids)
                    yield _loss(type, None, dropped_by, changed_by, what), dropped_by
            elif type.id in kept and lost:
                here = {p.id for p in types[type.id].properties.values()}
                changes = table_changes(type, base, other)
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
