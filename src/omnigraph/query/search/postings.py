"""Postings: for each token of a text column its rows, how often they have it, and where.

They decide every text search: which rows match, and how often they have which term. Postings of a
whole column are built once for one version of a table, in blocks; then the cost of a query follows
the rows that have its terms, and not the number of texts. Postings of some texts, with the tokens
that one query is about, are built where that is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy, changes, distinct, ranges
from omnigraph.query.search.folding import is_unspaced
from omnigraph.query.search.sorted_sets import common, union
from omnigraph.query.search.spellings import Spellings
from omnigraph.query.search.text_query import TextQuery, is_single
from omnigraph.query.search.tokenizer import (
    Ints,
    Located,
    Numbers,
    blocks,
    located,
    tokens_of_pieces,
)
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions

Whole = npt.NDArray[Any]

_NONE = np.zeros(0, np.int32)


class Corpus(Struct, frozen=True):
    """The texts of a column: how many tokens each has, by position, and -1 for no text."""

    lengths: npt.NDArray[np.int32]
    count: int
    average: float

    @staticmethod
    def of(lengths: npt.NDArray[np.int32]) -> Corpus:
        """What follows from the numbers of tokens."""
        of_texts = lengths[lengths >= 0]
        average = float(of_texts.mean()) if len(of_texts) else 1.0
        return Corpus(lengths, len(of_texts), average or 1.0)


class Postings:
    """Where the tokens of texts are.

    Args:
        numbers: The different tokens, with their numbers.
        starts: Per number its first row among all rows, and the end.
        rows: The rows of each token, ascending.
        counts: How often each of these rows has the token.
        places: Where in their texts they have it.
    """

    def __init__(
        self, numbers: dict[str, int], starts: Ints, rows: Whole, counts: Whole, places: Whole
    ) -> None:
        self._numbers = numbers
        self._spellings = Spellings({t: n for t, n in numbers.items() if not is_unspaced(t)})
        self._starts, self._rows, self._counts, self._places = starts, rows, counts, places
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        #: Per number its first place among all places, and the end.
        self._firsts = ends[starts]
        arrays = (starts, rows, counts, places, self._firsts)
        self.bytes = sum(array.nbytes for array in arrays) + self._spellings.bytes
        self.bytes += policy.TOKEN_BYTES * len(numbers)

    def matching(self, query: TextQuery) -> Positions:
        """The rows that match."""
        terms = self._terms(query)
        if query.mode != "phrase":
            return union([self._rows_of(number) for numbers in terms for number in numbers])
        rows_by_term = [self._occurrences(numbers)[0] for numbers in terms]
        rows = min(rows_by_term, key=len)
        if len(query.phrase) == 1 or not len(rows):
            return rows.astype(np.int64)
        for others in rows_by_term:
            rows = rows[common(rows, others)[0]]
        places = [self._places_in(numbers, rows) for numbers in terms]
        return distinct(_in_order(query.phrase, places))

    def frequencies(self, query: TextQuery) -> Ints:
        """In how many rows each term is."""
        rows = [self._occurrences(numbers)[0] for numbers in self._terms(query)]
        return np.array([len(some) for some in rows], np.int64)

    def counted(self, query: TextQuery, positions: Positions) -> Iterator[tuple[Positions, Ints]]:
        """Those of some rows that have any of the terms, and how often they have each."""
        terms = [self._occurrences(numbers) for numbers in self._terms(query)]
        shared = [common(positions, rows) for rows, _ in terms]
        some = union([mine for mine, _ in shared])
        step = max(1, policy.COUNTED_AT_ONCE // len(terms))
        for start in range(0, len(some), step):
            block = some[start : start + step]
            counts = np.zeros((len(block), len(terms)), np.int64)
            for term, ((_, times), (mine, theirs)) in enumerate(zip(terms, shared, strict=True)):
                at, which = common(block, mine)
                counts[at, term] = times[theirs[which]]
            yield positions[block], counts

    def _terms(self, query: TextQuery) -> list[Sequence[int]]:
        """Per term the numbers of the tokens that stand for it."""
        return [self._tokens_for(term, query) for term in query.terms]

    def _tokens_for(self, term: str, query: TextQuery) -> Sequence[int]:
        if is_single(term):
            return self._by_character.get(term, ())
        if query.mode == "fuzzy" and not is_unspaced(term):
            similar: list[int] = self._spellings.similar(term, query.edits).tolist()
            return similar
        return (self._numbers[term],) if term in self._numbers else ()

    @cached_property
    def _by_character(self) -> dict[str, list[int]]:
        """The tokens that begin with each Chinese or Japanese character."""
        tokens: dict[str, list[int]] = {}
        for token, number in self._numbers.items():
            if is_unspaced(token):
                tokens.setdefault(token[0], []).append(number)
        return tokens

    def _rows_of(self, number: int) -> Whole:
        return self._rows[self._starts[number] : self._starts[number + 1]]

    def _counts_of(self, number: int) -> Whole:
        return self._counts[self._starts[number] : self._starts[number + 1]]

    def _occurrences(self, numbers: Sequence[int]) -> tuple[Whole, Whole]:
        """The rows that have any of some tokens, and how often."""
        if not numbers:
            return _NONE, _NONE
        if len(numbers) == 1:
            return self._rows_of(numbers[0]), self._counts_of(numbers[0])
        rows = union([self._rows_of(number) for number in numbers])
        counts = np.zeros(len(rows), np.int64)
        for number in numbers:
            counts[common(rows, self._rows_of(number))[0]] += self._counts_of(number)
        return rows, counts

    def _places_in(self, numbers: Sequence[int], rows: Whole) -> tuple[Ints, Ints]:
        """Where some rows have any of some tokens: row by row, and the places."""
        found_rows, found_places = [], []
        for number in numbers:
            counts = self._counts_of(number).astype(np.int64)
            theirs, mine = common(self._rows_of(number), rows)
            begins = int(self._firsts[number]) + (np.cumsum(counts) - counts)[theirs]
            found_places.append(self._places[ranges(begins, counts[theirs])].astype(np.int64))
            found_rows.append(np.repeat(rows[mine].astype(np.int64), counts[theirs]))
        if len(numbers) == 1:
            return found_rows[0], found_places[0]
        in_rows, places = np.concatenate(found_rows), np.concatenate(found_places)
        order = np.lexsort((places, in_rows))
        return in_rows[order], places[order]


def _in_order(phrase: Sequence[tuple[int, int]], hits: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The rows in which terms stand as in a phrase.

    Args:
        phrase: How far behind the first term each term stands, and which one it is.
        hits: Per term its rows, and the places in them; both ascending.
    """
    # Wide enough that no phrase goes on in the next row.
    last = max(int(places.max(initial=0)) for _, places in hits)
    width = last + phrase[-1][0] + 1
    keys = [rows * width + places for rows, places in hits]
    # The rarest term comes first: all others are only looked for around it.
    rest = sorted(phrase, key=lambda part: len(keys[part[1]]))
    starts = keys[rest[0][1]] - rest[0][0]
    for at, term in rest[1:]:
        mine = keys[term]
        if not len(mine):
            return np.zeros(0, np.int64)
        wanted = starts + at
        near = np.minimum(np.searchsorted(mine, wanted), len(mine) - 1)
        starts = starts[mine[near] == wanted]
    rows: Ints = starts // width
    return rows


