"""Postings find what looking at the texts finds: the same rows, counts and lengths."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query.search import pieces, postings
from omnigraph.query.search.ascending import among, common, union
from omnigraph.query.search.pieces import lengths, stems_of, stems_of_all
from omnigraph.query.search.postings import Corpus, Postings, make
from omnigraph.query.search.spellings import Spellings
from omnigraph.query.search.words import Words
from omnigraph.storage.fuzzy import is_within

#: Words, stop words, marks, pieces of several words or of none, and such as are too long.
VOCABULARY = [
    "fox", "Foxes", "FOX", "run", "running", "the", "of", "sky7", "7", "x", "naïve", "naive",
    "na\u0131ve", "caf\u00e9", "cafe\u0301", "日本語", "日本。語", "“fox”", "—", "«»", "fox—run",
    "a\u0301b\u0301", "\u0301", "İstanbul", "ΣΊΣΥΦΟΣ", "straße", "\U0001f600", "½", "⑴", "ﬁne",
    "q0q0q0q0q", "xq0q0q0q0q", "w" * 40, "W" * 41, "é" * 30, "a_b", "don't", "Ünïted",
]  # fmt: skip
QUERIES = [*VOCABULARY, "fox run", "the fox", "fox the run", "naive fox", "run of the fox x 7"]
TEXTS = st.lists(
    st.one_of(
        st.none(),
        st.text(max_size=12),
        st.builds(
            lambda mark, words: mark.join(words),
            st.sampled_from([" ", ", ", "-", "", "\n", "\x00"]),
            st.lists(st.sampled_from(VOCABULARY), max_size=9),
        ),
    ),
    max_size=25,
)


class Made(NamedTuple):
    """Positions, their texts, and what is made of them."""

    at: Any
    column: pa.Array
    postings: Postings
    corpus: Corpus


def made(texts: list[str | None], chance: random.Random, many: int = 3) -> Made:
    """Postings of texts that are read in several parts, and in any order."""
    positions = chance.sample(range(2 * len(texts) + 1), len(texts))
    if chance.random() < 0.5:
        positions.sort()
    at = np.array(positions, np.int64)
    column = pa.array(texts, pa.utf8())
    parts = [
        (at[start : start + many], column[start : start + many])
        for start in range(0, len(texts), many)
    ]
    found = make(parts, len(texts), 2 * len(texts) + 1)
    assert found is not None
    return Made(at, column, *found)


def compare(made: Made, query: str) -> None:
    at, column, found, corpus = made
    for mode, edits in (("any", 1), ("phrase", 1), ("fuzzy", 0), ("fuzzy", 1), ("fuzzy", 2)):
        words = Words(query, mode, edits)
        if words:
            expected = sorted(at[words.matching(column)].tolist())
            assert found.matching(words).tolist() == expected, (mode, edits)
    words = Words(query)
    if words:
        counts = words.counts(column)
        assert found.frequencies(words).tolist() == (counts > 0).sum(axis=0).tolist()
        some = np.sort(at[::2])
        having = {p: row for p, row in zip(at.tolist(), counts.tolist(), strict=True) if any(row)}
        for wanted in (np.sort(at), some, some[:1]):
            each: dict[int, list[int]] = {}
            for rows, times in found.counted(words, wanted):
                assert bool((rows[1:] > rows[:-1]).all())
                each |= dict(zip(rows.tolist(), times.tolist(), strict=True))
            assert each == {p: having[p] for p in wanted.tolist() if p in having}
    there = column.is_valid().to_numpy(zero_copy_only=False)
    assert corpus.words[at].tolist() == np.where(there, lengths(column), -1).tolist()
    assert corpus.count == int(there.sum())


@settings(max_examples=150)
@given(TEXTS, st.sampled_from(QUERIES), st.text(max_size=8), st.randoms(use_true_random=False))
def test_random_texts(texts, query, other, chance):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_BYTES", 40)
        patch.setattr(postings, "_NUMBERS", 3)
        found = made(texts, chance)
    compare(found, query)
    compare(found, other)


def test_a_piece_without_words_and_one_with_two_in_one_block():
    texts = ["—", "fox—run", "run"]
    assert Words("fox run").counts(pa.array(texts)).tolist() == [[0, 0], [1, 1], [0, 1]]
    compare(made([*texts], random.Random(1)), "fox run")


def test_every_query_on_many_texts():
    chance = random.Random(5)
    texts = [" ".join(chance.choices(VOCABULARY, k=chance.randrange(30))) for _ in range(300)]
    found = made([None if chance.random() < 0.1 else text for text in texts], chance, 70)
    for query in QUERIES:
        compare(found, query)


def test_a_word_that_is_often_in_one_text_and_one_that_is_far_behind():
    texts = ["fox " * 300 + "dog " * 70_000 + "cat", "dog cat"]
    found = made([*texts], random.Random(1))
    for query in ("fox", "dog", "dog cat", "fox dog", "cat dog"):
        compare(found, query)


def test_too_many_words_give_no_postings(monkeypatch):
    monkeypatch.setattr(postings, "_MOST", 4000)
    read = 0

    def parts():
        nonlocal read
        for start in range(100):
            read += 1
            yield np.arange(start, start + 1), pa.array(["fox dog"])

    assert make(parts(), 100, 100) is not None
    # It is told from the first texts that all of them would be too many.
    read = 0
    assert make(parts(), 100_000, 100_000) is None and read == 1


def test_stems_are_the_same_one_by_one_and_together():
    runs = [run for text in VOCABULARY for run in pieces.runs_in(text)]
    assert stems_of_all(runs) == [stems_of(run) for run in runs]
    clean = [run for run in runs if "q0q" not in run]
    assert stems_of_all(clean) == [stems_of(run) for run in clean]
    assert stems_of_all([]) == []


def test_spellings_are_compared_letter_by_letter():
    chance = random.Random(2)
    words = {"".join(chance.choices("abé", k=chance.randrange(1, 8))) for _ in range(400)}
    known = Spellings({word: number for number, word in enumerate(sorted(words))})
    for wanted in ["a", "é", "aba", "bbbb", "abéabéab", *chance.sample(sorted(words), 25)]:
        for edits in range(3):
            expected = [n for n, w in enumerate(sorted(words)) if is_within(w, wanted, edits)]
            assert known.similar([wanted], edits).tolist() == expected


@given(st.sets(st.integers(0, 400)), st.sets(st.integers(0, 40)), st.sets(st.integers(0, 10**6)))
def test_sets_of_numbers(some, few, far):
    sets = (some, few, far)
    arrays: list[Any] = [np.array(sorted(some), np.int64) for some in sets]
    assert union(arrays).tolist() == sorted(set().union(*sets))
    for left in arrays:
        for right in (*arrays, *(some.astype(np.int32) for some in arrays)):
            here, there = common(left, right)
            assert left[here].tolist() == right[there].tolist()
            assert left[here].tolist() == sorted({*left.tolist()} & {*right.tolist()})
            assert among(left, right).tolist() == np.isin(left, right).tolist()
