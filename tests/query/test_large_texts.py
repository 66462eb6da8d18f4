"""Texts of more bytes than a usual Arrow column holds: every kind of query answers the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.graph import Graph, init, open
from omnigraph.query.tables import policy
from omnigraph.query.tables.large_texts import is_large

SCHEMA = """
node Page {
  url: String @key
  body: String? @index
  same: String
  tags: [String]?
  kind: String
}
edge Links: Page -> Page { note: String? }
"""
COUNT = 120
KINDS = ("", "alpha", "beta", "gamma é")

QUERIES = {
    "project": "match { $p: Page } return { $p.url, $p.body, $p.tags, $p } order { $p.url }",
    "limit": "match { $p: Page } return { $p.body } order { $p.body desc } limit 7 offset 3",
    "filter": 'match { $p: Page  $p.body contains "word 7" } return { $p.url } order { $p.url }',
    "starts": 'match { $p: Page  $p.body starts_with "page 00" } return { $p.url, $p.body }',
    "equal": "match { $p: Page { body: $body } } return { $p.url, $p.same }",
    "in": 'match { $p: Page  $p.kind in ["alpha", "beta"] } return { $p.body } order { $p.url }',
    "tags": """match { $p: Page  $p.tags contains "tag 3 tttttttttttttttttttt" }
        return { $p.tags } order { $p.url }""",
    "null": "match { $p: Page  $p.body is null } return { $p.url, $p.body }",
    "two columns": "match { $p: Page  $p.same > $p.body } return { $p.url } order { $p.url }",
    "order": "match { $p: Page } return { $p.url } order { $p.body, $p.same desc, $p.url }",
    "group": "match { $p: Page } return { $p.same, count($p) as n } order { n, $p.same }",
    "group bodies": """match { $p: Page } return { $p.body, $p.kind, count($p) as n }
        order { $p.body, $p.kind }""",
    "aggregates": """match { $p: Page } return {
        $p.kind, min($p.body) as a, max($p.body) as b, count($p.body) as n,
        count(distinct $p.same) as d } order { $p.kind }""",
    "whole": "match { $p: Page } return { min($p.body) as a, max($p.same) as b }",
    "distinct": "match { $p: Page } return distinct { $p.same, $p.kind } order { $p.same }",
    "distinct lists": "match { $p: Page } return distinct { $p.tags }",
    "join": """match { $p: Page  $q: Page  $p.same = $q.same  $p.kind = "alpha"  $q.kind = "beta" }
        return { $p.url as a, $q.url as b, $p.body as c } order { a, b }""",
    "hop": """match { $p links $q  $q.body contains "word 1" } return { $p.body as a, $q.body as b }
        order { $q.body, $p.body }""",
    "optional": """match { $p: Page  optional { $p links $q  $q.kind = "beta" } }
        return { $p.url as a, $q.body as b } order { $p.url, $q.url }""",
    "list": "match { $p: Page } return { [$p.same, $p.kind] as both } order { $p.url }",
    "search": """match { $p: Page  search($p.body, "word 7") }
        return { $p.url, bm25($p.body, "word 7") as score } order { score desc, $p.url }""",
    "fuzzy": 'match { $p: Page  fuzzy($p.body, "wrod", 2) } return { $p.url } order { $p.url }',
    "phrase": 'match { $p: Page  match_text($p.body, "page 0017") } return { $p.url, $p.body }',
}  # fmt: skip


def body(number: int) -> str | None:
    if number % 17 == 0:
        return None
    return f"page {number * 7919 % COUNT // 2:04} word {number % 12} " + "long é " * (number % 40)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("large") / "g"
    graph = init(place, SCHEMA)
    numbers = range(COUNT)
    pages = {
        "url": [f"u{number:04}" for number in numbers],
        "body": [body(number) for number in numbers],
        "same": [f"same {number % 9} " + "x" * 90 for number in numbers],
        "tags": [
            None if n % 11 == 0 else [f"tag {t} " + "t" * 20 for t in range(n % 5)] for n in numbers
        ],
        "kind": [KINDS[number % 4] for number in numbers],
    }
    links = {
        "from": [f"u{number:04}" for number in numbers],
        "to": [f"u{number * 31 % COUNT:04}" for number in numbers],
        "note": [body(number + 1) for number in numbers],
    }
    graph.write_batches({"Page": ("append", pa.table(pages)), "Links": ("append", pa.table(links))})
    graph.mutate('query gone() { delete Page where url = "u0005" }')
    graph.close()
    return place


def answers(place: Path) -> dict[str, Any]:
    """What all queries return, asked twice: from tables, and from what is in memory then."""
    rows_by_query: dict[str, Any] = {}
    with open(place) as graph:
        for _ in range(2):
            for name, text in QUERIES.items():
                query = f"query q({'$body: String' if '$body' in text else ''}) {{ {text} }}"
                params = {"body": body(40)} if "$body" in text else {}
                result = graph.query(query, params=params)
                assert not any(map(is_large, result.to_arrow().schema.types))
                rows = result.to_rows()
                assert rows_by_query.setdefault(name, rows) == rows
    return rows_by_query


def test_every_kind_of_query_answers_the_same(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = answers(place)
    assert not [name for name, rows in usual.items() if not rows]
    monkeypatch.setattr(policy, "LARGEST_TEXT_COLUMN", 500)
    assert answers(place) == usual


def test_texts_that_are_not_held_are_read_a_few_at_a_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = answers(place)
    monkeypatch.setattr(policy, "LARGEST_TEXT_COLUMN", 500)
    monkeypatch.setattr(policy, "LONG_COLUMN_BYTES", 600)
    monkeypatch.setattr(policy, "LONG_VALUE_BYTES", 30)
    monkeypatch.setattr(policy, "TEXT_BYTES_AT_ONCE", 4_000)
    monkeypatch.setattr(policy, "TEXTS_AT_ONCE", 7)
    monkeypatch.setattr(policy, "LEAST_PREFIX", 6)
    assert answers(place) == usual


# --- a real one ---

PAGES, SIZE = 2_200, 1 << 20


def long_body(number: int) -> str:
    return f"page {number * 7919 % PAGES:05} word {number % 50} " + "x" * SIZE


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("long") / "g", SCHEMA.replace("@index", ""))
    for first in range(0, PAGES, 100):
        numbers = range(first, first + 100)
        pages = {
            "url": [f"u{number:05}" for number in numbers],
            "body": [long_body(number) for number in numbers],
            "same": ["s"] * 100,
            "tags": [["t"]] * 100,
            "kind": [KINDS[number % 4] for number in numbers],
        }
        graph.write_batches({"Page": ("append", pa.table(pages))})
    links = {
        "from": [f"u{number:05}" for number in range(PAGES)],
        "to": [f"u{number * 31 % PAGES:05}" for number in range(PAGES)],
    }
    graph.write_batches({"Links": ("append", pa.table(links))})
    return graph


#: What is asked of more than 2 GiB of texts, within the usual memory, and how many rows come.
LONG_QUERIES = {
    'match { $p: Page  $p.body contains "word 7 " } return { $p.url }': PAGES // 50,
    'match { $p: Page  $p.body starts_with "page 0000" } return { $p.url, $p.body }': 10,
    "match { $p: Page } return { $p.url, $p.body } order { $p.body } limit 5": 5,
    "match { $p: Page } return { $p.url } order { $p.body desc, $p.url }": PAGES,
    "match { $p: Page } return { $p.kind, min($p.body) as a, max($p.body) as b }": 4,
    "match { $p: Page } return { count($p.body) as n }": 1,
    'match { $p: Page  $p.tags contains "t" } return { $p.url }': PAGES,
    'match { $p: Page  search($p.body, "word") } return { $p.url }': PAGES,
    """match { $p links $q  $p.body > $q.body  $p.kind = "alpha"  $q.kind = "gamma é" }
       return { $p.url }""": 273,
    """match { $p: Page  $q: Page  $p.body = $q.body  $p.url = "u00003"  $q.kind = "gamma é" }
       return { $p.url }""": 1,
}


@pytest.mark.soak
@pytest.mark.parametrize("text", LONG_QUERIES)
def test_more_than_2_gib_of_texts_within_the_usual_memory(long_texts: Graph, text: str) -> None:
    assert len(long_texts.query(f"query q() {{ {text} }}")) == LONG_QUERIES[text]


@pytest.mark.soak
@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Page } return { $p.body }",
        "match { $p: Page } return distinct { $p.body }",
        "match { $p: Page } return { $p.body, count($p) as n }",
        "match { $p: Page } return { $p.body } order { $p.body }",
    ],
)
def test_an_answer_of_more_than_2_gib(long_texts: Graph, text: str) -> None:
    with pytest.raises(ResourceLimit, match=r"more than 1024 MiB.*allow more memory"):
        long_texts.query(f"query q() {{ {text} }}")
    answer = long_texts.query(f"query q() {{ {text} }}", memory_limit=14 << 10).to_arrow()
    assert answer.num_rows == PAGES and answer.column(0).nbytes > 2 << 30
    assert answer.schema.field(0).type == pa.utf8()
    assert pc.count_distinct(pc.utf8_slice_codeunits(answer.column(0), 0, 10)).as_py() == PAGES


@pytest.mark.soak
def test_batches_and_exports_of_more_than_2_gib(long_texts: Graph, tmp_path: Path) -> None:
    text = "query q() { match { $p: Page } return { $p.body } order { $p.body } }"
    rows = [row for batch in long_texts.query_batches(text) for row in batch.column(0)]
    starts = [row.as_py()[:10] for row in rows]
    assert len(starts) == PAGES and starts == sorted(starts)
    for format in ("jsonl", "csv", "parquet"):
        result = long_texts.export(tmp_path / format, format=format)
        assert result.rows == {"Page": PAGES, "Links": PAGES}
