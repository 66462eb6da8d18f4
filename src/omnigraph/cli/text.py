"""Plain text in columns, for terminals of any width and for pipes."""

from __future__ import annotations

import datetime as dt
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

T = TypeVar("T")
_NARROWEST = 40
_WIDEST = 100


def width() -> int:
    """How many columns to fill: those of the terminal, 80 in a pipe."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))


def indented(text: str, indent: str) -> str:
    """Wrap text, every line indented."""
    return textwrap.fill(
        text, width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Align rows in columns, two spaces apart; the last column is wrapped to the width."""
    count = max(len(row) for row in rows)
    widths = [max(len(row[i]) for row in rows if len(row) > i) for i in range(count - 1)]
    start = len(indent) + sum(widths) + 2 * len(widths)
    room = max(20, width() - start)
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        last = row[count - 1] if len(row) == count else ""
        wrapped = textwrap.wrap(last, room, break_on_hyphens=False) or [""]
        lines.append((indent + "  ".join([*cells, wrapped[0]])).rstrip())
        lines += [" " * start + more for more in wrapped[1:]]
    return "\n".join(lines)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    below: Sequence[Sequence[str]] = (),
) -> str:
    """Return rows under a heading, in columns two spaces apart.

    Args:
        head: The names of the columns.
        rows: The cells.
        right: Columns to align at the right: numbers.
        below: For each row, texts that follow it, indented and wrapped.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    sizes = [max(map(_cells, column)) for column in zip(head, *cells, strict=True)]
    lines = []
    for number, row in enumerate([head, *cells]):
        aligned = []
        for name, cell, size in zip(head, row, sizes, strict=True):
            padding = " " * (size - _cells(cell))
            aligned.append(padding + cell if name in right else cell + padding)
        lines.append("  ".join(aligned).rstrip())
        if number and below:
            lines += [indented(one_line(text), "    ") for text in below[number - 1]]
    return "\n".join(lines)


def _cells(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    # Imported when needed: it loads Arrow, which most verbs with such texts have loaded anyway.
    from omnigraph.results.terminal import cell_width

    return cell_width(text)


def moment(time: dt.datetime) -> str:
    """Return a time in UTC, to the second."""
    return time.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def some_of_each(items: Sequence[T], kind: Callable[[T], str], most: int) -> list[T]:
    """Some items, in their order: as many of each kind as there is room for."""
    nth: Counter[str] = Counter()
    ranked = []
    for place, item in enumerate(items):
        nth[kind(item)] += 1
        ranked.append((nth[kind(item)], place))
    return [items[place] for place in sorted(place for _, place in sorted(ranked)[:most])]


def one_line(text: str) -> str:
    """What others have written must not break lines or send codes to the terminal."""
    # The two joiners make other letters and pictures of their neighbours; they control nothing.
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else " " for c in text)
