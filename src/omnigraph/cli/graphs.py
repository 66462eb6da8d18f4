"""Which graph a verb works on, and opening it.

One rule holds for all verbs: the graph comes first, and may be omitted when `--store` or
OMNIGRAPH_STORE names it. An argument wins over the variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omnigraph.cli.output import Output
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.graph import Graph

_Function = TypeVar("_Function", bound=Callable[..., Any])


def graph_arguments(*names: str) -> Callable[[_Function], _Function]:
    """Add `[GRAPH]` and the named arguments (as `words`), and `--store`; see `graph_and`."""

    def add(function: _Function) -> _Function:
        function = click.option(
            "--store", metavar="GRAPH", help="The graph. Default: OMNIGRAPH_STORE."
        )(function)
        return click.argument("words", nargs=-1, metavar=" ".join(["[GRAPH]", *names]))(function)

    return add


def graph_and(words: Sequence[str], store: str | None, *names: str) -> list[str]:
    """Return the graph's place and the values of the named arguments.

    Raises:
        click.UsageError: An argument is missing or too much, or no graph is named.
    """
    path = click.get_current_context().command_path
    if len(words) > len(names) + 1:
        raise click.UsageError(
            f"too many arguments: `{path}` takes {' '.join(['[GRAPH]', *names])}"
        )
    if len(words) < len(names):
        missing = names[len(words) :]
        raise click.UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
    if len(words) == len(names) + 1:
        if store is not None:
            raise click.UsageError(f"the graph is named twice: {words[0]} and --store {store}")
        return list(words)
    place = store or Settings.from_env().store
    if place is None and names and is_graph(words[0]):
        raise click.UsageError(
            f"{names[-1]} is missing: `{path}` takes {' '.join(['GRAPH', *names])}"
        )
    if place is None:
        example = " ".join([path, "GRAPH", *words])
        raise click.UsageError(
            f"which graph? Name it first, as in `{example}`,\n"
            "or pass --store GRAPH, or set OMNIGRAPH_STORE"
        )
    return [place, *words]


def is_graph(word: str) -> bool:
    """True when a word that might be a file is the place of a graph."""
    return word.startswith("s3://") or os.path.isdir(os.path.join(word, "__manifest"))


def reading(place: str) -> Graph:
    """Open a graph to look at it; nothing is changed, interrupted writes are not resolved."""
    return _open(place, "r")


def writing(place: str, output: Output, target: str) -> Graph:
    """Open a graph to change it, and say on stderr what is going to be changed."""
    graph = _open(place, "rw")
    output.note(f"graph {graph.location}, {target}")
    return graph


def _open(place: str, mode: Any) -> Graph:
    from omnigraph.cli.quick import import_arrow_without_pandas

    import_arrow_without_pandas()
    from omnigraph.graph import open

    return open(place, mode=mode)
