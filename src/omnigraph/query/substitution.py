"""Substitution: replaces parts of checked expressions, also in all of a pattern or a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Compare,
    IsNull,
    ListOf,
    Logic,
    Negate,
    Not,
)
from omnigraph.language.query.plan import Ordering, Output, Pattern, ReadPlan

Item = TypeVar("Item", Output, Ordering)

#: What is replaced, and by what. Not a mapping: constants may hold lists.
Substitutes = Sequence[tuple[Checked, Checked]]


def substitute(expression: Checked, parts: Substitutes) -> Checked:
    """An expression with some of its parts replaced, the outermost first."""
    for old, new in parts:
        if expression == old:
            return new
    match expression:
        case Compare() | Arithmetic():
            return replace(
                expression,
                left=substitute(expression.left, parts),
                right=substitute(expression.right, parts),
            )
        case Logic() | ListOf():
            return replace(expression, items=tuple(substitute(i, parts) for i in expression.items))
        case Not() | IsNull() | Negate():
            return replace(expression, item=substitute(expression.item, parts))
        case _:
            return expression


def _in_pattern(pattern: Pattern, parts: Substitutes) -> Pattern:
    """A pattern with some parts of its filters replaced, and of those of nested patterns."""
    return replace(
        pattern,
        filters=tuple(substitute(f, parts) for f in pattern.filters),
        optional=tuple(_in_pattern(p, parts) for p in pattern.optional),
        absent=tuple(_in_pattern(p, parts) for p in pattern.absent),
        late_filters=tuple(substitute(f, parts) for f in pattern.late_filters),
    )


def substitute_in_plan(plan: ReadPlan, parts: Substitutes) -> ReadPlan:
    """A plan with some parts of its expressions replaced."""
    if not parts:
        return plan

    def exchanged(item: Item) -> Item:
        return replace(item, expression=substitute(item.expression, parts))

    return replace(
        plan,
        pattern=_in_pattern(plan.pattern, parts),
        outputs=tuple(map(exchanged, plan.outputs)),
        order=tuple(map(exchanged, plan.order)),
    )


def expressions_of(plan: ReadPlan) -> Iterator[Checked]:
    """All expressions of a plan."""
    yield from _conditions(plan.pattern)
    for output in plan.outputs:
        yield output.expression
    for ordering in plan.order:
        yield ordering.expression


def _conditions(pattern: Pattern) -> Iterator[Checked]:
    yield from (*pattern.filters, *pattern.late_filters)
    for nested in (*pattern.optional, *pattern.absent):
        yield from _conditions(nested)
