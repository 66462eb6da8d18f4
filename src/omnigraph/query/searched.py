"""Search functions as properties: a plan names the result of a search like any other column.

The same holds for what tells nodes apart: of an interface, two may have the same id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Compare,
    Entity,
    Fusion,
    PropertyOf,
    Rank,
    TextMatch,
    walk,
)
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.types import BOOL, F64, I64, ValueType
from omnigraph.query.rewrite import expressions, in_pattern, replaced

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder

#: What names of computed properties begin with. No declared property can.
_MARK = "__"
#: The name of what tells a node or an edge from all others.
IDENTITY = f"{_MARK}identity"


def is_computed(name: str) -> bool:
    """True for the name of a property that is computed by a search."""
    return name.startswith(_MARK)


class Searched(PropertyOf, frozen=True):
    """A search function, as a property of its variable; `text` is how it was written."""

    text: str

    def __str__(self) -> str:
        return self.text


class Share(Struct, frozen=True):
    """What one ranking adds to a fusion."""

    rank: Searched
    k: Checked


#: The search that a computed property stands for.
SearchCall = TextMatch | Rank | Share
#: Returns what embeds texts; only called when there are some.
GetEmbedder = Callable[[], "Embedder"]


def function_of(call: SearchCall) -> str:
    """The name of a search function."""
    return "rrf" if isinstance(call, Share) else call.function


class SearchNames(Struct):
    """Names for the search functions of one plan, each the same wherever it stands."""

    calls: dict[str, SearchCall] = field(default_factory=dict)
    _parts: list[tuple[Checked, Checked]] = field(default_factory=list)

    def rewritten(self, plan: ReadPlan) -> ReadPlan:
        """The same plan with properties instead of search functions."""
        for expression in expressions(plan):
            for part in walk(expression):
                self._replace(part)
        if not self._parts:
            return plan
        parts = self._parts
        return replace(
            plan,
            pattern=in_pattern(plan.pattern, parts),
            outputs=tuple(
                replace(o, expression=replaced(o.expression, parts)) for o in plan.outputs
            ),
            order=tuple(replace(o, expression=replaced(o.expression, parts)) for o in plan.order),
        )

    def distances_in(self, expression: Checked) -> list[Searched]:
        """The distances that an expression is made of."""
        return [
            part
            for part in walk(expression)
            if isinstance(part, Searched)
            and part.property != IDENTITY
            and function_of(self.calls[part.property]) == "nearest"
        ]

    def _replace(self, part: Checked) -> Checked | None:
        if isinstance(part, Compare) and isinstance(part.left, Entity):
            assert isinstance(part.right, Entity)
            same = replace(part, left=_identity(part.left), right=_identity(part.right))
            self._parts.append((part, same))
            return same
        if not isinstance(part, TextMatch | Rank | Fusion):
            return None
        for old, new in self._parts:
            if old == part:
                return new
        named: Checked
        match part:
            case TextMatch():
                named = self._named("search", part.property.variable, part, str(part), BOOL)
            case Rank():
                named = self._named("rank", part.property.variable, part, str(part), F64)
            case Fusion():
                shares = [self._share(rank, part.k) for rank in (part.first, part.second)]
                named = Arithmetic("+", shares[0], shares[1], F64)
        self._parts.append((part, named))
        return named

    def _share(self, rank: Rank, k: Checked) -> Searched:
        ranking = self._replace(rank)
        assert isinstance(ranking, Searched)
        text = f"1 / ({k} + rank of {rank})"
        return self._named("share", ranking.variable, Share(ranking, k), text, F64)

    def _named(
        self, kind: str, variable: str, call: SearchCall, text: str, type: ValueType
    ) -> Searched:
        name = f"{_MARK}{kind}{len(self.calls)}"
        self.calls[name] = call
        return Searched(variable, name, type, text)


def _identity(entity: Entity) -> Searched:
    return Searched(entity.variable, IDENTITY, I64.as_nullable(True), str(entity))
