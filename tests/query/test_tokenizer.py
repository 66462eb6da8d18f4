"""The tokenizer: which tokens a text has, and that indexes have the same ones of plain texts."""

from __future__ import annotations

import re
import string
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.query.search.text_index import not_plain
from omnigraph.query.search.tokenizer import TOO_LONG, tokens_of, words_in
from omnigraph.storage.stems import stems


def tokens(text: str) -> list[str | None]:
    return [token for word in tokens_of(words_in(text)) for token in word]


@pytest.mark.parametrize(
    "one,other",
    [
        ("résumé", "resume"), ("Cliché", "cliches"), ("Beyoncé", "BEYONCE"), ("naïve", "naive"),
        ("cafe\u0301", "café"), ("cafe\u0301s", "cafe"), ("e\u0323\u0302", "ệ"),
        ("İstanbul", "istanbul"), ("i\u0307stanbul", "ISTANBUL"), ("Iğdır", "igdir"),
        ("straße", "strasse"), ("Łódź", "lodz"), ("smørrebrød", "smorrebrod"), ("Þór", "thor"),
        ("ﬁne", "fine"), ("ＡＢＣ", "abc"), ("ｶﾞ", "ガ"), ("か\u3099", "が"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("ёлка", "ЕЛКА"), ("и\u0306од", "Йод"),
        ("đường", "duong"), ("\u1112\u1161\u11ab", "한"), ("عَرَبِيّ", "عربي"), ("שָׁלוֹם", "שלום"),
    ],
)  # fmt: skip
def test_spellings_that_are_the_same(one, other):
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize("one,other", [("мой", "мои"), ("か", "が"), ("हिन्दी", "हिनदी")])
def test_letters_that_are_not_the_same(one, other):
    assert tokens(one) != tokens(other)


def test_characters_without_spaces_are_taken_in_pairs():
    assert tokens("図書館") == ["図書", "書館", "館"]
    assert tokens("Python入門。本") == ["python", "入門", "門", "本"]
    assert tokens("ラーメン") == ["ラー", "ーメ", "メン", "ン"]
    assert tokens("도서관") == ["도서관"]


def test_stop_words_keep_their_places_and_accented_words_are_none():
    assert tokens("a cup of the tea") == [None, "cup", None, None, "tea"]
    assert tokens("une tasse de thé") == ["une", "tass", "de", "the"]


def test_the_documentation_lists_the_stop_words():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "query-language.md").read_text()
    listed = re.search("whose stem is one of: `([a-z\\s]+)`", page)
    assert listed is not None
    stop_words = set(listed.group(1).split())
    letters = string.ascii_lowercase
    words = {word for path in docs.glob("*.md") for word in re.findall("[a-z]+", path.read_text())}
    words |= {first + second for first in letters for second in ["", *letters]} | stop_words
    short = sorted(word for word in words if len(word) < TOO_LONG)
    stemmed = dict(zip(short, stems(short, stop_words=False), strict=True))
    assert {word for word in short if tokens(word) == [None]} == {
        word for word in short if stemmed[word] in stop_words
    }
    assert all(tokens(word) == [None] for word in stop_words)


def test_long_words_are_left_out():
    for letter in ("w", "é", "ж"):
        assert len(tokens(letter * (TOO_LONG - 1))[0] or "") == TOO_LONG - 1
        assert tokens(letter * TOO_LONG) == [None]


def test_what_stands_between_words():
    assert tokens("fox—run «fox» ☕️fox\ufe0frun don't a_b") == [
        "fox", "run", "fox", "fox", "run", "don", "t", None, "b",
    ]  # fmt: skip


def by_place(text: str) -> list[tuple[str, int]]:
    """The tokens of a text as an index has them, with their places behind a first word."""
    return [(token.text, token.position) for token in lance.tokenize(f"x {text}")]


@given(st.text(st.characters(max_codepoint=127)))
def test_indexes_split_plain_texts_in_the_same_way(text):
    mine = [(token, place) for place, token in enumerate(tokens(f"x {text}")) if token]
    assert mine == by_place(text)


def test_indexes_split_texts_in_the_same_way_unless_they_are_known_to_differ(tmp_path: Path):
    points = [*range(128, 0x3100), *range(0xFB00, 0x10000), *range(0x1F000, 0x1FB00)]
    texts = [f"fox{chr(point)}run" for point in points]
    table = lance.write_dataset(pa.table({"text": texts}), str(tmp_path / "t"))
    plain = table.to_table(filter=f"not ({not_plain('text')})")["text"].to_pylist()
    assert len(plain) > 5000
    assert {"fox—run", "fox\xa0run", "fox😀run", "fox”run", "fox\ufe0frun"} <= set(plain)
    assert {"foxérun", "fox図run", "fox½run", "fox\u0301run", "foxжrun"}.isdisjoint(plain)
    for text in plain:
        assert tokens(text) == [token for token, _ in by_place(text)][1:] == ["fox", "run"], text
