"""`omnigraph cleanup`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.spans import span_option
from omnigraph.cli.text import indented, table

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup import CleanupResult


@click.command(
    epilog="""\b
Examples:
  omnigraph cleanup team.omni
  omnigraph cleanup team.omni --confirm
  omnigraph cleanup team.omni --leftovers-older-than 12h --json"""
)
@graph_arguments()
@click.option("--confirm", is_flag=True, help="Remove it; otherwise it is only shown.")
@span_option("--leftovers-older-than", default="1d", help="Keep what is younger: 30m, 12h, 7d.")
@common_options
def cleanup(
    output: Output,
    place: str,
    confirm: bool,
    leftovers_older_than: timedelta,
) -> int:
    """Remove what failed and killed writes have left.

    Shows files that nothing refers to: of loads that died, of writes that were not
    finished, and of deleted branches, whose commits could be read by their ids
    until now. With --confirm it removes them. Every commit of every branch and tag
    stays as it is, and so does what others are writing now.
    Exits with 1 when a table could not be looked at; the others are cleaned.
    """
    with writing(place, output, "leftovers") if confirm else reading(place) as graph:
        result = graph.cleanup(confirm=confirm, leftovers_older_than=leftovers_older_than)
    if output.json:
        output.data(result.to_dict())
    else:
        _show(output, result)
    return int(bool(result.errors))


def _show(output: Output, result: CleanupResult) -> None:
    from omnigraph.history.names import branch_of_fork

    if result.places:
        rows = [[p.place, f"{p.files:,}", size(p.bytes)] for p in result.places]
        forks = [
            [f"of deleted branches: {', '.join(map(branch_of_fork, p.forks))}"] * bool(p.forks)
            for p in result.places
        ]
        text = table(["place", "files", "size"], rows, right=("files", "size"), below=forks)
        output.table(text + "\n")
    for place, message in result.errors.items():
        output.note(f"{output.style('error', fg='red', bold=True)}: {place}: {message}")
    if result.branches:
        then = "" if result.confirmed else " then"
        output.result(
            indented(
                f"commits of deleted branches that cannot be read any more{then}:"
                f" {', '.join(result.branches)}",
                "",
            )
        )
    if result.files or result.places or result.branches:
        what = f"{counted(result.files, 'file')}, {size(result.bytes)}"
        if result.confirmed:
            output.result(output.style(f"removed {what}", fg="green"))
        else:
            output.result(f"{what} to remove; run it again with --confirm to do so")
    else:
        output.result(output.style("nothing to remove", fg="green"))
    if result.younger:
        are = "is" if result.younger == 1 else "are"
        output.note(
            indented(
                f"{counted(result.younger, 'more file')} {are} too young, or of a load that runs:"
                " left alone",
                "",
            )
        )


def size(number: int) -> str:
    """A number of bytes for people."""
    if number < 1024:
        return f"{number} B"
    amount, unit = number / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.1f} {unit}"
