"""Queries that look up one node by its key answer the same on the short way as on the long one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.graph import Graph, init
from omnigraph.query.key_lookup import KeyLookup
from omnigraph.query.tables import policy
from tests.calls import calls

SCHEMA = """
node Person {
  key: I64 @key  name: String  born: Date?  score: F32?  tags: [String]?  at: DateTime?
}
node Place { slug: String @key  size: I32? }
node Pair { a: I64  b: I64  @key(a, b) }
edge In: Person -> Place
"""
PERSON = """query q($key: I64?) { match { $p: Person { key: $key } }
  return { $p.key, $p.name as n, $p.born, $p.score, $p.tags, $p.at } }"""
PLACE = "query q($slug: String) { match { $p: Place { slug: $slug } } return { $p.slug, $p.size } }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    """A graph whose keys are in order after one query; one person is gone."""
    monkeypatch.setattr(policy, "SOUGHT_OFTEN", 0)
    with init(tmp_path / "g", SCHEMA) as graph:
        persons: list[dict[str, Any]] = [
            {
                "key": key,
                "name": f"n{key}",
                "born": dt.date(1815, 12, 10),
                "score": 0.1,
                "tags": ["a", "b"],
            }
            for key in range(-3, 8)
        ]
        persons += [
            {"key": 2**62, "name": "large", "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)}
        ]
        graph.load(persons, type="Person")
        graph.load([{"slug": "", "size": 0}, {"slug": "Čeněk 🙂"}], type="Place")
        graph.load([{"a": 1, "b": 2}], type="Pair")
        graph.mutate("query q() { delete Person where key = 5 }")
        yield graph


def answers(graph: Graph, text: str, params: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The same answer on the long way, on the short one, and in batches."""
    long = graph.query(text, params=params).to_rows()
    short = graph.query(text, params=params).to_rows()
    batches = [
        row for batch in graph.query_batches(text, params=params) for row in batch.to_pylist()
    ]
    return [long, short, [dict(row) for row in batches]]


@pytest.mark.parametrize("key", [-3, 0, 4, 5, 7, 8, 2**62, 2**62 + 1, None])
def test_a_node_is_found_by_a_number(key: int | None, graph: Graph) -> None:
    long, short, _ = answers(graph, PERSON, {"key": key})
    assert long == short
    is_there = key is not None and (-3 <= key < 8 or key == 2**62) and key != 5
    assert [row["p.key"] for row in short] == ([key] if is_there else [])


@pytest.mark.parametrize("slug", ["", "Čeněk 🙂", "Čeněk", "z"])
def test_a_node_is_found_by_a_text(slug: str, graph: Graph) -> None:
    long, short, _ = answers(graph, PLACE, {"slug": slug})
    assert long == short
    assert [row["p.slug"] for row in short] == ([slug] if slug in ("", "Čeněk 🙂") else [])


def test_a_constant_is_looked_up_too(graph: Graph) -> None:
    text = "query q() { match { $p: Person { key: 4 } } return { $p.name } }"
    assert [graph.query(text).scalar() for _ in range(2)] == ["n4", "n4"]


@pytest.mark.parametrize(
    ("pattern", "rest"),
    [
        ("$p: Person { key: $key }", "return { $p.name } limit 1"),
        ("$p: Person { key: $key }", "return { $p.name } order { $p.name }"),
        ("$p: Person { key: $key }", "return { count($p) as n }"),
        ("$p: Person { key: $key }", "return { $p.score + 1 as n }"),
        ("$p: Person { key: $key }  $p.score > 0", "return { $p.name }"),
        ("$p: Person { key: $key }  $p in $q", "return { $p.name }"),
        ("$p: Person  $p.key > $key", "return { $p.name }"),
        ("$p: Pair { a: $key }", "return { $p.b }"),
    ],
)
def test_other_queries_take_the_long_way(
    pattern: str, rest: str, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyLookup, "table", None)
    graph.query(f"query q($key: I64) {{ match {{ {pattern} }} {rest} }}", params={"key": 1})


def test_an_answer_that_is_too_large_is_refused(graph: Graph) -> None:
    graph.load([{"key": 100, "name": "x" * (3 << 20)}], type="Person")
    for _ in range(2):
        with pytest.raises(ResourceLimit):
            graph.query(PERSON, params={"key": 100}, memory_limit=1)


def test_a_change_is_seen(graph: Graph) -> None:
    for name in ("one", "two"):
        graph.mutate(f'query q() {{ update Person set {{ name: "{name}" }} where key = 1 }}')
        assert answers(graph, PERSON, {"key": 1})[1][0]["n"] == name


def test_explain_shows_the_scan(graph: Graph) -> None:
    graph.query(PERSON, params={"key": 1})
    explained = graph.explain(PERSON, params={"key": 1}, analyze=True)
    assert "scan" in str(explained)


def test_the_short_way_is_short(graph: Graph) -> None:
    text = "query q($key: I64) { match { $p: Person { key: $key } } return { $p.name } }"
    long = "query q($key: I64) { match { $p: Person { key: $key } } return { $p.name } limit 9 }"
    for each in (text, long):
        for _ in range(3):
            graph.query(each, params={"key": 1})
    ours = calls(lambda: graph.query(text, params={"key": 1}))
    assert ours * 3 < 2 * calls(lambda: graph.query(long, params={"key": 1}))
