"""Writing a result as JSON, JSON lines, CSV, `key: value` blocks or an Arrow stream.

All writers work through the result in portions, so a result of any size is written in little
more memory than it has itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.query.compiled import ResultField
from omnigraph.results.columns import json_texts, portions, printable, texts

#: Characters that JSON allows in a string, but that a terminal takes as a code.
_CODES = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class TextSink(Protocol):
    """What takes text: a file, or anything else with its `write`."""

    def write(self, text: str, /) -> object:
        """Take a portion of the text."""


def write_json(
    table: pa.Table, fields: Sequence[ResultField], about: Mapping[str, Any], stream: TextSink
) -> None:
    """Write one JSON object: the members of `about`, the fields and the rows, each on a line."""
    stream.write("{\n")
    for name, value in about.items():
        stream.write(f"  {json.dumps(name)}: {harmless(json.dumps(value, ensure_ascii=False))},\n")
    described = [json.dumps(f.to_dict(), ensure_ascii=False) for f in fields]
    stream.write(
        '  "fields": [\n    ' + harmless(",\n    ".join(described)) + '\n  ],\n  "rows": ['
    )
    before = "\n    "
    for rows in json_rows(table, fields):
        stream.write(before + harmless(",\n    ".join(rows)))
        before = ",\n    "
    stream.write("\n  ]\n}\n" if table.num_rows else "]\n}\n")


def write_jsonl(table: pa.Table, fields: Sequence[ResultField], stream: TextSink) -> None:
    """Write a JSON object a line, one for each row."""
    for rows in json_rows(table, fields):
        stream.write(harmless("\n".join(rows)) + "\n")


def write_csv(table: pa.Table, fields: Sequence[ResultField], stream: TextSink) -> None:
    """Write a line with the names and a line for each row, quoted where RFC 4180 wants it.

    A null is empty, and an empty text is quoted, which distinguishes them. Lists are JSON.
    """
    names = csv_cells(pa.array([f.name for f in fields], pa.utf8()))
    stream.write(",".join(names.to_pylist()) + "\n")
    # The line of a row without any text would be blank, and readers skip those.
    null = '""' if len(fields) == 1 else ""
    for columns in portions(table, fields):
        cells = [csv_cells(texts(c, f.type)) for c, f in zip(columns, fields, strict=True)]
        lines = pc.binary_join_element_wise(
            *cells, ",", null_handling="replace", null_replacement=null
        )
        stream.write("\n".join(lines.to_pylist()) + "\n")


def write_kv(table: pa.Table, fields: Sequence[ResultField], stream: TextSink) -> None:
    """Write a block of `name: value` lines for each row, with a blank line between blocks.

    Further lines of a text are indented, so that a blank line is always the end of a block.
    """
    template = "\n".join(_for_template(f.name) + ": %s" for f in fields)
    before = ""
    for columns in portions(table, fields):
        cells = [
            [_kv_text(text) for text in texts(column, field.type).to_pylist()]
            for column, field in zip(columns, fields, strict=True)
        ]
        blocks = [template % row for row in zip(*cells, strict=True)]
        stream.write(before + "\n\n".join(blocks) + "\n")
        before = "\n"


def write_arrow(table: pa.Table, stream: IO[bytes]) -> None:
    """Write an Arrow IPC stream."""
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)


def json_rows(table: pa.Table, fields: Sequence[ResultField]) -> Iterator[list[str]]:
    """Return the rows as JSON objects, portion by portion."""
    names = [_for_template(json.dumps(f.name, ensure_ascii=False)) for f in fields]
    template = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
    for columns in portions(table, fields):
        cells = [
            json_texts(column, field.type).fill_null("null").to_pylist()
            for column, field in zip(columns, fields, strict=True)
        ]
        yield [template % row for row in zip(*cells, strict=True)]


def _for_template(text: str) -> str:
    return text.replace("%", "%%")


def harmless(text: str) -> str:
    """Escape in JSON text what a terminal would obey; it can only be within strings."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _CODES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def csv_cells(cells: pa.Array) -> pa.Array:
    """Quote the texts of a column where CSV wants it; an empty one, too, so that it is no null."""
    special = pc.or_(pc.match_substring_regex(cells, '[",\r\n]'), pc.equal(cells, ""))
    if not pc.any(special).as_py():
        return cells
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(special, pc.binary_join_element_wise('"', doubled, '"', ""), cells)


def _kv_text(text: str | None) -> str:
    if text is None:
        return "null"
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n  ".join(printable(line) for line in lines)
