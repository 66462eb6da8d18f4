"""The schema of a merge: what comes of the three schemas, and how rows are read in its terms.

What one side has dropped and the other has changed is a conflict, of the schema's parts as well as
of the values that would be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.merge import MergedSchema, merge_schemas
from omnigraph.language.schema.merge import SchemaConflict as PartConflict
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState
from omnigraph.merge.combine import Settling
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.rows import RowChanges
from omnigraph.merge.schemas.losses import losses, schema_conflict
from omnigraph.merge.schemas.reading import in_terms

Type = NodeType | EdgeType


class SchemaOutcome(Struct, frozen=True):
    """What comes of the schemas of a merge.

    Attributes:
        plan: From our schema to the merged one; None when there are conflicts.
        conflicts: What is left to settle.
        settled: What was settled.
        base: The base, read in the terms of the merged schema.
        theirs: Their state, likewise.
        changes: What has changed on their side, by type.
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
    catalogs = (base.catalog, ours.catalog, theirs.catalog)

    def choose(conflict: PartConflict) -> Literal["ours", "theirs"] | None:
        choice = settings.choice(_of_part(conflict, catalogs[1:]).key)
        return choice if choice in ("ours", "theirs") else None

    merged = merge_schemas(*catalogs, choose, unsure=base.unsure)
    settled = [_of_part(each, catalogs[1:]) for each in merged.settled]
    if merged.catalog is None:
        left = tuple(_of_part(each, catalogs[1:]) for each in merged.conflicts)
        return SchemaOutcome(None, left, tuple(settled), base, theirs, {})
    catalog = _as_known(merged, ours.catalog, theirs.catalog)
    known, theirs, changes = in_terms(catalog, merged.renumbered, base, ours, theirs)
    conflicts: list[Conflict] = []
    for conflict, dropped_by in losses(catalog, base, ours, theirs):
        if settings.choice(conflict.key) == dropped_by:
            settled.append(conflict)
        else:
            conflicts.append(conflict)
    plan = plan_schema(ours.catalog, catalog, merged=True)
    return SchemaOutcome(plan, tuple(conflicts), tuple(settled), known, theirs, changes)


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
