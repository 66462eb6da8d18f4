"""Answers in batches: the same rows as those of a query, in a bounded amount of memory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import QueryError, ResourceLimit, UsageError
from omnigraph.graph import Graph, init
from omnigraph.query import budget as budgets
from omnigraph.query.tables import policy

SCHEMA = """
interface Named { name: String }
node Person implements Named { handle: String @key  age: I32?  big: I64?  tags: [String]? }
node Team implements Named { slug: String @key }
edge Knows: Person -> Person { weight: F64? }
"""
QUERIES = {
    "unordered": "match { $a knows $b } return { $a.name as a, $b.tags as t }",
    "ordered": "match { $a knows $b } return { $a.name as a, $b } order { $b.age desc, $a.name }",
    "ties": "match { $a knows $b  $b knows $c } return { $a, $b, $c } order { $b.age }",
    "texts_down": "match { $a knows $b } return { $a, $b } order { $a.name desc, $b.handle desc }",
    "wide": "match { $a: Person } return { $a } order { $a.big }",
    "floats": "match { $a $k:knows $b } return { $a, $b, $k.weight as w } order { $k.weight desc }",
    "interface": "match { $n: Named  $p: Person } return { $n, $p } order { $n.name, $p }",
    "optional": "match { $a: Person optional { $a knows $b } } return { $a, $b } order { $b.name }",
    "limited": "match { $a knows $b } return { $a, $b } order { $b.age } limit 70 offset 9",
    "grouped": "match { $a knows $b } return { $b.age as age, count($a) as n } order { n, age }",
    "distinct": "match { $a knows $b } return distinct { $b.tags as t, $b.age as n } order { n }",
    "nothing": 'match { $a: Person { handle: "?" } } return { $a.name as name } order { name }',
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    graph = init(tmp_path_factory.mktemp("batches") / "g", SCHEMA)
    numbers = range(60)
    people = pa.table(
        {
            "handle": [f"p{n * 7 % 60:02}" for n in numbers],
            "name": [f"name {n % 11}" for n in numbers],
            "age": pa.array([None if n % 9 == 0 else n % 5 for n in numbers], pa.int32()),
            "big": [None if n % 4 == 0 else (-1) ** n * (2**63 - 1) + n % 2 for n in numbers],
            "tags": [None if n % 8 == 0 else ["a", "b"][: n % 3] for n in numbers],
        }
    )
    teams = pa.table({"slug": [f"p{n:02}" for n in numbers], "name": ["name 3"] * 60})
    edges = pa.table(
        {
            "from": [f"p{n % 60:02}" for n in range(300)],
            "to": [f"p{n * n % 59:02}" for n in range(300)],
            "weight": [None if n % 7 == 0 else (n % 10 - 5) / 4 for n in range(300)],
        }
    )
    graph.write_batches(
        {"Person": ("append", people), "Team": ("append", teams), "Knows": ("append", edges)}
    )
    return graph


def rows(table: pa.Table | pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("where", ["in_memory", "in_files"])
@pytest.mark.parametrize("name", QUERIES)
def test_batches_have_the_rows_of_the_query(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, name: str, where: str
) -> None:
    text = f"query q() {{ {QUERIES[name]} }}"
    expected = rows(graph.query(text).to_arrow())
    files = 0
    make_file = tempfile.TemporaryFile

    def counted(**options: Any) -> Any:
        nonlocal files
        files += 1
        return make_file(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    monkeypatch.setattr(budgets, "_LEAST_ROWS", 16)
    monkeypatch.setattr(budgets, "BLOCK_ROWS", 16)
    monkeypatch.setattr(budgets, "_SORTED_ROW_BYTES", 1 << 16)
    if where == "in_files":
        monkeypatch.setattr(policy, "RUNS_IN_MEMORY_PART", 1 << 40)
    with graph.query_batches(text, memory_limit=1, batch_rows=7) as batches:
        found = list(batches)
        assert all(batch.schema == batches.schema for batch in found)
    assert all(0 < batch.num_rows <= 7 for batch in found)
    got = [row for batch in found for row in rows(batch)]
    ordered = "order" in text
    assert got == expected if ordered else sorted(map(repr, got)) == sorted(map(repr, expected))
    matches = ordered and name not in ("grouped", "distinct", "nothing")
    assert bool(files) == (where == "in_files" and matches)


def test_batches_know_what_they_are_of(graph: Graph) -> None:
    text = f"query q() {{ {QUERIES['ordered']} }}"
    result = graph.query(text)
    batches = graph.query_batches(text)
    assert (batches.fields, batches.columns) == (result.fields, result.columns)
    assert (batches.commit, batches.branch) == (result.commit, result.branch)
    assert batches.query == "q" and batches.schema == result.to_arrow().schema
    assert batches.to_reader().read_all().equals(result.to_arrow())
    assert pa.Table.from_batches(result.batches(7)).equals(result.to_arrow())
    assert max(batch.num_rows for batch in result.batches(7)) == 7


def test_mistakes_are_told_before_the_first_batch(graph: Graph) -> None:
    text = "query q($n: I64) { match { $p: Person } return { $p } limit $n }"
    with pytest.raises(QueryError, match="is missing"):
        graph.query_batches(text)
    with pytest.raises(UsageError, match="0 or more, not -1"):
        graph.query_batches(text, params={"n": -1})
    for wrong in (0, -1, "7"):
        with pytest.raises(UsageError, match="batch_rows is a whole number above 0"):
            graph.query_batches(text, params={"n": 1}, batch_rows=wrong)  # type: ignore[arg-type]


def test_the_reader_may_take_its_time(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    batches = graph.query_batches(f"query q() {{ {QUERIES['ties']} }}", time_limit=5, batch_rows=1)
    for number, _ in enumerate(batches):
        now += 100
        if number == 3:
            break
    batches.close()
    assert list(batches) == []


def test_an_answer_with_texts_of_more_than_two_gib_is_streamed(tmp_path: Path) -> None:
    graph = init(tmp_path / "g", "node Doc { slug: String @key  body: String  n: I32 }")
    body = "x" * (24 << 20)
    docs = pa.table({"slug": ["a", "b"], "body": [body, body], "n": pa.array([1, 2], pa.int32())})
    many = pa.table(
        {
            "slug": [f"c{n}" for n in range(45)],
            "body": [""] * 45,
            "n": pa.array([0] * 45, pa.int32()),
        }
    )
    graph.write_batches({"Doc": ("append", docs)})
    graph.write_batches({"Doc": ("append", many)})
    text = """query q() {
      match { $d: Doc  $e: Doc  $d.n > 0  $e.n = 0 } return { $d.body as body } order { $e.slug }
    }"""
    size = count = 0
    for batch in graph.query_batches(text):
        size += batch.nbytes
        count += batch.num_rows
    assert count == 90 and size > 2 << 30
    with pytest.raises(ResourceLimit, match="the answer takes more than 1024 MiB"):
        graph.query(text)
