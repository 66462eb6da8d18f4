"""How queries are run: plans that are pinned, and what `analyze` tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.errors import UsageError
from omnigraph.graph import Graph, init

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = init(tmp_path / "g", SCHEMA)
    statements = [f'insert Person {{ name: "p{n}", age: {n} }}' for n in range(20)]
    statements += ['insert City { name: "Rome" }', 'insert City { name: "Oslo" }']
    statements += [
        f'insert Knows {{ from: "p{n}", to: "p{m % 20}" }}'
        for n in range(20)
        for m in (n + 1, n + 2)
    ]
    statements += [f'insert LivesIn {{ from: "p{n}", to: "Rome" }}' for n in range(10)]
    graph.mutate(f"query q() {{ {' '.join(statements)} }}")
    return graph


def shown(graph: Graph, body: str, analyze: bool = False) -> str:
    """The plan as text; times are zero, and so is their width."""
    text = str(graph.explain(f"query q() {{ {body} }}", analyze=analyze))
    return re.sub(r" +(time|\d+\.\d\d ms)$", " time", text, flags=re.MULTILINE)


def test_a_key_is_where_to_start(graph: Graph) -> None:
    body = """
      match { $a knows $b  $b: Person { name: "p3" }  not { $a livesIn $_ } }
      return { $a.name, $b.age } order { $a.name desc } limit 3
    """
    assert (
        shown(graph, body)
        == """\
step                                estimate
scan b: Person where b.name = "p3"         1
expand b <-[Knows]- a from b               2
not at a                                   1
  exists a -[LivesIn]-> _                  1
order a.name desc
limit 3
return a.name, b.age"""
    )


def test_what_is_only_counted_is_not_enumerated(graph: Graph) -> None:
    body = "match { $a knows $b  $b knows $c } return { count($a) as n }"
    assert (
        shown(graph, body, analyze=True)
        == """\
step                                       estimate  rows time
scan b: Person                                   20    20 time
count b <-[Knows]- a, b -[Knows]-> c at b        20    20 time
group all matches                                       1 time
return count(a) as n                                    1 time"""
    )


def test_what_follows_matching_is_measured_too(graph: Graph) -> None:
    body = """
      match { $a knows $b  $a.age < 12 }
      return { $a.age as age, count($b) as n } order { age desc } limit 5 offset 10
    """
    found = graph.explain(f"query q() {{ {body} }}", analyze=True).steps[-4:]
    assert [(step.text, step.rows) for step in found] == [
        ("group by age", 12),
        ("order age desc", 12),
        ("limit 5 offset 10", 2),
        ("return a.age as age, count(b) as n", 2),
    ]
    body = "match { $a knows $b } return { $a.name } order { $a.name, $b.name } limit 3"
    found = graph.explain(f"query q() {{ {body} }}", analyze=True).steps[-3:]
    assert [(step.text.split()[0], step.rows) for step in found] == [
        ("order", 40), ("limit", 3), ("return", 3),
    ]  # fmt: skip
    assert all(step.seconds is not None and step.seconds >= 0 for step in found)
    body = "match { $a livesIn $b } return distinct { $b.name } order { $b.name }"
    found = graph.explain(f"query q() {{ {body} }}", analyze=True).steps[-3:]
    assert [(step.text.split()[0], step.rows) for step in found] == [
        ("distinct", 1), ("order", 1), ("return", 1),
    ]  # fmt: skip


def test_what_follows_matching_did_not_run_without_analyze(graph: Graph) -> None:
    body = "match { $a: Person } return { $a.name } order { $a.name } limit 3"
    steps = graph.explain(f"query q() {{ {body} }}").steps
    assert {(step.rows, step.seconds) for step in steps} == {(None, None)}


def test_an_empty_answer_is_measured(graph: Graph) -> None:
    body = "match { $a: Person $a.age > 99 } return { $a.name } order { $a.name } limit 3"
    steps = graph.explain(f"query q() {{ {body} }}", analyze=True).steps
    assert [step.rows for step in steps[-3:]] == [0, 0, 0]


def test_optional_parts_are_nested_and_measured(graph: Graph) -> None:
    body = "match { $p: Person  optional { $p livesIn $c } } return { $p.name, $c.name as city }"
    found = graph.explain(f"query q() {{ {body} }}", analyze=True)
    assert [(s.depth, s.rows) for s in found.steps] == [(0, 20), (0, 20), (1, 10), (0, 20)]
    assert all(step.seconds is not None for step in found.steps)
    plain = found.to_dict()
    assert plain["commit"] == graph.snapshot().commit and plain["steps"][2]["step"].startswith(
        "exp"
    )


def test_a_mutation_is_not_explained_here(graph: Graph) -> None:
    with pytest.raises(UsageError, match="writes"):
        graph.explain('query q() { delete Person where name = "x" }')


def test_each_part_of_a_conjunction_is_pushed_to_its_variable(graph: Graph) -> None:
    body = """
      match { $a knows $b  $a.name = "p3" and ($b.age > 3 and $a.age < $b.age) }
      return { $b.name }
    """
    assert (
        shown(graph, body)
        == """\
step                                          estimate
scan a: Person where a.name = "p3"                   1
expand a -[Knows]-> b from a where b.age > 3         1
filter a.age < b.age                                 0
return b.name"""
    )


def test_a_part_of_a_conjunction_does_not_wait_for_optional_variables(graph: Graph) -> None:
    body = """
      match { $a: Person  optional { $a livesIn $c }  $a.name = "p3" and $c.name = "Rome" }
      return { $a.age }
    """
    assert (
        shown(graph, body)
        == """\
step                                estimate
scan a: Person where a.name = "p3"         1
optional c                                 1
  expand a -[LivesIn]-> c from a           0
filter c.name = "Rome"                     0
return a.age"""
    )
    assert [row["a.age"] for row in graph.query(f"query q() {{ {body} }}")] == [3]
