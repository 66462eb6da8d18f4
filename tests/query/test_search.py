"""Searching: the same answers without indexes, with them, and with such as cover a part.

The same holds for postings and vectors in memory, and for reading them in every query. The
reference here splits, compares and ranks texts by itself, in plain Python.
"""

from __future__ import annotations

import math
import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import UsageError
from omnigraph.graph import Graph, init
from omnigraph.language.schema.arrow import table_schema
from omnigraph.maintenance.indexes import IndexChange
from omnigraph.query.search import postings, texts, vectors
from omnigraph.query.search.texts import TextColumn, Texts
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import TableColumns
from omnigraph.storage.tables import IndexSpec
from omnigraph.writes.protocol import write
from omnigraph.writes.request import WriteRequest

SCHEMA = """
interface Readable { body: String? }
node Doc implements Readable { key: String @key
  body: String?
  vec: Vector(3)?
  size: I64 }
node Note implements Readable { key: String @key
  body: String?
  vec: Vector(3)? }
node Person { key: String @key }
edge Wrote: Person -> Doc { remark: String? }
"""
STEMS = {"foxes": "fox", "running": "run", "cats": "cat", "trees": "tree"}
STOPS = {"the", "and", "of"}
WORDS = [*STEMS, *STOPS, "fox", "run", "cat", "dog", "tree", "blue", "bleu", "Sky", "sky7"]
QUERIES = ("fox", "cat running", "the", "", "blue sky")
INDEXES = [
    IndexSpec("body_text", "body", "full_text"),
    IndexSpec("vec_ivf", "vec", "ivf_flat", {"num_partitions": 1}),
]

Row = dict[str, Any]


# --- the reference ---


def words_of(text: str) -> list[str | None]:
    """The words of a text; None in the place of a stop word."""
    words = [w.lower() for w in re.findall("[A-Za-z0-9]+", text)]
    return [None if w in STOPS else STEMS.get(w, w) for w in words]


def wanted(text: str) -> list[str]:
    return list(dict.fromkeys(w for w in words_of(text) if w))


def has_any(text: str, query: str) -> bool:
    return bool(set(words_of(text)) & set(wanted(query)))


def has_phrase(text: str, query: str) -> bool:
    phrase, words = words_of(query), words_of(text)
    while phrase and phrase[0] is None:
        phrase = phrase[1:]
    while phrase and phrase[-1] is None:
        phrase = phrase[:-1]
    starts = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(
        all(p is None or p == words[s + n] for n, p in enumerate(phrase)) for s in starts
    )


def edits(first: str, second: str) -> int:
    if not first or not second:
        return len(first) + len(second)
    return min(
        edits(first[1:], second) + 1,
        edits(first, second[1:]) + 1,
        edits(first[1:], second[1:]) + (first[0] != second[0]),
    )


def has_similar(text: str, query: str, most: int) -> bool:
    return any(
        abs(len(w) - len(q)) <= most and edits(w, q) <= most
        for w in words_of(text)
        if w
        for q in wanted(query)
    )


def bm25(rows: list[Row], query: str) -> dict[str, float | None]:
    texts = {r["id"]: words_of(r["body"]) for r in rows if r["body"] is not None}
    average = sum(map(len, texts.values())) / len(texts) if texts else 0
    scores: dict[str, float | None] = dict.fromkeys((r["id"] for r in rows), None)
    for id, words in texts.items():
        score = 0.0
        for word in wanted(query):
            many = sum(word in other for other in texts.values())
            weight = math.log(1 + (len(texts) - many + 0.5) / (many + 0.5))
            times = words.count(word)
            length = len(words) / average if average else 0
            score += weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length))
        scores[id] = score
    return scores


def cosine(vector: list[float] | None, other: list[float]) -> float | None:
    if vector is None:
        return None
    product = sum(a * b for a, b in zip(vector, other, strict=True))
    norms = math.hypot(*vector) * math.hypot(*other)
    return 1 - product / norms if norms else 1.0


def rrf(far: dict[str, float | None], good: dict[str, float | None], k: int) -> dict[str, float]:
    by_far = sorted((s, id) for id, s in far.items() if s is not None)
    by_good = sorted((-s, id) for id, s in good.items() if s)
    scores = dict.fromkeys(far, 0.0)
    for ranking in (by_far, by_good):
        for place, (_, id) in enumerate(ranking, 1):
            scores[id] += 1 / (k + place)
    return scores


