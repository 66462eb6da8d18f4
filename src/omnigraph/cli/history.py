"""`omnigraph history` and `omnigraph blame`: how one node or edge came to be as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from omnigraph.cli.diff import terminal_look
from omnigraph.cli.graphs import graph_arguments, reading
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import one_line, table, width

if TYPE_CHECKING:
    from omnigraph.cli.changes_text import Look
    from omnigraph.merge.blame import BlamedProperty
    from omnigraph.merge.diff import EntityChange
    from omnigraph.merge.entity_history import EntityVersion

_LEAST_VALUE = 12


@click.command(
    epilog="""\b
Examples:
  omnigraph history team.omni Person ada
  omnigraph history team.omni Person ada --branch draft --limit 5
  omnigraph history team.omni Person ada --json"""
)
@graph_arguments("TYPE", "ID")
@click.option("--branch", metavar="BRANCH", default="main", help="Where. Default: main.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many.")
@click.option("--full", is_flag=True, help="Cut no values, however long they are.")
@common_options
def history(
    output: Output,
    place: str,
    type: str,
    id: str,
    branch: str,
    limit: int | None,
    full: bool,
) -> None:
    """Show all versions of a node or an edge.

    The newest comes first. Each has its commit, time (UTC), actor and branch, and
    what was changed. TYPE is a node or edge type, ID the id of a node or edge.
    """
    with reading(place) as graph:
        # One more than is shown: the version before shows what the last one has changed.
        most = limit if limit is None or output.json else limit + 1
        versions = graph.history(type, id, branch=branch, limit=most)
        kind: Literal["node", "edge"] = (
            "edge" if type in graph.branch(branch).catalog.edges else "node"
        )
    if output.json:
        output.data([version.to_dict() for version in versions])
        return
    look = terminal_look(full=full)
    for number, version in enumerate(versions[:limit]):
        if number:
            output.result("")
        older = versions[number + 1] if number + 1 < len(versions) else None
        for line in _version_lines(version, _change(kind, type, id, version, older), look):
            output.result(line)
    if limit is not None and len(versions) > limit:
        output.result("\n… and older ones; a greater --limit shows them")


def _change(
    kind: Literal["node", "edge"],
    type: str,
    id: str,
    version: EntityVersion,
    older: EntityVersion | None,
) -> EntityChange:
    from omnigraph.merge.diff import EntityChange

    operation = version.operation or "insert"
    before = None if operation == "insert" or older is None else older.values
    return EntityChange(kind, type, id, operation, before, version.values)


def _version_lines(version: EntityVersion, change: EntityChange, look: Look) -> list[str]:
    from omnigraph.cli.changes_text import commit_lines, value_lines

    lines = commit_lines(version.commit, look, operation=version.operation or "unknown")
    if version.operation is None:
        lines.append("    a cleanup has removed the versions before this one, which had by then")
    return lines if version.operation == "delete" else [*lines, *value_lines(change, look)]


@click.command(
    epilog="""\b
Examples:
  omnigraph blame team.omni Person ada
  omnigraph blame team.omni Person ada --branch draft --json"""
)
@graph_arguments("TYPE", "ID")
@click.option("--branch", metavar="BRANCH", default="main", help="Where. Default: main.")
@common_options
def blame(output: Output, place: str, type: str, id: str, branch: str) -> None:
    """Show which commit set each property, and who.

    For each property of a node or an edge: its value, and the commit that has given
    it this value, with its time (UTC) and actor. Where a cleanup has removed what was
    before it, an earlier commit may have done so.
    """
    with reading(place) as graph:
        properties = graph.blame(type, id, branch=branch)
    if output.json:
        output.data([each.to_dict() for each in properties])
    else:
        output.table(_blame_table(properties))


def _blame_table(properties: list[BlamedProperty]) -> str:
    from omnigraph.cli.values_text import value_text
    from omnigraph.results.terminal import cut

    rows = [
        [each.property, "", each.commit.id, f"{each.commit.time:%Y-%m-%d}", _actor(each)]
        for each in properties
    ]
    head = ["property", "value", "commit", "time", "actor"]
    others = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(head)]
    room = max(_LEAST_VALUE, width() - sum(others) + len("value") - 2 * (len(head) - 1))
    for row, each in zip(rows, properties, strict=True):
        row[1] = cut(one_line(value_text(each.value, 2 * room)), room)
    return table(head, rows)


def _actor(each: BlamedProperty) -> str:
    actor = each.commit.actor or ""
    return f"{actor} (or earlier)".strip() if each.or_earlier else actor
