"""Postings: for each word of a text column its rows, how often they have it, and where.

They are made once for one version of a table, in blocks. Then the cost of a query follows the rows
that have its words, and not the number of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy, changes, distinct, ranges
from omnigraph.query.search.ascending import common, union
from omnigraph.query.search.pieces import (
    Ints,
    Located,
    Numbers,
    blocks,
    located,
    runs_of,
    stems_of_all,
)
from omnigraph.query.search.spellings import Spellings
from omnigraph.query.search.words import Words, in_order
from omnigraph.query.tables.columns import Positions

Whole = npt.NDArray[Any]

#: Columns whose postings would have more bytes are searched without them: this is a quarter of
#: what an open graph keeps, and about 30 million words.
_MOST = 256 << 20
#: What a different word needs beside its rows, about: its text, and its place in a dictionary.
_WORD = 160
#: How many numbers of words in rows are made at a time.
_NUMBERS = 1 << 22


class Corpus(Struct, frozen=True):
    """The texts of a column: how many words each has, by position, and -1 for none."""

    words: npt.NDArray[np.int32]
    count: int
    average: float

    @staticmethod
    def of(words: npt.NDArray[np.int32]) -> Corpus:
        """What follows from the numbers of words."""
        mine = words[words >= 0]
        average = float(mine.mean()) if len(mine) else 1.0
        return Corpus(words, len(mine), average or 1.0)


class Postings:
    """Where the words of a column are.

    Args:
        numbers: The different words, with their numbers.
        starts: Per number its first row among all rows, and the end.
        rows: The rows of each word, ascending.
        counts: How often each of these rows has the word.
        places: Where in their texts they have it.
    """

    def __init__(
        self, numbers: dict[str, int], starts: Ints, rows: Whole, counts: Whole, places: Whole
    ) -> None:
        self._numbers = numbers
        self._spellings = Spellings(numbers)
        self._starts, self._rows, self._counts, self._places = starts, rows, counts, places
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        #: Per number its first place among all places, and the end.
        self._firsts = ends[starts]
        arrays = (starts, rows, counts, places, self._firsts)
        self.bytes = sum(array.nbytes for array in arrays) + self._spellings.bytes
        self.bytes += _WORD * len(numbers)

    def matching(self, words: Words) -> Positions:
        """The rows that match."""
        if words.mode == "fuzzy":
            similar = self._spellings.similar(words.stems, words.edits)
            return union([self._rows_of(number) for number in similar.tolist()])
        if words.mode == "any":
            return union([self._rows_of(number) for number in self._known(words)])
        known = self._known(words)
        if -1 in known:
            return np.zeros(0, np.int64)
        if len(known) == 1:
            return self._rows_of(known[0]).astype(np.int64)
        rows = self._rows_of(min(known, key=lambda number: len(self._rows_of(number))))
        for number in known:
            rows = rows[common(rows, self._rows_of(number))[0]]
        return distinct(in_order(words.phrase, [self._within(n, rows) for n in known]))

    def frequencies(self, words: Words) -> Ints:
        """In how many rows each word is."""
        return np.array([len(self._rows_of(number)) for number in self._known(words)], np.int64)

    def counted(self, words: Words, positions: Positions) -> Iterator[tuple[Positions, Ints]]:
        """Those of some rows that have any of the words, and how often they have each."""
        known = self._known(words)
        shared = [common(positions, self._rows_of(number)) for number in known]
        some = union([mine for mine, _ in shared])
        step = max(1, _NUMBERS // len(known))
        for start in range(0, len(some), step):
            block = some[start : start + step]
            counts = np.zeros((len(block), len(known)), np.int64)
            for word, (number, (mine, theirs)) in enumerate(zip(known, shared, strict=True)):
                at, which = common(block, mine)
                counts[at, word] = self._counts_of(number)[theirs[which]]
            yield positions[block], counts

    def _known(self, words: Words) -> list[int]:
        return [self._numbers.get(stem, -1) for stem in words.stems]

    def _rows_of(self, number: int) -> Whole:
        return self._rows[self._starts[number] : self._starts[number + 1]] if number >= 0 else _NONE

    def _counts_of(self, number: int) -> Whole:
        return (
            self._counts[self._starts[number] : self._starts[number + 1]] if number >= 0 else _NONE
        )

    def _within(self, number: int, rows: Whole) -> tuple[Ints, Ints]:
        """Where some of the rows of a word have it: row by row, and the places."""
        counts = self._counts_of(number).astype(np.int64)
        at = common(self._rows_of(number), rows)[0]
        first = int(self._firsts[number])
        begins = first + (np.cumsum(counts) - counts)[at]
        places = self._places[ranges(begins, counts[at])].astype(np.int64)
        return np.repeat(rows.astype(np.int64), counts[at]), places


_NONE = np.zeros(0, np.int32)


class _Block(Struct, frozen=True):
    """The postings of some texts. Rows are the places of texts among all that were read.

    Attributes:
        numbers: The words, ascending.
        sizes: In how many rows each is.
        times: How often each is there.
    """

    numbers: Ints
    sizes: Ints
    times: Ints
    rows: Whole
    counts: Whole
    places: Whole


class _Making(Struct):
    """Postings that are being made."""

    numbers: dict[str, int] = field(default_factory=dict)
    parts: list[_Block] = field(default_factory=list)
    #: How many texts were read, and what the parts need.
    texts: int = 0
    bytes: int = 0
    _known: dict[str, Numbers] = field(default_factory=dict)

    def add(self, texts: pa.Array) -> Ints:
        """Add texts; gives how many words each has."""
        found, counts = located(texts, self._numbered)
        part = _sorted(found, self.texts)
        self.parts.append(part)
        self.texts += len(texts)
        self.bytes += part.rows.nbytes + part.counts.nbytes + part.places.nbytes
        return counts

    def needed(self, total: int) -> float:
        """How many bytes so many texts need, as far as is known."""
        return self.bytes * (total / max(self.texts, 1)) + _WORD * len(self.numbers)

    def finished(self, positions: Positions) -> Postings:
        """The postings, for texts with these positions."""
        count = len(self.numbers)
        sizes, times = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for part in self.parts:
            sizes[part.numbers] += part.sizes
            times[part.numbers] += part.times
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.empty(int(starts[-1]), np.int32)
        counts = np.empty(len(rows), _type([part.counts for part in self.parts]))
        places = np.empty(int(times.sum()), _type([part.places for part in self.parts]))
        next_row, next_place = starts[:-1].copy(), np.cumsum(times) - times
        while self.parts:
            # Each is given back when it is copied.
            part = self.parts.pop(0)
            at = ranges(next_row[part.numbers], part.sizes)
            rows[at], counts[at] = part.rows, part.counts
            places[ranges(next_place[part.numbers], part.times)] = part.places
            next_row[part.numbers] += part.sizes
            next_place[part.numbers] += part.times
        rows = positions.astype(np.int32)[rows]
        if not bool((positions[1:] > positions[:-1]).all()):
            words = np.repeat(np.arange(count), sizes)
            order = np.lexsort((rows, words))
            ends = np.cumsum(counts, dtype=np.int64)
            rows, counts, begins = rows[order], counts[order], (ends - counts)[order]
            places = places[ranges(begins, counts.astype(np.int64))]
        return Postings(self.numbers, starts, rows, counts, places)

    def _numbered(self, pieces: list[str]) -> list[Numbers]:
        """The numbers of the words in pieces; -1 is a stop word."""
        new = [piece for piece in pieces if piece not in self._known]
        runs = [runs_of(piece) for piece in new]
        stems = iter(stems_of_all([run for some in runs for run in some]))
        for piece, some in zip(new, runs, strict=True):
            found = [word for _ in some for word in next(stems)]
            self._known[piece] = tuple(
                -1 if word is None else self.numbers.setdefault(word, len(self.numbers))
                for word in found
            )
        return [self._known[piece] for piece in pieces]


def make(
    texts: Iterable[tuple[Positions, pa.Array]], total: int, size: int
) -> tuple[Postings, Corpus] | None:
    """Make postings, and count words; None when that would need too much memory.

    Args:
        texts: Positions and their texts, each position once.
        total: How many texts there are.
        size: One more than the highest position.
    """
    if size > np.iinfo(np.int32).max:
        return None
    making = _Making()
    words = np.full(size, -1, np.int32)
    read = [np.zeros(0, np.int64)]
    for positions, column in texts:
        read.append(positions)
        there = as_numpy(column.is_valid())
        for first, part in blocks(column):
            mine = slice(first, first + len(part))
            words[positions[mine]] = np.where(there[mine], making.add(part), -1)
            if making.needed(total) > _MOST:
                return None
    return making.finished(np.concatenate(read)), Corpus.of(words)


def _sorted(found: Located, first: int) -> _Block:
    """Words in the order of their numbers, and in the order of texts and places for each."""
    bits = len(found.numbers).bit_length()
    # Every key is there once, so this is faster than a stable order of the numbers.
    keys = found.numbers << bits | np.arange(len(found.numbers))
    keys.sort()
    at = keys & ((1 << bits) - 1)
    numbers, texts, places = keys >> bits, found.texts[at], found.places[at]
    new_word = changes(numbers)
    new_row = new_word | changes(texts)
    heads, words = np.flatnonzero(new_row), np.flatnonzero(new_word)
    first_rows = np.flatnonzero(new_word[heads])
    return _Block(
        numbers[words],
        np.diff(first_rows, append=len(heads)),
        np.diff(words, append=len(numbers)),
        (texts[heads] + first).astype(np.int32),
        _small(np.diff(heads, append=len(numbers))),
        _small(places),
    )


def _small(values: Ints) -> Whole:
    """The same numbers in as few bytes as they need."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _type(parts: list[Whole]) -> np.dtype[Any]:
    return np.result_type(np.uint8, *(part.dtype for part in parts))
