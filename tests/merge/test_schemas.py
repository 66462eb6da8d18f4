"""Merges of branches with different schemas: rows are merged in the terms of the merged schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from omnigraph.errors import MergeConflicts, ResourceLimit, UsageError
from omnigraph.graph import Graph, init
from omnigraph.merge import work
from omnigraph.merge.amount import Sizes

Side = Literal["ours", "theirs"]
SCHEMA = """
node Person { name: String @key  age: I32?  nick: String? }
node City { name: String @key }
edge LivesIn: Person -> City { since: I32? }
"""
ROWS = """query q() {
  insert Person { name: "ada", age: 36, nick: "a" }
  insert Person { name: "bob", age: 40 }
  insert Person { name: "cy" }
  insert City { name: "Rome" }
  insert LivesIn { from: "ada", to: "Rome", since: 2000 }
}"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.mutate(ROWS)
        graph.branches.create("draft")
        yield graph


def person(body: str, *, name: str = "Person", more: str = "") -> str:
    header = "" if name == "Person" else ' @rename_from("Person")'
    return (
        f"node {name}{header} {{ name: String @key {body} }}\n"
        "node City { name: String @key }\n"
        f"edge LivesIn: {name} -> City {{ since: I32? }}\n{more}"
    )


def change(graph: Graph, branch: str, *statements: str) -> None:
    for statement in statements:
        graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def apply(graph: Graph, branch: str, schema: str) -> None:
    result = graph.schema.apply(schema, branch=branch, allow_data_loss=True)
    assert result.commit is not None


def rows(graph: Graph, type: str = "Person", branch: str = "main") -> dict[str, dict[str, Any]]:
    table = graph.snapshot(branch).read(type).drop_columns("id")
    return {row["name"]: row for row in table.to_pylist()}


def checked(graph: Graph) -> None:
    assert graph.check().problems == ()


