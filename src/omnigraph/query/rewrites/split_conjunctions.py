"""`a and b` as two filters, so that each is applied as soon as its own variables are bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from omnigraph.language.query.expressions import Checked, Logic
from omnigraph.language.query.plan import Pattern, ReadPlan


def split_conjunctions(plan: ReadPlan) -> ReadPlan:
    """Split the conjunctions of all filters."""
    return replace(plan, pattern=_split(plan.pattern))


def _split(pattern: Pattern) -> Pattern:
    return replace(
        pattern,
        filters=tuple(_conjuncts(pattern.filters)),
        optional=tuple(map(_split, pattern.optional)),
        absent=tuple(map(_split, pattern.absent)),
        late_filters=tuple(_conjuncts(pattern.late_filters)),
    )


def _conjuncts(conditions: Iterable[Checked]) -> Iterator[Checked]:
    """The parts of conditions that have to be true together."""
    for condition in conditions:
        if isinstance(condition, Logic) and condition.operator == "and":
            yield from _conjuncts(condition.items)
        else:
            yield condition
