"""Computed properties: a plan names the result of a search like any other property.

The same holds for what tells nodes apart: of an interface, two may have the same id. The rewrites
put computed properties into a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.language.query.expressions import Checked, PropertyOf, Rank, TextMatch, walk

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder

#: What names of computed properties begin with. No declared property's does.
MARK = "__"
#: The name of what tells a node or an edge from all others.
IDENTITY = f"{MARK}identity"


def is_computed(name: str) -> bool:
    """True for the name of a computed property."""
    return name.startswith(MARK)


class ComputedProperty(PropertyOf, frozen=True):
    """A property of a variable that no table has.

    Attributes:
        text: How it was written.
        call: The search that it stands for; None for what tells nodes apart.
    """

    text: str
    call: SearchCall | None = None

    def __str__(self) -> str:
        return self.text


class Share(Struct, frozen=True):
    """What one ranking adds to a fusion."""

    rank: ComputedProperty
    k: Checked


#: The search that a computed property stands for.
SearchCall = TextMatch | Rank | Share
#: Returns what embeds texts; only called when there are some.
GetEmbedder = Callable[[], "Embedder"]


def function_of(call: SearchCall) -> str:
    """The name of a search function."""
    return "rrf" if isinstance(call, Share) else call.function


def search_calls(expressions: Iterable[Checked]) -> dict[str, SearchCall]:
    """The searches that computed properties in expressions stand for, by the properties' names."""
    calls: dict[str, SearchCall] = {}
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, ComputedProperty) and part.call is not None:
                if isinstance(part.call, Share):
                    # A share follows from its ranking, which is a search of its own.
                    calls |= search_calls([part.call.rank])
                calls.setdefault(part.property, part.call)
    return calls


def distances_in(expressions: Iterable[Checked]) -> dict[str, ComputedProperty]:
    """The distances that expressions are made of, by name."""
    return {
        part.property: part
        for expression in expressions
        for part in walk(expression)
        if isinstance(part, ComputedProperty)
        and part.call is not None
        and function_of(part.call) == "nearest"
    }
