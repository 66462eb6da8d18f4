"""What `branch merge`, `revert` and `cherry-pick` share: options, the run, and what is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnigraph.cli.diff import terminal_look
from omnigraph.cli.graphs import reading, writing
from omnigraph.cli.output import Output, coloured, counted
from omnigraph.cli.text import width
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    MergeConflicts,
    OmnigraphError,
    UsageError,
)

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult
    from omnigraph.merge.conflicts import Conflict

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Wording:
    """What a verb has done, would do, or need not do."""

    done: str
    would: str
    nothing: str


MERGE = Wording(
    "merged {source} into {into}",
    "would merge {source} into {into}",
    "{into} has everything of {source} already; nothing to merge",
)
REVERT = Wording(
    "reverted {source} on {into}",
    "would revert {source} on {into}",
    "{into} has nothing of {source}; nothing to revert",
)
PICK = Wording(
    "picked {source} onto {into}",
    "would pick {source} onto {into}",
    "{into} has everything of {source} already; nothing to pick",
)


def merge_options(function: _Function) -> _Function:
    """Add what all verbs that merge take, in the order of `--help`."""
    options = [
        click.option(
            "--granularity",
            metavar="GRANULARITY",
            type=click.Choice(("property", "row")),
            default="property",
            help="property, the default; or row: what both sides have changed is a conflict"
            " even if they have changed different properties.",
        ),
        click.option("--ours", is_flag=True, help="The branch that is written to wins conflicts."),
        click.option("--theirs", is_flag=True, help="What is merged wins conflicts."),
        click.option(
            "--resolutions", metavar="FILE", help="How single conflicts are settled (YAML)."
        ),
        click.option(
            "--write-conflicts",
            metavar="FILE",
            help="Write the conflicts to a new file, to be settled there.",
        ),
        click.option("--dry-run", is_flag=True, help="Tell what would happen; write nothing."),
        click.option("--as", "actor", metavar="ACTOR", help="Who merges; kept in the commit."),
        click.option("--message", "-m", metavar="TEXT", help="What for; kept in the commit."),
        click.option(
            "--if-commit", metavar="COMMIT", help="Write only if the branch is at this commit."
        ),
        click.option(
            "--idempotency-key", metavar="KEY", help="A second call with the same key does nothing."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def carry_out(
    output: Output,
    place: str,
    call: Callable[[Graph, dict[str, Any]], MergeResult],
    *,
    source: str,
    into: str,
    given: dict[str, Any],
    wording: Wording = MERGE,
    delete: bool = False,
) -> int:
    """Merge, print what came of it, and give the exit code.

    Args:
        output: Where to print.
        place: The graph.
        call: The method of the library.
        source: What is merged, as people know it.
        into: The branch that is written to.
        given: The values of `merge_options`.
        wording: What it is called.
        delete: Delete the branch `source` afterwards.
    """
    conflict_file = given.pop("write_conflicts")
    dry_run = given["dry_run"]
    options = _library_options(given)
    if conflict_file is not None and os.path.exists(conflict_file):
        raise AlreadyExists(
            f"{conflict_file} is there already; name a new file for --write-conflicts,"
            f" or settle with --resolutions {conflict_file}"
        )
    graph = reading(place) if dry_run else writing(place, output, f"branch {into}")
    with graph:
        try:
            result = call(graph, options)
        except MergeConflicts as error:
            _write_conflicts(output, conflict_file, error.conflicts)
            if output.json:
                raise
            raise _readable(error, source, into, conflict_file) from None
        if delete and not dry_run:
            _delete(graph, source, result)
    if result.conflicts:
        _write_conflicts(output, conflict_file, result.conflicts)
    elif conflict_file is not None:
        output.note(f"there are no conflicts: {conflict_file} was not written")
    _print(output, result, source, into, wording, given, delete)
    return ConflictError.exit_code if result.conflicts else 0


def _library_options(given: dict[str, Any]) -> dict[str, Any]:
    if given["ours"] and given["theirs"]:
        raise UsageError("pass --ours or --theirs, not both: only one side can win")
    prefer = "ours" if given["ours"] else "theirs" if given["theirs"] else None
    kept = {name: value for name, value in given.items() if name not in ("ours", "theirs")}
    return {**kept, "prefer": prefer}


def _delete(graph: Graph, branch: str, result: MergeResult) -> None:
    try:
        graph.branches.delete(branch)
    except OmnigraphError as error:
        if result.commit is not None:
            error.message = (
                f"{branch} was merged in commit {result.commit.id}, but not deleted:"
                f" {error.message}"
            )
        raise


# --- what went wrong ---


def _write_conflicts(output: Output, path: str | None, conflicts: tuple[Conflict, ...]) -> None:
    if path is None:
        return
    from omnigraph.merge.conflicts import write_resolutions

    write_resolutions(path, conflicts)
    output.note(f"wrote {counted(len(conflicts), 'conflict')} to {path}")


def _readable(
    error: MergeConflicts, source: str, into: str, conflict_file: str | None
) -> MergeConflicts:
    """The error as it fits on a screen: tables, and what to do."""
    from omnigraph.cli.changes_text import Look
    from omnigraph.cli.conflicts_text import advice_lines, conflict_lines

    look = Look(width(), coloured(sys.stderr))
    head, _, _ = error.message.partition("\n")
    lines = [head, "", *conflict_lines(error.conflicts, look)]
    if conflict_file is None:
        lines += advice_lines(source, into, look)
    else:
        lines.append(_edit(conflict_file))
    return MergeConflicts("\n".join(lines), conflicts=error.conflicts)


def _edit(path: str) -> str:
    return f"Settle them in {path}, and merge again with\n  --resolutions {path}"


# --- what was done ---


def _print(
    output: Output,
    result: MergeResult,
    source: str,
    into: str,
    wording: Wording,
    given: dict[str, Any],
    delete: bool,
) -> None:
    dry_run = given["dry_run"]
    if output.json:
        deleted = source if delete and not dry_run else None
        more = {"deleted_branch": deleted} if delete else {}
        output.data({**result.to_dict(), "dry_run": dry_run, **more})
        return
    if result.outcome == "conflicts":
        _print_conflicts(output, result, source, into)
        return
    if result.outcome == "already_up_to_date":
        output.result(wording.nothing.format(source=source, into=into))
    elif result.commit is not None and not result.tables and not result.bases:
        output.result(f"done before, in commit {result.commit.id}")
    else:
        _print_summary(output, result)
        way = " (fast-forward)" if result.outcome == "fast_forward" else ""
        end = "; nothing was written" if result.commit is None else f", commit {result.commit.id}"
        done = wording.would if dry_run else wording.done
        output.result(f"{done.format(source=source, into=into)}{way}{end}")
    if result.settled:
        output.result(f"settled {counted(len(result.settled), 'conflict')}")
    if delete:
        output.result(f"{'would delete' if dry_run else 'deleted'} branch {source}")


def _print_summary(output: Output, result: MergeResult) -> None:
    from omnigraph.cli.changes_text import summary_lines

    counts = [(name, t.inserted, t.replaced, t.deleted) for name, t in result.tables.items()]
    for line in summary_lines(counts, terminal_look()):
        output.result(line)


def _print_conflicts(output: Output, result: MergeResult, source: str, into: str) -> None:
    from omnigraph.cli.conflicts_text import advice_lines, conflict_lines

    look = terminal_look()
    if result.tables:
        _print_summary(output, result)
    output.result(f"{counted(len(result.conflicts), 'conflict')}; nothing was written\n")
    for line in (*conflict_lines(result.conflicts, look), *advice_lines(source, into, look)):
        output.result(line)
