"""`omnigraph embed`."""

from __future__ import annotations

from typing import Any

import click

from omnigraph.cli.graphs import graph_arguments, writing
from omnigraph.cli.interrupts import interruptible
from omnigraph.cli.mutate import print_mutation
from omnigraph.cli.options import commit_options, common_options, type_option
from omnigraph.cli.output import Output


@click.command(
    epilog="""\b
Examples:
  omnigraph embed team.omni
  omnigraph embed team.omni --type Document --branch draft --as ada"""
)
@graph_arguments()
@type_option
@click.option("--branch", metavar="BRANCH", default="main", show_default=True)
@commit_options("Who does it", "Only", "call")
@click.option("--no-indexes", is_flag=True, help="Build no indexes after a large change.")
@common_options
def embed(
    output: Output,
    place: str,
    types: tuple[str, ...] | None,
    branch: str,
    no_indexes: bool,
    **options: Any,
) -> None:
    """Make the vectors that are missing, in one commit.

    Where a vector with @embed is null and the text that it is made from is not,
    the text is embedded by the provider that OMNIGRAPH_EMBED_PROVIDER names.
    Vectors that are there stay as they are.
    """
    graph = writing(place, output, f"branch {branch}")
    from omnigraph.pipeline.progress import Bars

    with graph, interruptible(output, graph, branch), Bars() as bars:
        result = graph.embed(types, branch=branch, indexes=not no_indexes, progress=bars, **options)
    if output.json:
        output.data(result.to_dict())
    else:
        print_mutation(output, result)
