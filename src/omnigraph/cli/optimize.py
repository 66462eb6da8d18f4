"""`omnigraph optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_arguments, writing
from omnigraph.cli.options import check_engine_options, common_options, engine_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import table

if TYPE_CHECKING:
    from omnigraph.maintenance.optimize import OptimizeResult


@click.command(
    epilog="""\b
Examples:
  omnigraph optimize team.omni
  omnigraph optimize team.omni --branch draft --as nightly
  omnigraph optimize team.omni --engine spark --master spark://host:7077"""
)
@graph_arguments()
@click.option("--branch", metavar="BRANCH", default="main", help="Which one. Default: main.")
@engine_options()
@click.option("--as", "actor", metavar="ACTOR", help="Who does it; recorded in the commit.")
@common_options
def optimize(output: Output, place: str, branch: str, actor: str | None, **options: Any) -> None:
    """Make a branch fast to read.

    Puts small fragments of its tables together, drops deleted rows from files, lets
    indexes cover all rows and builds missing ones, in one commit that changes no
    row. Others can write meanwhile. Old versions stay: `omnigraph cleanup` removes
    them. A table that another program has written to is skipped.
    """
    from omnigraph.pipeline.progress import Bars

    check_engine_options(options)
    with (
        writing(place, output, f"branch {branch}") as graph,
        Bars(shown=False if output.json else None) as bars,
    ):
        result = graph.optimize(branch, progress=bars, actor=actor, **options)
    if output.json:
        output.data(result.to_dict())
    else:
        _show(output, result)


def _show(output: Output, result: OptimizeResult) -> None:
    from omnigraph.maintenance.optimize import EMPTY

    rows, below = [], []
    for each in result.tables:
        drifted = each.skipped is not None and "another program" in each.skipped
        pending = [f"{n}: {reason}" for n, reason in each.pending.items() if reason != EMPTY]
        if not (each.committed or pending or drifted):
            continue
        rows.append([each.table, f"{each.fragments_removed:,}", f"{each.fragments_added:,}"])
        notes = [f"indexes completed: {', '.join(each.indexes)}"] if each.indexes else []
        below.append([*notes, *pending, *([f"skipped: {each.skipped}"] if drifted else [])])
    if rows:
        head = ["table", "fragments removed", "added"]
        output.table(table(head, rows, right=head[1:], below=below) + "\n")
    if result.commit is not None:
        output.result(output.style(f"optimized in commit {result.commit.id}", fg="green"))
    elif result.manifest:
        output.result(output.style("tables are compact; compacted the manifest", fg="green"))
    else:
        output.result(output.style("nothing to optimize", fg="green"))
