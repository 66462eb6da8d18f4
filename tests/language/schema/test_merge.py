"""Merging schemas: what goes together, what does not, and a random comparison with plain leaves."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from omnigraph.language import Catalog, check_schema, compile_schema, print_schema
from omnigraph.language.schema.merge import MergedSchema, merge_schemas, renumber
from omnigraph.language.schema.plan import plan_schema
from tests.language.generators import from_random, run_many
from tests.language.schema.test_plan_random import edited
from tests.language.schema_facts import facts
from tests.language.schema_generators import schema_model


def merged(base: str, ours: str, theirs: str, *, apart: bool = True) -> MergedSchema:
    """Merge three texts; `apart` is how numbers are reserved, without they meet."""
    root = compile_schema(base)
    other = replace(root, next_id=root.next_id + 100) if apart else root
    return merge_schemas(
        root, compile_schema(ours, accepted=root), compile_schema(theirs, accepted=other)
    )


def text_of(result: MergedSchema) -> str:
    assert not result.conflicts, result.conflicts
    assert result.catalog is not None
    return print_schema(result.catalog)


@pytest.mark.parametrize("apart", [True, False])
def test_what_both_sides_add_goes_together(apart):
    result = merged(
        "node A { x: I64 }",
        "node A { x: I64  o: I64? }\nnode Ours {}",
        "node A { x: I64  t: I64? }\nnode Theirs {}",
        apart=apart,
    )
    assert text_of(result) == (
        "node A {\n  x: I64\n  o: I64?\n  t: I64?\n}\n\nnode Ours {}\n\nnode Theirs {}\n"
    )
    assert bool(result.renumbered) != apart
    assert result.catalog is not None
    tables = list(result.catalog.tables())
    numbers = [n for t in tables for n in (t.id, t.incarnation)]
    numbers += [p.id for t in tables for p in t.properties.values()]
    assert len({*numbers}) == len(numbers)
    assert max(numbers) < result.catalog.next_id


def test_a_rename_and_a_change_of_the_same_property_go_together():
    result = merged(
        "node A { x: I32 @index }\nedge E: A -> A",
        'node B @rename_from("A") { y: I32 @index @rename_from("x") }\nedge E: B -> B',
        "node A { x: I64? @index @unique\n@range(x, 0..) }\nedge E: A -> A @card(0..1)",
    )
    assert text_of(result) == (
        "node B {\n  y: I64? @unique @index\n  @range(y, 0..)\n}\n\nedge E: B -> B @card(0..1)\n"
    )


def test_values_of_enums_are_merged_one_by_one():
    result = merged(
        "node A { x: enum(a, b) }", "node A { x: enum(a, b, o) }", "node A { x: enum(b, t) }"
    )
    assert text_of(result) == "node A {\n  x: enum(b, o, t)\n}\n"


def test_a_node_type_of_one_side_gets_what_the_other_adds_to_its_interface():
    result = merged(
        "interface I { x: I64 }\nnode A implements I {}",
        "interface I { x: I64  more: I64? }\nnode A implements I {}",
        "interface I { x: I64 }\nnode A implements I {}\nnode B implements I {}",
    )
    assert result.catalog is not None
    assert [*result.catalog.nodes["B"].properties] == ["x", "more"]


def test_what_both_sides_have_added_alike_is_one_thing():
    base, more = "node A { x: I64 }", "node A { x: I64  y: String? @index }\nnode B { z: I64 }"
    result = merged(base, more, more)
    assert result.catalog is not None
    root = compile_schema(base)
    ours = compile_schema(more, accepted=root)
    assert facts(result.catalog) == facts(ours)
    theirs = compile_schema(more, accepted=replace(root, next_id=root.next_id + 100))
    assert facts(renumber(theirs, result.renumbered)) == facts(ours)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kind", "message"),
    [
        (
            "node A { x: I32 }", "node A { x: I64 }", "node A { x: F64 }",
            "changed_differently", "both sides have changed the type of `A.x`, differently",
        ),
        (
            "node A {}", "node A { x: I32 }", "node A { x: I64 }",
            "added_differently", "both sides have added `A.x`, differently",
        ),
        (
            "node A {}", "node A {}\nnode B { x: I64 }", "node A {}\nnode B {}",
            "added_differently", "both sides have added node type `B`, differently",
        ),
        (
            "node A { x: I32 }", "node A {}", "node A { x: I64 }",
            "dropped_and_changed", "ours has dropped `A.x`, which theirs has changed",
        ),
        (
            "node A {}\nnode B {}", "node A {}\nnode B { x: I64? }", "node A {}",
            "dropped_and_changed", "theirs has dropped node type `B`, which ours has changed",
        ),
        (
            "node A {}\nnode B {}", "node A {}", "node A {}\nnode B {}\nedge E: A -> B",
            "dropped_and_changed", "an end of `E` needs what the other side has dropped",
        ),
        (
            "node A { x: I64  y: I64 }", "node A { y: I64 }",
            "node A { x: I64  y: I64\n@unique(x, y) }",
            "dropped_and_changed", "`@unique` of `A` needs what the other side has dropped",
        ),
        (
            "node A { x: I64 }", 'node A { o: I64 @rename_from("x") }',
            'node A { t: I64 @rename_from("x") }',
            "changed_differently", "both sides have changed the name of `A.o`, differently",
        ),
        (
            "node A { x: I64 }", 'node A { y: I64 @rename_from("x") }',
            "node A { x: I64  y: I64? }",
            "added_differently", "two things would be called `A.y`",
        ),
        (
            "node A {}", "node A {}\nnode B {}", "node A {}\nedge B: A -> A",
            "added_differently", "two things would be called `B`",
        ),
        (
            "node A { x: String }", "node A { x: String @key }", "node A { x: String? }",
            "does_not_fit", "`x` can be null and cannot be part of a key",
        ),
        (
            "interface I { x: I64 }\nnode A implements I {}",
            "interface I {}\nnode A implements I {}",
            "interface I { x: I64 }\nnode A implements I {}\nnode B implements I {}",
            "does_not_fit", "`B` would lose `x`, which it has from an interface",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_a_conflict(base, ours, theirs, kind, message):
    result = merged(base, ours, theirs)
    assert result.catalog is None
    assert [(c.kind, c.message) for c in result.conflicts] == [(kind, message)]
    assert all(c.hint for c in result.conflicts)
    assert {*result.conflicts[0].to_dict()} >= {"kind", "type", "property", "message", "hint"}


# --- random ---


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every single thing that a schema says; what is in a set is there or not."""
    if isinstance(value, dict):
        return {p: v for k, item in value.items() for p, v in leaves(item, (*path, k)).items()} | {
            (*path, "there"): True
        }
    if isinstance(value, set) and path[-1] != "key":
        return {(*path, item): True for item in value}
    return {path: repr(sorted(map(str, value)) if isinstance(value, set) else value)}