# --- graphs ---


def some_rows(rng: random.Random, type: str, numbers: range) -> pa.Table:
    def text() -> str | None:
        some = rng.choices(WORDS, k=rng.randint(0, 8))
        return None if rng.random() < 0.15 else rng.choice([" ", ", ", "-"]).join(some)

    def vector() -> list[float] | None:
        chance = rng.random()
        if chance < 0.3:
            return None if chance < 0.15 else [0.0, 0.0, 0.0] if chance < 0.2 else [1.0, 2.0, 0.0]
        return [float(np.float32(rng.uniform(-1, 1))) for _ in range(3)]

    names = [f"d{n}" for n in numbers]
    rows: dict[str, list[Any]] = {"id": names, "key": names}
    rows |= {"body": [text() for _ in names], "vec": [vector() for _ in names]}
    if type == "Doc":
        rows["size"] = [rng.randint(0, 3) for _ in names]
    return pa.table(rows, schema=pa.schema([field(type, name) for name in rows]))


def field(type: str, name: str) -> pa.Field:
    declared = GRAPH_TYPES[type]
    return declared.field(name)


GRAPH_TYPES: dict[str, pa.Schema] = {}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with init(tmp_path / "g", SCHEMA) as made:
        for name in ("Doc", "Note"):
            declared = made.catalog.table(name)
            assert declared is not None
            GRAPH_TYPES[name] = table_schema(declared)
        yield made


def build_indexes(graph: Graph, *types: str) -> None:
    changes = {type: IndexChange(INDEXES) for type in types}
    request = WriteRequest("main", lambda _: changes, True, writer="test")
    write(graph._repository, request)


def put(graph: Graph, type: str, *rows: tuple[str, str | None, list[float] | None]) -> None:
    columns: dict[str, list[Any]] = {
        "id": [r[0] for r in rows],
        "key": [r[0] for r in rows],
        "body": [r[1] for r in rows],
        "vec": [r[2] for r in rows],
    }
    if type == "Doc":
        columns["size"] = [0] * len(rows)
    schema = pa.schema([field(type, name) for name in columns])
    graph.write_batches({type: ("merge", pa.table(columns, schema=schema))})


def docs(graph: Graph, *bodies: str | None) -> None:
    put(graph, "Doc", *((f"d{n}", text, None) for n, text in enumerate(bodies)))


def ask(graph: Graph, text: str, **params: Any) -> list[tuple[Any, ...]]:
    head = ", ".join(
        f"${n}: {'Vector(3)' if isinstance(v, list) else 'I64' if isinstance(v, int) else 'String'}"
        for n, v in params.items()
    )
    found = graph.query(f"query q({head}) {{ {text} }}", params=params)
    return [tuple(row.values()) for row in found.to_rows()]


def ids(graph: Graph, clauses: str, **params: Any) -> list[str]:
    rest = "return { $d.id } order { $d.id }"
    return [row[0] for row in ask(graph, f"match {{ $d: Doc {clauses} }} {rest}", **params)]


