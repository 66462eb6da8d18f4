"""Ctrl-C during a long write: what was written is reported, and the exit code is 130."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from omnigraph.cli.output import Output
from omnigraph.errors import NotFound, OmnigraphError

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@contextmanager
def interruptible(output: Output, graph: Graph, branch: str) -> Iterator[None]:
    """Let a write to a branch be interrupted.

    A write that is interrupted in the middle of its commit is finished or undone at once.
    """
    before = _head(graph, branch)
    # Spark's Python side writes tracebacks to the root logger when it is interrupted.
    quiet = logging.NullHandler()
    logging.getLogger().addHandler(quiet)
    try:
        yield
    except KeyboardInterrupt:
        output.error(OmnigraphError(_outcome(graph, branch, before), code="interrupted"))
        raise click.Abort() from None
    finally:
        logging.getLogger().removeHandler(quiet)


def _outcome(graph: Graph, branch: str, before: str | None) -> str:
    from omnigraph.graph import open

    try:
        after = _head(open(graph.location), branch)
    except OmnigraphError as error:
        return f"interrupted; the graph cannot be looked at: {error.message}"
    if after == before:
        return "interrupted; nothing was written"
    return (
        f"interrupted; branch {branch} has moved on meanwhile, to commit {after}:"
        " `omnigraph commit list` shows whether this write is there"
    )


def _head(graph: Graph, branch: str) -> str | None:
    try:
        return graph.snapshot(branch).commit
    except NotFound:
        return None
