"""`omnigraph branch`: creating, listing, merging and deleting branches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.merging import MergeCall, merge_options
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output, counted
from omnigraph.cli.text import moment, one_line, table
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph branch create team.omni draft
  omnigraph branch list team.omni
  omnigraph branch merge team.omni draft""",
)
def branch() -> None:
    """Create, list, merge and delete branches."""


@branch.command(
    epilog="""\b
Examples:
  omnigraph branch create team.omni draft
  omnigraph branch create team.omni ada/ideas --from draft
  omnigraph branch create team.omni hotfix --from v1
  OMNIGRAPH_STORE=team.omni omnigraph branch create draft"""
)
@graph_arguments("NAME")
@click.option(
    "--from",
    "source",
    metavar="REF",
    default="main",
    show_default=True,
    help="Where it starts: a branch, commit, tag, or a version or time of main.",
)
@common_options
def create(output: Output, place: str, name: str, source: str) -> None:
    """Create a branch at the head of another one, or at a commit.

    Copies no rows: a table is forked when the branch first writes to it. A name has
    letters, digits, `.`, `-` and `_`, in parts joined by `/`.
    """
    with writing(place, output, f"branch {name}") as graph:
        new = graph.branches.create(name, source=source)
    if output.json:
        output.data(new.to_dict())
    else:
        output.result(f"created branch {new.name} from {new.parent}, at commit {new.head}")


@branch.command(
    "list",
    epilog="""\b
Examples:
  omnigraph branch list team.omni
  omnigraph branch list team.omni --json""",
)
@graph_arguments()
@common_options
def list_branches(output: Output, place: str) -> None:
    """List the branches, with their newest commits."""
    with reading(place) as graph:
        branches = graph.branches.list()
    if output.json:
        output.data([b.to_dict() for b in branches])
        return
    rows = [[b.name, b.head or "", b.parent or ""] for b in branches]
    output.table(table(["branch", "head", "created from"], rows))


@branch.command(
    epilog="""\b
Examples:
  omnigraph branch merge team.omni draft --dry-run
  omnigraph branch merge team.omni draft --as ada -m 'people of May'
  omnigraph branch merge team.omni draft --theirs --delete-branch
  omnigraph branch merge team.omni draft --write-conflicts conflicts.yaml
  omnigraph branch merge team.omni draft --resolutions conflicts.yaml"""
)
@graph_arguments("SOURCE")
@click.option(
    "--into", metavar="BRANCH", default="main", help="The branch to merge into. Default: main."
)
@merge_options
@click.option("--delete-branch", is_flag=True, help="Delete the branch SOURCE when it is merged.")
@common_options
def merge(
    output: Output,
    place: str,
    source: str,
    into: str,
    delete_branch: bool,
    **flags: Any,
) -> int:
    """Merge a branch into another one, in one commit.

    SOURCE is a branch, or a commit by its id or tag. What changed on either side
    since both were the same is put together, property by property. Where the
    sides disagree nothing is written: all conflicts are listed, and the exit code
    is 3, also with --dry-run.
    """

    def call(graph: Graph, options: dict[str, Any]) -> MergeResult:
        if delete_branch and source not in [each.name for each in graph.branches]:
            graph.commit(source)
            raise UsageError(f"--delete-branch: {source} is a commit, no branch; leave it out")
        return graph.merge(source, into=into, **options)

    return MergeCall(output, source, into, flags, delete=delete_branch).run(place, call)


@branch.command(
    epilog="""\b
Examples:
  omnigraph branch delete team.omni draft
  omnigraph branch delete team.omni draft --yes"""
)
@graph_arguments("NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
def delete(output: Output, place: str, name: str, yes: bool) -> int:
    """Delete a branch.

    Shows what would be lost and asks. Where nobody can answer, as in a script,
    pass --yes. A branch that others were created from cannot be deleted.
    """
    ask = not yes and name != "main"  # which is refused anyway
    if ask and not sys.stdin.isatty():
        raise UsageError(
            f"deleting branch {name} has to be confirmed, and there is no terminal to ask on; "
            "pass --yes"
        )
    with writing(place, output, f"branch {name}") as graph:
        if ask:
            output.note(_loss(graph, name))
            if not click.confirm("Delete it?", err=True):
                output.note("Nothing was deleted.")
                return 1
        graph.branches.delete(name)
    if output.json:
        output.data({"deleted": name})
    else:
        output.result(f"deleted branch {name}")
    return 0


def _loss(graph: Graph, name: str) -> str:
    own = [c for c in graph.commits(name) if c.branch == name]
    if not own:
        return "It has no commits of its own: nothing would be lost."
    last = own[0]
    by = f" by {last.actor}" if last.actor else ""
    what = f": {last.message}" if last.message else ""
    lines = [
        f"{counted(len(own), 'commit')} of its own would be lost with the next cleanup;",
        "until then --at reads them by their ids. The newest:",
        f"  {last.id}, {moment(last.time)} UTC{one_line(by + what)}",
    ]
    return "\n".join(lines)
