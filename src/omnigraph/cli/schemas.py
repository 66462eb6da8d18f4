"""Which schema a verb works with: the accepted one of a graph, or a .pg file.

`--schema FILE` wins over the graph, which is named as for every verb; OMNIGRAPH_SCHEMA is used
when no graph is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import graph_and
from omnigraph.errors import UsageError
from omnigraph.settings import Settings


class SchemaText(NamedTuple):
    """The text of a schema, and what it is called in messages."""

    text: str
    path: str


def graph_or_schema(
    words: Sequence[str], store: str | None, schema_path: str | None
) -> tuple[str, None] | tuple[None, str]:
    """The place of a graph, or the path of a schema.

    Raises:
        click.UsageError: Both are named, or neither.
    """
    if schema_path is not None:
        if words or store is not None:
            raise click.UsageError("pass a graph or --schema FILE, not both")
        return None, schema_path
    settings = Settings.from_env()
    if not words and store is None and settings.store is None:
        if settings.schema is not None:
            return None, settings.schema
        raise UsageError("no schema; name a graph, or pass --schema FILE")
    (place,) = graph_and(words, store)
    return place, None


def schema_text(place: str | None, schema_path: str | None) -> SchemaText:
    """The text of a graph's schema, or of a file."""
    if place is None:
        assert schema_path is not None
        return SchemaText(read_source(schema_path), schema_path)
    from omnigraph.cli.graphs import reading
    from omnigraph.history.schemas import SCHEMA_TEXT

    with reading(place) as graph:
        history = graph._repository.history
        schema = history.schemas.schema(history.present().state.schema)
        return SchemaText(schema.text, f"{graph.location}/{SCHEMA_TEXT}")
