"""`omnigraph snapshot`."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_and, graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import table
from omnigraph.errors import UsageError


@click.command(
    epilog="""\b
Examples:
  omnigraph snapshot team.omni
  omnigraph snapshot team.omni --branch draft
  omnigraph snapshot team.omni --commit 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --json"""
)
@graph_arguments()
@click.option("--branch", metavar="BRANCH", help="The head of this branch. Default: main.")
@click.option("--commit", metavar="COMMIT", help="This commit, by its id or tag.")
@common_options
def snapshot(
    words: tuple[str, ...],
    store: str | None,
    branch: str | None,
    commit: str | None,
    as_json: bool,
) -> None:
    """Show the tables of a branch or commit.

    For each node and edge type: how many rows it has, which version of its table
    is published, and which branch wrote that version.
    """
    output = Output(json=as_json)
    (place,) = graph_and(words, store)
    if branch is not None and commit is not None:
        raise UsageError("pass --branch or --commit, not both: a commit is on one branch already")
    with reading(place) as graph:
        found = graph.snapshot(branch or "main", commit=commit)
    if output.json:
        output.data({"graph": graph.location, **found.to_dict()})
        return
    output.result(f"branch {found.branch}, commit {found.commit}")
    rows = [[t.key, f"{t.rows:,}", str(t.version), t.branch or "main"] for t in found.tables]
    output.table(table(["table", "rows", "version", "branch"], rows, right=("rows", "version")))
