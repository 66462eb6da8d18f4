"""`omnigraph repair`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.text import table

if TYPE_CHECKING:
    from omnigraph.maintenance.repair import DriftedTable, RepairResult

_MOST_VERSIONS = 10


@click.command(
    epilog="""\b
Examples:
  omnigraph repair team.omni
  omnigraph repair team.omni --confirm --as ada
  omnigraph repair team.omni --force --confirm -m "rows of the nightly job" """
)
@graph_arguments()
@click.option("--branch", metavar="BRANCH", help="Only this one. Default: all branches.")
@click.option("--confirm", is_flag=True, help="Publish compactions; otherwise they are shown.")
@click.option(
    "--force", is_flag=True, help="Also what has changed rows, if they keep the schema's rules."
)
@click.option("--as", "actor", metavar="ACTOR", help="Who does it; recorded in the commit.")
@click.option("--message", "-m", metavar="TEXT", help="What for; recorded in the commit.")
@common_options
def repair(
    output: Output,
    place: str,
    branch: str | None,
    confirm: bool,
    force: bool,
    actor: str | None,
    message: str | None,
) -> int:
    """Publish what another program has written.

    Shows tables that a program other than Omnigraph has written to: readers do not
    see it, and writes to these tables are refused. With --confirm, compactions are
    published, once all rewritten rows were compared. With --force --confirm, so are
    rows that were added, changed or deleted, if all rows keep the schema's rules;
    if not, nothing is changed, and the error says how to drop them. With --force
    alone the rules are checked, and nothing is published.
    Exits with 1 when --confirm has left a table as it is.
    """
    target = "all branches" if branch is None else f"branch {branch}"
    with writing(place, output, target) if confirm else reading(place) as graph:
        result = graph.repair(branch, confirm=confirm, force=force, actor=actor, message=message)
    if output.json:
        output.data(result.to_dict())
    else:
        _show(output, result)
    return int(confirm and any(each.commit is None for each in result.tables))


def _show(output: Output, result: RepairResult) -> None:
    if not result.tables:
        output.result(output.style("nothing to repair: every table is as published", fg="green"))
        return
    head = ["branch", "table", "published", "HEAD", "rows", "at HEAD"]
    rows = [
        [t.branch, t.table, *(f"{n:,}" for n in (t.published, t.head, t.rows, t.head_rows))]
        for t in result.tables
    ]
    below = [[_versions(t), f"{_what(t, result)}: {t.reason}"] for t in result.tables]
    output.table(table(head, rows, right=head[2:], below=below) + "\n")
    if not result.confirmed:
        wanted = ("confirm", "force") if result.forced else ("confirm",)
        ready = sum(t.needs in wanted for t in result.tables)
        again = "--force --confirm" if result.forced else "--confirm"
        text = f"{counted(ready, 'table')} to publish"
        text += f"; run it again with {again} to do so" if ready else ""
        if more := 0 if result.forced else sum(t.needs == "force" for t in result.tables):
            text += f"\n{counted(more, 'table')} more with --force"
        output.result(text)
        return
    for commit, branch in {t.commit: t.branch for t in result.tables if t.commit}.items():
        output.result(output.style(f"published in commit {commit} on {branch}", fg="green"))
    if left := sum(t.commit is None for t in result.tables):
        output.result(output.style(f"{counted(left, 'table')} left as before", fg="yellow"))


def _versions(drifted: DriftedTable) -> str:
    shown = [f"{v.version} {v.kind}" for v in drifted.versions[:_MOST_VERSIONS]]
    more = len(drifted.versions) - len(shown)
    return "versions: " + ", ".join(shown) + (f" and {more} more" if more else "")


def _what(drifted: DriftedTable, result: RepairResult) -> str:
    if drifted.commit is not None:
        return "published"
    return {
        "confirm": "--confirm publishes it",
        "force": "only --force --confirm publishes it",
        "write": "left alone",
        "drop": "cannot be published",
    }[drifted.needs]
