"""Walking checked expressions."""

from __future__ import annotations

import pytest

from omnigraph.language.query.compiler import compile_queries
from omnigraph.language.query.expressions import (
    Checked,
    Constant,
    Fusion,
    Logic,
    Parameter,
    PropertyOf,
    children,
    variables,
    walk,
)
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.compiler import compile_schema

CATALOG = compile_schema(
    "node P { name: String @key  age: I32?  bio: String?  v: Vector(2)?  tags: [String]? }"
    "edge Knows: P -> P { since: Date? }"
)


def returned(text: str) -> Checked:
    query = (
        f"query q($x: I32, $t: String) {{ match {{ $p $k:knows $q }} return {{ {text} as c }} }}"
    )
    plan = compile_queries(query, CATALOG).queries["q"].plan
    assert isinstance(plan, ReadPlan)
    return plan.outputs[0].expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", []),
        ("now()", []),
        ("$x", []),
        ("$p", ["p"]),
        ("$p.age + $x * $q.age", ["p", "q"]),
        ("-$p.age", ["p"]),
        ("count($k)", ["k"]),
        ("max($p.age) - min($q.age)", ["p", "q"]),
        ("not ($p.age = 1 or $k.since is null)", ["k", "p"]),
        ("[$p.age, $q.age]", ["p", "q"]),
        ("nearest($p.v, [1, 2])", ["p"]),
        ("rrf(nearest($p.v, $t), bm25($q.bio, $t))", ["p", "q"]),
        ("$p = $q", ["p", "q"]),
        ("$p.name in $q.tags", ["p", "q"]),
    ],
)
def test_variables_are_those_that_an_expression_looks_at(text: str, expected: list[str]) -> None:
    assert sorted(variables(returned(text))) == expected


def test_walk_gives_the_outermost_first_and_goes_from_left_to_right() -> None:
    assert [str(e) for e in walk(returned("$p.age + $x * 2"))] == [
        "p.age + ($x * 2)", "p.age", "$x * 2", "$x", "2",
    ]  # fmt: skip


def test_walk_visits_every_part_of_a_fusion() -> None:
    fusion = returned("rrf(nearest($p.v, $t), bm25($q.bio, $t), 10)")
    assert isinstance(fusion, Fusion)
    parts = list(walk(fusion))
    assert parts[0] is fusion
    assert sum(isinstance(p, Parameter) for p in parts) == 2
    assert sum(isinstance(p, PropertyOf) for p in parts) == 2
    assert Constant(10, fusion.k.type) in parts
    assert children(fusion) == (fusion.first, fusion.second, fusion.k)


def test_walk_of_a_wide_and_deep_expression_does_not_recurse() -> None:
    expression: Checked = PropertyOf("p", "active", None)
    for _ in range(50_000):
        expression = Logic("and", (expression, Constant(True, None)))
    assert variables(expression) == {"p"}
    assert sum(1 for _ in walk(expression)) == 100_001


def test_checked_expressions_are_values() -> None:
    assert returned("$p.age + 1") == returned("$p.age + 1")
    assert hash(returned("$p.age + 1")) == hash(returned("$p.age + 1"))
    assert returned("$p.age + 1") != returned("$q.age + 1")
