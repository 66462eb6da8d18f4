"""Queries that look up one node by its key answer the same on the short way as on the long one."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import NotFound, QueryError, ResourceLimit
from omnigraph.graph import Graph, init
from omnigraph.query.key_lookup import KeyLookup
from omnigraph.query.tables import policy
from omnigraph.results.few_rows import FewRows
from tests.calls import calls
from tests.crash.children import run_child
from tests.history.children import put_name

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
NAME = "query q($key: I64) { match { $p: Person { key: $key } } return { $p.name } }"
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
    monkeypatch.setattr(KeyLookup, "rows", None)
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


def test_a_commit_of_another_process_is_seen(graph: Graph) -> None:
    assert answers(graph, NAME, {"key": 1})[1] == [{"p.name": "n1"}]
    assert run_child(put_name, graph.location, "main", 1, "theirs") == 0
    assert answers(graph, NAME, {"key": 1})[:2] == [[{"p.name": "theirs"}]] * 2


def test_each_state_has_its_own_nodes(graph: Graph) -> None:
    graph.branches.create("draft")
    first = graph.snapshot()
    put_name(graph.location, "draft", 1, "drafted")
    graph.mutate("query q() { delete Person where key = 1 }")
    second = graph.snapshot()
    put_name(graph.location, "main", 2, "later")

    def name(key: int, **state: Any) -> object:
        # The first time the keys are put in order.
        for _ in range(3):
            row = graph.query(NAME, params={"key": key}, **state).first()
        return row and row["p.name"]

    for _ in range(2):
        assert [name(1), name(2)] == [None, "later"]
        assert [name(key, branch="draft") for key in (1, 2)] == ["drafted", "n2"]
        assert [name(key, snapshot=first) for key in (1, 2)] == ["n1", "n2"]
        assert [name(key, commit=second.commit) for key in (1, 2)] == [None, "n2"]
        assert graph.at(first.commit).query(NAME, params={"key": 1}).scalar() == "n1"
        assert graph.branch("draft").query(NAME, params={"key": 1}).scalar() == "drafted"


def test_a_node_that_comes_back_is_found_again(graph: Graph) -> None:
    graph.query(NAME, params={"key": 5})
    assert answers(graph, NAME, {"key": 5})[1] == []
    graph.load([{"key": 5, "name": "again"}], type="Person")
    assert answers(graph, NAME, {"key": 5})[:2] == [[{"p.name": "again"}]] * 2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"key": "one"}, "give a whole number"),
        ({"key": 1.5}, "give a whole number"),
        ({"key": True}, "true is not an I64"),
        ({"key": 2**63}, "is out of range for I64"),
        ({"key": None}, "null is not an I64"),
        ({"kye": 1}, "did you mean"),
        ({"key": 1, "$key": 1}, "is passed twice"),
        ({"key": 1, "other": 1}, "has no parameter `other`"),
        ({}, "is missing"),
        (None, "is missing"),
    ],
)
def test_a_wrong_parameter_is_refused_as_ever(
    params: dict[str, Any] | None, message: str, graph: Graph
) -> None:
    for _ in range(3):
        graph.query(NAME, params={"key": 1})
    with pytest.raises(QueryError, match=re.escape(message)):
        graph.query(NAME, params=params)


def test_numbers_are_taken_in_all_their_forms(graph: Graph) -> None:
    for key in (1, "1", np.int64(1), np.array(1)):
        assert graph.query(NAME, params={"$key": key}).scalar() == "n1"
        assert graph.query(NAME, params={"key": key}).scalar() == "n1"


@pytest.mark.parametrize("key", [1, 5, 2**62])
def test_an_answer_has_the_same_forms_on_both_ways(key: int, graph: Graph) -> None:
    graph.query(PERSON, params={"key": key})
    short = graph.query(PERSON, params={"key": key})
    long = graph.query(PERSON.replace("p.at }", "p.at } limit 9"), params={"key": key})
    assert isinstance(short._answer, FewRows) and not isinstance(long._answer, FewRows)
    assert (len(short), short.first(), short.to_rows()) == (len(long), long.first(), list(long))
    assert [type(v) for row in short for v in row.values()] == [
        type(v) for row in long for v in row.values()
    ]
    for form in ("to_json", "to_jsonl", "to_csv", "to_kv", "to_dict", "__str__", "__repr__"):
        assert getattr(short, form)() == getattr(long, form)(), form
    assert short.to_arrow().equals(long.to_arrow())
    assert short.to_arrow().schema == long.to_arrow().schema
    assert short.to_rows() == long.to_rows()


def test_an_answer_does_not_hold_on_to_the_columns(graph: Graph) -> None:
    graph.load(
        [{"key": k, "name": f"{k:0100}", "tags": ["x" * 50]} for k in range(100, 300)],
        type="Person",
    )
    for text in (NAME, PERSON):
        for _ in range(3):
            answer = graph.query(text, params={"key": 200})
        assert answer.to_arrow().get_total_buffer_size() < 1000


def test_what_is_in_memory_is_not_given_out_for_a_graph_that_is_gone(graph: Graph) -> None:
    snapshot = graph.snapshot()
    for _ in range(3):
        assert graph.query(NAME, params={"key": 1}, snapshot=snapshot).scalar() == "n1"
        assert graph.query(NAME, params={"key": 1}).scalar() == "n1"
    shutil.rmtree(graph.location)
    for state in (None, snapshot):
        with pytest.raises(NotFound):
            graph.query(NAME, params={"key": 1}, snapshot=state)


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
