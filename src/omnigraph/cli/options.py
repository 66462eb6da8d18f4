"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import click

from omnigraph.cli.output import Output
from omnigraph.errors import UsageError
from omnigraph.settings import Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_order(*options: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Several options as one decorator, in the order of `--help`."""

    def add(function: _Function) -> _Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` and `--debug`, which every verb has; the function gets its `output`."""

    @wraps(function)
    def run(*, as_json: bool, **values: Any) -> Any:
        return function(output=Output(json=as_json), **values)

    return in_order(
        click.option(
            "--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON."
        ),
        click.option(
            "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
        ),
    )(run)


schema_option = click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    type=click.Path(),
    help="The schema, a .pg file. Default: OMNIGRAPH_SCHEMA.",
)


def any_of(name: str, *arguments: str, **options: Any) -> Callable[[_Function], _Function]:
    """Add an option that may be repeated; its value is None when it is left out."""

    def read(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
        return values or None

    return click.option(name, *arguments, multiple=True, callback=read, **options)


type_option = any_of(
    "--type", "types", metavar="TYPE", help="Only this node or edge type; may be repeated."
)


def commit_options(who: str, only: str, call: str) -> Callable[[_Function], _Function]:
    """Add what is said about a commit, as the methods of a graph take it.

    Args:
        who: What `--as` tells, such as `Who loads`.
        only: What `--if-commit` restricts, such as `Load only`.
        call: What `--idempotency-key` makes repeatable, such as `load`.
    """
    return in_order(
        click.option("--as", "actor", metavar="ACTOR", help=f"{who}; recorded in the commit."),
        click.option("--message", "-m", metavar="TEXT", help="What for; recorded in the commit."),
        click.option(
            "--if-commit", metavar="COMMIT", help=f"{only} if the branch is at this commit."
        ),
        click.option(
            "--idempotency-key",
            metavar="KEY",
            help=f"A second {call} with the same key does nothing.",
        ),
    )


def engine_options(auto: str = "what is done first") -> Callable[[_Function], _Function]:
    """Add `--engine` and `--master`, for verbs whose large work runs in tasks."""
    return in_order(
        click.option(
            "--engine",
            metavar="ENGINE",
            type=click.Choice(("auto", "local", "spark")),
            default="auto",
            help=f"local: this process; spark; auto: {auto}, the default.",
        ),
        click.option("--master", metavar="URL", help="Where Spark runs, such as local[4]."),
    )


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
