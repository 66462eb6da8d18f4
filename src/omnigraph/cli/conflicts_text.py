"""Conflicts of a merge as tables: what the base and both sides have, and what to do about it.

Of a conflict about a whole entity only the properties that differ are shown. Long texts are shown
from where they begin to differ. All conflicts are counted; when there are many, some of each kind
are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from omnigraph.cli.changes_text import Look
from omnigraph.cli.output import counted
from omnigraph.cli.styled import Span, wrapped
from omnigraph.cli.text import one_line, some_of_each
from omnigraph.cli.values_text import escaped, value_text
from omnigraph.results.terminal import cell_width, cut

if TYPE_CHECKING:
    from omnigraph.merge.conflicts import Conflict

_MOST_SHOWN = 20
_MEANINGS = {
    "DivergentInsert": "both sides have inserted it, differently",
    "DivergentUpdate": "both sides have changed it, differently",
    "DeleteVsUpdate": "one side has deleted what the other has changed",
    "OrphanEdge": "an edge would lose its end",
    "UniqueViolation": "two rows would have the same unique value",
    "CardinalityViolation": "a node would have too many or too few edges",
    "ValueConstraintViolation": "a value breaks a rule of the schema",
    "SchemaConflict": "the schemas of both sides do not fit together",
}
#: Of these, the values do not tell what is wrong; the message does.
_OF_RULES = ("OrphanEdge", "UniqueViolation", "CardinalityViolation", "ValueConstraintViolation")
_HEADS = ("entity", "property", "base", "ours", "theirs")
_GAP = 2
_WIDEST_OPTION = 38
_NARROWEST = 8
_WIDEST_ENTITY = 34
#: So many characters before the first difference of long texts are shown.
_BEFORE = 4
_LOOK = 400

_Row = tuple[str, str, str, str, str]


def conflict_lines(conflicts: Sequence[Conflict], look: Look) -> Iterator[str]:
    """The tables, one for each kind of conflict, and how many more there are."""
    counts = Counter(conflict.kind for conflict in conflicts)
    shown = some_of_each(conflicts, attrgetter("kind"), _MOST_SHOWN)
    for kind in counts:
        text = f" ({counts[kind]:,}): {_MEANINGS[kind]}"
        yield look.text([Span(kind, "bold"), Span(text)])
        of_kind = [conflict for conflict in shown if conflict.kind == kind]
        yield from _messages(of_kind, look) if kind == "SchemaConflict" else _table(of_kind, look)
        yield ""
    if more := len(conflicts) - len(shown):
        yield f"… and {counted(more, 'more conflict')}; --json lists all"
        yield ""


def advice_lines(options: Sequence[tuple[str, str]], look: Look) -> list[str]:
    """What settles conflicts: options, and what each of them does."""
    size = min(_WIDEST_OPTION, max(cell_width(option) for option, _ in options))
    lines = [look.text([Span("Settle them, and run it again with", "bold")])]
    for option, meaning in options:
        padding = " " * (size - cell_width(option))
        spans = [Span(f"  {one_line(option)}{padding}  "), Span(one_line(meaning))]
        lines += [look.text(line) for line in wrapped(spans, look.width, hanging=4)]
    return lines


def _messages(conflicts: Sequence[Conflict], look: Look) -> Iterator[str]:
    """Conflicts of which there are no values to show."""
    for conflict in conflicts:
        message = [Span("  "), Span(one_line(conflict.message))]
        for line in wrapped(message, look.width, hanging=4):
            yield look.text(line)


def _table(conflicts: Sequence[Conflict], look: Look) -> Iterator[str]:
    groups = [_rows(conflict) for conflict in conflicts]
    sizes = _sizes(groups, look)
    # What is cut at the start leaves room for others.
    groups = [[_windowed(row, sizes[2:]) for row in group] for group in groups]
    sizes = _sizes(groups, look)
    yield look.text([Span(_line(_HEADS, sizes), "dim")])
    for conflict, group in zip(conflicts, groups, strict=True):
        for entity, *cells in group:
            yield _line([_middle_cut(entity, sizes[0]), *cells], sizes)
        if conflict.kind in _OF_RULES:
            message = [Span("      "), Span(one_line(conflict.message))]
            for line in wrapped(message, look.width, hanging=6):
                yield look.text(line)


def _sizes(groups: Sequence[Sequence[_Row]], look: Look) -> list[int]:
    rows = [row for group in groups for row in group]
    natural = [max(map(cell_width, column)) for column in zip(_HEADS, *rows, strict=True)]
    natural[0] = min(natural[0], _WIDEST_ENTITY)
    return _fitted(natural, look.width - 2 - _GAP * (len(_HEADS) - 1))


def _rows(conflict: Conflict) -> list[_Row]:
    entity = f"{conflict.type} {escaped(conflict.id)}"
    sides = (conflict.base, conflict.ours, conflict.theirs)
    if conflict.property is not None or not any(isinstance(side, Mapping) for side in sides):
        return [(entity, conflict.property or "", *_texts(sides, conflict))]
    names = {name: None for side in sides if side is not None for name in side}
    rows: list[_Row] = []
    for name in names:
        values = [None if side is None else side.get(name) for side in sides]
        present = [v for v, side in zip(values, sides, strict=True) if side is not None]
        if all(_equal(present[0], value) for value in present[1:]) and len(present) > 1:
            continue
        texts = [
            _absent(conflict, place) if side is None else value_text(value, _LOOK)
            for place, (side, value) in enumerate(zip(sides, values, strict=True))
        ]
        rows.append(("" if rows else entity, name, texts[0], texts[1], texts[2]))
    return rows or [(entity, "", *_texts(sides, conflict))]


def _texts(sides: Sequence[Any], conflict: Conflict) -> tuple[str, str, str]:
    whole = conflict.property is None
    base, ours, theirs = (
        _absent(conflict, place)
        if side is None and (whole or (place == 0 and conflict.kind == "DivergentInsert"))
        else "…" if isinstance(side, Mapping) else value_text(side, _LOOK)
        for place, side in enumerate(sides)
    )  # fmt: skip
    return base, ours, theirs


def _absent(conflict: Conflict, place: int) -> str:
    return "deleted" if place and conflict.base is not None else "-"


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and (left == right or (left != left and right != right))


def _windowed(row: _Row, sizes: Sequence[int]) -> _Row:
    """A row whose texts are shown from where they begin to differ, if they are too long."""
    entity, property, *texts = row
    quoted = [text for text in texts if text.startswith('"')]
    cuts = any(cell_width(text) > size for text, size in zip(texts, sizes, strict=True))
    start = _first_difference(quoted) if cuts and len(quoted) > 1 else 0
    if start <= 2 * _BEFORE:
        return row
    at = start - _BEFORE
    # From the beginning of a word, if there is one near.
    space = quoted[0].rfind(" ", at - 2 * _BEFORE, at + 1)
    at = at if space < 0 else space + 1
    base, ours, theirs = (f"…{text[at:]}" if text in quoted else text for text in texts)
    return entity, property, base, ours, theirs


def _first_difference(texts: Sequence[str]) -> int:
    """How many characters some texts begin with in common."""
    together = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda characters: len(set(characters)) == 1, together))


def _middle_cut(text: str, size: int) -> str:
    """A name of which both ends are kept: ids often differ in the end."""
    if cell_width(text) <= size:
        return text
    tail = text[-(size // 3) :]
    return cut(text, size - cell_width(tail)) + tail


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    parts = []
    for cell, size in zip(cells, sizes, strict=True):
        shown = cut(cell, size)
        parts.append(shown + " " * (size - cell_width(shown)))
    return ("  " + (" " * _GAP).join(parts)).rstrip()


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths with which the columns fit: the narrowest grow first, up to what they need."""
    sizes = [min(size, _NARROWEST) for size in natural]
    left = room - sum(sizes)
    while left > 0:
        wanting = [i for i, size in enumerate(sizes) if size < natural[i]]
        if not wanting:
            break
        # Who and what it is about comes before the values.
        first = min(wanting, key=lambda i: (i > 1, sizes[i]))
        sizes[first] += 1
        left -= 1
    return sizes