def expected(base: Any, ours: Any, theirs: Any) -> dict[tuple[Any, ...], Any]:
    """The plain model: each leaf is what the side has that has changed it."""
    result = {}
    for path in {**ours, **theirs}:
        b, o, t = (side.get(path) for side in (base, ours, theirs))
        leaf = t if o == b else o
        if leaf is not None:
            result[path] = leaf
    return result


def triple(rng: random.Random) -> tuple[Catalog, Catalog, Catalog] | None:
    source = from_random(rng)
    model, other = (schema_model(source, size=2, renames=False) for _ in range(2))
    base, _ = check_schema(model.write(source))
    assert base is not None
    ours, _ = check_schema(edited(source, model, other).write(source), accepted=base)
    root = replace(base, next_id=base.next_id + source.pick((0, 1000)))
    theirs, _ = check_schema(edited(source, model, other).write(source), accepted=root)
    if ours is None or theirs is None:
        return None
    # What is refused never becomes the schema of a branch.
    if any(plan_schema(base, side).of_effect("refused") for side in (ours, theirs)):
        return None
    return base, ours, theirs


def check_merge(base: Catalog, ours: Catalog, theirs: Catalog) -> str:
    for side in (ours, theirs):
        for result in (merge_schemas(base, side, base), merge_schemas(base, base, side)):
            assert result.catalog is not None, result.conflicts
            assert facts(result.catalog) == facts(side)
        alone = merge_schemas(base, side, side)
        assert alone.catalog is not None and facts(alone.catalog) == facts(side)
    result = merge_schemas(base, ours, theirs)
    turned = merge_schemas(base, theirs, ours)
    assert (result.catalog is None) == (turned.catalog is None)
    if result.catalog is None or turned.catalog is None:
        assert result.conflicts
        return "conflict"
    assert result.catalog.shape_hash == turned.catalog.shape_hash
    theirs = renumber(theirs, result.renumbered)
    for side in (ours, theirs):
        assert not plan_schema(side, result.catalog, merged=True).of_effect("refused")
    got = leaves(facts(result.catalog))
    wanted = expected(*(leaves(facts(side)) for side in (base, ours, theirs)))
    # Enums are one leaf here, and interfaces give their properties to types of the other side.
    differing = {p for p in {**got, **wanted} if got.get(p) != wanted.get(p)}
    if not result.catalog.interfaces:
        assert all(p[-1] == "type" and "values=" in got[p] for p in differing), differing
        return "merged" if differing else "as the model"
    return "with interfaces"


def test_merges_of_random_schemas_are_those_of_their_leaves() -> None:
    outcomes: Counter[str] = Counter()

    def check(number: int, rng: random.Random) -> None:
        schemas = triple(rng)
        if schemas is not None:
            outcomes[check_merge(*schemas)] += 1

    run_many("merges of schemas", check, count=150)
    assert outcomes["as the model"] > 10 and outcomes["conflict"] > 10, outcomes


@pytest.mark.soak
def test_merges_of_many_schemas_are_those_of_their_leaves() -> None:
    def check(number: int, rng: random.Random) -> None:
        schemas = triple(rng)
        if schemas is not None:
            check_merge(*schemas)

    run_many("many merges of schemas", check)
