"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from omnigraph.errors import UsageError
from omnigraph.settings import Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])


def common_options(function: _Function) -> _Function:
    """Add `--json` (as `as_json`) and `--debug`, which every verb has."""
    function = click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
    )(function)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON."
    )(function)


def schema_option(function: _Function) -> _Function:
    """Add `--schema FILE`; the value is None when it is not given."""
    return click.option(
        "--schema",
        "schema_path",
        metavar="FILE",
        type=click.Path(),
        help="The schema, a .pg file. Default: OMNIGRAPH_SCHEMA.",
    )(function)


def chosen_schema(schema_path: str | None) -> str:
    """Give the schema's path from the option or the environment."""
    path = schema_path or Settings.from_env().schema
    if path is None:
        raise UsageError("no schema given; pass --schema FILE or set OMNIGRAPH_SCHEMA")
    return path
