"""Searching: text filters, scores and their fusion, as columns that expressions can name.

Every search function of a plan was replaced by a property that no table has (see `computed.py`),
which is computed here as a function of positions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_arrow, distinct, distinct_places
from omnigraph.compute.evaluate import Bindings, value
from omnigraph.errors import UsageError
from omnigraph.language.query.expressions import (
    Checked,
    Rank,
    TextMatch,
)
from omnigraph.query.budget import run_long
from omnigraph.query.computed import GetEmbedder, SearchCall, Share, function_of
from omnigraph.query.frames import Frame
from omnigraph.query.search.ranking import ranked
from omnigraph.query.search.sorted_sets import common
from omnigraph.query.search.text_query import Mode
from omnigraph.query.search.texts import Texts, TextSearch
from omnigraph.query.search.vectors import Nearness
from omnigraph.query.source import Source
from omnigraph.query.tables.columns import Positions

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_MODES: Mapping[str, Mode] = {"search": "any", "match_text": "phrase", "fuzzy": "fuzzy"}


class Searches(Struct, dict=True):
    """The search functions of one query."""

    source: Source
    parameters: Bindings
    calls: Mapping[str, SearchCall]
    embedder: GetEmbedder | None = None
    #: What is known about each search, by name and type.
    _text_searches: dict[tuple[str, str], TextSearch] = field(default_factory=dict)
    _nearness: dict[tuple[str, str], Nearness] = field(default_factory=dict)
    #: The vectors of the texts of `nearest`, by text and size.
    _vectors: dict[tuple[str, int], Floats] = field(default_factory=dict)
    #: What each `nearest` compares with, by name.
    _wanted: dict[str, Floats | None] = field(default_factory=dict)
    #: Per name and type the positions that were asked for last, and their values.
    _last: dict[tuple[str, str], tuple[Positions, npt.NDArray[Any], Flags]] = field(
        default_factory=dict
    )
    #: Per share and type the positions that are ranked, and what they get.
    _shares: dict[tuple[str, str], tuple[Positions, Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._texts = Texts(self.source)

    # --- what the engine asks ---

    @property
    def fuses(self) -> bool:
        """True when a score depends on all matches."""
        return any(isinstance(call, Share) for call in self.calls.values())

    def check(self, types: Mapping[str, tuple[str, ...]], seconds: float | None = None) -> None:
        """Check what is searched for, and embed the texts of `nearest`.

        Args:
            types: The types of each variable.
            seconds: How long embedding may take.

        Raises:
            UsageError: A value cannot be used.
            EmbeddingError: A text could not be embedded.
        """
        texts: dict[int, list[str]] = {}
        for call in self.calls.values():
            match call:
                case TextMatch(edits=edits) if edits is not None:
                    _whole(edits, self.parameters, "the edit distance", 0, 2)
                case Share():
                    _whole(call.k, self.parameters, "`k` of rrf", 1, 1_000_000)
                case Rank(function="nearest"):
                    text = value(call.query, self.parameters)
                    if isinstance(text, str):
                        self._check_text(call, text, types[call.property.variable])
                        texts.setdefault(_size(call), []).append(text)
        until = None if seconds is None else time.monotonic() + seconds
        for size, wanted in texts.items():
            assert self.embedder is not None
            wanted = list(dict.fromkeys(wanted))
            vectors = self.embedder().embed(wanted, size, "query", until)
            for text, vector in zip(wanted, vectors, strict=True):
                self._vectors[text, size] = vector.astype(np.float64)

    def _check_text(self, call: Rank, text: str, types: Sequence[str]) -> None:
        """Check that a text can be compared with the vectors of all types."""
        if not text.strip():
            raise UsageError(f"{call}: an empty text is near to nothing; give some words")
        if self.embedder is None:
            raise UsageError(f"{call}: texts cannot be embedded here; pass a vector")
        embedder = self.embedder()
        for type in types:
            model = self.source.embedding_model(type, call.property.property)
            if model is not None and not embedder.is_model(model):
                raise UsageError(
                    f"{call}: the vectors of {type} are made with the model `{model}`, but texts"
                    f" are embedded with `{embedder.identifier}` here, and their vectors cannot be"
                    f" compared; set OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL so that"
                    f" `{model}` is used, or pass a vector"
                )

    def column(self, name: str, type: str, positions: Positions) -> pa.Array:
        """The values of a computed property for rows of a type; null for a position below 0."""
        return run_long(
            self.calls[name], len(positions), lambda: self._column(name, type, positions)
        )

    def _column(self, name: str, type: str, positions: Positions) -> pa.Array:
        if len(positions) and positions[0] >= 0 and bool((positions[1:] > positions[:-1]).all()):
            return as_arrow(*self._values(name, type, positions))
        different, back = distinct_places(positions)
        missing = int(np.searchsorted(different, 0))
        known, is_null = self._values(name, type, different[missing:])
        values = np.concatenate([np.zeros(missing, known.dtype), known])
        mask = np.concatenate([np.ones(missing, bool), is_null])
        return as_arrow(values[back], mask[back])

    def _values(self, name: str, type: str, positions: Positions) -> tuple[npt.NDArray[Any], Flags]:
        """The values for different positions in order, and where there is none."""
        if (name, type) in self._last:
            # What is ordered by is mostly asked for again, for the rows that are left.
            before, values, is_null = self._last[name, type]
            at = common(before, positions)[0]
            if len(at) == len(positions):
                return values[at], is_null[at]
        call = self.calls[name]
        match call:
            case TextMatch():
                values, is_null = self._matches(name, call, type, positions)
            case Rank(function="bm25"):
                values, is_null = self._relevance(name, call, type, positions)
            case Rank():
                values = self._distances(name, call, type, positions)
                is_null = np.isnan(values)
            case Share():
                values = _looked_up(*self._shares[name, type], positions)
                is_null = np.zeros(len(positions), bool)
        self._last[name, type] = positions, values, is_null
        return values, is_null

    def rank(self, frame: Frame, types: Mapping[str, tuple[str, ...]]) -> None:
        """Rank all matches, for the fusions. Has to come before their columns are asked for."""
        for name, call in self.calls.items():
            if isinstance(call, Share):
                variable = call.rank.variable
                kinds = frame.kinds.get(variable)
                matched = {
                    type: distinct(
                        frame.columns[variable]
                        if kinds is None
                        else frame.columns[variable][kinds == place]
                    )
                    for place, type in enumerate(types[variable])
                }
                self._rank(name, call, {t: p[p >= 0] for t, p in matched.items()})

    def _rank(self, name: str, call: Share, matched: Mapping[str, Positions]) -> None:
        ranking = call.rank.property
        better_high = function_of(self.calls[ranking]) == "bm25"
        scores = {}
        for type, positions in matched.items():
            score, is_null = self._values(ranking, type, positions)
            # A text without any of the words, and a node without a vector, has no rank.
            has_rank = ~is_null & (score > 0) if better_high else ~is_null
            scores[type] = positions[has_rank], (-score if better_high else score)[has_rank]
        k = _whole(call.k, self.parameters, "`k` of rrf", 1, 1_000_000)
        for type, places in ranked(self.source, scores).items():
            self._shares[name, type] = scores[type][0], 1 / (k + places)

    def matching_rows(self, name: str, type: str) -> Positions | None:
        """All rows that a text search finds by an index; None when all texts have to decide."""
        call = self.calls[name]
        if not isinstance(call, TextMatch):
            return None
        text = self._text(name, call, type)
        return np.zeros(0, np.int64) if text is None else self._texts.all_matching(text)

    def index_names(self, name: str, type: str) -> list[str]:
        """The full-text index that a search is going to ask, if it does."""
        call = self.calls[name]
        if not isinstance(call, TextMatch):
            return []
        return self._texts.index_names(type, call.property.property)

    # --- what an index of vectors is asked ---

    def column_of(self, name: str) -> str:
        """The property that `nearest` compares."""
        call = self.calls[name]
        assert isinstance(call, Rank)
        return call.property.property

    def vector_of(self, name: str) -> Floats | None:
        """The vector that `nearest` compares with; None for null."""
        if name not in self._wanted:
            call = self.calls[name]
            assert isinstance(call, Rank)
            wanted = value(call.query, self.parameters)
            if isinstance(wanted, str):
                self._wanted[name] = self._vectors[wanted, _size(call)]
            else:
                self._wanted[name] = None if wanted is None else np.asarray(wanted, np.float64)
        return self._wanted[name]

    def is_without_direction(self, name: str) -> bool:
        """True when `nearest` compares with nothing, or with a vector of zeros."""
        vector = self.vector_of(name)
        return vector is None or not vector.any()

    def remember(self, name: str, type: str, positions: Positions, values: Floats) -> None:
        """Distances of rows, by ascending positions, that are known already."""
        self._last[name, type] = positions, values, np.isnan(values)

    # --- texts and vectors ---

    def _text(self, name: str, call: TextMatch | Rank, type: str) -> TextSearch | None:
        """What is known about a text search; None when there is no text to look for."""
        wanted = value(call.query, self.parameters)
        if wanted is None:
            return None
        if (name, type) not in self._text_searches:
            edits = 1
            if isinstance(call, TextMatch) and call.edits is not None:
                edits = _whole(call.edits, self.parameters, "the edit distance", 0, 2)
            column = call.property.property
            mode = _MODES.get(call.function, "any")
            search = self._texts.search(type, column, str(wanted), mode, edits)
            self._text_searches[name, type] = search
        return self._text_searches[name, type]

    def _matches(
        self, name: str, call: TextMatch, type: str, positions: Positions
    ) -> tuple[Flags, Flags]:
        text = self._text(name, call, type)
        if text is None:
            return np.zeros(len(positions), bool), np.ones(len(positions), bool)
        flags = self._texts.matching(text, positions)
        return flags, self._texts.missing(type, text.column, positions)

    def _relevance(
        self, name: str, call: Rank, type: str, positions: Positions
    ) -> tuple[Floats, Flags]:
        text = self._text(name, call, type)
        if text is None:
            return np.zeros(len(positions)), np.ones(len(positions), bool)
        return self._texts.relevance(text, positions)

    def _distances(self, name: str, call: Rank, type: str, positions: Positions) -> Floats:
        """Cosine distances; not a number where there is no vector."""
        vector = self.vector_of(name)
        if vector is None:
            return np.full(len(positions), np.nan)
        if (name, type) not in self._nearness:
            columns = self.source.columns(type)
            self._nearness[name, type] = Nearness(columns, call.property.property, vector)
        return self._nearness[name, type].at(positions)


def _size(call: Rank) -> int:
    """How many numbers the vectors have that `nearest` compares."""
    type = call.property.type
    assert type is not None and type.dimension is not None
    return type.dimension


def _looked_up(positions: Positions, values: Floats, wanted: Positions) -> Floats:
    """Values by position; 0 where there is none. Both positions are ascending."""
    known = np.zeros(len(wanted))
    mine, theirs = common(wanted, positions)
    known[mine] = values[theirs]
    return known


def _whole(expression: Checked, parameters: Bindings, what: str, low: int, high: int) -> int:
    number = value(expression, parameters)
    if not isinstance(number, int) or not low <= number <= high:
        raise UsageError(f"{what} is a whole number from {low} to {high}, not {number}")
    return number
