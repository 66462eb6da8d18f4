"""`omnigraph cleanup`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.spans import span_option
from omnigraph.cli.text import indented, table

if TYPE_CHECKING:
    from omnigraph.maintenance.cleanup import CleanupResult


#: With fewer commits left to read, a mistake is hard to undo.
_FEW = 3


@click.command(
    epilog="""\b
Examples:
  omnigraph cleanup team.omni
  omnigraph cleanup team.omni --confirm
  omnigraph cleanup team.omni --keep 10 --older-than 7d
  omnigraph cleanup team.omni --keep 10 --older-than 7d --confirm
  omnigraph cleanup team.omni --leftovers-older-than 12h --json"""
)
@graph_arguments()
@click.option("--confirm", is_flag=True, help="Remove it; otherwise it is only shown.")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(1),
    help="Old versions, too: all but the newest N commits of each branch; 10 is good.",
)
@span_option("--older-than", help="Old versions, too: of commits older than this; 7d.")
@span_option("--grace", default="1h", help="Keep what was a head within this time, for readers.")
@span_option(
    "--leftovers-older-than", default="1d", help="Keep leftovers that are younger: 30m, 12h, 7d."
)
@common_options
def cleanup(output: Output, place: str, confirm: bool, **options: Any) -> int:
    """Remove what failed and killed writes have left, and old versions.

    Shows files that nothing refers to: of loads that died, of writes that were not
    finished, and of deleted branches, whose commits could be read by their ids
    until now. With --confirm it removes them. Every commit of every branch and tag
    stays as it is, and so does what others are writing now.
    With --keep or --older-than, old versions go as well: commits that they were
    cannot be read any more. With both, both must hold. What a branch or a tag reads
    stays in any case.
    Exits with 1 when a table could not be looked at; the others are cleaned.
    """
    if options["keep"] is not None and options["keep"] < _FEW:
        output.note(f"warning: --keep {options['keep']} leaves little to go back to; 10 is good")
    is_more = options["keep"] is not None or options["older_than"] is not None
    what = "old versions and leftovers" if is_more else "leftovers"
    with writing(place, output, what) if confirm else reading(place) as graph:
        result = graph.cleanup(confirm=confirm, **options)
    if output.json:
        output.data(result.to_dict())
    else:
        _show(output, result)
    return int(bool(result.errors))


def _show(output: Output, result: CleanupResult) -> None:
    from omnigraph.history.names import branch_of_fork

    if result.places:
        head = ["place", *(["versions"] if result.versions else []), "files", "size"]
        rows = [
            [
                p.place,
                *([f"{p.versions:,}"] if result.versions else []),
                f"{p.files:,}",
                size(p.bytes),
            ]
            for p in result.places
        ]
        forks = [
            [f"of deleted branches: {', '.join(map(branch_of_fork, p.forks))}"] * bool(p.forks)
            for p in result.places
        ]
        text = table(head, rows, right=head[1:], below=forks)
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
    if result.commits:
        then = "" if result.confirmed else " then"
        output.result(f"{counted(result.commits, 'commit')} cannot be read any more{then}")
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
