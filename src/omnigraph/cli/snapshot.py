"""`omnigraph snapshot`."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.states import State, state_options
from omnigraph.cli.text import table


@click.command(
    epilog="""\b
Examples:
  omnigraph snapshot team.omni
  omnigraph snapshot team.omni --branch draft
  omnigraph snapshot team.omni --at 2026-01-31
  omnigraph snapshot team.omni --commit 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --json"""
)
@graph_arguments()
@state_options("--commit")
@common_options
def snapshot(
    output: Output,
    place: str,
    state: State,
) -> None:
    """Show the tables of a branch or commit.

    For each node and edge type: how many rows it has, which version of its table
    is published, and which branch wrote that version.
    """
    with reading(place) as graph:
        contents = graph.snapshot(**state.of(graph))
    if output.json:
        output.data({"graph": graph.location, **contents.to_dict()})
        return
    output.result(f"branch {contents.branch}, commit {contents.commit}")
    rows = [[t.key, f"{t.rows:,}", str(t.version), t.branch or "main"] for t in contents.tables]
    output.table(table(["table", "rows", "version", "branch"], rows, right=("rows", "version")))
