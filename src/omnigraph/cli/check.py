"""`omnigraph check`."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.text import table


@click.command(
    epilog="""\b
Examples:
  omnigraph check team.omni
  omnigraph check team.omni --json"""
)
@graph_arguments()
@common_options
def check(output: Output, place: str) -> int:
    """Check that a graph is whole.

    On every branch: all published tables can be read, nothing unpublished is on top
    of them, edges have both their ends, all rows keep the rules of the schema, and
    indexes find what is there. Of every branch, tag and commit: all files exist.
    Changes nothing. Exits with 1 when there is a problem.
    """
    from omnigraph.pipeline.progress import Bars

    with reading(place) as graph, Bars(shown=False if output.json else None) as bars:
        result = graph.check(progress=bars)
    if output.json:
        output.data({"ok": not result.problems, **result.to_dict()})
        return int(bool(result.problems))
    if result.problems:
        rows = [[p.branch or "all", p.table or "", p.rule] for p in result.problems]
        messages = [[p.message] for p in result.problems]
        output.table(table(["branch", "table", "rule"], rows, below=messages) + "\n")
    checked = f"{counted(result.branches, 'branch')}, {counted(result.tables, 'table')} with"
    checked += f" {counted(result.rows, 'row')} checked: "
    if result.problems:
        problems = counted(len(result.problems), "problem")
        output.result(output.style(checked + problems, fg="red", bold=True))
    else:
        output.result(output.style(checked + "no problems", fg="green"))
    return int(bool(result.problems))
