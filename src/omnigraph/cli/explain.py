"""`omnigraph explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.options import chosen_schema, common_options, schema_option
from omnigraph.cli.output import Output
from omnigraph.cli.text import columns, indented
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.language import CompiledQuery


@click.command(
    epilog="""\b
Examples:
  omnigraph explain --schema schema.pg --query queries.gq
  omnigraph explain --schema schema.pg --query queries.gq find_person
  omnigraph explain --schema schema.pg \\
    -e 'query all() { match { $p: Person } return { $p.name } }'"""
)
@click.argument("name", required=False)
@schema_option
@click.option("--query", "path", metavar="FILE", type=click.Path(), help="A .gq file.")
@click.option("-e", "text", metavar="TEXT", help="The query itself.")
@common_options
def explain(
    name: str | None, schema_path: str | None, path: str | None, text: str | None, as_json: bool
) -> None:
    """Show what a query takes, gives, reads and does.

    Prints the parameters, the result's fields, the types that are read and written,
    and the plan. NAME picks one query of the file; otherwise all are explained.
    """
    from omnigraph.language import QueryCache, compile_schema

    output = Output(json=as_json)
    if (path is None) == (text is None):
        raise UsageError("pass a query: either --query FILE or -e TEXT")
    schema = chosen_schema(schema_path)
    catalog = compile_schema(read_source(schema), path=schema)
    source = text if text is not None else read_source(str(path))
    cache = QueryCache(Settings.from_env().query_cache_size)
    queries = cache.compile(source, catalog, path=path).queries
    if name is not None:
        if name not in queries:
            where = path or "the text"
            hint = did_you_mean(name, queries) or f"it has {', '.join(queries) or 'none'}"
            raise NotFound(f"there is no query `{name}` in {where}; {hint}")
        chosen = [queries[name]]
    else:
        chosen = list(queries.values())
    if output.json:
        explained = [{**q.describe(), "plan": q.explain()} for q in chosen]
        output.data(explained[0] if name is not None else explained)
        return
    for position, query in enumerate(chosen):
        if position:
            output.result("")
        _print(output, query)


def _print(output: Output, query: CompiledQuery) -> None:
    about = query.describe()
    output.result(output.style(f"query {query.name}", bold=True))
    for text in (query.description, query.instruction):
        if text:
            output.result(indented(text, "  "))
    for title, items in (("parameters", about["parameters"]), ("fields", about["fields"])):
        if items:
            output.result(output.style(title, fg="cyan"))
            sign = "$" if title == "parameters" else ""
            rows = [(sign + str(item["name"]), str(item["type"])) for item in items]
            output.result(columns(rows, "  "))
    for title, types in (("reads", query.reads), ("writes", query.writes)):
        if types:
            output.result(output.style(title, fg="cyan"))
            output.result(indented(", ".join(types), "  "))
    output.result(output.style("plan", fg="cyan"))
    output.result("\n".join(f"  {line}" for line in query.explain().splitlines()))
