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
        scope: Scope | None = self
        while scope is not None:
            variable = scope.variables.get(name)
            if variable is not None:
                return variable
            scope = scope.outer
        return None

    def is_hidden(self, name: str) -> bool:
        """True when the name is bound in a `not` block that cannot be seen from here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.hidden:
                return True
            scope = scope.outer
        return False

    def names(self) -> Iterator[str]:
        """All names that can be seen."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.variables
            scope = scope.outer
