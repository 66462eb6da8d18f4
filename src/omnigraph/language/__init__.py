"""The two languages: `.pg` schemas and `.gq` queries, from text to catalog and plan.

Everything here is a function of its arguments: no I/O, no storage, no settings.
"""

from omnigraph.language.lint import LintResult, lint
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
from omnigraph.language.schema.printer import print_schema
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
    "ValueType",
    "bind_parameters",
    "check_queries",
    "check_schema",
    "compile_queries",
    "compile_schema",
    "format_queries",
    "format_schema",
    "lint",
    "print_schema",
]
