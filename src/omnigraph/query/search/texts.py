"""The text searches of one query: which rows match, and how relevant they are.

Postings tell it, once it pays off to make them; before that an index finds candidates, or all
texts are read. What a text has to do with the words of a query is decided by `Words` or by
`Postings`, in the same way for every row.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy, distinct
from omnigraph.compute.sql import quoted
from omnigraph.query.search.ascending import among, common
from omnigraph.query.search.pieces import lengths
from omnigraph.query.search.postings import Corpus, Postings, make
from omnigraph.query.search.reading import is_few, read
from omnigraph.query.search.words import Words
from omnigraph.query.source import Source
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.storage.table_ref import ROW_ID

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: How fast more of a word counts less, and how much long texts are held against them.
_K1, _B = 1.2, 0.75
#: How many rows an index finds in the time in which one text is read and split.
_FOUND = 8


class TextColumn(Struct):
    """What queries know about the texts of a column of one version of a table. Safe to share."""

    corpus: Corpus | None = None
    postings: Postings | None = None
    #: The rows without a text.
    nulls: Positions | None = None
    #: True when there are too many words for postings.
    too_large: bool = False
    #: How many texts were looked at.
    effort: float = 0
    guard: threading.Lock = field(default_factory=threading.Lock)


class Text(Struct):
    """A text query on one column: which rows match, as far as that is known."""

    type: str
    column: str
    words: Words
    #: Rows that may match, by an index; None without an index.
    candidates: Positions | None = None
    #: True when all candidates do match.
    certain: bool = False
    #: All rows that match.
    rows: Positions | None = None
    #: In how many rows each word is.
    frequencies: Ints | None = None
    #: How often each of `rows` has each word, when all of them were looked at.
    counts: Ints | None = None


class Texts:
    """The texts of the tables that one query reads."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def query(self, type: str, column: str, text: str, mode: Any, edits: int) -> Text:
        """Look for words in a column."""
        made = Text(type, column, Words(text, mode, edits))
        if not made.words:
            made.rows = np.zeros(0, np.int64)
        elif self._postings(made) is None:
            table = self._source.table(type)
            indexes = [i for i in table.indices() if i.kind == "full_text" and i.column == column]
            if indexes:
                made.candidates = self._search(made, text, mode, edits)
                # With more segments, Lance also finds rows by what they were before an update.
                made.certain = sum(index.segments for index in indexes) == 1
                self._postings(made, len(made.candidates) / _FOUND)
        return made

    def missing(self, type: str, column: str, positions: Positions) -> Flags:
        """Which rows have no text; the positions are ascending, here and below."""
        table = self._source.catalog.table(type)
        assert table is not None
        declared = table.columns.get(column)
        if declared is not None and not declared.nullable:
            return np.zeros(len(positions), bool)
        image = self._source.image(type)
        known = image.kept(TextColumn, column)
        if known.corpus is not None:
            return known.corpus.words[positions] < 0
        with known.guard:
            if known.nulls is None:
                rows = image.snapshot.read([], f"{quoted(column)} is null", places=True)
                known.nulls = distinct(as_numpy(rows[ROW_ID]).astype(np.int64))
                image.grow(known.nulls.nbytes)
        return among(positions, known.nulls)

    def matching(self, text: Text, positions: Positions) -> Flags:
        """Which rows match."""
        if text.rows is None and text.certain:
            made = self._postings(text)
            text.rows = text.candidates if made is None else made.matching(text.words)
        elif text.rows is None:
            chosen, total = positions, self._source.image(text.type).rows
            if text.candidates is not None:
                chosen, total = positions[among(positions, text.candidates)], len(text.candidates)
            few = is_few(len(chosen), total)
            made = self._postings(text, len(chosen) if few else total)
            if made is not None:
                text.rows = made.matching(text.words)
            elif few:
                return among(positions, self._verified(text, chosen))
            else:
                text.rows = self._verified(text, text.candidates)
        assert text.rows is not None
        return among(positions, text.rows)

    def relevance(self, text: Text, positions: Positions) -> tuple[Floats, Flags]:
        """The scores of rows, and which have no text."""
        scores = np.zeros(len(positions))
        made = self._postings_for_all(text, positions) if text.words else None
        corpus = self._corpus(text)
        if text.words:
            if text.frequencies is None:
                text.frequencies = (
                    self._frequencies(text) if made is None else made.frequencies(text.words)
                )
            rest = corpus.count - text.frequencies
            weights = np.log(1 + (rest + 0.5) / (text.frequencies + 0.5))
            counted = (
                self._counted(text, positions)
                if made is None
                else made.counted(text.words, positions)
            )
            for rows, counts in counted:
                size = corpus.words[rows][:, np.newaxis] / corpus.average
                parts = counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * size))
                scores[common(positions, rows)[0]] = (parts * weights).sum(axis=1)
        return scores, corpus.words[positions] < 0

    # --- with postings ---

    def _postings(self, text: Text, texts: float = 0) -> Postings | None:
        """The postings of a column, if they are there or pay off now.

        Making them takes as long as looking at all texts, so they are made once as many texts were
        looked at.

        Args:
            text: The query.
            texts: How many texts are to be looked at else.
        """
        image = self._source.image(text.type)
        known = image.kept(TextColumn, text.column)
        known.effort += texts
        if known.postings is None and not known.too_large and 0 < image.rows <= known.effort:
            with known.guard:
                self._make(image, text.column, known)
        return known.postings

    def _make(self, image: TableColumns, column: str, known: TextColumn) -> None:
        if known.postings is not None or known.too_large:
            return
        made = make(read(image, column), image.rows, image.size)
        if made is None:
            known.too_large = True
            return
        if known.corpus is None:
            known.corpus = made[1]
            image.grow(made[1].words.nbytes)
        known.postings = made[0]
        image.grow(made[0].bytes)

    def _postings_for_all(self, text: Text, positions: Positions) -> Postings | None:
        """The postings for a score: all texts have to be counted once, so they cost little more."""
        image = self._source.image(text.type)
        known = image.kept(TextColumn, text.column)
        if known.postings is not None:
            return known.postings
        some = image.rows if text.candidates is None else len(text.candidates)
        if text.certain and text.words.surfaces is not None and text.candidates is not None:
            some = int(among(positions, text.candidates).sum())
        first = known.corpus is None and not is_few(some, image.rows)
        return self._postings(text, image.rows if first else some)

    # --- without ---

    def _verified(self, text: Text, positions: Positions | None) -> Positions:
        """The rows among some, or among all, whose texts match."""
        found = [np.zeros(0, np.int64)]
        for rows, texts in read(self._source.image(text.type), text.column, positions):
            found.append(rows[text.words.matching(texts)])
        return distinct(*found)

    def _search(self, text: Text, words: str, mode: Any, edits: int = 1) -> Positions:
        table = self._source.table(text.type)
        found = table.search(text.column, words, mode=mode, edits=edits, columns=[ROW_ID])
        return distinct(as_numpy(found[ROW_ID]).astype(np.int64))

    def _counted(self, text: Text, positions: Positions) -> Iterator[tuple[Positions, Ints]]:
        """How often those of some rows have each word that have any."""
        if text.rows is not None:
            positions = positions[among(positions, text.rows)]
        if text.rows is not None and text.counts is not None:
            yield positions, text.counts[np.searchsorted(text.rows, positions)]
        else:
            for rows, texts in read(self._source.image(text.type), text.column, positions):
                order = np.argsort(rows)
                yield rows[order], text.words.counts(texts)[order]

    def _frequencies(self, text: Text) -> Ints:
        """In how many rows each word is; with it, which rows have any of them."""
        surfaces = text.words.surfaces
        if text.certain and text.candidates is not None and surfaces is not None:
            text.rows = text.candidates
            if len(surfaces) == 1:
                return np.array([len(text.rows)])
            return np.array([len(self._search(text, surface, "any")) for surface in surfaces])
        found = [np.zeros(0, np.int64)]
        counted = [np.zeros((0, len(text.words)), np.int64)]
        image = self._source.image(text.type)
        for rows, texts in read(image, text.column, text.candidates):
            counts = text.words.counts(texts)
            some = counts.any(axis=1)
            found.append(rows[some])
            counted.append(counts[some])
        rows = np.concatenate(found)
        order = np.argsort(rows)
        text.rows, text.counts = rows[order], np.concatenate(counted)[order]
        frequencies: Ints = (text.counts > 0).sum(axis=0)
        return frequencies

    def _corpus(self, text: Text) -> Corpus:
        image = self._source.image(text.type)
        known = image.kept(TextColumn, text.column)
        if known.corpus is None:
            with known.guard:
                if known.corpus is None:
                    words = np.full(image.size, -1, np.int32)
                    for rows, texts in read(image, text.column):
                        there = as_numpy(texts.is_valid())
                        words[rows] = np.where(there, lengths(texts), -1)
                    known.corpus = Corpus.of(words)
                    image.grow(words.nbytes)
        return known.corpus
