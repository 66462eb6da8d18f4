"""Spans of time on the command line, such as `7d`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span_option(
    name: str, *, default: str | None = None, help: str
) -> Callable[[_Function], _Function]:
    """Add an option that takes a span of time; its value is a `timedelta`, or None without one."""

    def read(
        context: click.Context, parameter: click.Parameter, text: str | None
    ) -> timedelta | None:
        return None if text is None else span(text)

    return click.option(
        name,
        metavar="SPAN",
        default=default,
        show_default=default is not None,
        help=help,
        callback=read,
    )


def span(text: str) -> timedelta:
    """Read a span of time: a number and a unit.

    Raises:
        click.BadParameter: The text is something else.
    """
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip())
    if match is None:
        raise click.BadParameter(
            f"`{text}` is no span of time; write a number and s, m, h, d or w, as in 30m, 12h or 7d"
        )
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise click.BadParameter(f"`{text}` is longer than any history") from None
