"""A result as HTML for a notebook.

Everything is escaped and styled inline, without colours of its own, so that it is readable on a
light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pyarrow as pa

from omnigraph.language.query.compiled import ResultField
from omnigraph.results.columns import portions, preview_texts, printable

_LONGEST = 200
_LINE = "1px solid rgba(128,128,128,.35)"
_TABLE = (
    "border-collapse:collapse;color:inherit;background:transparent;"
    "font-size:13px;font-variant-numeric:tabular-nums"
)
_CELL = f"padding:3px 10px;border:0;border-bottom:{_LINE};background:transparent;text-align:"
_ENTITY = f"padding:0 6px;border:{_LINE};border-radius:8px"
_FOOT = "margin:4px 10px;font-size:12px;opacity:.7"


def html(table: pa.Table, fields: Sequence[ResultField], foot: Sequence[str], *, rows: int) -> str:
    """Return a table of the first rows, with a line below it that says what it shows.

    Args:
        table: The rows.
        fields: The columns. Ids of nodes and edges are framed, and show their types when pointed
            at.
        foot: What to say below the table.
        rows: How many rows to show.
    """
    shown = table.slice(0, rows)
    sides = ["right" if f.type.is_number else "left" for f in fields]
    head = "".join(
        f'<th style="{_CELL}{side};font-weight:600" title="{_about(field)}">'
        f"{_text(field.name)}</th>"
        for field, side in zip(fields, sides, strict=True)
    )
    lines = [f"<tr>{head}</tr></thead><tbody>"]
    for columns in portions(shown, fields):
        cells = [
            [_cell(text, field, side) for text in preview_texts(column, field.type).to_pylist()]
            for column, field, side in zip(columns, fields, sides, strict=True)
        ]
        lines += [f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True)]
    more = table.num_rows - shown.num_rows
    summary = [f"{table.num_rows:,} row{'' if table.num_rows == 1 else 's'}", *foot]
    if more:
        summary[0] += f", the first {shown.num_rows} shown"
    return (
        f'<div style="max-width:100%;overflow-x:auto"><table style="{_TABLE}"><thead>'
        + "\n".join(lines)
        + f'</tbody></table><div style="{_FOOT}">{" · ".join(map(_text, summary))}</div></div>'
    )


def _cell(text: str | None, field: ResultField, side: str) -> str:
    if text is None:
        return f'<td style="{_CELL}{side};opacity:.5">null</td>'
    shown = _text(text)
    if field.entity:
        shown = f'<span style="{_ENTITY}" title="{_about(field)}">{shown}</span>'
    return f'<td style="{_CELL}{side}">{shown}</td>'


def _about(field: ResultField) -> str:
    return _text(" or ".join(field.entity) if field.entity else str(field.type))


def _text(text: str) -> str:
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return escape(printable(text))