class _Block(Struct, frozen=True):
    """The postings of some texts. Rows are the places of texts among all that were read.

    Attributes:
        numbers: The tokens, ascending.
        sizes: In how many rows each is.
        times: How often each occurs.
    """

    numbers: Ints
    sizes: Ints
    times: Ints
    rows: Whole
    counts: Whole
    places: Whole


class _Builder(Struct):
    """Postings that are being built; of the tokens that a query is about, if there is one."""

    query: TextQuery | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    parts: list[_Block] = field(default_factory=list)
    positions: list[Positions] = field(default_factory=list)
    #: How many texts were read, and what the parts need.
    texts: int = 0
    bytes: int = 0
    _known: dict[str, Numbers] = field(default_factory=dict)

    def add(self, positions: Positions, texts: pa.Array) -> Ints:
        """Add texts, and return how many tokens each has."""
        tokens, lengths = located(texts, self._numbered)
        part = _sorted(tokens, self.texts)
        self.parts.append(part)
        self.positions.append(positions)
        self.texts += len(texts)
        self.bytes += part.rows.nbytes + part.counts.nbytes + part.places.nbytes
        return lengths

    def needed(self, total: int) -> float:
        """How many bytes so many texts need, as far as is known."""
        return self.bytes * (total / max(self.texts, 1)) + policy.TOKEN_BYTES * len(self.numbers)

    def finished(self) -> Postings:
        """The postings of all texts that were added."""
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
            # Each is released when it is copied.
            part = self.parts.pop(0)
            at = ranges(next_row[part.numbers], part.sizes)
            rows[at], counts[at] = part.rows, part.counts
            places[ranges(next_place[part.numbers], part.times)] = part.places
            next_row[part.numbers] += part.sizes
            next_place[part.numbers] += part.times
        positions = np.concatenate([np.zeros(0, np.int64), *self.positions])
        if positions.max(initial=0) <= np.iinfo(np.int32).max:
            positions = positions.astype(np.int32)
        rows = positions[rows]
        if not bool((positions[1:] > positions[:-1]).all()):
            tokens = np.repeat(np.arange(count), sizes)
            order = np.lexsort((rows, tokens))
            ends = np.cumsum(counts, dtype=np.int64)
            rows, counts, begins = rows[order], counts[order], (ends - counts)[order]
            places = places[ranges(begins, counts.astype(np.int64))]
        return Postings(self.numbers, starts, rows, counts, places)

    def _numbered(self, pieces: list[str]) -> list[Numbers]:
        """The numbers of the tokens of pieces; -1 is a stop word, or none that is wanted."""
        query = self.query
        new = [piece for piece in pieces if piece not in self._known]
        if query is not None:
            self._known |= {piece: (-1,) for piece in new if not query.may_be_in(piece)}
            new = [piece for piece in new if query.may_be_in(piece)]
        for piece, tokens in zip(new, tokens_of_pieces(new), strict=True):
            self._known[piece] = tuple(
                -1
                if token is None or (query is not None and not query.is_about(token))
                else self.numbers.setdefault(token, len(self.numbers))
                for token in tokens
            )
        return [self._known[piece] for piece in pieces]


