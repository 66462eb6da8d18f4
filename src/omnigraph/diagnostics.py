"""Messages that point into source text: where, what is wrong, and what to do about it.

A `Diagnostic` is self-contained: it carries the line it points at, so that it can be printed,
sent as JSON or attached to an error long after the text itself is gone. `Report` collects the
diagnostics of one text while it is compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

Severity = Literal["error", "warning"]

#: A half-open range of character offsets in a source text.
Span = tuple[int, int]

#: After this many errors a text is given up: what follows is usually noise.
MAX_ERRORS = 100

_WINDOW = 70
_MAX_HINT_NAMES = 200
_LONGEST_HINT = 128


class Diagnostic(Struct, frozen=True):
    """One message about one place in a text.

    Attributes:
        code: Stable identifier, such as `OG-SC-104`; `docs/errors.md` lists all of them.
        message: What is wrong, in one sentence.
        severity: `error` or `warning`.
        hint: What to do about it, if there is something to say.
        path: Name of the text (usually a file), if it has one.
        span: Character offsets `(start, end)` in the text.
        line: 1-based line of the start.
        column: 1-based column of the start, in characters.
        source_line: The text of that line.
    """

    code: str
    message: str
    severity: Severity
    hint: str | None
    path: str | None
    span: Span
    line: int
    column: int
    source_line: str

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnostic as plain JSON-ready values."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "hint": self.hint,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "start": self.span[0],
            "end": self.span[1],
            "source_line": self.source_line,
        }

    @property
    def headline(self) -> str:
        """Place, severity, code and message on one line."""
        place = (
            f"{self.path}:{self.line}:{self.column}"
            if self.path
            else f"line {self.line}:{self.column}"
        )
        return f"{place}: {self.severity} {self.code}: {self.message}"

    @property
    def excerpt(self) -> str:
        """The source line with a caret below the place."""
        text, before, marked = _window(
            self.source_line, self.column - 1, max(1, self.span[1] - self.span[0])
        )
        number = str(self.line)
        blank = " " * len(number)
        return f" {number} | {text}\n {blank} | {' ' * before}{'^' * marked}"

    def render(self) -> str:
        """Return the whole message as text: headline, source line with caret, hint."""
        lines = [self.headline, self.excerpt]
        if self.hint:
            lines.append(f" {' ' * len(str(self.line))} = {self.hint}")
        return "\n".join(lines)


class Report:
    """Collects the diagnostics of one text, in the order of their places."""

    __slots__ = ("_diagnostics", "_errors", "_last_line", "_line_starts", "path", "text")

    def __init__(self, text: str, path: str | None = None) -> None:
        self.text = text
        self.path = path
        self._diagnostics: list[Diagnostic] = []
        self._errors = 0
        self._line_starts: list[int] | None = None
        self._last_line: tuple[int, str] | None = None

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record an error; raises `TooManyErrors` when the text is hopeless."""
        self._add(code, message, "error", span, hint)
        self._errors += 1
        if self._errors >= MAX_ERRORS:
            raise TooManyErrors

    def warning(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record a warning."""
        self._add(code, message, "warning", span, hint)

    def drop_warnings(self, first: int) -> None:
        """Forget the warnings among the diagnostics recorded after the first so many."""
        late = [d for d in self._diagnostics[first:] if d.severity == "error"]
        self._diagnostics[first:] = late

    @property
    def count(self) -> int:
        """How many diagnostics were recorded."""
        return len(self._diagnostics)

    @property
    def has_errors(self) -> bool:
        """True once an error was recorded."""
        return self._errors > 0

    @property
    def error_count(self) -> int:
        """How many errors were recorded."""
        return self._errors

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Everything recorded so far, ordered by place."""
        return tuple(sorted(self._diagnostics, key=lambda d: (d.span, d.code)))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            starts = [0]
            find = self.text.find
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            self._line_starts = starts
        return self._line_starts

    def _line_text(self, start: int) -> str:
        # Diagnostics of one line share its text: with a very long line they would fill the memory.
        if self._last_line is None or self._last_line[0] != start:
            end = self.text.find("\n", start)
            text = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
            self._last_line = (start, text)
        return self._last_line[1]

    def _add(
        self, code: str, message: str, severity: Severity, span: Span, hint: str | None
    ) -> None:
        # Messages quote the text, which may have control characters or half surrogates.
        message, hint = _printable(message), _printable(hint) if hint else hint
        size = len(self.text)
        start = min(max(span[0], 0), size)
        end = min(max(span[1], start), size)
        line, column = self.position(start)
        line_start = start - column + 1
        source_line = self._line_text(line_start)
        # Keep the mark on its first line, so that a caret never runs past what is shown.
        shown_end = max(min(end, line_start + len(source_line)), start)
        self._diagnostics.append(
            Diagnostic(
                code,
                message,
                severity,
                hint,
                self.path,
                (start, shown_end),
                line,
                column,
                source_line,
            )
        )


class TooManyErrors(Exception):
    """Raised by `Report.error` to stop compiling a text with very many errors."""


def did_you_mean(name: str, candidates: Iterable[str], mark: str = "") -> str | None:
    """Return a hint with the nearest candidates, or None when nothing is near.

    Args:
        name: What was written.
        candidates: What could have been meant.
        mark: Shown before each candidate, such as the `$` of variables.
    """
    near = near_names(name, candidates)
    if not near:
        return None
    quoted = [f"`{mark}{n}`" for n in near]
    if len(quoted) == 1:
        return f"did you mean {quoted[0]}?"
    return f"did you mean {', '.join(quoted[:-1])} or {quoted[-1]}?"


def with_hint(message: str, name: str, candidates: Iterable[str]) -> str:
    """Return a message about a name that is not known, with the nearest names that are."""
    hint = did_you_mean(name, candidates)
    return message if hint is None else f"{message}; {hint}"


def near_names(name: str, candidates: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` candidates that a person may have meant by `name`: the nearest ones."""
    from difflib import SequenceMatcher

    # `Dok` is near enough to `Doc`, and `nmae` to `name`, but `select` is not to `delete`.
    enough = 0.6 if len(name) <= 3 else 0.7
    # What is compared with the others is the second sequence: only that one is prepared once.
    matcher = SequenceMatcher(b=name.casefold(), autojunk=False)
    scored = [(enough, "")]
    for candidate in islice(candidates, _MAX_HINT_NAMES):
        if candidate != name and len(candidate) + len(name) <= _LONGEST_HINT:
            matcher.set_seq1(candidate.casefold())
            if min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= enough:
                scored.append((matcher.ratio(), candidate))
    best = max(ratio for ratio, _ in scored)
    return sorted(near for ratio, near in scored if near and ratio == best)[:most]


def _window(line: str, start: int, length: int) -> tuple[str, int, int]:
    """Cut a long line around the mark; give the text, cells before the mark, cells marked."""
    start = min(start, len(line))
    first = 0
    if len(line) > _WINDOW:
        first = max(0, min(start - _WINDOW // 3, len(line) - _WINDOW))
    last = min(len(line), first + _WINDOW)
    head = "…" if first else ""
    tail = "…" if last < len(line) else ""
    shown = [_visible(c) for c in line[first:last]]
    before = len(head) + sum(_cells(c) for c in shown[: start - first])
    marked = sum(_cells(c) for c in shown[start - first : start - first + length])
    return head + "".join(shown) + tail, before, max(1, marked)


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char == "\t":
        return "    "
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _cells(shown: str) -> int:
    if len(shown) != 1 or shown.isascii():
        return len(shown)
    import unicodedata

    if unicodedata.combining(shown):
        return 0
    return 2 if unicodedata.east_asian_width(shown) in "WF" else 1
