"""The two languages: `.pg` schemas and `.gq` queries, from text to catalog and plan.

Everything here is a function of its arguments: no I/O, no storage, no settings. Names are loaded
when they are first used: what runs a query needs neither the formatters nor lint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.language.linter import LintResult, lint
    from omnigraph.language.query.compiled import (
        CompiledQuery,
        QueryFile,
        QueryParameter,
        ResultField,
    )
    from omnigraph.language.query.compiler import QueryCache, check_queries, compile_queries
    from omnigraph.language.query.formatter import format_queries
    from omnigraph.language.query.parameters import bind_parameters
    from omnigraph.language.schema.catalog import Catalog, EdgeType, Interface, NodeType, Property
    from omnigraph.language.schema.compiler import check_schema, compile_schema
    from omnigraph.language.schema.formatter import format_schema
    from omnigraph.language.schema.plan import plan_schema
    from omnigraph.language.schema.printer import print_schema
    from omnigraph.language.schema.steps import SchemaPlan
    from omnigraph.language.types import Scalar, ValueType

__all__ = [
    "Catalog",
    "CompiledQuery",
    "EdgeType",
    "Interface",
    "LintResult",
    "NodeType",
    "Property",
    "QueryCache",
    "QueryFile",
    "QueryParameter",
    "ResultField",
    "Scalar",
    "SchemaPlan",
    "ValueType",
    "bind_parameters",
    "check_queries",
    "check_schema",
    "compile_queries",
    "compile_schema",
    "format_queries",
    "format_schema",
    "lint",
    "plan_schema",
    "print_schema",
]

_HOMES = {
    "Catalog": "schema.catalog",
    "CompiledQuery": "query.compiled",
    "EdgeType": "schema.catalog",
    "Interface": "schema.catalog",
    "LintResult": "linter",
    "NodeType": "schema.catalog",
    "Property": "schema.catalog",
    "QueryCache": "query.compiler",
    "QueryFile": "query.compiled",
    "QueryParameter": "query.compiled",
    "ResultField": "query.compiled",
    "Scalar": "types",
    "SchemaPlan": "schema.steps",
    "ValueType": "types",
    "bind_parameters": "query.parameters",
    "check_queries": "query.compiler",
    "check_schema": "schema.compiler",
    "compile_queries": "query.compiler",
    "compile_schema": "schema.compiler",
    "format_queries": "query.formatter",
    "format_schema": "schema.formatter",
    "lint": "linter",
    "plan_schema": "schema.plan",
    "print_schema": "schema.printer",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
