"""Whether a scan asks an index or looks at columns: answers are the same, and `explain` tells."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.graph import Graph, init
from omnigraph.query.tables import policy

FIELDS = "slug: String @key  name: String?  size: I64?  kind: enum(a, b, c)?  tags: [String]?"
INDEXES = "@index(name) @index(size) @index(kind) @index(tags) @index(body)"
ADD = """query q($slug: String, $name: String?, $size: I64?, $tags: [String]?, $body: String?) {
  insert Doc { slug: $slug, name: $name, size: $size, kind: "b", tags: $tags, body: $body } }"""
#: Filters, and the index that answers each.
FILTERS = {
    '$d.name = "name 7"': "name_btree",
    '$d.name starts_with "name 1"': "name_btree",
    "$d.size >= 10 $d.size < 13": "size_btree",
    '$d.kind = "c"': "kind_bitmap",
    '$d.tags contains "t3"': "tags_label_list",
    'search($d.body, "word3 word4")': "body_full_text",
    'match_text($d.body, "word3 word4")': "body_full_text",
    'fuzzy($d.body, "wird3")': "body_full_text",
    '$d.size < 20 search($d.body, "word5")': "body_full_text",
    'not (search($d.body, "word5"))': "body_full_text",
}


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are as large ones: their columns are not read at once."""
    monkeypatch.setattr(policy, "SMALL_TABLE_ROWS", 10)
    monkeypatch.setattr(policy, "SMALL_SEARCHED_ROWS", 10)


def drawn(chance: random.Random, number: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    words = [f"word{chance.randrange(8)}" for _ in range(3)]
    return {
        "slug": f"d{number}",
        "name": maybe(f"name {chance.randrange(60)}"),
        "size": maybe(chance.randrange(60)),
        "tags": maybe([f"t{chance.randrange(8)}" for _ in range(chance.randrange(3))]),
        "body": maybe(" ".join(words)),
    }


class Pair:
    """Two graphs with the same rows, one of them with indexes."""

    def __init__(self, folder: Path) -> None:
        self.graphs = [
            init(folder / name, f"node Doc {{ {FIELDS} body: String? {more} }}")
            for name, more in (("indexed", INDEXES), ("plain", ""))
        ]
        self.chance = random.Random(5)
        self.count = 0

    @property
    def indexed(self) -> Graph:
        return self.graphs[0]

    def mutate(self, text: str, params: Any = None) -> None:
        for graph in self.graphs:
            graph.mutate(text, params=params)

    def insert(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.mutate(ADD, [drawn(self.chance, number) for number in numbers])
        self.count += count

    def change(self) -> None:
        """Change some rows in every indexed property, and delete some."""
        some = self.chance.sample(range(self.count), 25)
        update = """query q($slug: String, $name: String?, $size: I64?, $tags: [String]?,
          $body: String?) { update Doc set { name: $name, size: $size, kind: "c", tags: $tags,
          body: $body } where slug = $slug }"""
        self.mutate(update, [drawn(self.chance, number) for number in some[:20]])
        gone = [{"slug": f"d{number}"} for number in some[20:]]
        self.mutate("query q($slug: String) { delete Doc where slug = $slug }", gone)

    def check(self) -> None:
        for filter in FILTERS:
            query = f"query q() {{ match {{ $d: Doc {filter} }} return {{ $d.slug as slug }} }}"
            answers = [
                sorted(row["slug"] for row in graph.query(query).to_rows()) for graph in self.graphs
            ]
            assert answers[0] == answers[1], filter


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    pair.insert(200)
    pair.indexed.ensure_indices()
    yield pair


def test_answers_are_the_same_while_indexes_lag(pair: Pair) -> None:
    pair.check()
    for turn in range(4):
        pair.change()
        pair.insert(10)
        pair.check()
        if turn % 2:
            pair.indexed.ensure_indices()
            pair.check()


@pytest.mark.parametrize("filter,index", FILTERS.items())
def test_explain_names_the_index(pair: Pair, filter: str, index: str) -> None:
    query = f"query q() {{ match {{ $d: Doc {filter} }} return {{ $d.slug }} }}"
    for analyze in (False, True):
        assert index in str(pair.indexed.explain(query, analyze=analyze))
        assert "index" not in str(pair.graphs[1].explain(query, analyze=analyze))


def test_an_index_that_finds_few_rows_is_asked_again_and_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = "query q() { match { $d: Doc $d.size >= 10 $d.size < 11 } return { $d.slug } }"
    many = "query q() { match { $d: Doc $d.size >= 10 } return { $d.slug } }"
    monkeypatch.setattr(policy, "SELECTIVE_PART", 3)
    for _ in range(2 * policy.OFTEN):
        pair.indexed.query(few)
    assert "size_btree" in str(pair.indexed.explain(few))
    for _ in range(2 * policy.OFTEN):
        pair.indexed.query(many)
    # Now the column is in memory, and is looked at for either.
    assert "index" not in str(pair.indexed.explain(few))
