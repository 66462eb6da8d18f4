"""Variables and where they can be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from omnigraph.diagnostics import Span
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.types import STRING, ValueType


class Variable(Struct):
    """A bound variable.

    Attributes:
        kind: `broken` when its type could not be found out (that error is recorded already).
        declared: The type as written, or as inferred from an edge.
        types: The node or edge types it may have.
        nullable: Bound in an `optional` block: it may be null.
    """

    name: str
    kind: Literal["node", "edge", "broken"]
    declared: str
    types: tuple[str, ...]
    span: Span
    nullable: bool = False

    def columns(self, catalog: Catalog) -> Mapping[str, ValueType]:
        """What can be read from the variable, by name."""
        if self.kind == "edge":
            return catalog.edges[self.types[0]].columns
        if len(self.types) == 1:
            return catalog.nodes[self.types[0]].columns
        interface = catalog.interfaces[self.declared]
        return {"id": STRING, **{p.name: p.type for p in interface.properties.values()}}


class Scope:
    """The variables of one block; an inner block sees those of the outer ones."""

    __slots__ = ("hidden", "outer", "variables")

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.variables: dict[str, Variable] = {}
        #: Variables bound inside a `not` block here, which nothing outside can see.
        self.hidden: set[str] = set()

    def find(self, name: str) -> Variable | None:
        """Find a variable here or in an outer block."""
        return next((s.variables[name] for s in self._blocks() if name in s.variables), None)

    def is_hidden(self, name: str) -> bool:
        """True when the name is bound in a `not` block that cannot be seen from here."""
        return any(name in scope.hidden for scope in self._blocks())

    def names(self) -> Iterator[str]:
        """All names that can be seen."""
        return (name for scope in self._blocks() for name in scope.variables)

    def _blocks(self) -> Iterator[Scope]:
        """This block, then the outer ones."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer
