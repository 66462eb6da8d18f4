"""Finding text in text: exact, case-sensitive, by code points; with a pattern for each row too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy, scalar, single
from omnigraph.compute.datum import Datum

#: Places that are looked at together: bounds the memory, a few arrays of this length.
_BLOCK = 1 << 21


def contains(texts: Datum, patterns: Datum) -> Datum:
    """Say which texts contain their pattern; null when one of them is null."""
    return _matches(texts, patterns, pc.match_substring, anywhere=True)


def starts_with(texts: Datum, patterns: Datum) -> Datum:
    """Say which texts start with their pattern; null when one of them is null."""
    return _matches(texts, patterns, pc.starts_with, anywhere=False)


def _matches(
    texts: Datum, patterns: Datum, kernel: Callable[..., Datum], *, anywhere: bool
) -> Datum:
    if not isinstance(patterns, pa.Scalar):
        return _find(texts, patterns, anywhere=anywhere)
    if not patterns.is_valid:
        return scalar(None, pa.bool_())
    return kernel(texts, pattern=patterns.as_py())


class _Bytes(Struct, frozen=True):
    """The UTF-8 of a column: in UTF-8, a text is found where its bytes are found."""

    data: Any
    starts: Any
    lengths: Any

    @staticmethod
    def of(texts: Datum, rows: int) -> _Bytes:
        array = single(texts.as_py(), pa.utf8()) if isinstance(texts, pa.Scalar) else texts
        _, offsets, data = array.buffers()
        kind = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
        ends = np.frombuffer(offsets, kind, len(array) + 1, array.offset * kind.itemsize)
        ends = ends.astype(np.int64)
        starts, lengths = ends[:-1], np.diff(ends)
        if isinstance(texts, pa.Scalar):
            starts, lengths = np.broadcast_to(starts, rows), np.broadcast_to(lengths, rows)
        return _Bytes(np.frombuffer(data or b"", np.uint8), starts, lengths)


def _find(texts: Datum, patterns: pa.Array, *, anywhere: bool) -> pa.Array:
    rows = len(patterns)
    valid = as_numpy(pc.and_(pc.is_valid(texts), pc.is_valid(patterns)))
    if (isinstance(texts, pa.Scalar) and not texts.is_valid) or rows == 0:
        return pa.nulls(rows, pa.bool_())
    text, pattern = _Bytes.of(texts, rows), _Bytes.of(patterns, rows)
    matches = valid & (pattern.lengths == 0)
    places = np.maximum(text.lengths - pattern.lengths + 1, 0)
    if not anywhere:
        places = np.minimum(places, 1)
    places[matches | ~valid] = 0
    for low, high in _blocks(places):
        row = np.repeat(np.arange(low, high), places[low:high])
        before = np.cumsum(places[low:high]) - places[low:high]
        place = np.arange(len(row)) - np.repeat(before, places[low:high])
        _search(text, pattern, row, place, matches)
    return as_arrow(matches, ~valid)


def _search(text: _Bytes, pattern: _Bytes, row: Any, place: Any, matches: Any) -> None:
    """Keep the places where the next byte is right, until patterns end there."""
    at, want = text.starts[row] + place, pattern.starts[row]
    length = 0
    while len(row):
        keep = text.data[at + length] == pattern.data[want + length]
        length += 1
        ended = keep & (pattern.lengths[row] == length)
        matches[row[ended]] = True
        keep &= ~matches[row]
        row, at, want = row[keep], at[keep], want[keep]


def _blocks(places: Any) -> Iterator[tuple[int, int]]:
    """Cut the rows so that no block has many more places than `_BLOCK`."""
    ends = np.cumsum(places)
    low, done = 0, 0
    while low < len(places):
        high = max(int(np.searchsorted(ends, done + _BLOCK, side="right")), low + 1)
        yield low, high
        low, done = high, int(ends[high - 1])
