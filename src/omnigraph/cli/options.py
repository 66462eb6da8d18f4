"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Add `--schema FILE`; the value is None without it."""
    return click.option(
        "--schema",
        "schema_path",
        metavar="FILE",
        type=click.Path(),
        help="The schema, a .pg file. Default: OMNIGRAPH_SCHEMA.",
    )(function)


def engine_options() -> list[Callable[[Any], Any]]:
    """`--engine` and `--master`, for verbs whose large work runs in tasks."""
    return [
        click.option(
            "--engine",
            metavar="ENGINE",
            type=click.Choice(("auto", "local", "spark")),
            default="auto",
            help="local: this process; spark; auto: what is done first, the default.",
        ),
        click.option("--master", metavar="URL", help="Where Spark runs, such as local[4]."),
    ]


def check_engine_options(options: Mapping[str, Any]) -> None:
    """Refuse a master that would not be used.

    Raises:
        UsageError: The engine is this process.
    """
    if options["master"] is not None and options["engine"] == "local":
        raise click.UsageError("--master is where Spark runs, and --engine local does not use it")


def chosen_schema(schema_path: str | None) -> str:
    """Return the schema's path from the option or the environment."""
    path = schema_path or Settings.from_env().schema
    if path is None:
        raise UsageError("no schema; pass --schema FILE or set OMNIGRAPH_SCHEMA")
    return path
