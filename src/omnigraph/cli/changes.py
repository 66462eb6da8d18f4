"""`omnigraph changes`: the change feed of a branch.

A consumer reads pages, one after the other, and keeps the cursor that comes with each. The cursor
file is replaced when a page is printed and flushed: a consumer that is killed reads the page again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.diff import (
    filter_options,
    kind_and_type_options,
    print_changes,
    print_json_line,
    terminal_look,
)
from omnigraph.cli.files import read_source, replaced
from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options, in_order
from omnigraph.cli.output import Output
from omnigraph.errors import GapError, UsageError

if TYPE_CHECKING:
    from omnigraph.merge.feed import ChangePage, CommitChanges


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph changes poll team.omni --from-start
  omnigraph changes poll team.omni --from-start --cursor-file team.cursor
  omnigraph changes baseline team.omni --cursor-file team.cursor > all.jsonl""",
)
def changes() -> None:
    """Follow the changes of a branch."""


_feed_options = in_order(
    click.option(
        "--branch", metavar="BRANCH", default="main", help="Whose changes. Default: main."
    ),
    click.option(
        "--format",
        metavar="FORMAT",
        type=click.Choice(("text", "jsonl")),
        help="text or jsonl. Default: text on a terminal, jsonl elsewhere.",
    ),
)


@changes.command(
    epilog="""\b
Examples:
  omnigraph changes poll team.omni --from-start --limit 100
  omnigraph changes poll team.omni --after 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph changes poll team.omni --cursor @team.cursor --type Person
  omnigraph changes poll team.omni --from-start --cursor-file team.cursor \\
    --follow | consumer"""
)
@graph_arguments()
@_feed_options
@click.option("--from-start", is_flag=True, help="Begin with the first commit.")
@click.option("--from-now", is_flag=True, help="Begin with the next commit.")
@click.option("--after", metavar="COMMIT", help="Begin after this commit, by its id or tag.")
@click.option("--cursor", metavar="TEXT|@FILE", help="Go on from here.")
@click.option(
    "--cursor-file",
    metavar="FILE",
    help="Go on from the cursor in this file, if it is there; keep the new one in it.",
)
@filter_options
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    help="At most so many changes in a page. Default: 1000.",
)
@click.option("--follow", is_flag=True, help="Go on, and wait for more, until interrupted.")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.01),
    default=1.0,
    help="With --follow, how long to wait before looking again. Default: 1.",
)
@common_options
def poll(
    output: Output,
    place: str,
    branch: str,
    format: str | None,
    from_start: bool,
    from_now: bool,
    after: str | None,
    cursor: str | None,
    cursor_file: str | None,
    follow: bool,
    interval: float,
    **wanted: Any,
) -> None:
    """Show a page of what the commits of a branch have changed, oldest first.

    Each change comes at least once. JSON lines have one change each, with its
    commit; the last line has the cursor that the next call takes, and `has_more`.
    With --cursor-file the same command, run again and again, reads everything: the
    file is replaced when the page is written out.
    """
    if follow and output.json:
        raise UsageError("--json is one value, and --follow never ends; pass --format jsonl")
    chosen = _format(format, output)
    position = _position(from_start, from_now, after, cursor, cursor_file)
    with reading(place) as graph:
        while True:
            try:
                page = graph.changes(branch, **position, **wanted)
            except GapError as error:
                error.message += "\n`omnigraph changes baseline` takes it"
                raise
            # With --follow, an empty page is not reported again and again.
            if page.commits or not follow:
                _print_page(output, page, chosen, cursor_file)
            if position.get("cursor") != page.cursor:
                _keep(cursor_file, page.cursor)
            position = {"cursor": page.cursor}
            if not follow:
                return
            if not page.has_more:
                time.sleep(interval)


@changes.command(
    epilog="""\b
Examples:
  omnigraph changes baseline team.omni > all.jsonl
  omnigraph changes baseline team.omni --type Person \\
    --cursor-file team.cursor > people.jsonl"""
)
@graph_arguments()
@_feed_options
@click.option("--cursor-file", metavar="FILE", help="Keep the cursor in this file.")
@kind_and_type_options
@common_options
def baseline(
    output: Output,
    place: str,
    branch: str,
    format: str | None,
    cursor_file: str | None,
    **wanted: Any,
) -> None:
    """Show all nodes and edges of a branch, and where its changes go on.

    For a consumer that begins, or whose cursor points to what was cleaned up. All
    is of one commit, as if it had just been inserted. JSON lines end with the
    cursor for `omnigraph changes poll`.
    """
    chosen = _format(format, output)
    with reading(place) as graph:
        entities = graph.baseline(branch, **wanted)
        end = {"commit": entities.commit.id, "cursor": entities.cursor}
        if chosen == "json":
            output.object_with_list(end, "changes", (change.to_dict() for change in entities))
        elif chosen == "jsonl":
            for change in entities:
                print_json_line(output, change.to_dict())
            print_json_line(output, end)
        else:
            print_changes(output, entities, terminal_look())
            output.note(f"\ncommit {entities.commit.id}\ncursor {entities.cursor}")
    _keep(cursor_file, entities.cursor)


