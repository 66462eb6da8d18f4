"""Which state of a graph a verb reads: `--branch`, `--snapshot` and `--at`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.graph import Graph

_Function = TypeVar("_Function", bound=Callable[..., Any])


def state_options(commit_option: str = "--snapshot") -> Callable[[_Function], _Function]:
    """Add `--branch`, `--snapshot` (as `commit`) and `--at`; see `state_to_read`.

    Args:
        commit_option: What the option is called that takes a commit.
    """

    def add(function: _Function) -> _Function:
        function = click.option(
            "--at",
            metavar="REF",
            help="Read the graph as it was: at a commit, tag or branch, a version of the"
            " branch's manifest, or a time such as 2026-01-31T12:00Z.",
        )(function)
        function = click.option(
            commit_option, "commit", metavar="COMMIT", help="Read this commit, by its id or tag."
        )(function)
        return click.option(
            "--branch", metavar="BRANCH", help="Read the head of this branch. Default: main."
        )(function)

    return add


def check_state(
    branch: str | None, commit: str | None, at: str | None, commit_option: str = "--snapshot"
) -> None:
    """Refuse options that contradict each other, before anything is opened.

    Raises:
        UsageError: They do.
    """
    if commit is not None and at is not None:
        raise UsageError(f"pass {commit_option} or --at, not both: each says what to read")
    if branch is not None and commit is not None:
        raise UsageError(
            f"pass --branch or {commit_option}, not both: a commit is on one branch already"
        )


def state_to_read(
    graph: Graph, branch: str | None, commit: str | None, at: str | None
) -> dict[str, Any]:
    """The branch and the commit to read, as the methods of a graph take them."""
    branch = branch or "main"
    if at is not None:
        commit = graph.at(at, branch=branch).commit
    return {"branch": branch, "commit": commit}
