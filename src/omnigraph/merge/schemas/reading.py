"""The base and the other side of a merge, read as rows of the merged schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from omnigraph.compute.arrays import as_arrow, as_numpy, one_array
from omnigraph.compute.equality import unequal
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.merge import renumber
from omnigraph.merge.base import Base
from omnigraph.merge.changes import (
    GraphState,
    all_rows,
    compared_columns,
    identity_of,
    stored_names,
)
from omnigraph.merge.rows import RowChanges, aligned, without_ids
from omnigraph.merge.schemas.filled import given_values, is_filled
from omnigraph.merge.schemas.terms import Backfilled, Terms

Type = NodeType | EdgeType


def _terms(catalog: Catalog, theirs: Catalog, numbers: Mapping[int, int]) -> Terms:
    if not numbers:
        return Terms()
    known = {identity_of(type) for type in catalog.tables()}
    identities = {}
    for own, type in zip(theirs.tables(), renumber(theirs, numbers).tables(), strict=True):
        if identity_of(own) != identity_of(type) and identity_of(type) in known:
            identities[identity_of(type)] = identity_of(own)
    return Terms(numbers, identities)


def in_terms(
    catalog: Catalog,
    numbers: Mapping[int, int],
    base: Base,
    ours: GraphState,
    theirs: GraphState,
) -> tuple[Base, GraphState, Mapping[str, RowChanges]]:
    """Read the base and their side in the terms of a merged schema.

    Args:
        catalog: The merged schema.
        numbers: Ids that have another number in it than on their side.
        base: The base.
        ours: Our side.
        theirs: Their side.

    Returns:
        The base and their side in these terms, and what has changed between them, by type.
    """
    terms = _terms(catalog, theirs.catalog, numbers)
    new_base, new_theirs = base.in_terms_of(catalog, terms), structs.replace(theirs, terms=terms)
    changes = _changes(new_base, base.catalog, new_theirs)
    before = renumber(base.catalog, numbers)
    backfilled = dict(_backfilled(new_base, before, ours, new_theirs, changes))
    if backfilled:
        terms = structs.replace(terms, backfilled=backfilled)
        new_base = base.in_terms_of(catalog, terms)
        new_theirs = structs.replace(theirs, terms=terms)
        changes = _changes(new_base, base.catalog, new_theirs)
    return new_base, new_theirs, changes


def _changes(base: Base, base_catalog: Catalog, theirs: GraphState) -> dict[str, RowChanges]:
    """What has changed on their side, by type.

    A column that is another one than in the base, and the same property all the same, is compared
    as a whole: that its rows have not been written since does not tell anything of its values.
    """
    changes = base.changes_to(theirs)
    own = {p.id for type in base_catalog.tables() for p in type.properties.values()}
    replaced = {new for old, new in theirs.terms.numbers.items() if new in own and old not in own}
    for type in base.catalog.tables():
        names = [p.name for p in type.stored_properties if p.id in replaced]
        if not (names and base.state.has(type) and theirs.has(type)):
            continue
        known = changes.get(type.name)
        ids = _differing(type, names, base, theirs)
        if known is not None:
            ids = ids.filter(pc.invert(pc.is_in(ids, value_set=known.ids)))
        if len(ids):
            more = RowChanges(base.rows(type, ids), theirs.rows(type, ids))
            changes[type.name] = more if known is None else known.and_more(more)
    return changes


def _differing(type: Type, names: Sequence[str], base: Base, theirs: GraphState) -> pa.Array:
    """The rows of both states that have different values in some columns."""
    after, before = _columns(type, names, theirs), _columns(type, names, base.state)
    overlay = base.overlay.get(type.name)
    if overlay is not None:
        more = overlay.after.select(before.column_names)
        before = pa.concat_tables([without_ids(before, overlay.ids), more])
    before, exists = aligned(before, one_array(after["id"]))
    differs = np.any([unequal(before[name], after[name]) for name in names], axis=0)
    return one_array(after["id"]).filter(as_arrow(differs & exists))


def _columns(type: Type, names: Sequence[str], state: GraphState) -> pa.Table:
    """The ids and some columns of all rows of a type, in the form that changes have."""
    snapshot = state.snapshot(type)
    stored = stored_names(type, snapshot, state.terms)
    if any(name not in stored or type.properties[name].type.is_blob for name in names):
        return all_rows(type, state).select(["id", *names])
    rows = snapshot.read(["id", *(stored[name] for name in names)])
    return rows.rename_columns(["id", *names])


def _backfilled(
    base: Base,
    base_catalog: Catalog,
    ours: GraphState,
    theirs: GraphState,
    changes: Mapping[str, RowChanges],
) -> Iterator[tuple[int, Backfilled]]:
    """What rows have got on one side as its schema was changed, where the others have nothing.

    Rows that were changed there otherwise are left out: they are merged as others are.
    """
    before, here = (
        {p.id: p for type in each.tables() for p in type.properties.values()}
        for each in (base_catalog, ours.catalog)
    )
    ours = structs.replace(ours, terms=theirs.terms)
    for type in base.catalog.tables():
        if not all(state.has(type) for state in (base.state, ours, theirs)):
            continue
        for property in type.stored_properties:
            if not is_filled(property, before):
                continue
            was, own = before.get(property.id), here.get(property.id)
            source, lacking = (theirs, ours) if own is None else (ours, base.state)
            tightens = was is not None
            if tightens and own is not None and own.type.nullable:
                source, lacking = theirs, ours
            rows = given_values(type, property, source, lacking if tightens else None)
            if not rows.num_rows:
                continue
            changed = changes.get(type.name) if source is theirs else None
            if source is ours:
                changed = base.changes(type, ours)
            if changed is not None:
                filled = [p.name for p in type.stored_properties if is_filled(p, before)]
                rows = without_ids(rows, _changed_otherwise(type, changed, base, filled))
            if rows.num_rows:
                ids, values = (one_array(column) for column in rows.columns)
                yield property.id, Backfilled(ids, values)


def _changed_otherwise(
    type: Type, changes: RowChanges, base: Base, filled: Sequence[str]
) -> pa.Array:
    """The rows that were not only given values of some columns.

    Those in a table of the base that have such values alone are no changes to begin with.
    """
    overlay = base.overlay.get(type.name)
    if overlay is None:
        return changes.ids
    ids = changes.ids
    (before, existed), (after, exists) = aligned(changes.before, ids), aligned(changes.after, ids)
    others = [name for name in compared_columns(type) if name not in filled]
    differs = [unequal(before[name], after[name]) for name in others]
    is_changed = np.any([~existed, ~exists, *differs], axis=0)
    is_changed |= ~as_numpy(pc.is_in(ids, value_set=overlay.ids))
    return ids.filter(as_arrow(is_changed))
