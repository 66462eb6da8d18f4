"""A result as a table for a terminal.

Columns are two spaces apart and as wide as their widest cell. When the table is wider than the
terminal, texts are cut first, and columns are left out when that is not enough; whatever is left
out is said below the table. Wide characters take the two cells that terminals give them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from unicodedata import combining

import pyarrow as pa

from omnigraph.language.query.compiled import ResultField
from omnigraph.results.columns import portions, preview_texts, printable

_GAP = "  "
#: A text is cut to this width before a column is left out for want of space.
_NARROWEST = 8
#: More characters of a text are not looked at, for each cell of the terminal's width.
_LOOK = 4
#: What certainly takes one cell each: Latin, Greek, Cyrillic, punctuation, currencies.
_ONE_CELL = re.compile("[ -~\xa0-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u20a0-\u20c0]*")
#: What belongs to the character before it: joiners, variants, skin tones.
_BELONGS = re.compile("[\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")


def table_lines(
    table: pa.Table,
    fields: Sequence[ResultField],
    *,
    width: int | None = None,
    rows: int | None = None,
) -> Iterator[str]:
    """Return the lines of a table, the heading first.

    Args:
        table: The rows.
        fields: The columns.
        width: How many cells a line may take; None for as many as it needs.
        rows: How many rows to show; None for all.
    """
    shown = table if rows is None else table.slice(0, rows)
    heads = [printable(f.name) for f in fields]
    look = None if width is None else _LOOK * width
    natural = [cell_width(head) for head in heads]
    for columns in portions(shown, fields):
        for i, (column, field) in enumerate(zip(columns, fields, strict=True)):
            natural[i] = max(natural[i], *map(cell_width, _cells(column, field, look)))
    sizes = natural if width is None else _fitted(natural, fields, width)
    shown_fields = fields[: len(sizes)]
    yield _line(heads, shown_fields, sizes)
    for columns in portions(shown, fields):
        cells = [_cells(c, f, look) for c, f in zip(columns, shown_fields, strict=False)]
        for row in zip(*cells, strict=True):
            yield _line(row, shown_fields, sizes)
    if more := table.num_rows - shown.num_rows:
        yield f"… and {more:,} more row{'s' if more > 1 else ''}"
    if width is not None and (left_out := heads[len(shown_fields) :]):
        s = "s" if len(left_out) > 1 else ""
        yield cut(f"… and {len(left_out)} more column{s}: {', '.join(left_out)}", width)


def cell_width(text: str) -> int:
    """Return the number of cells that a text takes on a terminal."""
    if text.isascii() or _ONE_CELL.fullmatch(text):
        return len(text)
    # Imported when needed: most results do without, and start faster.
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Cut a text that takes more than some cells, and show that it was cut."""
    if cell_width(text) <= width:
        return text
    room = width - 1
    end = bisect_right(range(1, len(text) + 1), room, key=lambda n: cell_width(text[:n]))
    while 0 < end < len(text) and _is_joined(text, end):
        end -= 1
    return text[:end] + "…"


def _is_joined(text: str, place: int) -> bool:
    """True when the characters on both sides of a place are drawn as one."""
    following = text[place]
    return bool(text[place - 1] == "\u200d" or combining(following) or _BELONGS.match(following))


def _cells(column: pa.Array, field: ResultField, look: int | None) -> list[str]:
    texts = preview_texts(column, field.type).to_pylist()
    if look is not None:
        texts = [t if t is None or len(t) <= look else t[:look] + "…" for t in texts]
    return ["null" if text is None else printable(text) for text in texts]


def _line(texts: Sequence[str], fields: Sequence[ResultField], sizes: Sequence[int]) -> str:
    parts = []
    for text, field, size in zip(texts, fields, sizes, strict=False):
        taken = cell_width(text)
        if taken > size:
            text = cut(text, size)
            taken = cell_width(text)
        padding = " " * (size - taken)
        parts.append(padding + text if field.type.is_number else text + padding)
    return _GAP.join(parts).rstrip()


def _fitted(natural: Sequence[int], fields: Sequence[ResultField], width: int) -> list[int]:
    """Return widths so that as many columns as possible fit; long ones share what is left."""
    # A cut number looks like another number, so only texts and lists are cut.
    least = [
        min(n, _NARROWEST) if f.type.is_text or not f.type.is_scalar else n
        for n, f in zip(natural, fields, strict=True)
    ]
    count = len(least)
    while count > 1 and sum(least[:count]) + len(_GAP) * (count - 1) > width:
        count -= 1
    room = width - len(_GAP) * (count - 1)
    sizes = [min(n, room) for n in least[:count]]
    room -= sum(sizes)
    while room > 0:
        wanting = [i for i in range(count) if sizes[i] < natural[i]]
        if not wanting:
            break
        # The narrowest grow first, so that all that are cut end up equally wide.
        narrowest = min(sizes[i] for i in wanting)
        for i in [i for i in wanting if sizes[i] == narrowest][:room]:
            sizes[i] += 1
            room -= 1
    return sizes
