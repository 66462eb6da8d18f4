"""Which query a verb runs, with which parameters: `-e`, `--query FILE [NAME]` and `--params`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import click

from omnigraph.cli.files import read_source, read_stdin
from omnigraph.cli.graphs import graph_and, graph_words
from omnigraph.cli.options import in_order
from omnigraph.errors import UsageError
from omnigraph.settings import Settings

query_options = in_order(
    graph_words("[GRAPH] [NAME]"),
    click.option(
        "--query",
        "path",
        metavar="FILE",
        type=click.Path(),
        help="A .gq file; NAME picks one of its queries.",
    ),
    click.option("-e", "text", metavar="TEXT", help="The query itself."),
    click.option(
        "--params",
        "parameters",
        metavar="JSON|@FILE",
        help="Values of the parameters, as a JSON object; @- reads it from stdin.",
    ),
)


def graph_and_name(words: Sequence[str], store: str | None) -> tuple[str, str | None]:
    """Return the graph and the query's name: the graph comes first, either may be omitted."""
    for word in words:
        if word.endswith(".gq"):
            raise click.UsageError(f"{word} is a file of queries; pass it as --query {word}")
    if len(words) > 2:
        path = click.get_current_context().command_path
        raise click.UsageError(f"too many arguments: `{path}` takes [GRAPH] [NAME]")
    if len(words) == 1 and (store is not None or _is_name(words[0])):
        place, name = graph_and(words, store, "NAME")
        return place, name
    if len(words) <= 1:
        (place,) = graph_and(words, store)
        return place, None
    place, name = graph_and(words, store, "NAME")
    return place, name


def _is_name(word: str) -> bool:
    """True when a single word is a query's name, because the environment names the graph."""
    return (
        Settings.from_env().store is not None and word.isidentifier() and not os.path.exists(word)
    )


def read_query(path: str | None, text: str | None) -> str:
    """Return the text of the query, from the file or from the option."""
    if (path is None) == (text is None):
        raise UsageError("pass a query: either --query FILE or -e TEXT")
    return text if text is not None else read_source(str(path))


def read_parameters(text: str | None) -> dict[str, Any] | None:
    """Read `--params`: one JSON object.

    Raises:
        UsageError: It is not a JSON object, or names a member twice.
    """
    if text is None:
        return None
    value, source = _read_json(text)
    if not isinstance(value, dict):
        raise UsageError(f'{source} is no JSON object; write one such as {{"name": "Ada"}}')
    return value


def read_parameter_sets(text: str | None) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Read `--params` of a query that may run several times: an object, or an array of them.

    Raises:
        UsageError: It is something else, or an object names a member twice.
    """
    if text is None:
        return None
    value, source = _read_json(text)
    if isinstance(value, list):
        for number, item in enumerate(value, 1):
            if not isinstance(item, dict):
                raise UsageError(f"set {number} of {source} is no JSON object")
        return value
    if not isinstance(value, dict):
        raise UsageError(
            f'{source} is no JSON object; write one such as {{"name": "Ada"}}, or an array of them'
        )
    return value


def _read_json(text: str) -> tuple[Any, str]:
    """Read JSON from an option, a file or stdin; returns the value and where it came from."""
    source = "--params"
    if text.startswith("@"):
        path = text[1:]
        if not path:
            raise UsageError("--params @ needs a file: @FILE, or @- for stdin")
        source = "stdin" if path == "-" else path
        text = read_stdin() if path == "-" else read_source(path)
    try:
        return json.loads(text, object_pairs_hook=_members), source
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{source} is not JSON (line {error.lineno}, column {error.colno}: {error.msg});"
            ' write an object such as {"name": "Ada"}'
        ) from None
    except RecursionError:
        raise UsageError(f"{source} is nested too deep") from None
    except ValueError:
        # What Python refuses to turn into an integer has thousands of digits.
        raise UsageError(f"{source} has a number with too many digits") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the parameters have `{twice}` twice")
    return members
