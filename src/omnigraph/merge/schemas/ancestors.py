"""The common ancestors of a criss-cross history, when they have different schemas."""

from __future__ import annotations

from msgspec import structs

from omnigraph.errors import UsageError
from omnigraph.language.schema.merge import merge_schemas
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState
from omnigraph.merge.schemas.reading import in_terms


def in_common_terms(ours: Base, below: Base, theirs: GraphState) -> tuple[Base, Base, GraphState]:
    """Read two common ancestors, and what both come from, in the terms of one schema.

    Parts that they have changed differently are taken from either: nobody can tell what they were.

    Raises:
        UsageError: There is no schema that both fit.
    """
    merged = merge_schemas(
        below.catalog,
        ours.catalog,
        theirs.catalog,
        lambda conflict: "any",
        unsure=below.unsure | ours.unsure,
    )
    if merged.catalog is None:
        raise UsageError(
            f"both sides come from the commits {ours.state.commit} and {theirs.commit}, whose"
            f" schemas do not fit together ({merged.conflicts[0].message}), so that nobody can tell"
            " what has changed since; pick the commits of one side onto the other one instead"
            " (`omnigraph cherry-pick`)"
        )
    first, other, _ = in_terms(merged.catalog, merged.renumbered, below, ours.state, theirs)
    base = ours.in_terms_of(merged.catalog, first.state.terms)
    unsure = base.unsure | below.unsure | {conflict.path for conflict in merged.settled}
    return structs.replace(base, unsure=unsure), first, other
