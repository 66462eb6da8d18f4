"""Columns of a result as Python values, as plain text and as JSON text.

Each function takes a whole Arrow column and the type of its values, and works on the column, not
on its cells, wherever Arrow or NumPy can. A null stays a null in every form: what to write for it
is for the caller to say.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import islice
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, one_array
from omnigraph.language.query.compiled import ResultField
from omnigraph.language.types import Scalar, ValueType

_TIMES = frozenset({Scalar.DATE, Scalar.DATETIME})
_PREVIEW = 3
#: How much of a result is turned into text at once.
_PORTION_ROWS = 10_000
_PORTION_BYTES = 16 << 20


def portions(table: pa.Table, fields: Sequence[ResultField]) -> Iterator[list[pa.Array]]:
    """Return a table's columns, some rows at a time, so that the memory for texts is bounded."""
    rows = table.num_rows
    # One row cannot be divided, so nobody has to know how large it is.
    if rows == 1 or (0 < rows <= _PORTION_ROWS and table.nbytes <= _PORTION_BYTES):
        yield [one_array(table.column(i)) for i in range(len(fields))]
        return
    for batch in slices(table):
        yield [batch.column(i) for i in range(len(fields))]


def slices(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Return the rows of a table, as many at a time as may be turned into text at once."""
    rows = table.num_rows
    fitting = _PORTION_BYTES * rows // max(1, table.nbytes)
    size = max(1, min(_PORTION_ROWS, fitting))
    for start in range(0, rows, size):
        # The columns of a table may be chunked differently, and finely.
        part = table if size >= rows else table.slice(start, size)
        yield from part.combine_chunks().to_batches()


def values(array: pa.Array, type: ValueType) -> list[Any]:
    """Return the Python values of a column; times are in UTC."""
    if not type.is_scalar:
        return _lists(array, values(array.flatten(), type.element))
    if type.scalar is Scalar.DATE and len(array) != 1:
        return list(as_numpy(array).tolist())
    if type.scalar is Scalar.DATETIME:
        # pyarrow's own way takes the zone from whichever library for zones is installed.
        naive = as_numpy(array).tolist()
        return [None if v is None else v.replace(tzinfo=dt.UTC) for v in naive]
    if len(array) == 1 or type.scalar is Scalar.STRING or array.null_count:
        return list(array.to_pylist())
    return list(as_numpy(array).tolist())


def plain_values(array: pa.Array, type: ValueType) -> list[Any]:
    """Return the values of a column as JSON has them; they read back as the same values."""
    if not type.is_scalar:
        return _lists(array, plain_values(array.flatten(), type.element))
    if type.scalar in _TIMES:
        return list(texts(array, type).to_pylist())
    if type.scalar is Scalar.F32:
        # 0.1 is no 64-bit neighbour of the 32-bit 0.1: without this, it has seventeen digits.
        array = pc.cast(pc.cast(array, pa.utf8()), pa.float64())
    return values(array, type)


def texts(array: pa.Array, type: ValueType) -> pa.Array:
    """Return the values of a column as text; lists as JSON."""
    if not type.is_scalar:
        return json_texts(array, type)
    if type.scalar is Scalar.STRING:
        return array
    if type.scalar is Scalar.DATETIME:
        # Arrow is forty times faster when it need not look up what zone UTC is.
        text = pc.cast(pc.cast(array, pa.timestamp("ms")), pa.utf8())
        text = pc.replace_substring(text, " ", "T")
        return _joined("", pc.replace_substring(text, ".000", ""), "Z")
    text = pc.cast(array, pa.utf8())
    return _with_points(text, array) if type.is_float else text


def json_texts(array: pa.Array, type: ValueType) -> pa.Array:
    """Return the values of a column as JSON text."""
    if not type.is_scalar:
        return bracketed(array, json_texts(array.flatten(), type.element))
    if type.scalar is Scalar.STRING:
        return _quoted(array)
    text = texts(array, type)
    return _joined('"', text, '"') if type.scalar in _TIMES else text


def preview_texts(array: pa.Array, type: ValueType) -> pa.Array:
    """Return the values of a column as text for a table, in which vectors are shortened."""
    if type.dimension is None or type.dimension <= _PREVIEW:
        return texts(array, type)
    start = pc.list_slice(array, 0, _PREVIEW)
    return bracketed(start, texts(start.flatten(), type.element), end=", …]")


def printable(text: str) -> str:
    """Put spaces for what could break a line or send a code to the terminal."""
    if text.isprintable():
        return text
    # The two joiners make other letters and pictures of their neighbours; they control nothing.
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else " " for c in text)


def _lists(array: pa.Array, elements: Sequence[Any]) -> list[Any]:
    """Return lists as long as those of the column, made of the elements one after the other."""
    rest = iter(elements)
    lengths = pc.list_value_length(array).to_pylist()
    return [None if n is None else list(islice(rest, n)) for n in lengths]


def bracketed(
    array: pa.Array, elements: pa.Array, *, comma: str = ", ", end: str = "]"
) -> pa.Array:
    """Return each list of a column as text, from the texts of all elements."""
    lengths = as_numpy(pc.fill_null(pc.list_value_length(array), 0))
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    inner = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), comma)
    return pc.if_else(pc.is_valid(array), _joined("[", inner, end), None)


def _quoted(array: pa.Array) -> pa.Array:
    """Return texts as JSON strings; only those that need an escape are looked at one by one."""
    plain = _joined('"', array, '"')
    rows = _with_escapes(array)
    if not len(rows):
        return plain
    escaped = [None if v is None else encode_basestring(v) for v in array.take(rows).to_pylist()]
    mask = np.zeros(len(array), bool)
    mask[rows] = True
    return pc.replace_with_mask(plain, mask, pa.array(escaped, pa.utf8()))


def _with_escapes(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the positions of the texts that have a character that JSON escapes."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return np.empty(0, np.int64)
    ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    start = int(ends[0])
    used = np.frombuffer(data, np.uint8, int(ends[-1]) - start, start)
    # All bytes of characters beyond ASCII are above these.
    escaped = np.flatnonzero((used < 0x20) | (used == ord('"')) | (used == ord("\\"))) + start
    return np.unique(np.searchsorted(ends, escaped, side="right") - 1)


def _with_points(text: pa.Array, floats: pa.Array) -> pa.Array:
    """Have whole floats end in `.0`: Arrow writes 1.0 as 1, which reads back as an integer."""
    # Looking at all texts instead would take longer than making them.
    whole = pc.fill_null(pc.equal(floats, pc.floor(floats)), False)
    pointed = pc.replace_substring_regex(text.filter(whole), r"^-?[0-9]+$", r"\0.0")
    return pc.replace_with_mask(text, whole, pointed) if len(pointed) else text


def _joined(start: str, text: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(start, text, end, "")
