"""Text with marks, wrapped to the width of a terminal.

A line is a list of spans, each with a mark that says what it is: old, new, or of no importance.
Colours are put on at the very end, so that every width is the one that people see. Wide characters
take the two cells that terminals give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import click

from omnigraph.results.terminal import cell_width, cut

Mark = Literal["", "old", "new", "changed", "dim", "bold"]

_STYLES: dict[Mark, dict[str, Any]] = {
    "old": {"fg": "red"},
    "new": {"fg": "green"},
    "changed": {"fg": "yellow"},
    "dim": {"dim": True},
    "bold": {"bold": True},
}
#: A space at which no line ends. No value has it: it is written as an escape there.
UNBROKEN = "\u00a0"
#: Scripts that are written without spaces: a line may end after each of their characters.
IDEOGRAPHS = (
    "\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\U00020000-\U0003fffd"
)
#: What does not begin a line there.
_CLOSING = "、。，．：；！？」』）】〉》ー"
_PIECES = re.compile(f" +|[{IDEOGRAPHS}][{_CLOSING}]*|[^ {IDEOGRAPHS}]+")


class Span(NamedTuple):
    """A piece of a line."""

    text: str
    mark: Mark = ""


Line = list[Span]


def rendered(line: Iterable[Span], *, coloured: bool) -> str:
    """A line as a text, with the codes of colours if they are wanted."""
    if not coloured:
        return "".join(span.text for span in line).replace(UNBROKEN, " ").rstrip()
    shown = []
    for mark, spans in groupby(line, key=lambda span: span.mark):
        text = "".join(span.text for span in spans).replace(UNBROKEN, " ")
        shown.append(click.style(text, **_STYLES[mark]) if mark and text else text)
    return "".join(shown)


def width_of(line: Iterable[Span]) -> int:
    """How many cells a line takes."""
    return sum(cell_width(span.text) for span in line)


def wrapped(spans: Iterable[Span], width: int, *, hanging: int = 0) -> list[Line]:
    """Break a text into lines at spaces; a word that is longer than a line is broken anywhere.

    Args:
        spans: The text, in one line.
        width: How many cells a line may take.
        hanging: How many spaces the lines after the first begin with.
    """
    lines: list[Line] = [[]]
    used = 0
    for space, word in _words(spans):
        taken, gap = width_of(word), len(space.text)
        start = hanging if len(lines) > 1 else 0
        if used > start and used + gap + taken > width:
            lines.append([Span(" " * hanging)])
            used = hanging
        elif gap:
            lines[-1].append(space)
            used += gap
        while used + taken > width:
            first, word = _broken(word, max(1, width - used))
            lines[-1] += first
            lines.append([Span(" " * hanging)])
            used, taken = hanging, width_of(word)
        lines[-1] += word
        used += taken
    return lines


def _words(spans: Iterable[Span]) -> Iterable[tuple[Span, Line]]:
    """The pieces that are not broken, each with the space before it."""
    space, word = Span(""), list[Span]()
    for span in spans:
        for piece in _PIECES.findall(span.text):
            if piece[0] == " " or (word and cell_width(piece[0]) > 1):
                if word:
                    yield space, word
                space, word = Span(""), []
            if piece[0] == " ":
                space = Span(space.text + piece, span.mark)
            else:
                word.append(Span(piece, span.mark))
    if word or space.text:
        yield space, word


def _broken(word: Sequence[Span], room: int) -> tuple[Line, Line]:
    """Break a word after as much as there is room for, but after one character at least."""
    first: Line = []
    rest = list(word)
    while rest:
        span = rest.pop(0)
        taken = cell_width(span.text)
        if taken <= room:
            first.append(span)
            room -= taken
            continue
        # `cut` never parts characters that are drawn as one; its last one says that it has cut.
        head = cut(span.text, room + 1)[:-1] or ("" if first else span.text[0])
        if head:
            first.append(Span(head, span.mark))
        rest.insert(0, Span(span.text[len(head) :], span.mark))
        break
    return first, rest
