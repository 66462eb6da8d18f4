"""Search functions as computed properties, each with the same name wherever it stands."""

from __future__ import annotations

from msgspec import Struct, field

from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Fusion,
    Rank,
    TextMatch,
    walk,
)
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.types import ValueType
from omnigraph.query.computed import MARK, ComputedProperty, SearchCall, Share
from omnigraph.query.substitution import expressions_of, substitute_in_plan


def name_searches(plan: ReadPlan) -> ReadPlan:
    """Put computed properties in the place of search functions."""
    names = _Names()
    for expression in expressions_of(plan):
        for part in walk(expression):
            if isinstance(part, TextMatch | Rank | Fusion):
                names.of(part)
    return substitute_in_plan(plan, names.parts)


class _Names(Struct):
    """The search functions of one plan, and what stands for them."""

    parts: list[tuple[Checked, Checked]] = field(default_factory=list)
    _count: int = 0

    def of(self, part: TextMatch | Rank | Fusion) -> Checked:
        for old, new in self.parts:
            if old == part:
                return new
        named: Checked
        match part:
            case TextMatch():
                named = self._named("search", part.property.variable, part, str(part), part.type)
            case Rank():
                named = self._named("rank", part.property.variable, part, str(part), part.type)
            case Fusion():
                shares = [self._share(rank, part) for rank in (part.first, part.second)]
                named = Arithmetic("+", shares[0], shares[1], part.type)
        self.parts.append((part, named))
        return named

    def _share(self, rank: Rank, fusion: Fusion) -> ComputedProperty:
        ranking = self.of(rank)
        assert isinstance(ranking, ComputedProperty)
        text = f"1 / ({fusion.k} + rank of {rank})"
        share = Share(ranking, fusion.k)
        return self._named("share", ranking.variable, share, text, fusion.type)

    def _named(
        self, kind: str, variable: str, call: SearchCall, text: str, type: ValueType | None
    ) -> ComputedProperty:
        name = f"{MARK}{kind}{self._count}"
        self._count += 1
        return ComputedProperty(variable, name, type, text, call)
