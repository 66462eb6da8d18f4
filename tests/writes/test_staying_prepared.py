"""Writes that are overtaken by other commits stay prepared, unless they really clash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.errors import ReadSetConflict, ValidationError
from omnigraph.graph import Graph, init
from omnigraph.maintenance.indexes import ensure_indices
from omnigraph.writes import prepared

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String?  @unique(mail) }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
edge Knows: Person -> Person
"""
PERSON = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
MAIL = "query q($n: String, $m: String) { insert Person { name: $n, mail: $m } }"
KNOWS = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
LIVES = "query q($a: String, $b: String) { insert LivesIn { from: $a, to: $b } }"
AGE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
OLD = "query q() { update Person set { mail: null } where age > 50 }"
DELETE = "query q($n: String) { delete Person where name = $n }"
NAMES = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = init(tmp_path / "graph", SCHEMA)
    for name, age in (("ada", 36), ("bob", 60), ("cy", 20)):
        made.mutate(PERSON, params={"n": name, "a": age})
    made.mutate('query q() { insert City { name: "Bern" } insert City { name: "Rome" } }')
    return made


class Overtaken:
    """Lets a write be prepared, then others commit, and counts how often it was prepared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared = 0
        self._stage = prepared._stage

        def counted(*arguments):
            self.prepared += 1
            return self._stage(*arguments)

        monkeypatch.setattr(prepared, "_stage", counted)

    def by(self, work: Callable[[], object]):
        left = [work]
        self.prepared = 0

        def act() -> None:
            if left:
                counted = self.prepared
                left.pop()()
                self.prepared = counted

        return failpoints.active("write.prepared", act)


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> Overtaken:
    return Overtaken(monkeypatch)


def people(graph: Graph) -> dict[str, int | None]:
    return {row["name"]: row["age"] for row in graph.query(NAMES).to_rows()}


@pytest.mark.parametrize(
    "other",
    [
        lambda g: g.mutate(PERSON, params={"n": "eve", "a": 1}),
        lambda g: [g.mutate(PERSON, params={"n": f"e{i}", "a": i}) for i in range(20)],
        lambda g: g.mutate(AGE, params={"n": "bob", "a": 61}),
        lambda g: g.mutate(DELETE, params={"n": "cy"}),
        lambda g: g.mutate(KNOWS, params={"a": "bob", "b": "cy"}),
        lambda g: ensure_indices(g._repository, "main"),
    ],
)
@pytest.mark.parametrize(
    ("query", "params"),
    [
        (PERSON, {"n": "dora", "a": 4}),
        (PERSON, {"n": "ada", "a": 37}),
        (AGE, {"n": "ada", "a": 37}),
        (LIVES, {"a": "ada", "b": "Bern"}),
        (DELETE, {"n": "ada"}),
    ],
)
def test_a_write_about_other_rows_is_prepared_once(graph, overtaken, other, query, params):
    with overtaken.by(lambda: other(graph)):
        made = graph.mutate(query, params=params)
    assert overtaken.prepared == 1
    assert made.commit is not None
    assert graph.commits()[0].id == made.commit.id
    assert graph.check().problems == ()
    if query is DELETE:
        assert "ada" not in people(graph)
    elif query is not LIVES:
        assert people(graph)[params["n"]] == params["a"]


@pytest.mark.parametrize(
    ("query", "params", "other", "given"),
    [
        (AGE, {"n": "ada", "a": 37}, AGE, {"n": "ada", "a": 99}),
        (AGE, {"n": "ada", "a": 37}, DELETE, {"n": "ada"}),
        (DELETE, {"n": "ada"}, AGE, {"n": "ada", "a": 99}),
        (DELETE, {"n": "ada"}, KNOWS, {"a": "bob", "b": "ada"}),
        (OLD, {}, AGE, {"n": "ada", "a": 51}),
        (OLD, {}, AGE, {"n": "bob", "a": 10}),
        (OLD, {}, PERSON, {"n": "old", "a": 90}),
    ],
)
def test_an_update_or_delete_of_rows_that_changed_is_a_conflict_that_names_them(
    graph, overtaken, query, params, other, given
):
    with (
        overtaken.by(lambda: graph.mutate(other, params=given)),
        pytest.raises(ReadSetConflict, match=r"(Person|Knows) .* changed on branch `main`"),
    ):
        graph.mutate(query, params=params)
    assert graph.check().problems == ()
    # It works when it is repeated.
    graph.mutate(query, params=params)


def test_an_insert_of_the_same_key_is_prepared_again_and_replaces_the_other(graph, overtaken):
    with overtaken.by(lambda: graph.mutate(PERSON, params={"n": "eve", "a": 1})):
        made = graph.mutate(PERSON, params={"n": "eve", "a": 2})
    assert overtaken.prepared == 2
    assert made.nodes["Person"].replaced == 1
    assert people(graph)["eve"] == 2
    assert len([n for n in graph.query(NAMES).to_rows() if n["name"] == "eve"]) == 1


@pytest.mark.parametrize(
    ("query", "params", "other", "given", "rule"),
    [
        (KNOWS, {"a": "bob", "b": "cy"}, DELETE, {"n": "cy"}, "there is no Person"),
        (MAIL, {"n": "x", "m": "m@x"}, MAIL, {"n": "y", "m": "m@x"}, "is taken by"),
        (LIVES, {"a": "cy", "b": "Bern"}, LIVES, {"a": "cy", "b": "Rome"}, "allowed are 0..1"),
    ],
)
def test_an_insert_that_breaks_a_rule_after_another_commit_is_refused(
    graph, overtaken, query, params, other, given, rule
):
    with (
        overtaken.by(lambda: graph.mutate(other, params=given)),
        pytest.raises(ValidationError, match=rule),
    ):
        graph.mutate(query, params=params)
    assert graph.check().problems == ()


def test_a_write_on_a_branch_stays_prepared_too(graph, overtaken):
    graph.branches.create("draft")
    graph.mutate(PERSON, params={"n": "first", "a": 0}, branch="draft")
    with overtaken.by(lambda: graph.mutate(PERSON, params={"n": "eve", "a": 1}, branch="draft")):
        graph.mutate(PERSON, params={"n": "dora", "a": 2}, branch="draft")
    assert overtaken.prepared == 1
    assert graph.snapshot("draft").count("Person") == 6
    assert graph.check().problems == ()


def test_merged_fragments_are_no_change(graph, overtaken):
    def many() -> None:
        for number in range(40):
            graph.mutate(PERSON, params={"n": f"other{number}", "a": number})

    with overtaken.by(many):
        # Its row was moved by several merges, together with rows that are newer.
        graph.mutate(AGE, params={"n": "ada", "a": 37})
    assert overtaken.prepared == 1
    assert people(graph)["ada"] == 37
    assert len(people(graph)) == 43


def test_a_row_that_others_wrote_again_as_it_was_is_not_there_twice(graph, overtaken):
    def the_same() -> None:
        graph.write_batches({"City": ("merge", cities)})
        graph.mutate(PERSON, params={"n": "eve", "a": 1})
        graph.write_batches({"City": ("merge", cities.slice(0, 1))})
        graph.mutate('query q() { insert City { name: "Oslo" } }')

    cities = pa.table({"id": ["Bern", "Rome"], "name": ["Bern", "Rome"]})
    with overtaken.by(the_same):
        graph.write_batches({"City": ("merge", cities.slice(0, 1))})
    names = graph.query("query q() { match { $c: City } return { $c.name as name } }").to_rows()
    assert sorted(row["name"] for row in names) == ["Bern", "Oslo", "Rome"]
    assert graph.check().problems == ()
    graph.write_batches({"City": ("merge", cities)})
    assert graph.snapshot().count("City") == 3
