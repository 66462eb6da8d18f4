"""Which state of a graph a verb reads: `--branch`, `--snapshot` and `--at`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from omnigraph.cli.options import in_order
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph import Graph


class State(NamedTuple):
    """What the options say."""

    branch: str | None
    commit: str | None
    at: str | None

    def of(self, graph: Graph) -> dict[str, Any]:
        """The branch and the commit to read, as the methods of a graph take them."""
        branch, commit = self.branch or "main", self.commit
        if self.at is not None:
            commit = graph.at(self.at, branch=branch).commit
        return {"branch": branch, "commit": commit}


def state_options(
    commit_option: str = "--snapshot",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--branch`, `--snapshot` and `--at`, as `state`; those that contradict are refused.

    Args:
        commit_option: What the option is called that takes a commit.
    """

    def add(verb: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(verb)
        def run(*, branch: str | None, commit: str | None, at: str | None, **values: Any) -> Any:
            if commit is not None and at is not None:
                raise UsageError(f"pass {commit_option} or --at, not both: each says what to read")
            if branch is not None and commit is not None:
                raise UsageError(
                    f"pass --branch or {commit_option}, not both: a commit is on one branch already"
                )
            return verb(state=State(branch, commit, at), **values)

        return in_order(
            click.option(
                "--branch", metavar="BRANCH", help="Read the head of this branch. Default: main."
            ),
            click.option(
                commit_option,
                "commit",
                metavar="COMMIT",
                help="Read this commit, by its id or tag.",
            ),
            click.option(
                "--at",
                metavar="REF",
                help="Read the graph as it was: at a commit, tag or branch, a version of the"
                " branch's manifest, or a time such as 2026-01-31T12:00Z.",
            ),
        )(run)

    return add
