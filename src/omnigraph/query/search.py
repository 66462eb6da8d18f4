"""Searching: text filters, scores and their fusion, as columns that expressions can name.

Every search function of a plan was replaced by a property that no table has (`searched`), which is
computed here as a function of positions. Indexes only find candidates: what a text has to do with
the words of a query is decided by `Words`, in the same way for every row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compute.arrays import as_arrow
from omnigraph.compute.evaluate import Given, value
from omnigraph.compute.sql import quoted
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import (
    Checked,
    Rank,
    TextMatch,
)
from omnigraph.query.frames import Frame
from omnigraph.query.images import Positions, TableImage
from omnigraph.query.ordering import ranks
from omnigraph.query.searched import Meaning, Share, function_of
from omnigraph.query.source import Source
from omnigraph.query.words import Words, lengths
from omnigraph.storage.tables import ROW_ID

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: Gives what embeds texts; only called when there are some.
GetEmbedder = Callable[[], "Embedder"]

_MODES: Mapping[str, Any] = {"search": "any", "match_text": "phrase", "fuzzy": "fuzzy"}
#: How fast more of a word counts less, and how much long texts are held against them.
_K1, _B = 1.2, 0.75
#: Rows of a table are looked at by themselves when they are fewer than this part of all.
_FEW = 8
#: Tables of up to this many rows are kept in memory, with their vectors.
_SMALL = 20_000
#: How many numbers of vectors are compared at a time.
_NUMBERS = 1 << 22


class SearchedSource(Source):
    """A source with columns that are computed; it shares all else with the one it is made of."""

    def __init__(self, source: Source, searches: Searches) -> None:
        vars(self).update(vars(source))
        self.searches = searches


@dataclass
class _Text:
    """A text query on one table: which rows match, as far as that is known."""

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


@dataclass(frozen=True)
class _Corpus:
    """The texts of a column: how many words each has, by position, and -1 for none."""

    words: npt.NDArray[np.int32]
    count: int
    average: float


#: What later queries of the same version of a table need again, by column.
_corpora: WeakKeyDictionary[TableImage, dict[str, _Corpus]] = WeakKeyDictionary()
_nulls: WeakKeyDictionary[TableImage, dict[str, Positions]] = WeakKeyDictionary()
_guard = threading.Lock()


@dataclass
class Searches:
    """The search functions of one query."""

    source: Source
    given: Given
    meanings: Mapping[str, Meaning]
    embedder: GetEmbedder | None = None
    _texts: dict[tuple[str, str], _Text] = field(default_factory=dict)
    _distances: dict[tuple[str, str], Floats] = field(default_factory=dict)
    #: The vectors of the texts that `nearest` was given, by text and size.
    _vectors: dict[tuple[str, int], Floats] = field(default_factory=dict)
    #: Per name and type the positions that were asked for last, and what was found.
    _last: dict[tuple[str, str], tuple[Positions, npt.NDArray[Any], Flags]] = field(
        default_factory=dict
    )
    #: Per share and type the positions that are ranked, and what they get.
    _shares: dict[tuple[str, str], tuple[Positions, Floats]] = field(default_factory=dict)

    # --- what the engine asks ---

    @property
    def fuses(self) -> bool:
        """True when a score depends on all matches."""
        return any(isinstance(meaning, Share) for meaning in self.meanings.values())

    def check(self, types: Mapping[str, tuple[str, ...]], seconds: float | None = None) -> None:
        """Check what is searched for, and embed the texts that `nearest` was given.

        Args:
            types: The types of each variable.
            seconds: How long embedding may take.

        Raises:
            UsageError: A value cannot be used.
            EmbeddingError: A text could not be embedded.
        """
        texts: dict[int, list[str]] = {}
        for meaning in self.meanings.values():
            match meaning:
                case TextMatch(edits=edits) if edits is not None:
                    _whole(edits, self.given, "the edit distance", 0, 2)
                case Share():
                    _whole(meaning.k, self.given, "`k` of rrf", 1, 1_000_000)
                case Rank(function="nearest"):
                    text = value(meaning.query, self.given)
                    if isinstance(text, str):
                        self._check_text(meaning, text, types[meaning.property.variable])
                        texts.setdefault(_size(meaning), []).append(text)
        until = None if seconds is None else time.monotonic() + seconds
        for size, wanted in texts.items():
            assert self.embedder is not None
            wanted = list(dict.fromkeys(wanted))
            made = self.embedder().embed(wanted, size, "query", until)
            for text, vector in zip(wanted, made, strict=True):
                self._vectors[text, size] = vector.astype(np.float64)

    def _check_text(self, meaning: Rank, text: str, types: Sequence[str]) -> None:
        """Check that a text can be compared with the vectors of all types."""
        if not text.strip():
            raise UsageError(f"{meaning}: an empty text is near to nothing; give some words")
        if self.embedder is None:
            raise UsageError(f"{meaning}: texts cannot be embedded here; pass a vector")
        embedder = self.embedder()
        for type in types:
            model = self.source.embedding_model(type, meaning.property.property)
            if model is not None and not embedder.is_model(model):
                raise UsageError(
                    f"{meaning}: the vectors of {type} are made with the model `{model}`, but texts"
                    f" are embedded with `{embedder.identifier}` here, and their vectors cannot be"
                    f" compared; set OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL so that"
                    f" `{model}` is used, or pass a vector"
                )

    def column(self, name: str, type: str, positions: Positions) -> pa.Array:
        """The values of a computed property for rows of a type; a position below 0 gives null."""
        distinct, back = np.unique(positions, return_inverse=True)
        missing = int(np.searchsorted(distinct, 0))
        found, nothing = self._values(name, type, distinct[missing:])
        values = np.concatenate([np.zeros(missing, found.dtype), found])
        mask = np.concatenate([np.ones(missing, bool), nothing])
        return as_arrow(values[back], mask[back])

    def _values(self, name: str, type: str, known: Positions) -> tuple[npt.NDArray[Any], Flags]:
        """The values for different positions in order, and where there is none."""
        if (name, type) in self._last:
            # What is ordered by is mostly asked for again, for the rows that are left.
            before, found, nothing = self._last[name, type]
            at = np.searchsorted(before, known)
            if not len(known) or (at[-1] < len(before) and bool((before[at] == known).all())):
                return found[at], nothing[at]
        meaning = self.meanings[name]
        match meaning:
            case TextMatch():
                found, nothing = self._matches(name, meaning, type, known)
            case Rank(function="bm25"):
                found, nothing = self._relevance(name, meaning, type, known)
            case Rank():
                found = self._nearness(name, meaning, type, known)
                nothing = np.isnan(found)
            case Share():
                found = _looked_up(*self._shares[name, type], known)
                nothing = np.zeros(len(known), bool)
        self._last[name, type] = known, found, nothing
        return found, nothing

    def rank(self, frame: Frame, types: Mapping[str, tuple[str, ...]]) -> None:
        """Rank all matches, for the fusions. Has to come before their columns are asked for."""
        for name, meaning in self.meanings.items():
            if isinstance(meaning, Share):
                variable = meaning.rank.variable
                kinds = frame.kinds.get(variable)
                found = {
                    type: np.unique(
                        frame.columns[variable]
                        if kinds is None
                        else frame.columns[variable][kinds == place]
                    )
                    for place, type in enumerate(types[variable])
                }
                self._rank(name, meaning, {t: p[p >= 0] for t, p in found.items()})

    def _rank(self, name: str, meaning: Share, found: Mapping[str, Positions]) -> None:
        ranking = meaning.rank.property
        better_high = function_of(self.meanings[ranking]) == "bm25"
        scores, kinds, positions = [], [], []
        for place, (type, mine) in enumerate(found.items()):
            column = self.column(ranking, type, mine)
            score = column.to_numpy(zero_copy_only=False).astype(np.float64)
            # A text without any of the words, and a node without a vector, has no rank.
            ranked = score > 0 if better_high else ~np.isnan(score)
            scores.append(-score[ranked] if better_high else score[ranked])
            positions.append(mine[ranked])
            kinds.append(np.full(int(ranked.sum()), place))
        score, kind = np.concatenate(scores), np.concatenate(kinds)
        position = np.concatenate(positions)
        order = np.lexsort([kind, self._ties(score, kind, position, list(found)), score])
        k = _whole(meaning.k, self.given, "`k` of rrf", 1, 1_000_000)
        shares = np.empty(len(score))
        shares[order] = 1 / (k + np.arange(1, len(score) + 1))
        for place, type in enumerate(found):
            mine = kind == place
            self._shares[name, type] = position[mine], shares[mine]

    def _ties(
        self, score: Floats, kind: npt.NDArray[Any], position: Positions, types: Sequence[str]
    ) -> Ints:
        """Numbers that order rows of the same score like their ids do."""
        _, back, counts = np.unique(score, return_inverse=True, return_counts=True)
        tied = counts[back] > 1
        found = np.zeros(len(score), np.int64)
        rows = np.concatenate(
            [np.flatnonzero(tied & (kind == place)) for place in range(len(types))]
        ).astype(np.int64)
        if len(rows):
            ids = [
                self.source.image(type).fetch(position[tied & (kind == place)], ["id"])["id"]
                for place, type in enumerate(types)
            ]
            found[rows] = ranks(pa.concat_arrays(ids), False)
        return found

    # --- texts ---

    def _matches(
        self, name: str, meaning: TextMatch, type: str, positions: Positions
    ) -> tuple[Flags, Flags]:
        column = meaning.property.property
        text = self._text(name, meaning, type, column)
        if text is None:
            return np.zeros(len(positions), bool), np.ones(len(positions), bool)
        nothing = np.isin(positions, self._without(type, column))
        return self._among(text, type, column, positions), nothing

    def _among(self, text: _Text, type: str, column: str, positions: Positions) -> Flags:
        """Which rows match."""
        if text.rows is None and text.candidates is not None and text.certain:
            text.rows = text.candidates
        if text.rows is None:
            chosen, total = positions, self.source.image(type).rows
            if text.candidates is not None:
                chosen, total = np.intersect1d(positions, text.candidates), len(text.candidates)
            if len(chosen) * _FEW < total:
                return np.isin(positions, self._verified(text, type, column, chosen))
            text.rows = self._verified(text, type, column, text.candidates)
        return np.isin(positions, text.rows)

    def _verified(
        self, text: _Text, type: str, column: str, positions: Positions | None
    ) -> Positions:
        """The rows among some, or among all, whose texts match."""
        found = [np.zeros(0, np.int64)]
        for rows, texts in self._read(type, column, positions):
            found.append(rows[text.words.matching(texts)])
        return np.unique(np.concatenate(found))

    def _text(self, name: str, meaning: TextMatch | Rank, type: str, column: str) -> _Text | None:
        """What is known about a text query; None when there is no text to look for."""
        wanted = value(meaning.query, self.given)
        if wanted is None:
            return None
        if (name, type) not in self._texts:
            mode, edits = _MODES.get(meaning.function, "any"), 1
            if isinstance(meaning, TextMatch) and meaning.edits is not None:
                edits = _whole(meaning.edits, self.given, "the edit distance", 0, 2)
            made = _Text(Words(str(wanted), mode, edits))
            indexes = [
                index
                for index in self.source.table(type).indices()
                if index.kind == "full_text" and index.column == column
            ]
            if not made.words:
                made.rows = np.zeros(0, np.int64)
            elif indexes:
                made.candidates = self._search(type, column, str(wanted), mode, edits)
                # With more segments, Lance also finds rows by what they were before an update.
                made.certain = sum(index.segments for index in indexes) == 1
            self._texts[name, type] = made
        return self._texts[name, type]

    def _search(self, type: str, column: str, text: str, mode: Any, edits: int = 1) -> Positions:
        table = self.source.table(type)
        found = table.search(column, text, mode=mode, edits=edits, columns=[ROW_ID])
        return np.unique(found[ROW_ID].to_numpy().astype(np.int64))

    def _without(self, type: str, column: str) -> Positions:
        """The rows whose text is null."""
        table = self.source.catalog.table(type)
        assert table is not None
        declared = table.columns.get(column)
        if declared is not None and not declared.nullable:
            return np.zeros(0, np.int64)
        with _guard:
            known = _nulls.setdefault(self.source.image(type), {})
        if column not in known:
            rows = self.source.table(type).read([], f"{quoted(column)} is null", places=True)
            known[column] = rows[ROW_ID].to_numpy().astype(np.int64)
        return known[column]

    def _read(
        self, type: str, column: str, positions: Positions | None = None
    ) -> Iterator[tuple[Positions, pa.Array]]:
        """Values of some rows, or of all, in blocks, with the positions."""
        image = self.source.image(type)
        many = positions is None or len(positions) * _FEW >= image.rows
        if many and image.rows > _SMALL and not image.has([column]):
            # The whole column is needed, but does not have to be kept.
            for batch in self.source.table(type).batches([column], places=True):
                rows = batch[ROW_ID].to_numpy().astype(np.int64)
                wanted = np.ones(len(rows), bool) if positions is None else np.isin(rows, positions)
                yield rows[wanted], batch[column].filter(as_arrow(wanted))
            return
        if positions is None:
            positions = image.positions()
        for start in range(0, len(positions), _SMALL):
            part = positions[start : start + _SMALL]
            yield part, image.fetch(part, [column])[column]

    # --- relevance ---

    def _relevance(
        self, name: str, meaning: Rank, type: str, positions: Positions
    ) -> tuple[Floats, Flags]:
        column = meaning.property.property
        text = self._text(name, meaning, type, column)
        scores = np.zeros(len(positions))
        if text is None:
            return scores, np.ones(len(positions), bool)
        corpus = self._corpus(type, column)
        if text.words:
            if text.frequencies is None:
                text.frequencies = self._frequencies(text, type, column)
            rest = corpus.count - text.frequencies
            weights = np.log(1 + (rest + 0.5) / (text.frequencies + 0.5))
            asked = np.ones(len(positions), bool)
            if text.rows is not None:
                asked = np.isin(positions, text.rows)
            for rows, counts in self._counted(text, type, column, positions[asked]):
                size = corpus.words[rows][:, np.newaxis] / corpus.average
                parts = counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * size))
                scores[np.searchsorted(positions, rows)] = (parts * weights).sum(axis=1)
        return scores, corpus.words[positions] < 0

    def _counted(
        self, text: _Text, type: str, column: str, positions: Positions
    ) -> Iterator[tuple[Positions, Ints]]:
        """How often rows have each word."""
        if text.rows is not None and text.counts is not None:
            yield positions, text.counts[np.searchsorted(text.rows, positions)]
        else:
            for rows, texts in self._read(type, column, positions):
                yield rows, text.words.counts(texts)

    def _frequencies(self, text: _Text, type: str, column: str) -> Ints:
        """In how many rows each word is; with it, which rows have any of them."""
        surfaces = text.words.surfaces
        if text.certain and text.candidates is not None and surfaces is not None:
            if len(surfaces) == 1:
                text.rows = text.candidates
                return np.array([len(text.rows)])
            each = [self._search(type, column, surface, "any") for surface in surfaces]
            text.rows = np.unique(np.concatenate(each))
            return np.array([len(rows) for rows in each])
        found = [np.zeros(0, np.int64)]
        counted = [np.zeros((0, len(text.words)), np.int64)]
        for rows, texts in self._read(type, column, text.candidates):
            counts = text.words.counts(texts)
            some = counts.any(axis=1)
            found.append(rows[some])
            counted.append(counts[some])
        text.rows, order = np.unique(np.concatenate(found), return_index=True)
        text.counts = np.concatenate(counted)[order]
        frequencies: Ints = (text.counts > 0).sum(axis=0)
        return frequencies

    def _corpus(self, type: str, column: str) -> _Corpus:
        image = self.source.image(type)
        with _guard:
            known = _corpora.setdefault(image, {})
        if column not in known:
            words = np.full(image.size, -1, np.int32)
            for rows, texts in self._read(type, column):
                there = texts.is_valid().to_numpy(zero_copy_only=False)
                words[rows] = np.where(there, lengths(texts), -1)
            mine = words[words >= 0]
            average = float(mine.mean()) if len(mine) else 1.0
            known[column] = _Corpus(words, len(mine), average or 1.0)
        return known[column]

    # --- vectors ---

    def _nearness(self, name: str, meaning: Rank, type: str, positions: Positions) -> Floats:
        """Cosine distances; not a number where there is no vector."""
        wanted = value(meaning.query, self.given)
        if wanted is None or not len(positions):
            return np.full(len(positions), np.nan)
        if isinstance(wanted, str):
            vector = self._vectors[wanted, _size(meaning)]
        else:
            vector = np.asarray(wanted, np.float64)
        column = meaning.property.property
        image = self.source.image(type)
        few = len(positions) * _FEW < image.rows or image.rows <= _SMALL
        if (name, type) not in self._distances and few:
            found = np.empty(len(positions))
            for rows, vectors in self._read(type, column, positions):
                found[np.searchsorted(positions, rows)] = distances(vectors, vector)
            return found
        if (name, type) not in self._distances:
            whole = np.full(image.size, np.nan)
            for rows, vectors in self._read(type, column):
                whole[rows] = distances(vectors, vector)
            self._distances[name, type] = whole
        return self._distances[name, type][positions]


def _size(meaning: Rank) -> int:
    """How many numbers the vectors have that `nearest` compares."""
    type = meaning.property.type
    assert type is not None and type.dimension is not None
    return type.dimension


def distances(vectors: pa.Array, vector: Floats) -> Floats:
    """Cosine distances of vectors to one; not a number for null, 1 where one has no direction."""
    there = vectors.is_valid().to_numpy(zero_copy_only=False)
    size = len(vector)
    # What lies behind a null is skipped by `flatten`.
    numbers = vectors.flatten().to_numpy(zero_copy_only=False).reshape(-1, size)
    norm = float(np.sqrt((vector * vector).sum()))
    found = np.empty(len(numbers))
    step = max(1, _NUMBERS // size)
    for start in range(0, len(numbers), step):
        block = numbers[start : start + step].astype(np.float64)
        # Not a product of matrices: equal vectors have to get exactly equal distances.
        products = np.einsum("ij,j->i", block, vector)
        norms = np.sqrt(np.einsum("ij,ij->i", block, block)) * norm
        cosines = np.divide(products, norms, out=np.zeros(len(block)), where=norms > 0)
        found[start : start + step] = np.clip(1 - cosines, 0, 2)
    result = np.full(len(vectors), np.nan)
    result[there] = found
    return result


def _looked_up(positions: Positions, values: Floats, wanted: Positions) -> Floats:
    """Values by position; 0 where there is none. Both positions are sorted."""
    found = np.zeros(len(wanted))
    if len(positions):
        at = np.minimum(np.searchsorted(positions, wanted), len(positions) - 1)
        known = positions[at] == wanted
        found[known] = values[at[known]]
    return found


def _whole(expression: Checked, given: Given, what: str, low: int, high: int) -> int:
    found = value(expression, given)
    if not isinstance(found, int) or not low <= found <= high:
        raise UsageError(f"{what} is a whole number from {low} to {high}, not {found}")
    return found
