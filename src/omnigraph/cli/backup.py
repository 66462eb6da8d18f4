"""`omnigraph backup`: taking, listing and verifying backups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from omnigraph.cli.cleanup import size
from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.quick import import_arrow_without_pandas
from omnigraph.cli.text import indented, table
from omnigraph.errors import OmnigraphError


class _BackupGroup(VerbGroup):
    """The verb without a command takes a backup."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Let what is no command be the arguments of `create`."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_BackupGroup,
    epilog="""\b
Examples:
  omnigraph backup team.omni /backups/team
  omnigraph backup team.omni s3://bucket/backups/team --branch main
  omnigraph backup list /backups/team
  omnigraph backup verify /backups/team""",
)
def backup() -> None:
    """Copy a graph to a safe place, while others write.

    `omnigraph backup GRAPH TARGET` is short for `omnigraph backup create`.
    `omnigraph restore` makes a graph from a backup.
    """


@backup.command(
    epilog="""\b
Examples:
  omnigraph backup team.omni /backups/team
  omnigraph backup s3://bucket/team /backups/team --json
  omnigraph backup team.omni /backups/team --branch draft --branch ada/ideas
  omnigraph backup team.omni /backups/team --since launch"""
)
@graph_arguments("TARGET")
@click.option(
    "--branch",
    "branches",
    metavar="BRANCH",
    multiple=True,
    help="Only this branch, with main and those that it was created from; may be repeated.",
)
@click.option(
    "--since",
    metavar="COMMIT",
    help="Continue the backup of this commit or tag. Default: the newest one in TARGET.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Write nothing to the graph: no lock, no heartbeat.",
)
@common_options
def create(
    output: Output,
    place: str,
    target: str,
    branches: tuple[str, ...],
    since: str | None,
    read_only: bool,
) -> None:
    """Copy one moment of a graph, with its history.

    TARGET is a folder or s3://bucket/prefix: new, or with backups of this graph,
    and then only what is new is copied. Every branch is as it was at one commit,
    whatever others write meanwhile. Interrupted, there is no backup, and the same
    command goes on with what it has copied.
    """
    from omnigraph.pipeline.progress import Bars

    stopped = "interrupted; no backup was made, and the same command goes on"
    with (
        reading(place) if read_only else writing(place, output, f"backup to {target}") as graph,
        stoppable(output, stopped),
        Bars() as bars,
    ):
        result = graph.backup(target, branches=branches or None, since=since, progress=bars)
    if output.json:
        output.data({"graph": graph.location, **result.to_dict()})
        return
    for text in result.warnings:
        output.warning(indented(text, ""))
    output.table(table(["branch", "commit"], [[*pair] for pair in result.branches.items()]) + "\n")
    output.result(
        f"backup {result.id}: {counted(result.files, 'file')}, {size(result.bytes)};"
        f" {size(result.copied_bytes)} copied"
    )


@backup.command(
    "list",
    epilog="""\b
Examples:
  omnigraph backup list /backups/team
  omnigraph backup list s3://bucket/backups/team --json""",
)
@click.argument("target")
@common_options
def list_(output: Output, target: str) -> None:
    """List the backups at a place, newest first."""
    import_arrow_without_pandas()
    from omnigraph.graph.backups import list_backups

    backups = list_backups(target)
    if output.json:
        output.data([each.to_dict() for each in backups])
        return
    rows = []
    for each in backups:
        moment = each.time.replace("T", " ")[:16]
        numbers = [f"{len(each.branches):,}", f"{each.files:,}", size(each.bytes)]
        rows.append([each.id, moment, *numbers])
    head = ["backup", "time (UTC)", "branches", "files", "size"]
    output.table(table(head, rows, right=head[2:]))


@backup.command(
    epilog="""\b
Examples:
  omnigraph backup verify /backups/team
  omnigraph backup verify /backups/team --backup 01K9V3D7T5W0S8Q2B6M4XZ1RHC"""
)
@click.argument("target")
@click.option("--backup", "id", metavar="ID", help="Only this backup. Default: all of them.")
@common_options
def verify(output: Output, target: str, id: str | None) -> int:
    """Read all files of backups, and compare their digests.

    Exits with 1 when a file is damaged or missing; every such file is named.
    """
    import_arrow_without_pandas()
    from omnigraph.graph.backups import verify_backups
    from omnigraph.pipeline.progress import Bars

    with stoppable(output, "interrupted"), Bars() as bars:
        result = verify_backups(target, backup=id, progress=bars)
    if output.json:
        output.data({"ok": not result.problems, **result.to_dict()})
        return int(bool(result.problems))
    for text in result.problems:
        output.result(indented(text, ""))
    verified = f"{counted(len(result.backups), 'backup')}, {counted(result.files, 'file')} with"
    verified += f" {size(result.bytes)} verified: "
    if result.problems:
        problems = counted(len(result.problems), "problem")
        output.result(output.style(verified + problems, fg="red", bold=True))
    else:
        output.result(output.style(verified + "no problems", fg="green"))
    return int(bool(result.problems))


@contextmanager
def stoppable(output: Output, text: str) -> Iterator[None]:
    """Let Ctrl-C end the work, and say what that means."""
    try:
        yield
    except KeyboardInterrupt:
        output.error(OmnigraphError(text, code="interrupted"))
        raise click.Abort() from None