def build_postings(
    texts: Iterable[tuple[Positions, pa.Array]], total: int, size: int
) -> tuple[Postings, Corpus] | None:
    """Build postings, and count tokens; None when that would need too much memory.

    Args:
        texts: Positions and their texts, each position once.
        total: How many texts there are.
        size: One more than the highest position.
    """
    if size > np.iinfo(np.int32).max:
        return None
    builder = _Builder()
    lengths = np.full(size, -1, np.int32)
    for positions, column in texts:
        is_text = as_numpy(column.is_valid())
        for first, part in blocks(column):
            mine = slice(first, first + len(part))
            counts = builder.add(positions[mine], part)
            lengths[positions[mine]] = np.where(is_text[mine], counts, -1)
            if builder.needed(total) > policy.POSTINGS_BYTES:
                return None
    return builder.finished(), Corpus.of(lengths)


def postings_for(query: TextQuery, texts: Iterable[tuple[Positions, pa.Array]]) -> Postings:
    """Postings of texts that decide about one query.

    Args:
        query: The query.
        texts: Positions and their texts, each position once.
    """
    builder = _Builder(query)
    for positions, column in texts:
        for first, part in blocks(column):
            builder.add(positions[first : first + len(part)], part)
    return builder.finished()


def _sorted(tokens: Located, first: int) -> _Block:
    """Tokens in the order of their numbers, and in the order of texts and places for each."""
    bits = len(tokens.numbers).bit_length()
    # All keys differ, so this is faster than a stable order of the numbers.
    keys = tokens.numbers << bits | np.arange(len(tokens.numbers))
    keys.sort()
    at = keys & ((1 << bits) - 1)
    numbers, texts, places = keys >> bits, tokens.texts[at], tokens.places[at]
    new_token = changes(numbers)
    new_row = new_token | changes(texts)
    heads, firsts = np.flatnonzero(new_row), np.flatnonzero(new_token)
    first_rows = np.flatnonzero(new_token[heads])
    return _Block(
        numbers[firsts],
        np.diff(first_rows, append=len(heads)),
        np.diff(firsts, append=len(numbers)),
        (texts[heads] + first).astype(np.int32),
        _small(np.diff(heads, append=len(numbers))),
        _small(places),
    )


def _small(values: Ints) -> Whole:
    """The same numbers in as few bytes as they need."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _type(parts: list[Whole]) -> np.dtype[Any]:
    return np.result_type(np.uint8, *(part.dtype for part in parts))