def close(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    return len(found) == len(expected) and all(
        mine == pytest.approx(theirs, abs=1e-9)
        for mine, theirs in zip(found, expected, strict=True)
    )


def compare(graph: Graph, type: str) -> None:
    """Ask everything, and compare with the reference."""
    rows: list[Row] = graph.snapshot().read(type).to_pylist()
    every = sorted(rows, key=lambda row: str(row["id"]))
    match = f"match {{ $d: {type}"
    tests: dict[str, Callable[[str, str], bool]] = {
        "search": has_any,
        "match_text": has_phrase,
        "fuzzy": lambda text, query: has_similar(text, query, 1),
    }
    filters = [(f, q, "", t) for q in QUERIES for f, t in tests.items()]
    filters += [
        ("match_text", q, "", has_phrase) for q in ("cat the dog", "the fox of", "cats run")
    ]
    filters.append(("fuzzy", "blux", ", 2", lambda text, query: has_similar(text, query, 2)))
    filters.append(("fuzzy", "foxes", ", 0", lambda text, query: has_similar(text, query, 0)))
    for function, query, more, test in filters:
        clause = f'{function}($d.body, "{query}"{more})'
        tail = "return { $d.id } order { $d.id }"
        for form, wish in ((clause, True), (f"not ({clause})", False)):
            found = ask(graph, f"{match} {form} }} {tail}")
            expected = [
                (r["id"],)
                for r in every
                if r["body"] is not None and test(r["body"], query) is wish
            ]
            assert found == expected, form
    vector = [0.25, -0.5, 0.875]
    far = {r["id"]: cosine(r["vec"], vector) for r in every}
    for text in ("fox", "cat running fox"):
        good = bm25(every, text)
        tail = "return { $d.id, bm25($d.body, $q) as s } order { s desc, $d.id }"
        found = ask(graph, f"{match} }} {tail}", q=text)
        best = sorted(good.items(), key=lambda item: (item[1] is None, -(item[1] or 0), item[0]))
        assert close(found, best)
        tail = (
            "return { $d.id, rrf(nearest($d.vec, $v), bm25($d.body, $q), 5) as s }"
            " order { s desc } limit 7"
        )
        found = ask(graph, f"{match} }} {tail}", v=vector, q=text)
        fused = sorted(rrf(far, good, 5).items(), key=lambda item: (-item[1], item[0]))
        assert close(found, fused[:7])
    tail = "return { $d.id, nearest($d.vec, $v) as s } order { s } limit 9"
    near = sorted((s, id) for id, s in far.items() if s is not None)
    assert close(ask(graph, f"{match} }} {tail}", v=vector), [(id, s) for s, id in near[:9]])


def last_columns(graph: Graph) -> TableColumns:
    """What queries have left of the table that was used last."""
    return list(graph._caches._columns.values())[-1]


def force(monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """Make postings for every search, or for none."""
    if kept:
        monkeypatch.setattr(policy, "HITS_PER_TEXT", 1e-9)
    else:
        monkeypatch.setattr(Texts, "_build", lambda *_: None)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kept", [False, True], ids=["read", "kept"])
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_answers_do_not_depend_on_indexes(graph, seed, indexed, kept, monkeypatch):
    force(monkeypatch, kept)
    rng = random.Random(seed)
    graph.write_batches({"Doc": ("append", some_rows(rng, "Doc", range(25)))})
    if indexed:
        build_indexes(graph, "Doc")
    compare(graph, "Doc")
    assert (last_columns(graph).search_data(TextColumn, "body").postings is not None) is kept
    graph.write_batches({"Doc": ("append", some_rows(rng, "Doc", range(25, 32)))})
    graph.write_batches({"Doc": ("merge", some_rows(rng, "Doc", range(4, 9)))})
    compare(graph, "Doc")
    gone = [f"d{rng.randrange(32)}" for _ in range(5)]
    graph.mutate("query q($g: [String]) { delete Doc where id in $g }", params={"g": gone})
    compare(graph, "Doc")
    if indexed:
        build_indexes(graph, "Doc")
        compare(graph, "Doc")
        graph.write_batches({"Doc": ("merge", some_rows(rng, "Doc", range(7, 11)))})
        compare(graph, "Doc")


@pytest.mark.parametrize("kept", [False, True], ids=["read", "kept"])
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_large_tables_are_searched_in_the_same_way(graph, indexed, kept, monkeypatch):
    force(monkeypatch, kept)
    monkeypatch.setattr(policy, "SMALL_SEARCHED_ROWS", 7)
    monkeypatch.setattr(policy, "SMALL_TABLE_ROWS", 7)
    monkeypatch.setattr(policy, "SPLIT_BYTES", 60)
    monkeypatch.setattr(policy, "COMPARED_AT_ONCE", 10)
    if not kept:
        monkeypatch.setattr(policy, "VECTOR_BYTES", 0)
    rng = random.Random(9)
    graph.write_batches({"Doc": ("append", some_rows(rng, "Doc", range(40)))})
    if indexed:
        build_indexes(graph, "Doc")
        graph.write_batches({"Doc": ("merge", some_rows(rng, "Doc", range(6, 12)))})
        build_indexes(graph, "Doc")
    compare(graph, "Doc")
    compare(graph, "Doc")
    assert last_columns(graph).has(["vec"]) is kept
    assert ids(graph, '$d.id = "d3" search($d.body, "fox cat run dog")') in ([], ["d3"])


# --- what is kept ---


def test_postings_are_made_when_many_texts_are_looked_at(graph):
    docs(graph, *(f"fox {n}" if n % 2 else f"dog {n}" for n in range(64)))
    assert ids(graph, '$d.id = "d3" search($d.body, "fox")') == ["d3"]
    known = last_columns(graph).search_data(TextColumn, "body")
    assert known.postings is None
    before = last_columns(graph).bytes
    assert len(ids(graph, 'search($d.body, "fox")')) == 32
    assert known.postings is not None
    assert last_columns(graph).bytes >= before + known.postings.bytes


def test_an_index_finds_rows_until_it_has_found_many(graph):
    docs(graph, *(f"fox {n}" if n % 8 == 0 else f"dog {n}" for n in range(64)))
    build_indexes(graph, "Doc")
    made = []
    for _ in range(66):
        assert len(ids(graph, 'search($d.body, "fox")')) == 8
        made.append(last_columns(graph).search_data(TextColumn, "body").postings is not None)
    assert made == [False] * 63 + [True] * 3


def test_threads_make_postings_once(graph, monkeypatch):
    docs(graph, *(f"fox {n}" for n in range(64)))
    made, real = [], postings.build_postings

    def counted(*args: Any) -> Any:
        made.append(1)
        return real(*args)

    monkeypatch.setattr(texts, "build_postings", counted)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(ids(graph, 'search($d.body, "fox")'))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [64] * 8
    assert made == [1]


def test_equal_vectors_have_equal_distances_whatever_else_is_compared():
    rng = np.random.default_rng(4)
    for size in (1, 3, 64, 100, 1000):
        numbers = rng.normal(size=(300, size)).astype(np.float32)
        numbers[100:200] = numbers[:100]
        column = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), size)
        vector = rng.normal(size=size)
        whole = vectors.distances(column, vector)
        assert whole[100:200].tolist() == whole[:100].tolist()
        for start in range(0, 300, 7):
            part = column[start : start + 7]
            assert vectors.distances(part, vector).tolist() == whole[start : start + 7].tolist()
        kept = vectors.Vectors.of(column, size).take(np.arange(1, 300, 3))
        assert kept.distances(vector).tolist() == whole[1::3].tolist()


