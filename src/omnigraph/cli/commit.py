"""`omnigraph commit`: looking at history."""

from __future__ import annotations

from typing import Any

import click

from omnigraph.cli.diff import checked_format, filter_options, layout_options, print_diff
from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import columns, moment, one_line, table
from omnigraph.errors import UsageError


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph commit list team.omni
  omnigraph commit show team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph commit changes team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1""",
)
def commit() -> None:
    """Look at the history of a graph."""


@commit.command(
    "list",
    epilog="""\b
Examples:
  omnigraph commit list team.omni
  omnigraph commit list team.omni --branch draft --limit 10
  omnigraph commit list team.omni --filter actor=omnigraph:recovery""",
)
@graph_arguments()
@click.option("--branch", metavar="BRANCH", default="main", show_default=True, help="Whose.")
@click.option("--limit", "-n", metavar="N", type=click.IntRange(min=1), help="At most so many.")
@click.option("--filter", "condition", metavar="actor=ACTOR", help="Only those of an actor.")
@common_options
def list_commits(
    output: Output,
    place: str,
    branch: str,
    limit: int | None,
    condition: str | None,
) -> None:
    """List the commits of a branch, newest first.

    The commits before the branch was created belong to it, too. Times are in UTC.
    """
    actor = None if condition is None else _actor(condition)
    with reading(place) as graph:
        commits = graph.commits(branch, actor=actor, limit=limit)
    if output.json:
        output.data([c.to_dict() for c in commits])
        return
    if not commits:
        output.note("no commits match")
        return
    rows = [[c.id, moment(c.time), c.branch, c.actor or ""] for c in commits]
    messages = [[c.message] if c.message else [] for c in commits]
    output.table(table(["commit", "time (UTC)", "branch", "actor"], rows, below=messages))


def _actor(condition: str) -> str:
    name, equals, value = condition.partition("=")
    if name.strip() != "actor" or not equals or not value.strip():
        raise UsageError(f"--filter {condition} makes no sense; write --filter actor=ACTOR")
    return value.strip()


@commit.command(
    epilog="""\b
Examples:
  omnigraph commit show team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph commit show team.omni launch --json"""
)
@graph_arguments("COMMIT")
@common_options
def show(output: Output, place: str, commit: str) -> None:
    """Show one commit and the tables it changed.

    COMMIT is the id of a commit on any branch, or a tag.
    """
    with reading(place) as graph:
        entry = graph.commit(commit)
        tables = graph.snapshot(commit=entry.id).tables
    changed = [t for t in tables if t.identity in entry.changes]
    if output.json:
        output.data({**entry.to_dict(), "tables": [t.to_dict() for t in changed]})
        return
    about = [
        ("commit", entry.id),
        ("parents", " ".join(entry.parents) or "none"),
        ("branch", entry.branch),
        ("actor", entry.actor or "unknown"),
        ("time", f"{moment(entry.time)} UTC"),
    ]
    if entry.message:
        about.append(("message", entry.message))
    if entry.idempotency_key:
        about.append(("key", entry.idempotency_key))
    output.result(columns([(name, one_line(text)) for name, text in about]) + "\n")
    rows = [[t.key, f"{t.rows:,}", str(t.version)] for t in changed]
    output.table(table(["table", "rows", "version"], rows, right=("rows", "version")))


@commit.command(
    epilog="""\b
Examples:
  omnigraph commit changes team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph commit changes team.omni launch --type Person --json"""
)
@graph_arguments("COMMIT")
@filter_options
@layout_options
@common_options
def changes(
    output: Output,
    place: str,
    commit: str,
    format: str | None,
    limit: int | None,
    full: bool,
    **filters: Any,
) -> None:
    """Show what a commit has changed.

    COMMIT is the id of a commit on any branch, or a tag. It is compared with its
    first parent; of a merge, that shows what came with it. See `omnigraph diff`.
    """
    chosen = checked_format(format, output)
    with reading(place) as graph:
        diff = graph.commit_changes(commit, **filters)
        print_diff(output, diff, chosen, limit=limit, full=full)
