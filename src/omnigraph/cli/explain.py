"""`omnigraph explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import is_graph, reading
from omnigraph.cli.options import common_options, schema_option
from omnigraph.cli.output import Output
from omnigraph.cli.queries import graph_and_name, query_options, read_parameters, read_query
from omnigraph.cli.schemas import graph_or_schema
from omnigraph.cli.states import State, state_options
from omnigraph.cli.text import columns, indented
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.language import CompiledQuery


@click.command(
    epilog="""\b
Examples:
  omnigraph explain team.omni --query queries.gq find_person \\
    --params '{"name": "Ada"}' --analyze
  omnigraph explain team.omni --snapshot launch \\
    -e 'query all() { match { $p: Person } return { $p.name } }'
  omnigraph explain --schema schema.pg --query queries.gq
  omnigraph explain --schema schema.pg --query queries.gq find_person"""
)
@query_options
@schema_option
@click.option("--analyze", is_flag=True, help="Run it on the graph and measure each step.")
@state_options()
@common_options
def explain(
    output: Output,
    words: tuple[str, ...],
    store: str | None,
    schema_path: str | None,
    path: str | None,
    text: str | None,
    analyze: bool,
    parameters: str | None,
    state: State,
) -> None:
    """Show what a query takes, returns and does.

    Prints the steps in which a graph runs one query that reads, and with --analyze
    how many rows each step returned and how long it took. NAME picks one query of the
    file. With --schema instead of a graph it prints the parameters, the result's
    fields, the types that are read and written, and the plan, of all queries of the
    file or of one.
    """
    source = read_query(path, text)
    place, name = _graph_and_name(words, store, schema_path)
    if place is not None:
        _explain_run(output, place, name, path, source, parameters, state, analyze)
        return
    if analyze or parameters is not None:
        raise UsageError("--analyze and --params need a graph: name it first, or pass --store")
    if any(option is not None for option in state):
        raise UsageError(
            "--branch, --snapshot and --at need a graph: name it first, or pass --store"
        )
    _, schema = graph_or_schema((), None, schema_path)
    assert schema is not None
    _explain_compiled(output, schema, name, path, source)


def _graph_and_name(
    words: Sequence[str], store: str | None, schema_path: str | None
) -> tuple[str | None, str | None]:
    """The graph and the query's name; with a schema, a word is the name."""
    if schema_path is not None:
        if store is not None or len(words) > 1:
            raise click.UsageError("pass a graph or --schema FILE, not both")
        return None, words[0] if words else None
    settings = Settings.from_env()
    if store is None and settings.store is None and settings.schema is not None:
        if not words:
            return None, None
        if len(words) == 1 and words[0].isidentifier() and not is_graph(words[0]):
            return None, words[0]
    if store is None and settings.store is None and not words:
        raise UsageError("no graph and no schema; name a graph, or pass --schema FILE")
    return graph_and_name(words, store)


def _explain_compiled(
    output: Output, schema: str, name: str | None, path: str | None, source: str
) -> None:
    """Explain what queries mean for a schema."""
    from omnigraph.language import QueryCache, compile_schema

    catalog = compile_schema(read_source(schema), path=schema)
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
    place: str,
    name: str | None,
    path: str | None,
    source: str,
    parameters: str | None,
    state: State,
    analyze: bool,
) -> None:
    """Explain how a graph runs a query."""
    values = read_parameters(parameters)
    with reading(place) as graph:
        explanation = graph.explain(
            source,
            name=name,
            params=values,
            **state.of(graph),
            analyze=analyze,
            path=path,
        )
    if output.json:
        output.data(explanation.to_dict())
    else:
        output.table(str(explanation))


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
