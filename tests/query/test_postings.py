"""Postings decide as a plain reading of the tokens does: the same rows, counts and lengths."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.query.search.postings import Corpus, Postings, build_postings, postings_for
from omnigraph.query.search.sorted_sets import among, common, union
from omnigraph.query.search.spellings import Spellings
from omnigraph.query.search.text_query import TextQuery
from omnigraph.query.search.tokenizer import lengths
from omnigraph.query.tables import policy
from tests.query.search_reference import distance, is_term, matches, tokens_in

#: Words, stop words, marks, characters without spaces, pieces of several words or of none, and such
#: as are too long.
VOCABULARY = [
    "fox", "Foxes", "FOX", "run", "running", "the", "of", "sky7", "7", "x", "naïve", "naive",
    "na\u0131ve", "caf\u00e9", "cafe\u0301", "日本語", "日本。語", "本", "図書館",
    "Python入門", "“fox”", "—", "«»", "fox—run",
    "a\u0301b\u0301", "\u0301", "İstanbul", "ΣΊΣΥΦΟΣ", "straße", "\U0001f600", "½", "⑴", "ﬁne",
    "q0q0q0q0q", "xq0q0q0q0q", "w" * 40, "W" * 41, "é" * 30, "a_b", "don't", "Ünïted",
]  # fmt: skip
QUERIES = [
    *VOCABULARY,
    "fox run",
    "the fox",
    "fox the run",
    "naive fox",
    "run of the fox x 7",
    "fox fox",
    "日本語 日本語",
    "run run run",
]
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


class Built(NamedTuple):
    """Positions, their texts, and what is built of them."""

    at: Any
    column: pa.Array
    postings: Postings
    corpus: Corpus


def parts_of(at: Any, column: pa.Array, many: int) -> list[tuple[Any, pa.Array]]:
    starts = range(0, len(column), many)
    return [(at[start : start + many], column[start : start + many]) for start in starts]


def built(texts: list[str | None], chance: random.Random, many: int = 3) -> Built:
    """Postings of texts that are read in several parts, and in any order."""
    positions = chance.sample(range(2 * len(texts) + 1), len(texts))
    if chance.random() < 0.5:
        positions.sort()
    at = np.array(positions, np.int64)
    column = pa.array(texts, pa.utf8())
    result = build_postings(parts_of(at, column, many), len(texts), 2 * len(texts) + 1)
    assert result is not None
    return Built(at, column, *result)


def compare(built: Built, text: str) -> None:
    at, column, whole, corpus = built
    texts = [tokens_in(text) for text in column.to_pylist()]
    for mode, edits in (("any", 1), ("phrase", 1), ("fuzzy", 0), ("fuzzy", 1), ("fuzzy", 2)):
        query = TextQuery(text, mode, edits)  # type: ignore[arg-type]
        if not query:
            continue
        expected = sorted(p for p, t in zip(at.tolist(), texts, strict=True) if matches(t, query))
        assert whole.matching(query).tolist() == expected, (mode, edits)
        own = postings_for(query, parts_of(at, column, 5))
        assert own.matching(query).tolist() == expected, (mode, edits)
    query = TextQuery(text)
    if query:
        counts = [
            [sum(is_term(token, term, query) for token in tokens) for term in query.terms]
            for tokens in texts
        ]
        having = {p: row for p, row in zip(at.tolist(), counts, strict=True) if any(row)}
        for mine in (whole, postings_for(query, parts_of(at, column, 5))):
            each_row = np.array([*having.values()]).reshape(-1, len(query.terms))
            assert mine.frequencies(query).tolist() == (each_row > 0).sum(axis=0).tolist()
            some = np.sort(at[::2])
            for wanted in (np.sort(at), some, some[:1]):
                each: dict[int, list[int]] = {}
                for rows, times in mine.counted(query, wanted):
                    assert bool((rows[1:] > rows[:-1]).all())
                    each |= dict(zip(rows.tolist(), times.tolist(), strict=True))
                assert each == {p: having[p] for p in wanted.tolist() if p in having}
    is_text = column.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(is_text, [len(tokens) for tokens in texts], -1)
    assert corpus.lengths[at].tolist() == sizes.tolist()
    assert np.where(is_text, lengths(column), -1).tolist() == sizes.tolist()
    assert corpus.count == int(is_text.sum())


@settings(max_examples=150)
@given(TEXTS, st.sampled_from(QUERIES), st.text(max_size=8), st.randoms(use_true_random=False))
def test_random_texts(texts, query, other, chance):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "SPLIT_BYTES", 40)
        patch.setattr(policy, "COUNTED_AT_ONCE", 3)
        result = built(texts, chance)
        compare(result, query)
        compare(result, other)


def test_a_piece_without_words_and_one_with_two_in_one_block():
    compare(built(["—", "fox—run", "run"], random.Random(1)), "fox run")


def test_every_query_on_many_texts():
    chance = random.Random(5)
    texts = [" ".join(chance.choices(VOCABULARY, k=chance.randrange(12))) for _ in range(80)]
    result = built([None if chance.random() < 0.1 else text for text in texts], chance, 70)
    for query in QUERIES:
        compare(result, query)


def test_a_phrase_of_one_repeated_word():
    texts = ["bye", "bye bye", "byes, bye", "bye love bye"]
    result = built([*texts], random.Random(1))
    for text, expected in (("bye bye", [1, 2]), ("bye bye bye", [])):
        rows = result.postings.matching(TextQuery(text, "phrase")).tolist()
        assert rows == sorted(result.at[expected].tolist())


def test_a_word_that_is_often_in_one_text_and_one_that_is_far_behind():
    texts = ["fox " * 300 + "dog " * 70_000 + "cat", "dog cat"]
    result = built([*texts], random.Random(1))
    for query in ("fox", "dog", "dog cat", "fox dog", "cat dog"):
        compare(result, query)


def test_too_many_words_give_no_postings(monkeypatch):
    monkeypatch.setattr(policy, "POSTINGS_BYTES", 4000)
    read = 0

    def parts():
        nonlocal read
        for start in range(100):
            read += 1
            yield np.arange(start, start + 1), pa.array(["fox dog"])

    assert build_postings(parts(), 100, 100) is not None
    # It is told from the first texts that all of them would be too many.
    read = 0
    assert build_postings(parts(), 100_000, 100_000) is None and read == 1


def test_spellings_are_compared_letter_by_letter():
    chance = random.Random(2)
    words = {"".join(chance.choices("abé", k=chance.randrange(1, 8))) for _ in range(400)}
    known = Spellings({word: number for number, word in enumerate(sorted(words))})
    for wanted in ["a", "é", "aba", "bbbb", "abéabéab", *chance.sample(sorted(words), 25)]:
        for edits in range(3):
            expected = [n for n, w in enumerate(sorted(words)) if distance(w, wanted) <= edits]
            assert known.similar(wanted, edits).tolist() == expected


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
