"""Groups of commands; one that imports a command's module only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from omnigraph.diagnostics import did_you_mean

#: So many commands are listed in a message; of more, `--help` is named.
_LISTED = 8


class VerbGroup(click.Group):
    """A click group that knows which command may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may have been meant."""
        name = args[0]
        names = self.list_commands(ctx)
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        hint = did_you_mean(name, names)
        if hint is None and len(names) <= _LISTED:
            hint = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
        hint = hint or f"`{ctx.command_path} --help` lists them all"
        raise click.UsageError(f"unknown command `{name}`; {hint}", ctx)


class LazyGroup(VerbGroup):
    """A click group that knows its commands by place and short help.

    Args:
        lazy: Name of each command → (`module:attribute`, short help), in the order to list.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in self.lazy.items()])
