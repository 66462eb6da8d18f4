"""`omnigraph revert` and `omnigraph cherry-pick`: one commit undone, or done again elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.graphs import graph_arguments
from omnigraph.cli.merging import PICK, REVERT, MergeCall, merge_options
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.merge.apply import MergeResult


@click.command(
    epilog="""\b
Examples:
  omnigraph revert team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --dry-run
  omnigraph revert team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --as ada
  omnigraph revert team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --branch draft"""
)
@graph_arguments("COMMIT")
@click.option("--branch", metavar="BRANCH", default="main", help="Where. Default: main.")
@merge_options
@common_options
def revert(output: Output, place: str, commit: str, branch: str, **flags: Any) -> int:
    """Undo a commit, in a new commit.

    COMMIT is the id of a commit, or a tag. What it changed is changed back; what
    came later stays. Where a later commit has changed the same, that is a conflict:
    ours is what the branch has, theirs what was there before COMMIT.
    """

    def call(graph: Graph, options: dict[str, Any]) -> MergeResult:
        return graph.revert(commit, branch=branch, **options)

    return MergeCall(output, commit, branch, flags, REVERT).run(place, call)


@click.command(
    "cherry-pick",
    epilog="""\b
Examples:
  omnigraph cherry-pick team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph cherry-pick team.omni 01K1F5J2Z3B4N5M6P7Q8R9S0T1 --onto draft
  omnigraph cherry-pick team.omni launch --theirs --as ada""",
)
@graph_arguments("COMMIT")
@click.option("--onto", metavar="BRANCH", default="main", help="Where to. Default: main.")
@merge_options
@common_options
def cherry_pick(output: Output, place: str, commit: str, onto: str, **flags: Any) -> int:
    """Do what a commit did on another branch.

    COMMIT is the id of a commit on any branch, or a tag. Only what this commit has
    changed comes along, not what was before it. Where the branch has changed the
    same, that is a conflict: ours is what the branch has, theirs what COMMIT has.
    """

    def call(graph: Graph, options: dict[str, Any]) -> MergeResult:
        return graph.cherry_pick(commit, onto=onto, **options)

    return MergeCall(output, commit, onto, flags, PICK).run(place, call)
