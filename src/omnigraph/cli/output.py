"""How the command line speaks: results as text or as JSON, errors, colours.

Results go to stdout and everything else to stderr. With `--json` a command prints exactly one
JSON value on stdout, and so does a failing command: its error is an object with `error`, `code`
and `message`. Colours appear only on a terminal, and not when NO_COLOR is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from omnigraph.errors import OmnigraphError, SourceError

if TYPE_CHECKING:
    from omnigraph.diagnostics import Diagnostic

_SEVERITY_COLOUR = {"error": "red", "warning": "yellow"}


class Output:
    """Writes what one command has to say."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json

    def result(self, text: str) -> None:
        """Write a part of the result, as text."""
        self._write(text, sys.stdout)

    def data(self, value: Any) -> None:
        """Write the result as JSON."""
        import json

        self._write(json.dumps(value, indent=2, ensure_ascii=False), sys.stdout)

    def object_with_list(self, head: Mapping[str, Any], name: str, items: Iterable[Any]) -> None:
        """Write an object as JSON whose last member is a list, as its items come."""
        import json

        def compact(value: Any) -> str:
            return json.dumps(value, ensure_ascii=False)

        opening = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}")
        line = f"{opening},\n  {compact(name)}: ["
        is_empty = True
        for item in items:
            self._write(line + ("" if is_empty else ","), sys.stdout)
            line = f"    {compact(item)}"
            is_empty = False
        self._write(f"{line}]\n}}" if is_empty else f"{line}\n  ]\n}}", sys.stdout)

    def table(self, text: str) -> None:
        """Write a table, its heading in bold."""
        heading, newline, rows = text.partition("\n")
        self.result(self.style(heading, bold=True) + newline + rows)

    def note(self, text: str) -> None:
        """Tell something that is not the result."""
        self._write(text, sys.stderr)

    def warning(self, text: str) -> None:
        """Tell what went wrong beside a result."""
        self.note(f"{self.style('warning', sys.stderr, fg='yellow', bold=True)}: {text}")

    def error(self, error: OmnigraphError, usage: str | None = None) -> None:
        """Report the error that ends the command."""
        if self.json:
            self.data(error.to_dict())
        elif isinstance(error, SourceError):
            self.note(self.diagnostics(error.diagnostics, sys.stderr))
        else:
            self.note(f"{self.style('error', sys.stderr, fg='red', bold=True)}: {error.message}")
        if usage and not self.json:
            self.note(f"\n{usage}")

    def diagnostics(self, diagnostics: Sequence[Diagnostic], stream: IO[str] | None = None) -> str:
        """Return diagnostics as text, with a blank line between them."""
        stream = stream or sys.stdout
        return "\n\n".join(self._diagnostic(d, stream) for d in diagnostics)

    def _diagnostic(self, diagnostic: Diagnostic, stream: IO[str]) -> str:
        if not coloured(stream):
            return diagnostic.render()
        colour = _SEVERITY_COLOUR[diagnostic.severity]
        label = f"{diagnostic.severity} {diagnostic.code}"
        headline = diagnostic.headline.replace(label, click.style(label, fg=colour, bold=True), 1)
        source, _, marks = diagnostic.excerpt.rpartition("\n")
        lines = [headline, source, click.style(marks, fg=colour)]
        # What follows the excerpt (the hint) is as `render` has it.
        rest = diagnostic.render()[len(diagnostic.headline) + len(diagnostic.excerpt) + 1 :]
        return "\n".join(lines) + rest

    def style(self, text: str, stream: IO[str] | None = None, **style: Any) -> str:
        """Style text for a stream, if it takes colours."""
        return click.style(text, **style) if coloured(stream or sys.stdout) else text

    def _write(self, text: str, stream: IO[str]) -> None:
        try:
            print(text, file=stream)
        except UnicodeEncodeError:
            # A terminal or pipe that is not UTF-8 gets replacements instead of a crash.
            encoding = getattr(stream, "encoding", None) or "ascii"
            print(text.encode(encoding, "replace").decode(encoding), file=stream)


def coloured(stream: IO[str]) -> bool:
    """True when a stream is a terminal that takes colours."""
    return (
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in ("dumb", "")
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 error`, `2 errors`, `3 queries`, `4 branches`."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith('ch') else 's'}"
