"""`omnigraph diff`, and how other verbs show changes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.options import any_of, common_options, in_order, type_option
from omnigraph.cli.output import Output, coloured
from omnigraph.cli.text import width
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cli.changes_text import Look
    from omnigraph.merge.diff import Diff, EntityChange

#: How many nodes and edges are shown unless more are asked for.
_MOST_SHOWN = 200
_NARROWEST, _WIDEST = 40, 200


kind_and_type_options = in_order(
    any_of(
        "--kind",
        "kinds",
        metavar="KIND",
        type=click.Choice(("node", "edge")),
        help="Only node, or only edge.",
    ),
    type_option,
)
#: Which changes are wanted, as `Graph.diff` takes it.
filter_options = in_order(
    kind_and_type_options,
    any_of(
        "--op",
        "ops",
        metavar="OP",
        type=click.Choice(("insert", "update", "delete")),
        help="Only insert, update or delete; may be repeated.",
    ),
)
#: How changes are shown.
layout_options = in_order(
    click.option(
        "--format",
        metavar="FORMAT",
        type=click.Choice(("inline", "side-by-side", "summary", "jsonl")),
        help="One of inline (the default), side-by-side, summary, jsonl.",
    ),
    click.option(
        "--limit",
        metavar="N",
        type=click.IntRange(min=0),
        help=f"Show so many nodes and edges, 0 for all. Default: {_MOST_SHOWN}; all as JSON.",
    ),
    click.option("--full", is_flag=True, help="Cut no values, however long they are."),
)


@click.command(
    epilog="""\b
Examples:
  omnigraph diff team.omni main draft
  omnigraph diff team.omni main draft --since-base
  omnigraph diff team.omni main draft --type Person --op update
  omnigraph diff team.omni launch main --format side-by-side
  omnigraph diff team.omni main draft --format jsonl > changes.jsonl"""
)
@graph_arguments("A", "B")
@click.option(
    "--since-base", is_flag=True, help="Only what B has changed since both were the same."
)
@filter_options
@layout_options
@common_options
def diff(
    output: Output,
    place: str,
    a: str,
    b: str,
    since_base: bool,
    format: str | None,
    limit: int | None,
    full: bool,
    **filters: Any,
) -> None:
    """Compare two states of a graph: what leads from A to B.

    A and B are branches, commits by their ids or tags, or what main was at a time
    such as 2026-01-31T12:00Z. First comes a summary, such as
    `+3 ~2 -1 Person, +12 Knows`; then what was inserted (+), updated (~) and
    deleted (-). In updated texts the words are marked, by colours or as
    [-old-]{+new+}.

    What A has changed itself is in it, too, the other way round. With
    --since-base it is what B would bring to A by a merge.
    """
    chosen = checked_format(format, output)
    with reading(place) as graph:
        changes = graph.diff(a, b, since_base=since_base, **filters)
        print_diff(output, changes, chosen, limit=limit, full=full)


def checked_format(format: str | None, output: Output) -> str:
    """Return the format, or refuse options that contradict each other."""
    if output.json and format not in (None, "summary"):
        raise UsageError(f"--json and --format {format} contradict each other; pass one of them")
    return format or ("json" if output.json else "inline")


def print_diff(output: Output, diff: Diff, format: str, *, limit: int | None, full: bool) -> None:
    """Print a difference: the summary, then the changes, as they are read."""
    if format == "jsonl":
        for change in islice(diff, limit or None):
            print_json_line(output, change.to_dict())
        return
    summary = diff.summary()
    if output.json:
        head = {"old": diff.old, "new": diff.new, **summary.to_dict()}
        if format == "summary":
            output.data(head)
        else:
            changes = (change.to_dict() for change in islice(diff, limit or None))
            output.object_with_list(head, "changes", changes)
        return
    from omnigraph.cli.changes_text import summary_lines

    look = terminal_look(full=full, wide=format == "side-by-side")
    counts = [(each.type, each.inserted, each.updated, each.deleted) for each in summary.types]
    total = sum(sum(numbers) for _, *numbers in counts)
    schema = diff.schema
    if schema is not None:
        from omnigraph.cli.schema_plan_text import plan_lines

        for line in plan_lines(schema, look, is_done=True):
            output.result(line)
        output.result("")
    for line in summary_lines(
        counts, look, nothing="no changes of rows" if schema else "no changes"
    ):
        output.result(line)
    if format == "summary" or not total:
        return
    output.result("")
    most = _MOST_SHOWN if limit is None else limit
    print_changes(output, islice(diff, most or None), look, format)
    if most and total > most:
        output.result(f"\n… and {total - most:,} more; --limit 0 shows all")


def print_changes(
    output: Output, changes: Iterable[EntityChange], look: Look, format: str = "inline"
) -> None:
    """Print changes as they come, for a person."""
    from omnigraph.cli.changes_text import changes_lines, inline_lines, side_by_side_lines

    of_change = side_by_side_lines if format == "side-by-side" else inline_lines
    for line in changes_lines(changes, look, of_change):
        output.result(line)


def print_json_line(output: Output, value: Any) -> None:
    """Print one line of JSON lines; a terminal does not get what it would obey."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if sys.stdout.isatty():
        from omnigraph.results.formats import harmless

        text = harmless(text)
    output.result(text)


def terminal_look(stream: IO[str] | None = None, *, full: bool = False, wide: bool = False) -> Look:
    """How changes look on this terminal, or in this pipe.

    Args:
        stream: Where they are printed; stdout by default.
        full: Cut nothing.
        wide: Take all columns of a wide terminal.
    """
    from omnigraph.cli.changes_text import Look

    columns = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))
    return Look(columns if wide else width(), coloured(stream or sys.stdout), full)
