"""What the checks of a schema work with: types that are checked but have no identity yet.

`Checks` is the shared context: it records errors, but stays silent about places that could not
even be read, so that one mistake gives one message.
"""

from __future__ import annotations

from msgspec import Struct, field

from omnigraph.diagnostics import Report, Span
from omnigraph.language.query.tree import Expression
from omnigraph.language.schema.catalog import EdgeType, Interface, NodeType, Property
from omnigraph.language.schema.tree import SchemaNode
from omnigraph.language.syntax import AnnotationNode


class Rename(Struct, frozen=True):
    """`@rename_from("old")` at a place; `inherited` when an interface says it for its nodes."""

    old: str
    span: Span
    inherited: bool = False


class Backfill(Struct, frozen=True):
    """`@backfill(…)` at a place; `inherited` when an interface says it for its nodes."""

    expression: Expression
    span: Span
    inherited: bool = False


class PropertyDraft(Struct):
    """A property while it is checked.

    Attributes:
        property: None when its type could not be read; rules that need the type are then skipped.
        span: The place of the name (of an inherited property: of the interface in `implements`).
        flags: The `@key`, `@unique`, `@index` that stand on the property itself.
        inherited: Those that it has from an interface, with the interface's name.
    """

    name: str
    property: Property | None
    span: Span
    type_span: Span
    flags: dict[str, AnnotationNode] = field(default_factory=dict)
    inherited: dict[str, str] = field(default_factory=dict)
    rename: Rename | None = None
    backfill: Backfill | None = None


class InterfaceDraft(Struct):
    """An interface while it is checked; `complete` is False when a property could not be read."""

    name: str
    properties: dict[str, PropertyDraft]
    complete: bool


class TableDraft(Struct):
    """A checked type without identity, the renames that give it one, and the backfills."""

    table: NodeType | EdgeType
    span: Span
    rename: Rename | None
    property_renames: dict[str, Rename]
    property_backfills: dict[str, Backfill]


class SchemaDraft(Struct):
    """A checked schema without identities."""

    interfaces: list[Interface]
    tables: list[TableDraft]


class Checks:
    """The report and the facts that all checks share."""

    __slots__ = ("_unreadable", "report", "schema")

    def __init__(self, report: Report, schema: SchemaNode) -> None:
        self.report = report
        self.schema = schema
        self._unreadable = {
            d.line for d in report.diagnostics if d.code.startswith(("OG-LX", "OG-SY"))
        }

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record an error, unless its line could not be read in the first place."""
        if self.line(span) not in self._unreadable:
            self.report.error(code, message, span, hint)

    def line(self, span: Span) -> int:
        """The line of a place."""
        return self.report.position(span[0])[0]
