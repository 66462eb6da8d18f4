"""Rows of a node or edge type as JSON lines, in the form that a load reads.

Whole columns are turned into text and joined, so there is no step for each row. What is written
reads back as the same row: no value is rounded, and a null stays a null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import PHYSICAL_ENDS
from omnigraph.language.types import STRING, Scalar, ValueType
from omnigraph.results.columns import bracketed, json_texts

#: Beyond it, readers that keep every number as a 64-bit float (JavaScript) lose digits.
_MOST_EXACT = (1 << 53) - 1
_WIDE = frozenset({Scalar.I64, Scalar.U64})


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of a table as it is written.

    Attributes:
        name: What users call it: `id`, `from`, `to`, or a property.
        type: What its values are; those of a Blob come as their text.
        keeps_null: True when a null has to be written, since a load fills what is omitted.
        is_end: True for the ends of an edge.
    """

    name: str
    type: ValueType
    keeps_null: bool = False
    is_end: bool = False

    @property
    def stored(self) -> str:
        """The name that the column has in the table."""
        return PHYSICAL_ENDS[self.name] if self.is_end else self.name


@dataclass(frozen=True, slots=True)
class RowForm:
    """How the rows of a type are written.

    Attributes:
        name: The type.
        kind: What it is.
        columns: All columns: `id`, the ends of an edge, the properties.
        derived_id: True when the ids follow from a key.
    """

    name: str
    kind: Literal["node", "edge"]
    columns: tuple[RowColumn, ...]
    derived_id: bool


def json_lines(form: RowForm, rows: Sequence[pa.Array]) -> pa.Array:
    r"""Give the rows as lines of JSON, each with its `\n`.

    Args:
        form: The type.
        rows: The columns of the form, in its order; at least one row.
    """
    columns = dict(zip((c.name for c in form.columns), rows, strict=True))
    line = _Line()
    line.put(f'{{"{_HEADS[form.kind]}":{json.dumps(form.name, ensure_ascii=False)}')
    outside = ("from", "to") if form.kind == "edge" else ()
    for end in outside:
        line.put(f',"{end}":', json_texts(columns[end], STRING))
    line.put(',"data":{')
    left_out = (*outside, "id") if form.derived_id else outside
    _put_members(line, [(c, columns[c.name]) for c in form.columns if c.name not in left_out])
    line.put("}}\n")
    return line.joined()


def json_cells(array: pa.Array, type: ValueType) -> pa.Array:
    """Give the values of a column as JSON, without spaces; large integers are text."""
    if not type.is_scalar:
        return bracketed(array, json_cells(array.flatten(), type.element), comma=",")
    if type.scalar is Scalar.BLOB:
        return json_texts(array, STRING)
    cells = json_texts(array, type)
    if type.scalar in _WIDE and _has_large(array):
        quoted = pc.binary_join_element_wise('"', cells, '"', "")
        return pc.if_else(_is_exact(array), cells, quoted)
    return cells


_HEADS = {"node": "type", "edge": "edge"}


class _Line:
    """What all lines are made of: texts that are the same in each, and columns of texts."""

    def __init__(self) -> None:
        self._parts: list[str | pa.Array] = []

    def put(self, *parts: str | pa.Array) -> None:
        """Go on with a text, or with a column in which a null stands for nothing."""
        for part in parts:
            if isinstance(part, str) and self._parts and isinstance(self._parts[-1], str):
                self._parts[-1] += part
            else:
                self._parts.append(part)

    def joined(self) -> pa.Array:
        """The lines."""
        return pc.binary_join_element_wise(
            *self._parts, "", null_handling="replace", null_replacement=""
        )


def _put_members(line: _Line, members: Sequence[tuple[RowColumn, pa.Array]]) -> None:
    """Go on with the members of an object, without those that are null."""
    # True when every row has a member already, False when none has, or a column of both.
    begun: bool | pa.Array = False
    for column, array in members:
        cells = json_cells(array, column.type)
        if column.keeps_null:
            cells = cells.fill_null("null")
        name = f"{json.dumps(column.name, ensure_ascii=False)}:"
        if isinstance(begun, bool):
            start = f",{name}" if begun else name
        else:
            start = pc.if_else(begun, f",{name}", name)
        if not cells.null_count:
            line.put(start, cells)
            begun = True
            continue
        line.put(pc.binary_join_element_wise(start, cells, ""))
        if begun is not True:
            begun = cells.is_valid() if begun is False else pc.or_(begun, cells.is_valid())


def _has_large(array: pa.Array) -> bool:
    extremes = pc.min_max(array).as_py()
    return extremes["max"] is not None and (
        extremes["max"] > _MOST_EXACT or extremes["min"] < -_MOST_EXACT
    )


def _is_exact(array: pa.Array) -> pa.Array:
    limit = pa.scalar(_MOST_EXACT, array.type)
    exact = pc.less_equal(array, limit)
    if pa.types.is_signed_integer(array.type):
        return pc.and_(exact, pc.greater_equal(array, pa.scalar(-_MOST_EXACT, array.type)))
    return exact
