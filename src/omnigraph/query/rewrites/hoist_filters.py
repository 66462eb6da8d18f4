"""Filters that look at no optional variable do not wait for the optional patterns."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from omnigraph.language.query.expressions import variables
from omnigraph.language.query.plan import Pattern, ReadPlan


def hoist_filters(plan: ReadPlan) -> ReadPlan:
    """Apply filters before the optional patterns where that makes no difference."""
    return replace(plan, pattern=_hoisted(plan.pattern))


def _hoisted(pattern: Pattern) -> Pattern:
    optional = {v for nested in pattern.optional for v in _bound(nested)}
    early = [f for f in pattern.late_filters if not variables(f) & optional]
    return replace(
        pattern,
        filters=(*pattern.filters, *early),
        optional=tuple(map(_hoisted, pattern.optional)),
        absent=tuple(map(_hoisted, pattern.absent)),
        late_filters=tuple(f for f in pattern.late_filters if f not in early),
    )


def _bound(pattern: Pattern) -> Iterator[str]:
    """The variables that a pattern binds, with those of its optional parts."""
    yield from (node.variable for node in pattern.nodes)
    yield from (hop.variable for hop in pattern.hops if hop.variable is not None)
    for nested in pattern.optional:
        yield from _bound(nested)
