"""`omnigraph restore`."""

from __future__ import annotations

import click

from omnigraph.cli.backup import stoppable
from omnigraph.cli.cleanup import size
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.quick import import_arrow_without_pandas
from omnigraph.cli.text import table


@click.command(
    epilog="""\b
Examples:
  omnigraph restore /backups/team team.omni
  omnigraph restore s3://bucket/backups/team team.omni --json
  omnigraph restore /backups/team old.omni --backup 01K9V3D7T5W0S8Q2B6M4XZ1RHC"""
)
@click.argument("source")
@click.argument("graph")
@click.option("--backup", "id", metavar="ID", help="Which backup. Default: the newest.")
@common_options
def restore(output: Output, source: str, graph: str, id: str | None) -> None:
    """Make a graph from a backup.

    GRAPH is a new or empty folder, or s3://bucket/prefix; an existing graph is
    never replaced. Every file is compared with its digest: if one is damaged or
    missing, nothing is left at GRAPH. A restore that was interrupted is finished
    by the same command.
    """
    import_arrow_without_pandas()
    from omnigraph.graph.backups import restore as restore_graph
    from omnigraph.pipeline.progress import Bars

    with stoppable(output, "interrupted; the same command finishes it"), Bars() as bars:
        result = restore_graph(source, graph, backup=id, progress=bars)
    if output.json:
        output.data(result.to_dict())
        return
    output.table(table(["branch", "commit"], [[*pair] for pair in result.branches.items()]) + "\n")
    output.result(
        f"restored backup {result.backup}: {counted(result.files, 'file')}, {size(result.bytes)}"
    )
