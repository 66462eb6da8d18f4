"""Words of texts, as full-text indexes know them: split, lowered, stemmed, without stop words.

Whether a text has some words, how often, and how long it is, is the same with and without an
index, because it is told here for every row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.fuzzy import is_within, stems

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: How many bytes of texts are split into words at a time.
_BYTES = 1 << 24
#: The bytes of words. What is not ASCII is looked at by character, and once per word.
_INSIDE = np.array([byte > 127 or chr(byte).isalnum() for byte in range(256)])
_ASCII_WORDS = re.compile("[0-9A-Za-z\\x80-\U0010ffff]+")


class Words:
    """The words of a text query, and where texts have them.

    Words are runs of letters and digits, lowered and without their endings, as in the indexes.
    Stop words are never found, but count as a place in a phrase.

    Args:
        text: What is searched for.
        mode: `any` word, the `phrase`, or `fuzzy`: any word that is nearly the same.
        edits: In how many letters a fuzzy word may differ.
    """

    def __init__(self, text: str, mode: str = "any", edits: int = 1) -> None:
        self._mode = mode
        self._edits = edits
        runs = [run for chunk in _ASCII_WORDS.findall(text) for run in _runs(chunk)]
        slots = [slot for run in runs for slot in _stems_of(run)]
        self._numbers = {w: n for n, w in enumerate(dict.fromkeys(s for s in slots if s))}
        self._phrase = [(at, self._numbers[slot]) for at, slot in enumerate(slots) if slot]
        self._phrase = [(at - self._phrase[0][0], word) for at, word in self._phrase]
        #: What a word can begin with, unless it is not ASCII: endings go, beginnings stay.
        self._letters = {word[0] for word in self._numbers}
        self._known: dict[str, tuple[int, ...]] = {}
        whole = {str(_stems_of(run)[0]): run for run in runs if len(_stems_of(run)) == 1}
        #: Per word a form of it that stands for no other word; None when one has none.
        self.surfaces = (
            [whole[word] for word in self._numbers]
            if self._numbers.keys() <= whole.keys()
            else None
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def matching(self, texts: pa.Array) -> Ints:
        """The places of the texts that match."""
        found = [np.zeros(0, np.int64)]
        for first, part in _blocks(texts):
            rows, places, words = self._hits(part)
            if self._mode == "phrase":
                rows = self._phrases(rows, places, words)
            found.append(np.unique(rows) + first)
        return np.concatenate(found)

    def counts(self, texts: pa.Array) -> Ints:
        """How often each text has each word."""
        size = len(self)
        found = [np.zeros((0, size), np.int64)]
        for _, part in _blocks(texts):
            rows, _, words = self._hits(part)
            found.append(
                np.bincount(rows * size + words, minlength=len(part) * size).reshape(-1, size)
            )
        return np.concatenate(found)

    def _phrases(self, rows: Ints, places: Ints, words: Ints) -> Ints:
        """The rows in which the words stand one after another."""
        # Wide enough that no phrase goes on in the next row.
        width = int(places.max(initial=0)) + self._phrase[-1][0] + 1
        keys = rows * width + places
        starts = keys
        for at, word in self._phrase:
            starts = starts[np.isin(starts + at, keys[words == word])]
        return starts // width

    def _hits(self, texts: pa.Array) -> tuple[Ints, Ints, Ints]:
        """Where the words are: rows, places in their texts, and which word."""
        chunks, counts = _split(texts)
        encoded = chunks.dictionary_encode()
        slots = [self._slots(chunk) for chunk in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.repeat(np.arange(len(texts)), counts)
        flat = np.array([word for several in slots for word in several], np.int64)
        sizes = np.array([len(several) for several in slots], np.int64)
        begins = np.cumsum(sizes) - sizes
        if len(flat) == len(slots):
            words = flat[codes]
        else:
            several = sizes[codes]
            inner = np.arange(int(several.sum())) - np.repeat(np.cumsum(several) - several, several)
            words = flat[np.repeat(begins[codes], several) + inner]
            rows = np.repeat(rows, several)
        before = np.searchsorted(rows, np.arange(len(texts)))
        places = np.arange(len(rows)) - before[rows]
        hit = words >= 0
        return rows[hit], places[hit], words[hit]

    def _slots(self, chunk: str) -> tuple[int, ...]:
        """Which words a piece of a text is, one after another; -1 is none of ours."""
        if self._mode != "fuzzy" and chunk.isascii() and chunk[0].lower() not in self._letters:
            return (-1,)
        if chunk not in self._known:
            found = (slot for run in _runs(chunk) for slot in _stems_of(run))
            self._known[chunk] = tuple(self._number(slot) for slot in found)
        return self._known[chunk]

    def _number(self, word: str | None) -> int:
        if word is None:
            return -1
        if self._mode != "fuzzy":
            return self._numbers.get(word, -1)
        near = any(is_within(word, other, self._edits) for other in self._numbers)
        return 0 if near else -1


def lengths(texts: pa.Array) -> Ints:
    """How many words texts have, with stop words."""
    return np.concatenate(
        [_split(part)[1] for _, part in _blocks(texts)] or [np.zeros(0, np.int64)]
    )


def _runs(chunk: str) -> list[str]:
    """Letters and digits that stand together, with marks on them."""
    if chunk.isascii():
        return [chunk]
    spaced = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in chunk)
    return "".join(spaced).split()


@lru_cache(maxsize=1 << 17)
def _stems_of(run: str) -> tuple[str | None, ...]:
    """The words in a run as an index has them, nearly always one; None where it has none."""
    # A text without words is given back as it is, so there is a word before.
    return tuple(stems(f"x {run}").split()[1:]) or (None,)


def _blocks(texts: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Texts in parts of bounded size, each with the place of its first."""
    texts = pc.fill_null(texts, "").cast(pa.large_utf8())
    ends = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False))
    start = 0
    while start < len(texts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _BYTES, "right")))
        yield start, texts[start:stop]
        start = stop


def _split(texts: pa.Array) -> tuple[pa.Array, Ints]:
    """The words of texts, all in one column, and how many each text has."""
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if data_buffer is None or offsets[0] == offsets[-1]:
        return pa.array([], pa.large_utf8()), np.zeros(len(texts), np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    bounds = offsets - offsets[0]
    inside = _INSIDE[data]
    # Where a word goes on from the byte before; texts do not go on from one to the next.
    on = np.zeros(len(data) + 1, bool)
    on[1:-1] = inside[1:] & inside[:-1]
    on[bounds] = False
    starts = np.flatnonzero(inside & ~on[:-1])
    ends = np.flatnonzero(inside & ~on[1:]) + 1
    kept = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
    words = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(kept), pa.py_buffer(data[inside])
    )
    counts = np.diff(np.searchsorted(starts, bounds))
    return words, counts
