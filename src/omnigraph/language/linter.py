"""Lint: everything that can be said about a schema and its queries without any data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from omnigraph.diagnostics import Diagnostic, Report, Span
from omnigraph.language.query.compiled import CompiledQuery
from omnigraph.language.query.compiler import check_queries
from omnigraph.language.query.plan import Insert, Update, WritePlan
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.schema.compiler import check_schema
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.tree import PropertyNode
from omnigraph.language.stream import TokenStream


class LintResult(Struct, frozen=True):
    """What lint found.

    Attributes:
        diagnostics: Errors and warnings: the schema's first, then file by file.
        queries: The queries that compile, with what they read, write and answer.
        catalog: The schema, if it compiles. If not, the queries could not be checked.
    """

    diagnostics: tuple[Diagnostic, ...]
    queries: tuple[CompiledQuery, ...]
    catalog: Catalog | None

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        return sum(d.severity == "warning" for d in self.diagnostics)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON-ready values."""
        return {
            "errors": self.errors,
            "warnings": self.warnings,
            "diagnostics": [d.to_dict() for d in self.diagnostics],
            "queries": [q.describe() for q in self.queries],
        }


def lint(
    schema_text: str,
    query_texts: Sequence[tuple[str | None, str]] = (),
    *,
    schema_path: str | None = None,
) -> LintResult:
    """Check a schema and the queries written for it.

    Args:
        schema_text: The `.pg` text.
        query_texts: Pairs of a name (usually a path) and a `.gq` text.
        schema_path: Name of the schema in messages.
    """
    catalog, messages = check_schema(schema_text, path=schema_path)
    diagnostics = list(messages)
    queries: list[CompiledQuery] = []
    if catalog is not None:
        complete = True
        later: list[Diagnostic] = []
        for path, text in query_texts:
            file, messages = check_queries(text, catalog, path=path)
            complete = complete and not any(d.severity == "error" for d in messages)
            queries.extend(file.queries.values())
            later.extend(messages)
        # With a broken query it is unknown what all queries set.
        if complete:
            diagnostics += _never_set(schema_text, schema_path, catalog, queries)
        diagnostics += later
    return LintResult(tuple(diagnostics), tuple(queries), catalog)


def _never_set(
    text: str, path: str | None, catalog: Catalog, queries: Iterable[CompiledQuery]
) -> tuple[Diagnostic, ...]:
    """Warn about properties that no query sets, of types that some query inserts or updates."""
    assigned: dict[str, set[str]] = {}
    for query in queries:
        if isinstance(query.plan, WritePlan):
            for statement in query.plan.statements:
                if isinstance(statement, Insert | Update):
                    names = assigned.setdefault(statement.type, set())
                    names.update(value.property for value in statement.values)
    report = Report(text, path)
    spans = _property_spans(text) if assigned else {}
    for name, names in assigned.items():
        table = catalog.type(name)
        for declared in table.properties.values():
            if declared.name in names or declared.has_default or declared.embed:
                continue
            owner = declared.interface or name
            report.warning(
                "OG-LT-101",
                f"no query sets `{declared.name}` of {name}",
                spans.get((owner, declared.name), (0, 0)),
                "set it in an insert or update, or drop the property",
            )
    return report.diagnostics


def _property_spans(text: str) -> dict[tuple[str, str], Span]:
    """Where each property is declared, by the names of its owner and its own."""
    schema = parse_schema(TokenStream(Report(text)))
    return {
        (declaration.name.text, member.name.text): member.name.span
        for declaration in schema.declarations
        if declaration.body is not None
        for member in declaration.body.members
        if isinstance(member, PropertyNode)
    }
