"""`omnigraph tag`: lasting names of commits."""

from __future__ import annotations

import click

from omnigraph.cli.graphs import graph_arguments, reading, writing
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options
from omnigraph.cli.output import Output
from omnigraph.cli.text import table


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph tag create team.omni launch 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph tag list team.omni""",
)
def tag() -> None:
    """Give commits lasting names."""


@tag.command(
    epilog="""\b
Examples:
  omnigraph tag create team.omni launch 01K1F5J2Z3B4N5M6P7Q8R9S0T1
  omnigraph tag create team.omni today main
  omnigraph snapshot team.omni --commit launch"""
)
@graph_arguments("NAME", "COMMIT")
@common_options
def create(output: Output, place: str, name: str, commit: str) -> None:
    """Give a commit a name.

    The name stands for the commit wherever a commit is asked for. COMMIT is the id
    of a commit on any branch, another tag, or a branch, whose newest commit is meant.
    """
    with writing(place, output, f"tag {name}") as graph:
        commit = graph.tags.create(name, commit)
    if output.json:
        output.data({"name": name, "commit": commit})
    else:
        output.result(f"tag {name} names commit {commit}")


@tag.command(
    "list",
    epilog="""\b
Examples:
  omnigraph tag list team.omni
  omnigraph tag list team.omni --json""",
)
@graph_arguments()
@common_options
def list_tags(output: Output, place: str) -> None:
    """List the tags with their commits."""
    with reading(place) as graph:
        tags = list(graph.tags)
    if output.json:
        output.data([{"name": name, "commit": commit} for name, commit in tags])
    elif tags:
        output.table(table(["tag", "commit"], tags))
    else:
        output.note("there are no tags")


@tag.command(
    epilog="""\b
Example:
  omnigraph tag delete team.omni launch"""
)
@graph_arguments("NAME")
@common_options
def delete(output: Output, place: str, name: str) -> None:
    """Remove a name; the commit stays."""
    with writing(place, output, f"tag {name}") as graph:
        commit = graph.commit(name).id if name in graph.tags.list() else None
        graph.tags.delete(name)
    if output.json:
        output.data({"deleted": name, "commit": commit})
    else:
        output.result(f"deleted tag {name}; it named commit {commit}")
