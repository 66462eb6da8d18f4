"""The text searches of one query: which rows match, and how relevant they are.

Postings of the column decide it, once it pays off to build them. Before that an index finds rows,
or all texts are read, and postings with the query's tokens decide about those. So the answers are
the same, whatever a search uses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy, distinct
from omnigraph.compute.sql import quoted
from omnigraph.query.search.postings import Corpus, Postings, build_postings, postings_for
from omnigraph.query.search.reading import is_few, read, run_long_on_texts
from omnigraph.query.search.sorted_sets import among, common, union
from omnigraph.query.search.text_index import TextIndex
from omnigraph.query.search.text_query import Mode, TextQuery
from omnigraph.query.search.tokenizer import lengths
from omnigraph.query.source import Source
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.storage.table_ref import ROW_ID

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

#: How fast more of a word counts less, and how much long texts are held against them.
_K1, _B = 1.2, 0.75
_NO_ROWS = np.zeros(0, np.int64)


class TextColumn(Struct):
    """What queries know about the texts of a column of one version of a table. Safe to share."""

    corpus: Corpus | None = None
    postings: Postings | None = None
    #: The full-text index, when `knows_index` says that it was looked for.
    index: TextIndex | None = None
    knows_index: bool = False
    #: The rows without a text.
    nulls: Positions | None = None
    #: True when there are too many tokens for postings.
    too_large: bool = False
    #: How many texts were looked at.
    effort: float = 0
    guard: threading.Lock = field(default_factory=threading.Lock)


class TextSearch(Struct):
    """A text search in one column, and what is known about its answer.

    Attributes:
        type: The node or edge type.
        column: The text property.
        query: What is looked for.
        index: What finds rows; None without an index.
        certain: Rows that match.
        uncertain: Rows that may match, too: their texts decide. None stands for all rows.
        rows: All rows that match, once that is known.
        postings: Postings of all rows that may match, with the tokens that the query is about.
        frequencies: In how many rows each term is.
    """

    type: str
    column: str
    query: TextQuery
    index: TextIndex | None = None
    certain: Positions = field(default_factory=lambda: _NO_ROWS)
    uncertain: Positions | None = None
    rows: Positions | None = None
    postings: Postings | None = None
    frequencies: Ints | None = None


class Texts:
    """The texts of the tables that one query reads."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def search(self, type: str, column: str, text: str, mode: Mode, edits: int) -> TextSearch:
        """Look for words in a column."""
        search = TextSearch(type, column, TextQuery(text, mode, edits))
        if not search.query:
            search.rows = _NO_ROWS
        elif self._postings(search) is None:
            index = self._index(search)
            if index is not None and index.can_answer(search.query):
                assert index.postings is not None
                hits = index.hits(self._source.table(type), search.query)
                matching = index.postings.matching(search.query)
                search.index = index
                search.certain = union([hits, matching]) if index.is_exact else matching
                search.uncertain = _NO_ROWS if index.is_exact else hits
                self._postings(search, len(hits) / policy.HITS_PER_TEXT)
        return search

    def missing(self, type: str, column: str, positions: Positions) -> Flags:
        """Which rows have no text; the positions are ascending, here and below."""
        table = self._source.catalog.type(type)
        declared = table.columns.get(column)
        if declared is not None and not declared.nullable:
            return np.zeros(len(positions), bool)
        columns = self._source.columns(type)
        known = columns.search_data(TextColumn, column)
        if known.corpus is not None:
            return known.corpus.lengths[positions] < 0
        with known.guard:
            if known.nulls is None:
                rows = columns.snapshot.read([], f"{quoted(column)} is null", places=True)
                known.nulls = distinct(as_numpy(rows[ROW_ID]).astype(np.int64))
                columns.grow(known.nulls.nbytes)
        return among(positions, known.nulls)

    def matching(self, search: TextSearch, positions: Positions) -> Flags:
        """Which rows match."""
        if search.rows is None:
            chosen, total = positions, self._source.columns(search.type).rows
            if search.uncertain is not None:
                chosen = positions[among(positions, search.uncertain)]
                total = len(search.uncertain)
            few = is_few(len(chosen), total)
            postings = self._postings(search, len(chosen) if few else total)
            if postings is not None:
                search.rows = postings.matching(search.query)
            elif few:
                decided = self._read(search, chosen).matching(search.query)
                return among(positions, union([decided, search.certain]))
            else:
                decided = self._read(search, search.uncertain).matching(search.query)
                search.rows = union([decided, search.certain])
        return among(positions, search.rows)

    def all_matching(self, search: TextSearch) -> Positions | None:
        """All rows that match; None when there is neither an index nor postings to tell."""
        if search.rows is None:
            texts = 0 if search.uncertain is None else len(search.uncertain)
            postings = self._postings(search, texts)
            if postings is not None:
                search.rows = postings.matching(search.query)
            elif search.uncertain is None:
                return None
            else:
                decided = self._read(search, search.uncertain).matching(search.query)
                search.rows = union([decided, search.certain])
        return search.rows

    def relevance(self, search: TextSearch, positions: Positions) -> tuple[Floats, Flags]:
        """The scores of rows, and which have no text."""
        scores = np.zeros(len(positions))
        postings = self._postings_for_all(search, positions) if search.query else None
        corpus = self._corpus(search)
        if search.query:
            if postings is None and (search.index is None or not search.index.is_exact):
                postings = search.postings = search.postings or self._read_all(search)
            if search.frequencies is None:
                search.frequencies = (
                    self._indexed_frequencies(search)
                    if postings is None
                    else postings.frequencies(search.query)
                )
            rest = corpus.count - search.frequencies
            weights = np.log(1 + (rest + 0.5) / (search.frequencies + 0.5))
            for rows, counts in self._counted(search, postings, positions):
                size = corpus.lengths[rows][:, np.newaxis] / corpus.average
                parts = counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * size))
                scores[common(positions, rows)[0]] = (parts * weights).sum(axis=1)
        return scores, corpus.lengths[positions] < 0

    def index_names(self, type: str, column: str) -> list[str]:
        """The index that the next search in a column is going to ask."""
        known = self._source.columns(type).search_data(TextColumn, column)
        if known.postings is not None or (known.knows_index and known.index is None):
            return []
        indexes = self._source.table(type).indices()
        names = [i.name for i in indexes if i.kind == "full_text" and i.column == column]
        return names if len(names) == 1 else []

    # --- with postings of the column ---

    def _postings(self, search: TextSearch, texts: float = 0) -> Postings | None:
        """The postings of a column, if they are built or pay off now.

        Building them takes as long as looking at all texts, so they are built once as many texts
        were looked at.

        Args:
            search: The search.
            texts: How many texts are to be looked at otherwise.
        """
        columns = self._source.columns(search.type)
        known = columns.search_data(TextColumn, search.column)
        known.effort += texts
        if known.postings is None and not known.too_large and 0 < columns.rows <= known.effort:
            run_long_on_texts(columns.rows, lambda: self._build(columns, search.column, known))
        return known.postings

    def _build(self, columns: TableColumns, column: str, known: TextColumn) -> None:
        with known.guard:
            if known.postings is None and not known.too_large:
                self._add_postings(columns, column, known)

    def _add_postings(self, columns: TableColumns, column: str, known: TextColumn) -> None:
        built = build_postings(read(columns, column), columns.rows, columns.size)
        if built is None:
            known.too_large = True
            return
        postings, corpus = built
        if known.corpus is None:
            known.corpus = corpus
            columns.grow(corpus.lengths.nbytes)
        known.postings = postings
        columns.grow(postings.bytes)

    def _postings_for_all(self, search: TextSearch, positions: Positions) -> Postings | None:
        """The postings for a score: all texts have to be counted once, so they cost little more."""
        columns = self._source.columns(search.type)
        known = columns.search_data(TextColumn, search.column)
        if known.postings is not None:
            return known.postings
        some = columns.rows if search.uncertain is None else len(search.uncertain)
        if search.index is not None and search.index.is_exact:
            some = int(among(positions, search.certain).sum())
        first = known.corpus is None and not is_few(some, columns.rows)
        return self._postings(search, columns.rows if first else some)

    # --- without ---

    def _index(self, search: TextSearch) -> TextIndex | None:
        """The full-text index of a column, unless it can answer for too few rows."""
        columns = self._source.columns(search.type)
        known = columns.search_data(TextColumn, search.column)
        if not known.knows_index:
            run_long_on_texts(columns.rows, lambda: self._find_index(search, columns, known))
        return known.index

    def _find_index(self, search: TextSearch, columns: TableColumns, known: TextColumn) -> None:
        with known.guard:
            if not known.knows_index:
                index = TextIndex.of(self._source.table(search.type), search.column)
                if index is not None and is_few(len(index.others), columns.rows):
                    texts = read(columns, search.column, index.others)
                    built = build_postings(texts, len(index.others), columns.size)
                    if built is not None:
                        index.postings = built[0]
                        known.index = index
                        columns.grow(index.others.nbytes + index.postings.bytes)
                known.knows_index = True

    def _read(self, search: TextSearch, positions: Positions | None) -> Postings:
        """Postings of some rows, or of all, with the tokens that the query is about."""
        columns = self._source.columns(search.type)
        return run_long_on_texts(
            columns.rows if positions is None else len(positions),
            lambda: postings_for(search.query, read(columns, search.column, positions)),
        )

    def _read_all(self, search: TextSearch) -> Postings:
        """The same of all rows that may match."""
        if search.uncertain is None:
            return self._read(search, None)
        return self._read(search, union([search.uncertain, search.certain]))

    def _indexed_frequencies(self, search: TextSearch) -> Ints:
        """In how many rows each term is, by an index."""
        assert search.index is not None and search.index.postings is not None
        if len(search.query.terms) == 1:
            return np.array([len(search.certain)])
        table = self._source.table(search.type)
        others = search.index.postings.frequencies(search.query)
        frequencies: Ints = others + np.array(search.index.frequencies(table, search.query))
        return frequencies

    def _counted(
        self, search: TextSearch, postings: Postings | None, positions: Positions
    ) -> Iterator[tuple[Positions, Ints]]:
        """How often those of some rows have each term that have any."""
        if postings is None:
            positions = positions[among(positions, search.certain)]
            postings = self._read(search, positions)
        return postings.counted(search.query, positions)

    def _corpus(self, search: TextSearch) -> Corpus:
        columns = self._source.columns(search.type)
        known = columns.search_data(TextColumn, search.column)
        return known.corpus or run_long_on_texts(
            columns.rows, lambda: self._count_tokens(search.column, columns, known)
        )

    def _count_tokens(self, column: str, columns: TableColumns, known: TextColumn) -> Corpus:
        with known.guard:
            if known.corpus is None:
                by_position = np.full(columns.size, -1, np.int32)
                for rows, texts in read(columns, column):
                    is_text = as_numpy(texts.is_valid())
                    by_position[rows] = np.where(is_text, lengths(texts), -1)
                known.corpus = Corpus.of(by_position)
                columns.grow(by_position.nbytes)
            return known.corpus
