"""Replacing parts of checked expressions, and of the patterns and plans that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from omnigraph.language.query.plan import Pattern, ReadPlan

#: What is replaced, and by what. Not a mapping: constants may hold lists.
Parts = Sequence[tuple[Checked, Checked]]


def replaced(expression: Checked, parts: Parts) -> Checked:
    """An expression with some of its parts replaced, the outermost first."""
    for old, new in parts:
        if expression == old:
            return new
    match expression:
        case Compare() | Arithmetic():
            return replace(
                expression,
                left=replaced(expression.left, parts),
                right=replaced(expression.right, parts),
            )
        case Logic() | ListOf():
            return replace(expression, items=tuple(replaced(i, parts) for i in expression.items))
        case Not() | IsNull() | Negate():
            return replace(expression, item=replaced(expression.item, parts))
        case _:
            return expression


def in_pattern(pattern: Pattern, parts: Parts) -> Pattern:
    """A pattern with some parts of its filters replaced, and of those of nested patterns."""
    return replace(
        pattern,
        filters=tuple(replaced(f, parts) for f in pattern.filters),
        optional=tuple(in_pattern(p, parts) for p in pattern.optional),
        absent=tuple(in_pattern(p, parts) for p in pattern.absent),
        late_filters=tuple(replaced(f, parts) for f in pattern.late_filters),
    )


def expressions(plan: ReadPlan) -> Iterator[Checked]:
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
