"""`omnigraph query`.

The result goes to stdout or to a file, in the format that was asked for. How long it took and
which commit was read is reported on stderr, and only on a terminal.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import replaced
from omnigraph.cli.graphs import reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.queries import graph_and_name, query_options, read_parameters, read_query
from omnigraph.cli.states import State, state_options
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.results import QueryResult

FORMATS = ("table", "json", "jsonl", "csv", "kv", "arrow")
_STDOUT = "-"
_LONGEST_TIME = 1e9
#: What a terminal might obey, in texts that keep it: everything but tabs and line ends.
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@click.command(
    epilog="""\b
Examples:
  omnigraph query team.omni \\
    -e 'query all() { match { $p: Person } return { $p.name } }'
  omnigraph query team.omni --query people.gq friends \\
    --params '{"name": "Ada"}' --format csv
  omnigraph query team.omni --query people.gq friends --params @ada.json \\
    --snapshot launch --output friends.jsonl
  omnigraph query team.omni --query people.gq all --at 2026-01-31T12:00Z"""
)
@query_options
@state_options()
@click.option(
    "--format",
    metavar="FORMAT",
    type=click.Choice(FORMATS),
    help="One of table, json, jsonl, csv, kv, arrow. Default: as the name of the"
    " output file ends, or else table.",
)
@click.option(
    "--output", "-o", "target", metavar="FILE", help="Write to this file; - is stdout, the default."
)
@click.option(
    "--limit-time", "seconds", metavar="SECONDS", type=float, help="Give up after this long."
)
@common_options
def query(
    output: Output,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    parameters: str | None,
    state: State,
    format: str | None,
    target: str | None,
    seconds: float | None,
) -> None:
    """Run a query and show its answer.

    NAME picks one query of the file. Reads one state of the graph: the head of a
    branch, a commit, or what --at names. On a terminal, a table is cut to its width; nothing is cut
    elsewhere, or in any other format. --json is the same as --format json; with
    --output FILE, it reports what was written.
    """
    place, name = graph_and_name(words, store)
    source = read_query(path, text)
    values = read_parameters(parameters)
    if seconds is not None and not 0 < seconds < _LONGEST_TIME:
        raise UsageError(f"--limit-time {seconds:g} makes no sense; give seconds, more than 0")
    chosen = _format(format, target, output.json)
    with reading(place) as graph:
        start = time.perf_counter()
        result = graph.query(
            source,
            name=name,
            params=values,
            **state.of(graph),
            time_limit=seconds,
            path=path,
        )
        took = time.perf_counter() - start
        # Files of the cache are written after the answer, when the graph is closed.
        if target is None or target == _STDOUT:
            _print(output, result, chosen)
        else:
            _write(result, chosen, target)
            _report(output, result, chosen, target)
        if sys.stderr.isatty() and not output.json:
            where = f"commit {result.commit}" + (f" of {result.branch}" if result.branch else "")
            output.note(f"{counted(len(result), 'row')} in {_duration(took)}, {where}")


def _format(format: str | None, target: str | None, as_json: bool) -> str:
    """Return the format to write, from the options and the name of the file."""
    to_stdout = target is None or target == _STDOUT
    if as_json and to_stdout and format not in (None, "json"):
        raise UsageError(f"--json and --format {format} contradict each other; pass one of them")
    if format is None and not to_stdout:
        suffix = os.path.splitext(str(target))[1].removeprefix(".").lower()
        format = suffix if suffix in FORMATS else None
    if format is None:
        format = "json" if as_json else "table"
    if format == "arrow" and target is None and sys.stdout.isatty():
        raise UsageError(
            "an Arrow stream is bytes, which can garble a terminal; pass --output FILE,"
            " or --output - to print it anyway"
        )
    return format


def _print(output: Output, result: QueryResult, format: str) -> None:
    if format == "arrow":
        sys.stdout.flush()
        result.write(format, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif format == "table":
        from omnigraph.results.terminal import table_lines

        lines = table_lines(result.to_arrow(), result.fields, width=_width())
        output.result(output.style(next(lines), bold=True))
        for line in lines:
            output.result(line)
    else:
        result.write(format, _Stdout())


def _write(result: QueryResult, format: str, target: str) -> None:
    with replaced(target) as file:
        if format == "arrow":
            result.write(format, file)
            return
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        result.write(format, text)
        text.flush()
        # Otherwise the file would be closed with the wrapper, before it is in its place.
        text.detach()


def _report(output: Output, result: QueryResult, format: str, target: str) -> None:
    if not output.json:
        output.result(f"wrote {counted(len(result), 'row')} to {target}")
        return
    output.data(
        {
            "output": target,
            "format": format,
            "rows": len(result),
            "commit": result.commit,
            "branch": result.branch,
        }
    )


def _width() -> int | None:
    """Return the width of the terminal, or the one that COLUMNS asks for; a pipe has none."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((80, 24)).columns
    return None


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


class _Stdout:
    """Takes text for stdout, which may be a terminal, and may not be UTF-8."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()

    def write(self, text: str) -> None:
        """Write text, without what a terminal might obey if it is one."""
        if self.is_terminal:
            text = _CODES.sub(" ", text)
        try:
            sys.stdout.write(text)
        except UnicodeEncodeError:
            # As for every other output: replacements instead of a crash.
            encoding = sys.stdout.encoding
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
