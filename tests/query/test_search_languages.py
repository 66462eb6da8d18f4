"""Texts of thirteen languages: the same rows in the same order, with an index and without.

The same random queries are asked with an index, with postings, and by reading all texts, on
tables that are indexed, grow, change and are indexed again. A plain reference says what is right.
"""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.maintenance.indexes import ensure_indices
from omnigraph.query.search.text_index import TextIndex
from omnigraph.query.search.text_query import TextQuery
from omnigraph.query.search.texts import Texts
from omnigraph.query.tables import policy
from tests.query.search_reference import bm25, matches, tokens_in

SCHEMA = "node Doc { key: String @key  body: String? @index }"
ENGLISH = (
    "course courses surprises surprise early supposed cours the of and bye running runs run resume"
    " resumes cliche cafe a1 b sky, ski don't fox-fox"
)
LANGUAGES = {
    "French": "résumé résumés cliché café thé été élève œuvre naïveté l'été ça où Noël",
    "German": "Straße Strasse Mädchen Äpfel über schön Grüße größer Häuser Maß Füße",
    "Spanish": "mañana canción corazón niño señor árbol qué están inglés ¿cómo?",
    "Turkish": "İstanbul ISTANBUL ışık çiçek güneş şeker Iğdır diyarbakır ağaç",
    "Polish": "Łódź źródło książka gęś żółw świat być łąka",
    "Vietnamese": "đường phố Việt Nam tiếng người không được một",
    "Russian": "ёлка елка мой мои книга книги библиотека Йод всё все",
    "Greek": "Σίσυφος ΣΊΣΥΦΟΣ βιβλίο βιβλιο καλημέρα φως άνθρωπος",
    "Arabic": "مكتبة كِتَاب كتاب سلام اَلسَّلَام مدرسة",
    "Hindi": "हिन्दी किताब किताबें पुस्तकालय नमस्ते भाषा",
    "Chinese": "图书馆 图书 我们在图书馆看书 书 北京大学 大学生 学生会，中国",
    "Japanese": "図書館 図書 図書館で本を読む 本 日本語の本 ラーメン がっこう カ゛ ｶﾞｯｺｳ 学校",
    "Korean": "도서관 도서관에서 책을 읽다 한국어 안녕하세요",
}
#: How many of the words are English: with few others an index is used, with many it is not.
SHARES = (0.5, 0.98, 1.0)


def some_word(rng: random.Random, share: float) -> str:
    if rng.random() < share:
        return rng.choice(ENGLISH.split())
    word = rng.choice(rng.choice([*LANGUAGES.values()]).split())
    return unicodedata.normalize(rng.choice(["NFC", "NFD"]), word)


def some_text(rng: random.Random, share: float, most: int = 7) -> str:
    words = [some_word(rng, share) for _ in range(rng.randint(0, most))]
    if rng.random() < 0.2:
        words = [word for word in words for _ in range(2)]
    return rng.choice([" ", ", ", "—", " “"]).join(words)


def put(graph: Graph, rng: random.Random, share: float, keys: range) -> None:
    rows = [
        {"key": f"d{key}", "body": None if rng.random() < 0.1 else some_text(rng, share)}
        for key in keys
    ]
    graph.load(rows, type="Doc", mode="merge")


def answer(graph: Graph, function: str, text: str, edits: int) -> list[tuple[Any, ...]]:
    if function == "bm25":
        rest = "{ match { $d: Doc } return { $d.key, bm25($d.body, $t) as s } order { s, $d.key } }"
    else:
        more = f", {edits}" if function == "fuzzy" else ""
        clause = f"{function}($d.body, $t{more})"
        rest = f"{{ match {{ $d: Doc  {clause} }} return {{ $d.key }} order {{ $d.key }} }}"
    result = graph.query(f"query q($t: String) {rest}", params={"t": text})
    return [tuple(row.values()) for row in result.to_rows()]


def expected(texts: dict[str, str | None], function: str, text: str, edits: int) -> Any:
    if function == "bm25":
        scores = bm25(texts, TextQuery(text))
        best = sorted(scores.items(), key=lambda s: (s[1] is None, -round(s[1] or 0, 9), s[0]))
        return [(key, None if score is None else pytest.approx(score)) for key, score in best]
    mode = {"search": "any", "match_text": "phrase", "fuzzy": "fuzzy"}[function]
    query = TextQuery(text, mode, edits)  # type: ignore[arg-type]
    if not query:
        return []
    return [
        (key,)
        for key, body in sorted(texts.items())
        if body is not None and matches(tokens_in(body), query)
    ]


def ask_everything(
    place: Path, rng: random.Random, share: float, monkeypatch: pytest.MonkeyPatch, many: int
) -> int:
    """Ask random queries in every way; returns for how many an index was used."""
    indexed = 0
    hits = TextIndex.hits

    def counted(*args: Any) -> Any:
        nonlocal indexed
        indexed += 1
        return hits(*args)

    functions = ["search", "match_text", "fuzzy", "bm25"]
    queries = [
        (function, some_text(rng, min(share, 0.7), 3), rng.randint(0, 2))
        for _ in range(many)
        for function in functions
    ]
    answers: dict[str, list[Any]] = {}
    for way in ("reading", "index", "postings"):
        with monkeypatch.context() as patch, open_graph(place) as graph:
            if way == "postings":
                patch.setattr(policy, "HITS_PER_TEXT", 1e-9)
            else:
                patch.setattr(Texts, "_build", lambda *_: None)
                patch.setattr(TextIndex, "hits", counted)
            if way == "reading":
                patch.setattr(TextIndex, "of", lambda *_: None)
            answers[way] = [answer(graph, *query) for query in queries]
            bodies = {row["key"]: row["body"] for row in graph.snapshot().read("Doc").to_pylist()}
    for at, query in enumerate(queries):
        right = expected(bodies, *query)
        for way, mine in answers.items():
            assert mine[at] == right, (way, query)
        assert answers["index"][at] == answers["reading"][at] == answers["postings"][at]
    return indexed


def search_a_history(place: Path, seed: int, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    rng = random.Random(seed)
    share = SHARES[seed % len(SHARES)]
    with init(place, SCHEMA) as graph:
        put(graph, rng, share, range(120))
        ensure_indices(graph._repository, "main")
    indexed = ask_everything(place, rng, share, monkeypatch, many)
    with open_graph(place) as graph:
        put(graph, rng, share, range(117, 121))
        gone = [f"d{rng.randrange(120)}" for _ in range(3)]
        graph.mutate("query q($g: [String]) { delete Doc where key in $g }", params={"g": gone})
    indexed += ask_everything(place, rng, share, monkeypatch, many)
    with open_graph(place) as graph:
        ensure_indices(graph._repository, "main")
    indexed += ask_everything(place, rng, share, monkeypatch, many)
    assert (indexed > 0) is (share > 0.9)


@pytest.mark.parametrize("seed", range(6))
def test_every_language_with_and_without_an_index(tmp_path, seed, monkeypatch):
    search_a_history(tmp_path / "g", seed, monkeypatch, 12)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6, 66))
def test_many_histories_in_every_language(tmp_path, seed, monkeypatch):
    search_a_history(tmp_path / "g", seed, monkeypatch, 25)
