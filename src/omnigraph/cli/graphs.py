"""Which graph a verb works on, and opening it.

One rule holds for all verbs: the graph comes first, and may be omitted when `--store` or
OMNIGRAPH_STORE names it. An argument wins over the variable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import in_order
from omnigraph.cli.output import Output
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.graph import Graph

Verb = Callable[..., Any]
store_option = click.option("--store", metavar="GRAPH", help="The graph. Default: OMNIGRAPH_STORE.")


def graph_words(metavar: str = "[GRAPH]") -> Callable[[Verb], Verb]:
    """Add arguments of which the first may be a graph, as `words`, and `--store`."""
    return in_order(click.argument("words", nargs=-1, metavar=metavar), store_option)


def graph_arguments(*names: str) -> Callable[[Verb], Verb]:
    """Add `[GRAPH]`, the named arguments and `--store`; see `graph_and`.

    The verb gets the `place` of the graph, and the arguments by their names in lower case.
    """

    def add(verb: Verb) -> Verb:
        @wraps(verb)
        def run(*, words: Sequence[str], store: str | None, **values: Any) -> Any:
            place, *arguments = graph_and(words, store, *names)
            named = zip((name.lower() for name in names), arguments, strict=True)
            return verb(place=place, **dict(named), **values)

        return graph_words(" ".join(["[GRAPH]", *names]))(run)

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