# --- filters ---


def test_a_null_text_is_unknown_and_never_matches(graph):
    docs(graph, "a fox", None, "a dog")
    assert ids(graph, 'search($d.body, "fox")') == ["d0"]
    assert ids(graph, 'not (search($d.body, "fox"))') == ["d2"]
    assert ids(graph, 'search($d.body, "fox") or $d.id = "d1"') == ["d0", "d1"]


def test_a_parameter_that_is_null_matches_nothing(graph):
    docs(graph, "a fox")
    text = "query q($q: String?) { match { $d: Doc search($d.body, $q) } return { $d.id } }"
    assert graph.query(text, params={"q": None}).to_rows() == []
    text = "query q($q: String?) { match { $d: Doc } return { bm25($d.body, $q) as s } }"
    assert graph.query(text, params={"q": None}).to_rows() == [{"s": None}]


def test_edits_and_k_are_within_their_bounds(graph):
    docs(graph, "a fox")
    with pytest.raises(UsageError, match="edit distance is a whole number from 0 to 2, not 3"):
        ids(graph, 'fuzzy($d.body, "fox", $e)', e=3)
    tail = 'return { rrf(bm25($d.body, "a"), bm25($d.body, "b"), $k) as s }'
    with pytest.raises(UsageError, match="`k` of rrf is a whole number from 1"):
        ask(graph, f"match {{ $d: Doc }} {tail}", k=0)


def test_texts_that_are_not_ascii_are_split_at_their_marks(graph):
    docs(graph, "naïve—the fox", "日本語。English", "caf\u00e9 noir", "“fox”")
    assert ids(graph, 'search($d.body, "fox")') == ["d0", "d3"]
    assert ids(graph, 'search($d.body, "日本語")') == ["d1"]
    assert ids(graph, 'search($d.body, "CAFE")') == ["d2"]
    assert ids(graph, 'match_text($d.body, "naive the fox")') == ["d0"]
    assert ids(graph, 'match_text($d.body, "naive fox")') == []
    before = [ids(graph, f'search($d.body, "{w}")') for w in ("naive", "english", "日本語", "café")]
    build_indexes(graph, "Doc")
    after = [ids(graph, f'search($d.body, "{w}")') for w in ("naive", "english", "日本語", "café")]
    assert before == after == [["d0"], ["d1"], ["d1"], ["d2"]]


