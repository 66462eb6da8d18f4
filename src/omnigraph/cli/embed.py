"""`omnigraph embed`."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_and, graph_arguments, writing
from omnigraph.cli.interrupts import interruptible
from omnigraph.cli.mutate import print_mutation
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output


@click.command(
    epilog="""\b
Examples:
  omnigraph embed team.omni
  omnigraph embed team.omni --type Document --branch draft --as ada"""
)
@graph_arguments()
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only this node or edge type; may be repeated.",
)
@click.option("--branch", metavar="BRANCH", default="main", show_default=True)
@click.option("--as", "actor", metavar="ACTOR", help="Who does it; recorded in the commit.")
@click.option("--message", "-m", metavar="TEXT", help="What for; recorded in the commit.")
@click.option("--if-commit", metavar="COMMIT", help="Only if the branch is at this commit.")
@click.option(
    "--idempotency-key", metavar="KEY", help="A second call with the same key does nothing."
)
@click.option("--no-indexes", is_flag=True, help="Build no indexes after a large change.")
@common_options
def embed(
    words: tuple[str, ...],
    store: str | None,
    types: tuple[str, ...],
    branch: str,
    actor: str | None,
    message: str | None,
    if_commit: str | None,
    idempotency_key: str | None,
    no_indexes: bool,
    as_json: bool,
) -> None:
    """Make the vectors that are missing, in one commit.

    Where a vector with @embed is null and the text that it is made from is not,
    the text is embedded by the provider that OMNIGRAPH_EMBED_PROVIDER names.
    Vectors that are there stay as they are.
    """
    output = Output(json=as_json)
    (place,) = graph_and(words, store)
    graph = writing(place, output, f"branch {branch}")
    from omnigraph.pipeline.progress import Bars

    with graph, interruptible(output, graph, branch), Bars() as bars:
        result = graph.embed(
            types or None,
            branch=branch,
            actor=actor,
            message=message,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            indexes=not no_indexes,
            progress=bars,
        )
    if output.json:
        output.data(result.to_dict())
    else:
        print_mutation(output, result)
