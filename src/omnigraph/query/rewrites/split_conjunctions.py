"""`a and b` as two filters, so that each is applied as soon as its own variables are bound."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from omnigraph.language.query.expressions import Checked, Logic, variables
from omnigraph.language.query.plan import Pattern, ReadPlan


def split_conjunctions(plan: ReadPlan) -> ReadPlan:
    """Split the conjunctions of all filters."""
    return replace(plan, pattern=_split(plan.pattern))


def _split(pattern: Pattern) -> Pattern:
    optional = {v for nested in pattern.optional for v in _bound(nested)}
    late = [part for condition in pattern.late_filters for part in conjuncts(condition)]
    # A part that looks at no optional variable need not wait for them.
    early = [part for part in late if not variables(part) & optional]
    filters = [part for condition in pattern.filters for part in conjuncts(condition)]
    return replace(
        pattern,
        filters=(*filters, *early),
        optional=tuple(map(_split, pattern.optional)),
        absent=tuple(map(_split, pattern.absent)),
        late_filters=tuple(part for part in late if part not in early),
    )


def conjuncts(condition: Checked) -> Iterator[Checked]:
    """The parts of a condition that have to be true together."""
    if isinstance(condition, Logic) and condition.operator == "and":
        for item in condition.items:
            yield from conjuncts(item)
    else:
        yield condition


def _bound(pattern: Pattern) -> Iterator[str]:
    """The variables that a pattern binds, with those of its optional parts."""
    yield from (node.variable for node in pattern.nodes)
    yield from (hop.variable for hop in pattern.hops if hop.variable is not None)
    for nested in pattern.optional:
        yield from _bound(nested)
