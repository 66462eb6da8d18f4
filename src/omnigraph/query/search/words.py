"""Words of texts, as full-text indexes know them: split, lowered, stemmed, without stop words.

Whether a text has some words, how often, and how long it is, is the same with and without an
index, because it is told here for every row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.query.search.pieces import (
    Ints,
    Located,
    Numbers,
    blocks,
    located,
    runs_in,
    runs_of,
    stems_of,
)
from omnigraph.storage.fuzzy import is_within


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
        self.mode = mode
        self.edits = edits
        runs = runs_in(text)
        slots = [slot for run in runs for slot in stems_of(run)]
        self._numbers = {w: n for n, w in enumerate(dict.fromkeys(s for s in slots if s))}
        #: The different words.
        self.stems = tuple(self._numbers)
        phrase = [(at, self._numbers[slot]) for at, slot in enumerate(slots) if slot]
        #: How far behind the first word each word stands, and which one it is.
        self.phrase = [(at - phrase[0][0], word) for at, word in phrase]
        #: What a word can begin with, unless it is not ASCII: endings go, beginnings stay.
        self._letters = {word[0] for word in self._numbers}
        self._known: dict[str, Numbers] = {}
        whole = {str(stems_of(run)[0]): run for run in runs if len(stems_of(run)) == 1}
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
        for first, part in blocks(texts):
            hits = self._hits(part)
            rows = self._with_phrase(hits) if self.mode == "phrase" else hits.texts
            there = np.zeros(len(part), bool)
            there[rows] = True
            found.append(np.flatnonzero(there) + first)
        return np.concatenate(found)

    def counts(self, texts: pa.Array) -> Ints:
        """How often each text has each word."""
        size = len(self)
        found = [np.zeros((0, size), np.int64)]
        for _, part in blocks(texts):
            hits = self._hits(part)
            keys = hits.texts * size + hits.numbers
            found.append(np.bincount(keys, minlength=len(part) * size).reshape(-1, size))
        return np.concatenate(found)

    def _with_phrase(self, hits: Located) -> Ints:
        each = [hits.numbers == word for word in range(len(self))]
        return in_order(self.phrase, [(hits.texts[mine], hits.places[mine]) for mine in each])

    def _hits(self, texts: pa.Array) -> Located:
        return located(texts, lambda pieces: [self._slots(piece) for piece in pieces])[0]

    def _slots(self, piece: str) -> Numbers:
        """Which words a piece of a text is, one after another; -1 is none of ours."""
        if self.mode != "fuzzy" and piece.isascii() and piece[0] not in self._letters:
            return (-1,)
        if piece not in self._known:
            found = (slot for run in runs_of(piece) for slot in stems_of(run))
            self._known[piece] = tuple(self._number(slot) for slot in found)
        return self._known[piece]

    def _number(self, word: str | None) -> int:
        if word is None:
            return -1
        if self.mode != "fuzzy":
            return self._numbers.get(word, -1)
        near = any(is_within(word, other, self.edits) for other in self._numbers)
        return 0 if near else -1


def in_order(phrase: Sequence[tuple[int, int]], hits: Sequence[tuple[Ints, Ints]]) -> Ints:
    """The rows in which words stand as in a phrase.

    Args:
        phrase: How far behind the first word each word stands, and which one it is.
        hits: Per word its rows, and the places in them; both ascending.
    """
    # Wide enough that no phrase goes on in the next row.
    last = max(int(places.max(initial=0)) for _, places in hits)
    width = last + phrase[-1][0] + 1
    keys = [rows * width + places for rows, places in hits]
    # The rarest word comes first: all others are only looked for around it.
    rest = sorted(phrase, key=lambda part: len(keys[part[1]]))
    starts = keys[rest[0][1]] - rest[0][0]
    for at, word in rest[1:]:
        mine = keys[word]
        if not len(mine):
            return np.zeros(0, np.int64)
        wanted = starts + at
        near = np.minimum(np.searchsorted(mine, wanted), len(mine) - 1)
        starts = starts[mine[near] == wanted]
    found: Ints = starts // width
    return found
