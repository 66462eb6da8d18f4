"""`omnigraph lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import QUERIES, SCHEMA, kind_of, read_source
from omnigraph.cli.graphs import is_graph, store_option
from omnigraph.cli.options import common_options, schema_option
from omnigraph.cli.output import Output, counted
from omnigraph.cli.schemas import SchemaText, schema_text
from omnigraph.errors import UsageError
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.diagnostics import Diagnostic
    from omnigraph.language import CompiledQuery


@click.command(
    epilog="""\b
Examples:
  omnigraph lint schema.pg
  omnigraph lint schema.pg queries.gq
  omnigraph lint team.omni queries.gq
  omnigraph lint --schema schema.pg --strict queries/*.gq"""
)
@click.argument("files", nargs=-1, metavar="[GRAPH] [FILES]...", type=click.Path())
@store_option
@schema_option
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings as well.")
@common_options
def lint(
    output: Output,
    files: tuple[str, ...],
    store: str | None,
    schema_path: str | None,
    strict: bool,
) -> int:
    """Check a schema and the queries written for it.

    FILES are .pg (schema) and .gq (queries) files. A single .pg file among them is
    the schema of the queries; otherwise name it with --schema, or name a graph,
    whose schema it is then. Every error and warning is printed with its place.
    Exits with 1 when there is an error.
    """
    from omnigraph.language import lint as lint_texts

    store, files = _graph_first(files, store)
    if store is not None and schema_path is not None:
        raise UsageError("pass a graph or --schema FILE, not both")
    schema, others, queries = _sort_files(files, schema_path, store)
    texts = {path: read_source(path) for path in (*others, *queries)}
    if schema is not None:
        texts[schema.path] = schema.text

    diagnostics: list[Diagnostic] = []
    compiled: tuple[CompiledQuery, ...] = ()
    if schema is not None:
        result = lint_texts(
            schema.text, [(path, texts[path]) for path in queries], schema_path=schema.path
        )
        diagnostics += result.diagnostics
        compiled = result.queries
        if result.catalog is None and queries:
            output.note("The schema has errors, so the queries were not checked.")
    for path in others:
        diagnostics += lint_texts(texts[path], [], schema_path=path).diagnostics

    errors = sum(d.severity == "error" for d in diagnostics)
    warnings = len(diagnostics) - errors
    failed = errors > 0 or (strict and warnings > 0)
    if output.json:
        output.data(
            {
                "ok": not failed,
                "errors": errors,
                "warnings": warnings,
                "diagnostics": [d.to_dict() for d in diagnostics],
                "queries": [q.describe() for q in compiled],
            }
        )
    else:
        if diagnostics:
            output.result(output.diagnostics(diagnostics) + "\n")
        output.result(_summary(output, errors, warnings, len(texts)))
    return int(failed)


def _summary(output: Output, errors: int, warnings: int, files: int) -> str:
    checked = f"{counted(files, 'file')} checked"
    if not errors and not warnings:
        return output.style(f"{checked}: no errors, no warnings", fg="green")
    counts = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    return output.style(f"{checked}: {counts}", fg="red" if errors else "yellow", bold=True)


def _graph_first(files: tuple[str, ...], store: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Tell a graph that stands before the files from them."""
    if not files or not is_graph(files[0]):
        return store, files
    if store is not None:
        raise UsageError(f"the graph is named twice: {files[0]} and --store {store}")
    return files[0], files[1:]


def _sort_files(
    files: tuple[str, ...], schema_path: str | None, store: str | None
) -> tuple[SchemaText | None, list[str], list[str]]:
    """Return the queries' schema, the other schemas, and the query files."""
    files = tuple(dict.fromkeys(files))
    kinds = {path: kind_of(path) for path in files}
    schemas = [path for path in files if kinds[path] == SCHEMA]
    queries = [path for path in files if kinds[path] == QUERIES]
    if schema_path is None and store is None and len(schemas) == 1:
        schema_path = schemas[0]
    if schema_path is None and store is None and not schemas:
        settings = Settings.from_env()
        schema_path, store = None if settings.store else settings.schema, settings.store
    if schema_path is None and store is None:
        if schemas and queries:
            raise UsageError(
                f"which of {', '.join(schemas)} is the schema of the queries? pass --schema FILE"
            )
        if queries:
            raise UsageError(
                f"{queries[0]} needs a schema to be checked against; pass --schema FILE,"
                " or name the .pg file or a graph as well"
            )
        if not schemas:
            raise UsageError("nothing to check; name .pg and .gq files, or a graph")
        return None, schemas, queries
    schema = schema_text(store, schema_path)
    return schema, [path for path in schemas if path != schema.path], queries
