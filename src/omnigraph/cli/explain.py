"""`omnigraph explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import reading
from omnigraph.cli.options import chosen_schema, common_options, schema_option
from omnigraph.cli.output import Output
from omnigraph.cli.queries import read_parameters, read_query
from omnigraph.cli.states import check_state, state_options, state_to_read
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
    -e 'query all() { match { $p: Person } return { $p.name } }'
  omnigraph explain --store team.omni --query queries.gq find_person \\
    --params '{"name": "Ada"}' --analyze"""
)
@click.argument("name", required=False)
@schema_option
@click.option("--query", "path", metavar="FILE", type=click.Path(), help="A .gq file.")
@click.option("-e", "text", metavar="TEXT", help="The query itself.")
@click.option("--store", metavar="GRAPH", help="Show how this graph runs the query.")
@click.option("--analyze", is_flag=True, help="With --store: run it and measure each step.")
@click.option(
    "--params",
    "parameters",
    metavar="JSON|@FILE",
    help="With --store: values of the parameters, as a JSON object.",
)
@state_options()
@common_options
def explain(
    name: str | None,
    schema_path: str | None,
    path: str | None,
    text: str | None,
    store: str | None,
    analyze: bool,
    parameters: str | None,
    branch: str | None,
    commit: str | None,
    at: str | None,
    as_json: bool,
) -> None:
    """Show what a query takes, gives, reads and does.

    Prints the parameters, the result's fields, the types that are read and written,
    and the plan. NAME picks one query of the file; otherwise all are explained.
    With --store it prints the steps in which that graph runs one query that reads,
    and with --analyze how many matches each step gave and how long it took.
    """
    from omnigraph.language import QueryCache, compile_schema

    output = Output(json=as_json)
    if (path is None) == (text is None):
        raise UsageError("pass a query: either --query FILE or -e TEXT")
    if store is not None:
        check_state(branch, commit, at)
        state = (branch, commit, at)
        _explain_run(output, store, name, path, text, parameters, state, analyze)
        return
    if analyze or parameters is not None:
        raise UsageError("--analyze and --params need a graph: pass --store GRAPH")
    if any(option is not None for option in (branch, commit, at)):
        raise UsageError("--branch, --snapshot and --at need a graph: pass --store GRAPH")
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


def _explain_run(
    output: Output,
    store: str,
    name: str | None,
    path: str | None,
    text: str | None,
    parameters: str | None,
    state: tuple[str | None, str | None, str | None],
    analyze: bool,
) -> None:
    """Explain how a graph runs a query."""
    values = read_parameters(parameters)
    if isinstance(values, list):
        raise UsageError("a query that reads takes one set of parameters")
    with reading(store) as graph:
        found = graph.explain(
            read_query(path, text),
            name=name,
            params=values,
            **state_to_read(graph, *state),
            analyze=analyze,
            path=path,
        )
    if output.json:
        output.data(found.to_dict())
    else:
        output.table(str(found))


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