# --- patterns ---


@pytest.fixture
def library(graph):
    put(
        graph,
        "Doc",
        ("d1", "the quick fox", [1.0, 0.0, 0.0]),
        ("d2", "a lazy dog", [0.0, 1.0, 0.0]),
        ("d3", "fox and dog", None),
        ("d4", None, [1.0, 1.0, 0.0]),
    )
    put(graph, "Note", ("d1", "fox fox", [1.0, 0.0, 0.0]), ("n2", "bird", [0.0, 0.0, 1.0]))
    people = ["ada", "bob", "cy"]
    wrote = [("ada", "d1"), ("ada", "d2"), ("bob", "d3"), ("ada", "d3"), ("bob", "d4")]
    graph.write_batches({"Person": ("append", pa.table({"id": people, "key": people}))})
    for number, (person, doc) in enumerate(wrote):
        text = (
            "query q($a: String, $b: String, $r: String)"
            " { insert Wrote { from: $a, to: $b, remark: $r } }"
        )
        remark = ("good", "rather good", "bad", "fine", "good work")[number]
        graph.mutate(text, params={"a": person, "b": doc, "r": remark})
    return graph


def test_a_search_holds_after_a_traversal_and_with_other_filters(library):
    match = 'match { $p: Person $p wrote $d search($d.body, "fox") $p.id != "bob" }'
    tail = "return { $p.id, $d.id as doc } order { $d.id }"
    assert ask(library, f"{match} {tail}") == [("ada", "d1"), ("ada", "d3")]


def test_edges_are_searched(library):
    match = 'match { $p $w: wrote $d search($w.remark, "good") }'
    tail = 'return { $d.id, bm25($w.remark, "good") as s } order { s desc, $d.id }'
    found = ask(library, f"{match} {tail}")
    assert [row[0] for row in found] == ["d1", "d2", "d4"]


def test_a_search_in_not_and_in_optional(library):
    match = 'match { $p: Person not { $p wrote $d search($d.body, "lazy") } }'
    assert ask(library, f"{match} return {{ $p.id }} order {{ $p.id }}") == [("bob",), ("cy",)]
    match = 'match { $p: Person optional { $p wrote $d search($d.body, "quick lazy") } }'
    tail = (
        'return { $p.id, $d.id as doc, bm25($d.body, "dog") > 0.0 as dog,'
        " nearest($d.vec, $v) as far } order { $p.id, $d.id }"
    )
    assert ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0]) == [
        ("ada", "d1", False, 0.0),
        ("ada", "d2", True, 1.0),
        ("bob", None, None, None),
        ("cy", None, None, None),
    ]


def test_an_optional_variable_has_no_fused_score(library):
    match = 'match { $p: Person optional { $p wrote $d search($d.body, "quick") } }'
    tail = 'return { $p.id, rrf(nearest($d.vec, $v), bm25($d.body, "fox")) as s } order { $p.id }'
    found = ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0])
    assert found == [("ada", pytest.approx(2 / 61)), ("bob", None), ("cy", None)]


def test_an_interface_is_searched_type_by_type(library):
    match = 'match { $r: Readable search($r.body, "fox") }'
    tail = 'return { $r.id, bm25($r.body, "fox") as s } order { s desc, $r.id }'
    found = ask(library, f"{match} {tail}")
    assert sorted(row[0] for row in found) == ["d1", "d1", "d3"]
    assert max(row[1] for row in found) == pytest.approx(
        math.log(1 + 1.5 / 1.5) * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 2 / 1.5))
    )


def test_counts_and_groups_take_searches(library):
    match = 'match { $p: Person $p wrote $d search($d.body, "fox") }'
    tail = "return { $p.id, count($d) as n } order { $p.id }"
    assert ask(library, f"{match} {tail}") == [("ada", 2), ("bob", 1)]
    match = "match { $p: Person $p wrote $d }"
    tail = "return { $d.id, nearest($d.vec, $v) as far, count($p) as n } order { far, n } limit 2"
    found = ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0])
    assert found == [("d1", 0.0, 1), ("d4", pytest.approx(1 - 0.5**0.5), 1)]
    tail = "return distinct { nearest($d.vec, $v) as far } order { far } limit 9"
    assert len(ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0])) == 3


