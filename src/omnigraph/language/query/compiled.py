"""The result of compiling a `.gq` text: queries that know their parameters, fields and plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from omnigraph.diagnostics import Diagnostic, Span
from omnigraph.language.query.plan import ReadPlan, WritePlan
from omnigraph.language.types import ValueType


class QueryParameter(Struct, frozen=True):
    """A declared parameter; `span` is the place of its declaration."""

    name: str
    type: ValueType
    span: Span

    def to_dict(self) -> dict[str, Any]:
        """Return the parameter as plain values."""
        return {"name": self.name, "type": str(self.type), "required": not self.type.nullable}


class ResultField(Struct, frozen=True):
    """A column of the answer. `entity` names the types when the value is the id of one."""

    name: str
    type: ValueType
    entity: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the field as plain values."""
        plain: dict[str, Any] = {"name": self.name, "type": str(self.type)}
        if self.entity:
            plain["entity"] = list(self.entity)
        return plain


class CompiledQuery(Struct, frozen=True):
    """A checked query.

    Attributes:
        fields: The columns of the answer; empty for a mutation.
        reads: Node and edge types it reads, sorted.
        writes: Node and edge types it may change, sorted; a node delete changes every edge
            type at that node type.
    """

    name: str
    description: str | None
    instruction: str | None
    parameters: tuple[QueryParameter, ...]
    plan: ReadPlan | WritePlan
    fields: tuple[ResultField, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    source: str
    span: Span

    @property
    def is_mutation(self) -> bool:
        """True when the query writes."""
        return isinstance(self.plan, WritePlan)

    def describe(self) -> dict[str, Any]:
        """Return what a caller needs to know about the query as plain values."""
        return {
            "name": self.name,
            "kind": "mutation" if self.is_mutation else "read",
            "description": self.description,
            "instruction": self.instruction,
            "parameters": [p.to_dict() for p in self.parameters],
            "fields": [f.to_dict() for f in self.fields],
            "reads": list(self.reads),
            "writes": list(self.writes),
        }

    def explain(self) -> str:
        """The logical plan as text."""
        return self.plan.text()


class QueryFile(Struct, frozen=True):
    """All queries of a text, by name, and what was noticed about them."""

    queries: Mapping[str, CompiledQuery]
    warnings: tuple[Diagnostic, ...] = ()
