"""`omnigraph export`."""

from __future__ import annotations

import sys
from typing import Any

import click

from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.options import common_options, engine_options, type_option
from omnigraph.cli.output import Output, counted
from omnigraph.cli.states import State, state_options
from omnigraph.cli.text import table
from omnigraph.errors import UsageError

_STDOUT = "-"


@click.command(
    epilog="""\b
Examples:
  omnigraph export team.omni team.jsonl
  omnigraph export team.omni backup.jsonl.zst --snapshot launch
  omnigraph export team.omni tables --format parquet --type Person
  omnigraph export team.omni s3://lake/team --format csv
  omnigraph export team.omni - | wc -l"""
)
@graph_arguments("TARGET")
@click.option(
    "--format",
    metavar="FORMAT",
    type=click.Choice(("jsonl", "parquet", "csv")),
    default="jsonl",
    help="One of jsonl, parquet, csv. Default: jsonl.",
)
@type_option
@state_options()
@engine_options("spark when there is much to write")
@click.option("--force", is_flag=True, help="Replace a file or an earlier export.")
@common_options
def export(
    output: Output,
    place: str,
    target: str,
    state: State,
    force: bool,
    **options: Any,
) -> None:
    """Write all nodes and edges to files.

    TARGET is a file that ends in .jsonl, .jsonl.gz or .jsonl.zst, or a folder,
    which gets files for each type, here or at s3://bucket/key; - is stdout.
    Everything is of one state of the graph, and is at TARGET when all of it is
    written. JSON lines load back to the same graph.
    """
    to_stdout = target == _STDOUT
    if to_stdout and output.json:
        raise UsageError("with --json, the rows go to a file: name a file or folder as TARGET")
    from omnigraph.pipeline.progress import Bars

    # What goes to stdout would be mixed with bars on the same terminal.
    with reading(place) as graph, Bars(False if to_stdout else None) as bars:
        if to_stdout:
            sys.stdout.flush()
        result = graph.export(
            _Stdout() if to_stdout else target,
            **state.of(graph),
            **options,
            overwrite=force,
            progress=bars,
        )
    if to_stdout:
        sys.stdout.buffer.flush()
        return
    if output.json:
        output.data({"graph": graph.location, **result.to_dict()})
        return
    rows = [[name, f"{count:,}"] for name, count in result.rows.items()]
    output.table(table(["type", "rows"], rows, right=("rows",)))
    files = counted(len(result.files), "file") + " in " if result.files != (target,) else ""
    output.result(
        f"wrote {counted(sum(result.rows.values()), 'row')} of commit {result.commit} to"
        f" {files}{target}"
    )


class _Stdout:
    """Takes JSON lines; a terminal does not get what it would obey."""

    def __init__(self) -> None:
        self._shown = sys.stdout.isatty()

    def write(self, data: Any, /) -> None:
        if self._shown:
            from omnigraph.results.formats import harmless

            data = harmless(bytes(data).decode()).encode()
        sys.stdout.buffer.write(data)
