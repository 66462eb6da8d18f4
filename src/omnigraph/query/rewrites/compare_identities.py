"""`$a = $b` compares what tells nodes apart, and not ids: nodes of two types may have the same."""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.language.query.expressions import Checked, Compare, Entity, walk
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.types import I64
from omnigraph.query.computed import IDENTITY, ComputedProperty
from omnigraph.query.substitution import expressions_of, substitute_in_plan


def compare_identities(plan: ReadPlan) -> ReadPlan:
    """Compare the identities of nodes and edges."""
    parts: list[tuple[Checked, Checked]] = []
    for expression in expressions_of(plan):
        for part in walk(expression):
            if isinstance(part, Compare) and isinstance(part.left, Entity):
                assert isinstance(part.right, Entity)
                left, right = _identity(part.left), _identity(part.right)
                parts.append((part, replace(part, left=left, right=right)))
    return substitute_in_plan(plan, parts)


def _identity(entity: Entity) -> ComputedProperty:
    return ComputedProperty(entity.variable, IDENTITY, I64.as_nullable(True), str(entity))
