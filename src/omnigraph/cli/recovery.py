"""`omnigraph recovery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import moment, table

if TYPE_CHECKING:
    from omnigraph.writes.audit import Recovery


@click.group(
    cls=VerbGroup,
    epilog="""\b
Example:
  omnigraph recovery list team.omni""",
)
def recovery() -> None:
    """See what became of interrupted writes."""


@recovery.command(
    "list",
    epilog="""\b
Examples:
  omnigraph recovery list team.omni
  omnigraph recovery list team.omni --json""",
)
@graph_arguments()
@common_options
def list_recoveries(output: Output, place: str) -> None:
    """List the interrupted writes that were resolved, newest first.

    A write whose process died is finished or undone by the next write, in any
    process. Each such recovery is kept here. Times are in UTC.
    """
    with reading(place) as graph:
        recoveries = graph.recoveries()
    if output.json:
        output.data([r.to_dict() for r in recoveries])
        return
    if not recoveries:
        output.note("no interrupted write has been resolved so far")
        return
    rows = [[moment(r.time), r.kind, r.branch, r.actor or ""] for r in recoveries]
    details = [list(_details(r)) for r in recoveries]
    output.table(table(["time (UTC)", "outcome", "branch", "actor"], rows, below=details))


def _details(recovery: Recovery) -> list[str]:
    came_of_it = f"commit {recovery.commit}" if recovery.commit else "no commit"
    lines = [f"write {recovery.operation_id}", came_of_it]
    tables = [f"{t['table']} {t['from']} → {t['to']}" for t in recovery.tables]
    return [*lines, ", ".join(tables)] if tables else lines
