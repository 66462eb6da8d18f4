"""Texts as columns of pieces: runs of letters and digits, and what a full-text index knows them by.

All texts of a block are split at once, and each different piece is looked at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_numpy, ranges, scalar
from omnigraph.storage.fuzzy import stems

Ints = npt.NDArray[np.int64]
#: Which words a piece is, one after another; None, or -1 as a number, stands for a stop word.
Stems = tuple[str | None, ...]
Numbers = tuple[int, ...]

#: How many bytes of texts are split at a time.
_BYTES = 1 << 24
#: Bytes of pieces, with ASCII letters lowered, and a space for all that is between them. What is
#: not ASCII is looked at by character, and once per piece.
_SPACE = ord(" ")
_LOWERED = bytes(
    byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else _SPACE
    for byte in range(256)
)
_PIECES = re.compile("[0-9A-Za-z\\x80-\U0010ffff]+")
#: Stands between words whose stems are asked for together, and is its own stem.
_BETWEEN = "q0q0q0q0q"
#: How many stems are asked for together.
_TOGETHER = 10_000


class Located(Struct, frozen=True):
    """Where words are: each with its text, its place in it, and its number."""

    texts: Ints
    places: Ints
    numbers: Ints


def runs_in(text: str) -> list[str]:
    """The runs of a text that a query was given."""
    return [run for piece in _PIECES.findall(text) for run in runs_of(piece)]


def runs_of(piece: str) -> list[str]:
    """Letters and digits that stand together, with marks on them."""
    if piece.isascii():
        return [piece]
    spaced = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in piece)
    return "".join(spaced).split()


@lru_cache(maxsize=1 << 17)
def stems_of(run: str) -> Stems:
    """The words in a run as an index has them, nearly always one; None where it has none."""
    # A text without words is given back as it is, so there is a word before.
    return tuple(stems(f"x {run}").split()[1:]) or (None,)


def stems_of_all(runs: Sequence[str]) -> list[Stems]:
    """The same for many runs, several times faster."""
    found: list[Stems] = []
    for start in range(0, len(runs), _TOGETHER):
        some = runs[start : start + _TOGETHER]
        text = f" {_BETWEEN} ".join(["", *some])
        parts = f"{stems(text)} ".split(f"{_BETWEEN} ")[1:]
        if len(parts) == len(some):
            found += [tuple(part.split()) or (None,) for part in parts]
        else:
            # What stands between them is one of them, too.
            found += [stems_of(run) for run in some]
    return found


def blocks(texts: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Texts in parts of bounded size, each with the place of its first; null is like no words."""
    texts = pc.fill_null(texts, "").cast(pa.large_utf8())
    ends = np.cumsum(as_numpy(pc.binary_length(texts)))
    start = 0
    while start < len(texts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _BYTES, "right")))
        yield start, texts[start:stop]
        start = stop


def lengths(texts: pa.Array) -> Ints:
    """How many pieces texts have, with stop words."""
    return np.concatenate([split(part)[1] for _, part in blocks(texts)] or [np.zeros(0, np.int64)])


def split(texts: pa.Array) -> tuple[pa.Array, Ints]:
    """The pieces of a block of texts, all in one column, and how many each text has."""
    # With a space behind every text, no piece goes on from one to the next.
    space, nothing = (scalar(text, pa.large_utf8()) for text in (" ", ""))
    spaced = pc.binary_join_element_wise(texts, nothing, space)
    _, offset_buffer, data_buffer = spaced.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[: len(texts) + 1]
    if not len(texts):
        return spaced, np.zeros(0, np.int64)
    data = data_buffer[: int(offsets[-1])].to_pybytes().translate(_LOWERED)
    inside = np.frombuffer(data, np.uint8) != _SPACE
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    if inside[0]:
        edges = np.concatenate([[0], edges])
    starts, ends = edges[::2], edges[1::2]
    kept = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=kept[1:])
    pieces = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(kept), pa.py_buffer(data.replace(b" ", b""))
    )
    return pieces, np.diff(np.searchsorted(starts, offsets))


def located(texts: pa.Array, numbers: Callable[[list[str]], list[Numbers]]) -> tuple[Located, Ints]:
    """Where the words of a block of texts are, and how many pieces each text has.

    Args:
        texts: The texts.
        numbers: Gives the numbers of the words in each of some pieces; words with a number below
            0 are left out, but count as a place.
    """
    pieces, counts = split(texts)
    encoded = pieces.dictionary_encode()
    slots = numbers(encoded.dictionary.to_pylist())
    codes = as_numpy(encoded.indices)
    rows = np.repeat(np.arange(len(texts)), counts)
    flat = np.array([number for several in slots for number in several], np.int64)
    if len(flat) == len(slots) and all(slots):
        found = flat[codes]
        begins = np.cumsum(counts) - counts
    else:
        sizes = np.array([len(several) for several in slots], np.int64)
        several = sizes[codes]
        found = flat[ranges((np.cumsum(sizes) - sizes)[codes], several)]
        rows = np.repeat(rows, several)
        begins = np.searchsorted(rows, np.arange(len(texts)))
    places = np.arange(len(rows)) - begins[rows]
    hit = found >= 0
    return Located(rows[hit], places[hit], found[hit]), counts