def _format(format: str | None, output: Output) -> str:
    if output.json and format is not None:
        raise UsageError(f"--json and --format {format} contradict each other; pass one of them")
    return format or ("json" if output.json else "text" if sys.stdout.isatty() else "jsonl")


# --- where a page begins ---


def _position(
    from_start: bool,
    from_now: bool,
    after: str | None,
    cursor: str | None,
    cursor_file: str | None,
) -> dict[str, Any]:
    """The start or the cursor, as `Graph.changes` takes it."""
    starts = {
        "--from-start": {"start": "beginning"} if from_start else None,
        "--from-now": {"start": "now"} if from_now else None,
        "--after": None if after is None else {"start": f"after:{after}"},
        "--cursor": None if cursor is None else {"cursor": _cursor(cursor)},
    }
    chosen = {name: value for name, value in starts.items() if value is not None}
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} contradict each other; pass one of them")
    if cursor_file is not None:
        if cursor is not None:
            raise UsageError("pass --cursor or --cursor-file, not both")
        if os.path.exists(cursor_file):
            return {"cursor": _read_cursor(cursor_file)}
    if not chosen:
        missing = "" if cursor_file is None else f"{cursor_file} is not there yet; "
        raise UsageError(
            f"{missing}say where to begin: --from-start, --from-now, --after COMMIT or --cursor"
        )
    (position,) = chosen.values()
    return position


def _cursor(text: str) -> str:
    return _read_cursor(text[1:]) if text.startswith("@") else text


def _read_cursor(path: str) -> str:
    text = read_source(path).strip()
    if not text:
        raise UsageError(f"{path} has no cursor; remove the file, or give another one")
    return text


def _keep(path: str | None, cursor: str) -> None:
    """Replace the cursor file, now that everything before the cursor is written out."""
    sys.stdout.flush()
    if path is not None:
        with replaced(path) as file:
            file.write(f"{cursor}\n".encode())


# --- what a page has ---


def _print_page(output: Output, page: ChangePage, format: str, cursor_file: str | None) -> None:
    if format == "json":
        output.data(page.to_dict())
    elif format == "jsonl":
        for line in _json_lines(page):
            print_json_line(output, line)
    else:
        _print_text(output, page, cursor_file)


def _json_lines(page: ChangePage) -> Iterator[dict[str, Any]]:
    for part in page.commits:
        commit = part.commit.to_dict()
        about = {"commit": commit["id"], "time": commit["time"], "actor": commit["actor"]}
        if part.schema is not None:
            yield {**about, "schema": part.schema.to_dict()}
        for change in part.changes:
            yield {**about, **change.to_dict()}
    yield {"cursor": page.cursor, "has_more": page.has_more}


def _print_text(output: Output, page: ChangePage, cursor_file: str | None) -> None:
    look = terminal_look()
    for part in page.commits:
        _print_commit(output, part, look)
    if not page.commits:
        output.note("no changes")
    if page.has_more:
        output.note("there is more on the next page")
    if cursor_file is None:
        output.note(f"cursor {page.cursor}")


def _print_commit(output: Output, part: CommitChanges, look: Any) -> None:
    from omnigraph.cli.changes_text import commit_lines, summary_lines

    for line in commit_lines(part.commit, look):
        output.result(line)
    if part.schema is not None:
        from omnigraph.cli.schema_plan_text import plan_lines

        for line in plan_lines(part.schema, look, is_done=True):
            output.result(line)
    counts: dict[str, list[int]] = {}
    for change in part.changes:
        numbers = counts.setdefault(change.type, [0, 0, 0])
        numbers[("insert", "update", "delete").index(change.operation)] += 1
    summary = ((type, n[0], n[1], n[2]) for type, n in counts.items())
    for line in summary_lines(summary, look):
        output.result(line)
    if part.changes:
        output.result("")
        print_changes(output, part.changes, look)
    if not part.is_complete:
        output.result("… the rest of this commit is on the next page")
    output.result("")
