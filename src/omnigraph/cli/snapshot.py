"""`omnigraph snapshot`."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_and, graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.states import check_state, state_options, state_to_read
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
    words: tuple[str, ...],
    store: str | None,
    branch: str | None,
    commit: str | None,
    at: str | None,
    as_json: bool,
) -> None:
    """Show the tables of a branch or commit.

    For each node and edge type: how many rows it has, which version of its table
    is published, and which branch wrote that version.
    """
    output = Output(json=as_json)
    (place,) = graph_and(words, store)
    check_state(branch, commit, at, "--commit")
    with reading(place) as graph:
        state = graph.snapshot(**state_to_read(graph, branch, commit, at))
    if output.json:
        output.data({"graph": graph.location, **state.to_dict()})
        return
    output.result(f"branch {state.branch}, commit {state.commit}")
    rows = [[t.key, f"{t.rows:,}", str(t.version), t.branch or "main"] for t in state.tables]
    output.table(table(["table", "rows", "version", "branch"], rows, right=("rows", "version")))