def test_several_searches_in_one_query(library):
    both = 'search($d.body, "fox") search($d.body, "dog") fuzzy($d.body, "foz")'
    assert ids(library, both) == ["d3"]
    assert ids(library, 'search($d.body, "quick") or match_text($d.body, "lazy dog")') == [
        "d1",
        "d2",
    ]


# --- scores ---


def test_scores_can_be_computed_with(library):
    tail = 'return { $d.id, bm25($d.body, "fox") * 2.0 as s, bm25($d.body, "fox") as t }'
    for _, double, single in ask(library, f"match {{ $d: Doc }} {tail}"):
        assert double == (None if single is None else 2 * single)


def test_rows_without_a_vector_are_not_among_the_nearest(library):
    tail = "return { $d.id } order { nearest($d.vec, $v) } limit 10"
    found = ask(library, f"match {{ $d: Doc }} {tail}", v=[1.0, 0.0, 0.0])
    assert found == [("d1",), ("d4",), ("d2",)]
    tail = "return { $d.id } order { nearest($d.vec, $v) desc } limit 10"
    found = ask(library, f"match {{ $d: Doc }} {tail}", v=[1.0, 0.0, 0.0])
    assert found == [("d2",), ("d4",), ("d1",)]


def test_as_many_rows_as_the_limit_whenever_they_match(library):
    match = 'match { $d: Doc $d.id != "d1" }'
    tail = "return { $d.id } order { nearest($d.vec, $v) } limit 2"
    assert ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0]) == [("d4",), ("d2",)]


def test_a_vector_without_direction_is_at_distance_one(graph):
    put(graph, "Doc", ("d0", None, [0.0, 0.0, 0.0]), ("d1", None, [2.0, 0.0, 0.0]))
    tail = "return { $d.id, nearest($d.vec, $v) as s } order { s } limit 3"
    assert ask(graph, f"match {{ $d: Doc }} {tail}", v=[1.0, 0.0, 0.0]) == [
        ("d1", 0.0),
        ("d0", 1.0),
    ]
    assert ask(graph, f"match {{ $d: Doc }} {tail}", v=[0.0, 0.0, 0.0]) == [
        ("d0", 1.0),
        ("d1", 1.0),
    ]


def test_ranks_are_among_the_matches_and_each_entity_counts_once(library):
    # d3 is written by two: it has one rank, and d2 is the third by relevance without d1.
    match = 'match { $p: Person $p wrote $d $d.id != "d1" }'
    tail = (
        'return { $p.id, $d.id as doc, rrf(nearest($d.vec, $v), bm25($d.body, "dog"), 1) as s }'
        " order { s desc } limit 9"
    )
    found = ask(library, f"{match} {tail}", v=[1.0, 0.0, 0.0])
    assert found == [
        ("ada", "d2", pytest.approx(1 / 3 + 1 / 2)),
        ("bob", "d4", pytest.approx(1 / 2)),
        ("ada", "d3", pytest.approx(1 / 3)),
        ("bob", "d3", pytest.approx(1 / 3)),
    ]


def test_two_variables_can_be_fused(library):
    match = "match { $n: Note $d: Doc }"
    tail = (
        'return { $n.id, $d.id as doc, rrf(bm25($n.body, "bird"), bm25($d.body, "lazy"), 1) as s }'
        " order { s desc } limit 2"
    )
    assert ask(library, f"{match} {tail}")[0] == ("n2", "d2", 1.0)


def test_an_interface_is_ranked_as_a_whole(library):
    match = "match { $r: Readable }"
    tail = (
        'return { $r.id, rrf(bm25($r.body, "fox"), bm25($r.body, "bird"), 1) as s }'
        " order { s desc } limit 4"
    )
    found = ask(library, f"{match} {tail}")
    assert sorted(row[0] for row in found) == ["d1", "d1", "d3", "n2"]
    assert sorted(row[1] for row in found) == pytest.approx([1 / 4, 1 / 3, 1 / 2, 1 / 2])


def test_an_empty_table_is_searched(graph):
    match = 'match { $d: Doc search($d.body, "fox") }'
    tail = (
        'return { $d.id, bm25($d.body, "fox") as t, rrf(nearest($d.vec, $v), bm25($d.body, "a"))'
        " as s } order { s desc } limit 4"
    )
    assert ask(graph, f"{match} {tail}", v=[1.0, 0.0, 0.0]) == []