#: Steps of the schema: the new one, what `ada` has then if nothing else happens, and her age 37.
STEPS = {
    "rename": (
        person('years: I32? @rename_from("age") nick: String?'),
        {"name": "ada", "years": 36, "nick": "a"},
        "years",
    ),
    "add": (
        person("age: I32? nick: String? mail: String?"),
        {"name": "ada", "age": 36, "nick": "a", "mail": None},
        "age",
    ),
    "default": (
        person('age: I32? nick: String? mail: String @default("-")'),
        {"name": "ada", "age": 36, "nick": "a", "mail": "-"},
        "age",
    ),
    "backfill": (
        person("age: I32? nick: String? mail: String @backfill(name)"),
        {"name": "ada", "age": 36, "nick": "a", "mail": "ada"},
        "age",
    ),
    "drop": (person("age: I32?"), {"name": "ada", "age": 36}, "age"),
    "widen": (
        person("age: I64? nick: String?"),
        {"name": "ada", "age": 36, "nick": "a"},
        "age",
    ),
    "tighten": (
        person("age: I32 @default(0) nick: String?"),
        {"name": "ada", "age": 36, "nick": "a"},
        "age",
    ),
    "range": (
        person("age: I32? nick: String? @range(age, 0..99)"),
        {"name": "ada", "age": 36, "nick": "a"},
        "age",
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("where", ["draft", "main", "both"])
@pytest.mark.parametrize("rows_on", ["draft", "main"])
def test_a_step_on_one_side_or_both_merges_with_rows_of_a_side(
    graph: Graph, step: str, where: str, rows_on: str
) -> None:
    schema, ada, age = STEPS[step]
    # The rows come first: each side then applies its own schema.
    change(
        graph,
        rows_on,
        'update Person set { age: 37 } where name = "ada"',
        'insert Person { name: "dot", age: 5 }',
        'delete Person where name = "bob"',
    )
    for branch in ("draft", "main") if where == "both" else (where,):
        apply(graph, branch, schema)
    if step == "backfill" and (where, rows_on) in (("draft", "main"), ("main", "draft")):
        # Nobody can tell what the other side's new row has in a property that it must have.
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("draft")
        assert [(c.kind, c.property) for c in caught.value.conflicts] == [
            ("ValueConstraintViolation", "mail")
        ]
        (conflict,) = caught.value.conflicts
        choice = {**conflict.to_dict(), "resolution": {"value": "dot"}}
        graph.merge("draft", resolutions=[choice])
    else:
        graph.merge("draft")
    merged = rows(graph)
    assert merged.keys() == {"ada", "cy", "dot"}
    assert merged["ada"] == {**ada, age: 37}
    assert merged["dot"][age] == 5
    if step == "default":
        assert {row["mail"] for row in merged.values()} == {"-"}
    if step == "backfill":
        assert {name: row["mail"] for name, row in merged.items()} == {
            name: name for name in ("ada", "cy", "dot")
        }
    if step == "tighten":
        assert merged["cy"]["age"] == 0
    assert graph.snapshot().catalog.nodes["Person"].properties.keys() == ada.keys()
    checked(graph)
    assert graph.merge("draft").outcome == "already_up_to_date"
    change(graph, "main", 'insert Person { name: "eve" ' + _required(step) + " }")
    checked(graph)


def _required(step: str) -> str:
    return ', mail: "e"' if step == "backfill" else ""


def test_a_fast_forward_takes_over_the_schema_itself(graph: Graph) -> None:
    apply(graph, "draft", STEPS["rename"][0])
    result = graph.merge("draft")
    assert result.outcome == "fast_forward"
    assert result.schema is not None
    assert [step.kind for step in result.schema.steps] == ["rename_property"]
    assert graph.schema.show().text == graph.schema.show("draft").text
    assert graph.schema.show().catalog == graph.schema.show("draft").catalog
    assert [*graph.diff("main", "draft")] == []


def test_different_changes_on_both_sides_are_put_together(graph: Graph) -> None:
    apply(graph, "draft", person("age: I64? nick: String? mail: String?"))
    change(graph, "draft", 'update Person set { mail: "a@x", age: 37 } where name = "ada"')
    apply(graph, "main", person('years: I32? @rename_from("age") nick: String?', name="Human"))
    change(graph, "main", 'insert Human { name: "dot", years: 5 }')
    graph.merge("draft")
    assert rows(graph, "Human") == {
        "ada": {"name": "ada", "years": 37, "nick": "a", "mail": "a@x"},
        "bob": {"name": "bob", "years": 40, "nick": None, "mail": None},
        "cy": {"name": "cy", "years": None, "nick": None, "mail": None},
        "dot": {"name": "dot", "years": 5, "nick": None, "mail": None},
    }
    checked(graph)
    # And on, in both directions.
    graph.merge("main", into="draft")
    assert rows(graph, "Human", "draft") == rows(graph, "Human")
    change(graph, "draft", 'update Human set { years: 38 } where name = "ada"')
    assert graph.merge("draft").outcome == "fast_forward"
    assert rows(graph, "Human")["ada"]["years"] == 38
    checked(graph)


def test_new_types_come_along_with_their_rows(graph: Graph) -> None:
    more = "node Pet { name: String @key }\nedge Owns: Person -> Pet"
    apply(graph, "draft", person("age: I32? nick: String?", more=more))
    change(graph, "draft", 'insert Pet { name: "Rex" }', 'insert Owns { from: "ada", to: "Rex" }')
    apply(
        graph,
        "draft",
        person("age: I32? nick: String?", more=more.replace("@key }", "@key kind: String? }")),
    )
    change(graph, "draft", 'update Pet set { kind: "dog" } where name = "Rex"')
    change(graph, "main", 'insert Person { name: "dot" }')
    graph.branches.create("other")
    for into in ("main", "other"):
        result = graph.merge("draft", into=into)
        assert result.tables["Pet"].inserted == 1
        assert rows(graph, "Pet", into) == {"Rex": {"name": "Rex", "kind": "dog"}}
        assert len(graph.snapshot(into).read("Owns")) == 1
        change(graph, into, 'insert Pet { name: "Tom" }')
        assert len(rows(graph, "Pet", into)) == 2
        checked(graph)
    assert len(rows(graph, "Pet", "draft")) == 1
    graph.branches.delete("draft")
    checked(graph)


def test_a_type_that_both_sides_have_added_alike_is_one(graph: Graph) -> None:
    schema = person("age: I32? nick: String?", more="node Pet { name: String @key }")
    for branch, pet in (("main", "Tom"), ("draft", "Rex")):
        apply(graph, branch, schema)
        change(graph, branch, f'insert Pet {{ name: "{pet}" }}')
    graph.merge("draft")
    assert rows(graph, "Pet").keys() == {"Tom", "Rex"}
    checked(graph)


@pytest.mark.parametrize("side", ["draft", "main"])
def test_a_dropped_type_goes_with_the_merge(graph: Graph, side: str) -> None:
    apply(graph, side, "node Person { name: String @key  age: I32?  nick: String? }")
    other = "main" if side == "draft" else "draft"
    change(graph, other, 'insert Person { name: "dot" }')
    graph.merge("draft")
    assert [table.name for table in graph.snapshot().tables] == ["Person"]
    assert "dot" in rows(graph)
    checked(graph)


@pytest.mark.parametrize("side", ["draft", "main"])
def test_what_one_side_drops_and_the_other_changes_is_a_conflict(graph: Graph, side: str) -> None:
    other = "main" if side == "draft" else "draft"
    dropper: Side = "theirs" if side == "draft" else "ours"
    apply(graph, side, "node Person { name: String @key  age: I32? }")
    change(
        graph,
        other,
        'update Person set { nick: "A" } where name = "ada"',
        'insert City { name: "Oslo" }',
    )
    before = graph.commits(limit=1)[0].id
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    conflicts = {(c.kind, c.type, c.property) for c in caught.value.conflicts}
    assert conflicts == {("SchemaConflict", "Person", "nick"), ("SchemaConflict", "City", None)}
    assert f"dropped on {dropper}" in str(caught.value)
    assert graph.commits(limit=1)[0].id == before
    wrong: Side = "theirs" if dropper == "ours" else "ours"
    assert len(graph.merge("draft", prefer=wrong, dry_run=True).conflicts) == 2
    result = graph.merge("draft", prefer=dropper)
    assert len(result.settled) == 2
    assert rows(graph)["ada"] == {"name": "ada", "age": 36}
    checked(graph)


def test_conflicting_changes_of_the_schema_are_conflicts_that_a_side_settles(graph: Graph) -> None:
    apply(graph, "draft", person('years: I32? @rename_from("age") nick: String?'))
    apply(graph, "main", person('winters: I32? @rename_from("age") nick: String?'))
    change(graph, "draft", 'update Person set { years: 37 } where name = "ada"')
    preview = graph.merge("draft", dry_run=True)
    assert preview.outcome == "conflicts"
    (conflict,) = preview.conflicts
    assert (conflict.kind, conflict.type, conflict.id) == ("SchemaConflict", "Person", "name")
    assert "both sides have changed the name" in conflict.message
    entry = {**conflict.to_dict(), "resolution": "theirs"}
    result = graph.merge("draft", resolutions=[entry])
    assert [c.kind for c in result.settled] == ["SchemaConflict"]
    assert rows(graph)["ada"]["years"] == 37
    checked(graph)


def test_rules_of_one_side_are_checked_over_rows_of_the_other(graph: Graph) -> None:
    rules = person("age: I32? nick: String? @unique @range(age, 0..50)")
    apply(graph, "draft", rules)
    change(
        graph,
        "main",
        'update Person set { age: 99 } where name = "bob"',
        'update Person set { nick: "a" } where name = "cy"',
    )
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    kinds = sorted(c.kind for c in caught.value.conflicts)
    assert kinds == ["UniqueViolation", "ValueConstraintViolation"]
    graph.merge("draft", prefer="theirs")
    assert rows(graph)["bob"]["age"] == 40
    assert rows(graph)["cy"]["nick"] is None
    checked(graph)


def test_a_row_that_their_side_mends_breaks_no_rule(graph: Graph) -> None:
    change(graph, "draft", 'update Person set { age: 20 } where name = "bob"')
    apply(graph, "draft", person("age: I32? nick: String? @range(age, 0..36)"))
    change(graph, "main", 'update Person set { nick: "b" } where name = "bob"')
    graph.merge("draft")
    assert rows(graph)["bob"] == {"name": "bob", "age": 20, "nick": "b"}
    checked(graph)


def test_an_edge_type_of_their_side_whose_node_is_gone_on_ours_is_a_conflict(graph: Graph) -> None:
    more = "edge Knows: Person -> Person"
    apply(graph, "draft", person("age: I32? nick: String?", more=more))
    change(graph, "draft", 'insert Knows { from: "bob", to: "cy" }')
    change(graph, "main", 'delete Person where name = "bob"')
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    assert [c.kind for c in caught.value.conflicts] == ["OrphanEdge"]
    graph.merge("draft", prefer="ours")
    assert len(graph.snapshot().read("Knows")) == 0
    checked(graph)


@pytest.mark.parametrize("step", [s for s in STEPS if s != "tighten"])
def test_a_commit_that_changed_the_schema_is_reverted(graph: Graph, step: str) -> None:
    before = rows(graph)
    schema, _, _ = STEPS[step]
    apply(graph, "main", schema)
    commit = graph.commits(limit=1)[0].id
    change(graph, "main", 'insert Person { name: "dot" ' + _required(step) + " }")
    if step == "backfill":
        # The new row has a value that would be gone.
        with pytest.raises(MergeConflicts):
            graph.revert(commit)
        change(graph, "main", 'delete Person where name = "dot"')
    if step == "widen":
        with pytest.raises(MergeConflicts, match="cannot change from I64 to I32"):
            graph.revert(commit)
        return
    graph.revert(commit)
    assert {name: row for name, row in rows(graph).items() if name != "dot"} == before
    checked(graph)


def test_a_dropped_type_is_brought_back_by_a_revert(graph: Graph) -> None:
    apply(graph, "main", "node Person { name: String @key  age: I32?  nick: String? }")
    graph.revert(graph.commits(limit=1)[0].id)
    assert rows(graph, "City") == {"Rome": {"name": "Rome"}}
    assert len(graph.snapshot().read("LivesIn")) == 1
    checked(graph)
    apply(graph, "draft", "node Person { name: String @key  age: I32?  nick: String? }")
    change(graph, "draft", 'insert Person { name: "dot" }')
    checked(graph)


def test_a_change_of_the_schema_is_picked(graph: Graph) -> None:
    apply(graph, "draft", STEPS["rename"][0])
    commit = graph.commits("draft", limit=1)[0].id
    change(graph, "draft", 'insert Person { name: "dot" }')
    change(graph, "main", 'update Person set { age: 37 } where name = "ada"')
    assert graph.cherry_pick(commit).outcome == "picked"
    assert rows(graph)["ada"] == {"name": "ada", "years": 37, "nick": "a"}
    assert "dot" not in rows(graph)
    checked(graph)


def criss_cross(graph: Graph) -> None:
    """Merge the heads of both branches into each other."""
    heads = {branch: graph.commits(branch, limit=1)[0].id for branch in ("main", "draft")}
    graph.merge(heads["draft"])
    graph.merge(heads["main"], into="draft")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("side", ["draft", "main"])
def test_a_change_of_the_schema_after_criss_cross_merges_is_merged(
    graph: Graph, step: str, side: str
) -> None:
    schema, ada, age = STEPS[step]
    change(
        graph,
        "main",
        'insert Person { name: "m", age: 1 }',
        'update Person set { age: 37 } where name = "ada"',
    )
    change(graph, "draft", 'insert Person { name: "d", age: 2 }', 'delete Person where name = "cy"')
    criss_cross(graph)
    # What both have from each other is no change of either; what comes now is.
    change(graph, "draft", 'update Person set { age: 3 } where name = "d"')
    change(graph, "main", 'delete Person where name = "m"')
    apply(graph, side, schema)
    result = graph.merge("draft")
    assert len(result.bases) == 2
    merged = rows(graph)
    assert {name: row[age] for name, row in merged.items()} == {"ada": 37, "bob": 40, "d": 3}
    assert merged["ada"].keys() == ada.keys()
    checked(graph)
    assert graph.merge("draft").outcome == "already_up_to_date"
    assert graph.merge("main", into="draft").outcome == "fast_forward"
    assert rows(graph, branch="draft") == merged


@pytest.mark.parametrize("step", STEPS)
def test_common_ancestors_with_different_schemas_are_put_together(graph: Graph, step: str) -> None:
    schema, ada, age = STEPS[step]
    apply(graph, "draft", schema)
    change(graph, "draft", f'update Person set {{ {age}: 37 }} where name = "ada"')
    change(graph, "main", 'update Person set { age: 41 } where name = "bob"')
    criss_cross(graph)
    change(graph, "draft", f'update Person set {{ {age}: 38 }} where name = "ada"')
    change(graph, "main", 'insert Person { name: "m" ' + _required(step) + f", {age}: 1 }}")
    assert len(graph.merge("draft").bases) == 2
    merged = rows(graph)
    cy = 0 if step == "tighten" else None
    assert {name: row[age] for name, row in merged.items()} == {
        "ada": 38, "bob": 41, "cy": cy, "m": 1
    }  # fmt: skip
    assert merged["ada"] == {**ada, age: 38}
    checked(graph)


def test_what_common_ancestors_call_differently_is_a_conflict_only_if_it_still_is(
    graph: Graph,
) -> None:
    apply(graph, "main", person('years: I32? @rename_from("age") nick: String?'))
    apply(graph, "draft", person('winters: I32? @rename_from("age") nick: String?'))
    heads = {branch: graph.commits(branch, limit=1)[0].id for branch in ("main", "draft")}
    graph.merge(heads["draft"], prefer="ours")
    graph.merge(heads["main"], into="draft", prefer="ours")
    change(graph, "draft", 'update Person set { winters: 37 } where name = "ada"')
    change(graph, "main", 'insert Person { name: "m", years: 1 }')
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    (conflict,) = caught.value.conflicts
    assert (conflict.kind, conflict.type, conflict.id) == ("SchemaConflict", "Person", "name")
    graph.merge("draft", prefer="theirs")
    ages = {name: row["winters"] for name, row in rows(graph).items()}
    assert ages == {"ada": 37, "bob": 40, "cy": None, "m": 1}
    checked(graph)


def test_common_ancestors_whose_schemas_never_fit_say_what_to_do(graph: Graph) -> None:
    apply(graph, "main", person('nick: String? name_2: I32? @rename_from("age")'))
    apply(graph, "draft", person('age: I32? name_2: String? @rename_from("nick")'))
    heads = {branch: graph.commits(branch, limit=1)[0].id for branch in ("main", "draft")}
    settled = person('years: I32? @rename_from("name_2") nick: String?')
    apply(graph, "main", settled)
    graph.merge(heads["draft"])
    other = person('age: I32? alias: String? @rename_from("name_2")')
    apply(graph, "draft", other)
    graph.merge(heads["main"], into="draft")
    change(graph, "draft", 'insert Person { name: "d" }')
    picked = graph.commits("draft", limit=1)[0].id
    change(graph, "main", 'insert Person { name: "m" }')
    with pytest.raises(UsageError, match=r"name_2(.|\n)*cherry-pick"):
        graph.merge("draft")
    # As the message says.
    graph.cherry_pick(picked)
    assert rows(graph).keys() == {"ada", "bob", "cy", "d", "m"}
    checked(graph)


def test_a_merge_that_would_not_fit_into_memory_is_refused_before_it_begins(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(graph, "draft", STEPS["rename"][0])
    middle = graph.commits("draft", limit=1)[0].id
    graph.load({"Person": [{"name": f"p{n}", "years": n} for n in range(100)]}, branch="draft")
    change(graph, "main", 'insert Person { name: "m" }')
    monkeypatch.setattr(work, "SIZES", Sizes(across_schemas=5_000))
    with pytest.raises(ResourceLimit, match="Merge the commit that has changed the schema"):
        graph.merge("draft")
    # As the message says; what is left then has one schema.
    graph.merge(middle)
    graph.merge("draft")
    assert len(rows(graph)) == 104
    checked(graph)


# --- the same change on two branches ---


def both(graph: Graph, schema: str) -> None:
    for branch in ("main", "draft"):
        apply(graph, branch, schema)


@pytest.mark.parametrize("into", ["main", "draft"])
def test_branches_that_made_the_same_change_can_go_on_and_be_merged_again(
    graph: Graph, into: str
) -> None:
    other = "draft" if into == "main" else "main"
    more = "node Pet { name: String @key kind: String? }\nedge Owns: Person -> Pet"
    both(graph, person("age: I32? nick: String? mail: String?", more=more))
    change(graph, "main", 'insert Pet { name: "Tom" }')
    change(
        graph,
        "draft",
        'insert Pet { name: "Rex" }',
        'insert Owns { from: "ada", to: "Rex" }',
        'update Person set { mail: "a@x" } where name = "ada"',
    )
    graph.merge("draft")
    # Nobody has dropped anything: each has its own number for what is the same.
    change(
        graph,
        other,
        'update Person set { mail: "b@x" } where name = "bob"',
        'insert Pet { name: "Kim" }',
    )
    change(graph, into, 'update Person set { mail: "c@x" } where name = "cy"')
    if into == "main":
        change(graph, other, 'update Pet set { kind: "dog" } where name = "Rex"')
    graph.merge(other, into=into)
    mails = {name: row["mail"] for name, row in rows(graph, branch=into).items()}
    assert mails == {"ada": "a@x", "bob": "b@x", "cy": "c@x"}
    pets = {name: row["kind"] for name, row in rows(graph, "Pet", into).items()}
    assert pets == {"Rex": "dog" if into == "main" else None, "Tom": None, "Kim": None}
    assert len(graph.snapshot(into).read("Owns")) == 1
    checked(graph)
    # And back, and on.
    graph.merge(into, into=other)
    change(graph, other, 'delete Pet where name = "Rex"')
    graph.merge(other, into=into)
    for branch in (into, other):
        assert rows(graph, "Pet", branch).keys() == {"Kim", "Tom"}
        assert len(graph.snapshot(branch).read("Owns")) == 0
    checked(graph)


def test_a_property_that_was_dropped_and_declared_again_keeps_nothing_of_before(
    graph: Graph,
) -> None:
    apply(graph, "draft", person("age: I32?"))
    apply(graph, "draft", person("age: I32? nick: String?"))
    change(graph, "main", 'insert Person { name: "dot", age: 5 }')
    graph.merge("draft")
    assert {row["nick"] for row in rows(graph).values()} == {None}
    checked(graph)


# --- what one side forbids and the other does ---


@pytest.mark.parametrize("side", ["draft", "main"])
def test_a_value_that_one_side_removes_from_an_enum_and_the_other_uses_is_a_conflict(
    graph: Graph, side: str
) -> None:
    other = "main" if side == "draft" else "draft"
    for values in ("a, b, c",):
        apply(graph, "main", person(f"age: I32? mood: enum({values})?"))
    graph.merge("main", into="draft")
    apply(graph, side, person("age: I32? mood: enum(a, b)?"))
    change(
        graph,
        other,
        'insert Person { name: "dot", mood: "c" }',
        'update Person set { mood: "c" } where name = "bob"',
        'update Person set { mood: "a" } where name = "cy"',
    )
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("draft")
    found = {(c.kind, c.id, c.property) for c in caught.value.conflicts}
    assert found == {
        ("ValueConstraintViolation", "dot", "mood"),
        ("ValueConstraintViolation", "bob", "mood"),
    }
    entries = [
        {**conflict.to_dict(), "resolution": {"value": "b"}} for conflict in caught.value.conflicts
    ]
    graph.merge("draft", resolutions=entries)
    moods = {name: row["mood"] for name, row in rows(graph).items()}
    assert moods == {"ada": None, "bob": "b", "cy": "a", "dot": "b"}
    checked(graph)


def test_rows_of_the_other_side_get_the_default_of_a_new_required_property(graph: Graph) -> None:
    apply(graph, "draft", person('age: I32? nick: String? mail: String @default("-")'))
    change(graph, "main", 'insert Person { name: "dot" }')
    graph.merge("draft")
    assert {row["mail"] for row in rows(graph).values()} == {"-"}
    checked(graph)


def test_a_diff_over_a_change_of_the_schema_shows_its_steps_and_no_rows(graph: Graph) -> None:
    apply(graph, "draft", person('years: I64? @rename_from("age") mail: String @default("-")'))
    diff = graph.diff("main", "draft")
    assert diff.summary().schema == (
        "rename property `age` to `years`",
        "widen `years` from I32 to I64",
        'add property `mail: String` with the default "-"',
        "drop property `nick: String?`",
    )
    assert [*diff] == []
    change(graph, "draft", 'update Person set { years: 37 } where name = "ada"')
    (row,) = graph.diff("main", "draft")
    assert (row.id, row.properties) == ("ada", ("years",))
    assert row.before == {"name": "ada", "years": 36, "mail": "-"}
    assert graph.diff("main", "main").summary().schema == ()
