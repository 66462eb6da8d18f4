"""`omnigraph schema`: the verbs about schemas."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.files import read_source
from omnigraph.cli.graphs import graph_words, reading
from omnigraph.cli.lazy import VerbGroup
from omnigraph.cli.options import common_options, schema_option
from omnigraph.cli.output import Output, coloured
from omnigraph.cli.schemas import graph_or_schema


@click.group(
    cls=VerbGroup,
    epilog="""\b
Examples:
  omnigraph schema show team.omni
  omnigraph schema show --schema schema.pg""",
)
def schema() -> None:
    """Look at a schema."""


@schema.command(
    epilog="""\b
Examples:
  omnigraph schema show team.omni
  omnigraph schema show team.omni --format pg
  omnigraph schema show --schema schema.pg --json"""
)
@graph_words()
@schema_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "pg"]),
    default="table",
    show_default=True,
    help="A table, or the schema's canonical text.",
)
@common_options
def show(
    output: Output, words: tuple[str, ...], store: str | None, schema_path: str | None, form: str
) -> None:
    """Show node types, edge types and their properties.

    Of the schema that a graph has accepted, or of the file that --schema names.

    With --json: the compiled schema with its two hashes. `shape_hash` covers what
    the schema says, `identity_hash` also the stable ids of types and properties.
    """
    from omnigraph.cli.schema_table import plain, print_rich
    from omnigraph.language import compile_schema, print_schema

    place, path = graph_or_schema(words, store, schema_path)
    if path is not None:
        catalog = compile_schema(read_source(path), path=path)
    else:
        assert place is not None
        with reading(place) as graph:
            catalog = graph.catalog
    if output.json:
        output.data(
            {
                "shape_hash": catalog.shape_hash,
                "identity_hash": catalog.identity_hash,
                "schema": catalog.to_dict(),
            }
        )
    elif form == "pg":
        output.result(print_schema(catalog).removesuffix("\n"))
    elif coloured(sys.stdout):
        print_rich(catalog)
    else:
        output.result(plain(catalog))
