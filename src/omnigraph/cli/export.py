"""`omnigraph export`."""

from __future__ import annotations

import sys
from typing import Any

import click

from omnigraph.cli.graphs import graph_and, graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.states import check_state, state_options, state_to_read
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
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only this node or edge type; may be repeated.",
)
@state_options()
@click.option(
    "--engine",
    metavar="ENGINE",
    type=click.Choice(("auto", "local", "spark")),
    default="auto",
    help="local: this process; spark; auto: spark when there is much to write, the default.",
)
@click.option("--master", metavar="URL", help="Where Spark runs, such as local[4].")
@click.option("--force", is_flag=True, help="Replace a file or an earlier export.")
@common_options
def export(
    words: tuple[str, ...],
    store: str | None,
    format: Any,
    types: tuple[str, ...],
    branch: str | None,
    commit: str | None,
    at: str | None,
    engine: Any,
    master: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write all nodes and edges to files.

    TARGET is a file that ends in .jsonl, .jsonl.gz or .jsonl.zst, or a folder,
    which gets files for each type, here or at s3://bucket/key; - is stdout.
    Everything is of one state of the graph, and is at TARGET when all of it is
    written. JSON lines load back to the same graph.
    """
    output = Output(json=as_json)
    place, target = graph_and(words, store, "TARGET")
    check_state(branch, commit, at)
    to_stdout = target == _STDOUT
    if to_stdout and as_json:
        raise UsageError("with --json, the rows go to a file: name a file or folder as TARGET")
    from omnigraph.pipeline.progress import Bars

    # What goes to stdout would be mixed with bars on the same terminal.
    with reading(place) as graph, Bars(False if to_stdout else None) as bars:
        if to_stdout:
            sys.stdout.flush()
        result = graph.export(
            _Stdout() if to_stdout else target,
            format=format,
            types=types or None,
            **state_to_read(graph, branch, commit, at),
            engine=engine,
            master=master,
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
