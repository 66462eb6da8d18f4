"""`omnigraph init`."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.graphs import graph_arguments
from omnigraph.cli.options import chosen_schema, common_options, schema_option
from omnigraph.cli.output import Output, counted


@click.command(
    epilog="""\b
Examples:
  omnigraph init team.omni --schema schema.pg
  omnigraph init team.omni --schema schema.pg --as ada
  omnigraph init s3://bucket/team --schema schema.pg"""
)
@graph_arguments()
@schema_option
@click.option("--as", "actor", metavar="ACTOR", help="Who creates it; recorded in the commit.")
@common_options
def init(
    output: Output,
    place: str,
    schema_path: str | None,
    actor: str | None,
) -> None:
    """Create a graph.

    GRAPH is a new or empty folder, or s3://bucket/prefix. A creation that was
    interrupted is finished by the same command.
    """
    path = Path(chosen_schema(schema_path))

    from omnigraph.cli.quick import import_arrow_without_pandas

    import_arrow_without_pandas()
    from omnigraph.graph import init as init_graph
    from omnigraph.storage.location import Location

    output.note(f"graph {Location.of(place)}, branch main")
    with init_graph(place, path, actor=actor) as graph:
        snapshot = graph.snapshot()
        if output.json:
            output.data({"graph": graph.location, **snapshot.to_dict()})
            return
        nodes = counted(len(graph.catalog.nodes), "node type")
        edges = counted(len(graph.catalog.edges), "edge type")
        output.result(f"created with {nodes} and {edges}, commit {snapshot.commit}")
