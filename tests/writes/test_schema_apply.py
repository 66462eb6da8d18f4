"""Changing the schema of a branch: in one commit, with all data where it belongs, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import (
    NotFound,
    PreconditionFailed,
    QueryError,
    ReadSetConflict,
    UsageError,
    ValidationError,
)
from omnigraph.graph import Graph, init, open
from omnigraph.writes.sidecar import list_sidecars

SCHEMA = """
node Person { name: String @key  age: I32?  nick: String?  mood: enum(good, bad)? }
node City { name: String @key }
edge LivesIn: Person -> City { since: I32? }
"""
ROWS = """query q() {
  insert Person { name: "ada", age: 36, nick: "a", mood: "good" }
  insert Person { name: "bob", mood: "bad" }
  insert City { name: "Rome" }
  insert LivesIn { from: "ada", to: "Rome", since: 3 }
}"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with init(tmp_path / "graph", SCHEMA) as graph:
        graph.mutate(ROWS)
        yield graph


def with_person(person: str, city: str = "name: String @key", edge: str = "") -> str:
    return f"""
    node Person {{ name: String @key  {person} }}
    node City {{ {city} }}
    edge LivesIn: Person -> City {edge} {{ since: I32? }}
    """


REST = "age: I32?  nick: String?  mood: enum(good, bad)?"


def people(graph: Any, *columns: str, type: str = "Person") -> list[tuple[object, ...]]:
    outputs = ", ".join(f"$p.{column} as {column}" for column in columns)
    text = f"query q() {{ match {{ $p: {type} }} return {{ {outputs} }} order {{ $p.name }} }}"
    return [tuple(row.values()) for row in graph.query(text).to_rows()]


def head(graph: Graph, branch: str = "main") -> str:
    return graph.snapshot(branch).commit


# --- what a change does ---


def test_a_new_property_is_null_or_filled_by_its_default(graph: Graph) -> None:
    change = with_person(f"{REST}  city: String?  score: F64 @default(1.5)")
    result = graph.schema.apply(change, actor="eve", message="scores")
    assert result.commit is not None
    assert (result.commit.actor, result.commit.message) == ("eve", "scores")
    assert people(graph, "name", "age", "city", "score") == [
        ("ada", 36, None, 1.5),
        ("bob", None, None, 1.5),
    ]
    graph.mutate('query q() { insert Person { name: "cy", city: "Bern" } }')
    assert people(graph, "city", "score")[-1] == ("Bern", 1.5)
    assert graph.check().problems == ()


def test_a_new_property_is_computed_from_the_row(graph: Graph) -> None:
    graph.schema.apply(with_person(f"{REST}  old: Bool @backfill(age > 30) @default(false)"))
    assert people(graph, "name", "old") == [("ada", True), ("bob", False)]


def test_a_renamed_type_and_property_keep_their_rows_and_their_table(graph: Graph) -> None:
    before = head(graph)
    (table,) = [t for t in graph.snapshot().tables if t.name == "Person"]
    graph.schema.apply(
        """
        node Human @rename_from("Person") {
          name: String @key
          years: I32? @rename_from("age")
          nick: String?  mood: enum(good, bad)?
        }
        node City { name: String @key }
        edge LivesIn: Human -> City { since: I32? }
        """
    )
    assert people(graph, "name", "years", type="Human") == [("ada", 36), ("bob", None)]
    (renamed,) = [t for t in graph.snapshot().tables if t.name == "Human"]
    assert (renamed.path, renamed.rows) == (table.path, 2)
    with pytest.raises(QueryError):
        people(graph, "name")
    # At an earlier commit everything has its earlier name.
    past = graph.at(before)
    assert people(past, "name", "age") == [("ada", 36), ("bob", None)]
    assert "Person" in past.catalog.nodes
    assert past.read("Person", ["age"])["age"].to_pylist() == [36, None]
    with pytest.raises(NotFound):
        past.count("Human")
    # And the history goes through.
    graph.mutate('query q() { update Human set { years: 37 } where name = "ada" }')
    versions = graph.history("Human", "ada")
    assert [(v.operation, v.properties) for v in versions] == [
        ("update", ("years",)),
        ("insert", ()),
    ]
    assert [v.values and v.values["years"] for v in versions] == [37, 36]
    blamed = {b.property: b.commit.id for b in graph.blame("Human", "ada")}
    assert blamed["years"] == head(graph)
    assert blamed["nick"] == before
    (change,) = graph.diff(before, "main")
    assert (change.type, change.id, change.properties) == ("Human", "ada", ("years",))
    names = [
        (change.type, change.id)
        for commit in graph.changes(start="beginning").commits
        for change in commit.changes
        if change.kind == "node"
    ]
    assert names == [("Person", "ada"), ("Person", "bob"), ("City", "Rome"), ("Human", "ada")]
    assert graph.check().problems == ()


def test_two_properties_can_swap_their_names(tmp_path: Path) -> None:
    with init(tmp_path / "graph", "node A { k: String @key  x: I32?  y: I32? }") as graph:
        graph.mutate('query q() { insert A { k: "a", x: 1, y: 2 } }')
        first = head(graph)
        graph.schema.apply(
            'node A { k: String @key  p: I32? @rename_from("x")  q: I32? @rename_from("y") }'
        )
        graph.schema.apply(
            'node A { k: String @key  x: I32? @rename_from("q")  y: I32? @rename_from("p") }'
        )
        assert graph.snapshot().read("A", ["x", "y"]).to_pylist() == [{"x": 2, "y": 1}]
        assert graph.at(first).read("A", ["x", "y"]).to_pylist() == [{"x": 1, "y": 2}]
        assert list(graph.diff(first, "main")) == []


def test_a_dropped_property_is_hidden_and_another_one_of_its_name_is_another_one(
    graph: Graph,
) -> None:
    before = head(graph)
    graph.schema.apply(with_person("nick: String?  mood: enum(good, bad)?"), allow_data_loss=True)
    with pytest.raises(QueryError):
        people(graph, "age")
    graph.schema.apply(with_person("nick: String?  mood: enum(good, bad)?  age: I32?"))
    assert people(graph, "name", "age") == [("ada", None), ("bob", None)]
    assert people(graph.at(before), "age") == [(36,), (None,)]
    assert graph.check().problems == ()


def test_a_dropped_type_is_readable_at_earlier_commits_and_comes_back_empty(graph: Graph) -> None:
    before = head(graph)
    graph.schema.apply("node Person { name: String @key }", allow_data_loss=True)
    assert [t.name for t in graph.snapshot().tables] == ["Person"]
    with pytest.raises(NotFound):
        graph.snapshot().count("City")
    past = graph.at(before)
    assert past.read("City")["name"].to_pylist() == ["Rome"]
    assert past.query("query q() { match { $p: Person $p livesIn $c } return { $c.name } }")
    deleted = {(c.type, c.operation) for c in graph.diff(before, "main")}
    assert deleted == {("City", "delete"), ("LivesIn", "delete")}
    graph.schema.apply("node Person { name: String @key } node City { name: String @key }")
    assert graph.snapshot().count("City") == 0
    graph.mutate('query q() { insert City { name: "Oslo" } }')
    assert past.read("City")["name"].to_pylist() == ["Rome"]
    assert graph.check().problems == ()


def test_a_dropped_type_stays_dropped_in_open_graphs_when_the_manifest_is_compacted(
    graph: Graph,
) -> None:
    graph.ensure_indices()
    graph.branches.create("draft")
    with open(graph.location) as other, open(graph.location) as third:
        for each in (graph, other, third):
            assert each.snapshot().count("City") == 1
        graph.schema.apply("node Person { name: String @key }", allow_data_loss=True)
        for each in (graph, other, third):
            assert [table.name for table in each.snapshot().tables] == ["Person"]
        # Rows of the manifest move, and are read again as if they were new.
        assert graph.optimize().manifest
        for each in (graph, other, third):
            assert [table.name for table in each.snapshot().tables] == ["Person"]
    assert graph.check().problems == ()


def test_a_wider_type_keeps_the_values_and_takes_larger_ones(graph: Graph) -> None:
    graph.schema.apply(with_person("age: I64?  nick: String?  mood: String?"))
    graph.mutate('query q() { insert Person { name: "old", age: 99999999999, mood: "sad" } }')
    assert people(graph, "age", "mood") == [(36, "good"), (None, "bad"), (99999999999, "sad")]
    (version, *_) = graph.history("Person", "ada")
    assert version.operation == "insert"
    assert graph.check().problems == ()


def test_nulls_become_the_default_where_null_is_not_allowed_any_more(graph: Graph) -> None:
    graph.schema.apply(with_person("age: I32 @default(7)  nick: String?  mood: enum(good, bad)?"))
    assert people(graph, "age") == [(36,), (7,)]
    with pytest.raises(QueryError):
        graph.mutate('query q() { update Person set { age: null } where name = "ada" }')
    graph.schema.apply(with_person(REST))
    graph.mutate('query q() { update Person set { age: null } where name = "ada" }')
    assert people(graph, "age") == [(None,), (7,)]


def test_indexes_stay(graph: Graph) -> None:
    graph.schema.apply(with_person(f"{REST}  @index(age)"))
    graph.load({"Person": [{"name": f"p{n}", "age": n} for n in range(10_000)]})
    (table,) = [t for t in graph.snapshot().tables if t.name == "Person"]
    before = {i.name for i in graph._repository.tables.open(table.ref, table.version).indices()}
    assert before
    graph.schema.apply(with_person(f"{REST}  more: I32?  two: I32 @default(2)  @index(age)"))
    (table,) = [t for t in graph.snapshot().tables if t.name == "Person"]
    after = graph._repository.tables.open(table.ref, table.version).indices()
    assert before == {i.name for i in after}
    assert not any(index.uncovered for index in after)
    assert graph.check().problems == ()


def test_after_a_change_rows_are_loaded_and_exported(graph: Graph, tmp_path: Path) -> None:
    graph.schema.apply(with_person(f"{REST}  score: F64 @default(1.5)"))
    graph.export(tmp_path / "rows.jsonl")
    with init(tmp_path / "copy", graph.schema.show().text) as copy:
        copy.load(tmp_path / "rows.jsonl")
        assert people(copy, "name", "age", "score") == people(graph, "name", "age", "score")


# --- data that does not fit ---


@pytest.mark.parametrize(
    ("change", "ids"),
    [
        (with_person("age: I32  nick: String?  mood: enum(good, bad)?"), {"bob"}),
        (with_person("age: I32?  nick: String?  mood: enum(good)?"), {"bob"}),
        (with_person(f"{REST}  @range(age, 0..30)"), {"ada"}),
        (with_person(f'{REST}  @check(name, "^a")'), {"bob"}),
        (with_person(REST, edge="@card(1..)"), {"bob"}),
        (with_person(f"{REST}  email: String"), {None}),
        (with_person(f"{REST}  more: I32 @backfill(age + 1)"), {"bob"}),
    ],
    ids=["null", "enum", "range", "check", "cardinality", "required", "backfill"],
)
def test_rows_that_do_not_fit_are_listed_and_nothing_changes(
    change: str, ids: set[str | None], graph: Graph
) -> None:
    before, catalog = head(graph), graph.catalog
    with pytest.raises(ValidationError) as error:
        graph.schema.apply(change)
    assert {violation.id for violation in error.value.violations} == ids
    assert head(graph) == before
    assert graph.catalog == catalog


def test_values_that_are_to_be_unique_are_checked(graph: Graph) -> None:
    graph.mutate('query q() { insert Person { name: "cy", nick: "a" } }')
    with pytest.raises(ValidationError, match=r"ada|cy"):
        graph.schema.apply(with_person(f"{REST}  @unique(nick)"))
    graph.mutate('query q() { update Person set { nick: "c" } where name = "cy" }')
    graph.schema.apply(with_person(f"{REST}  @unique(nick)"))
    with pytest.raises(ValidationError):
        graph.mutate('query q() { insert Person { name: "dan", nick: "a" } }')


def test_what_would_lose_data_has_to_be_allowed(graph: Graph) -> None:
    before = head(graph)
    with pytest.raises(UsageError, match=r"allow_data_loss(.|\n)*drop property `age") as error:
        graph.schema.apply(with_person("nick: String?  mood: enum(good, bad)?"))
    assert "OG-DS-102" in error.value.message
    assert head(graph) == before


def test_what_has_no_rows_can_be_dropped_without_being_allowed(tmp_path: Path) -> None:
    with init(tmp_path / "graph", SCHEMA) as graph:
        graph.schema.apply("node Person { name: String @key }")
        assert [t.name for t in graph.snapshot().tables] == ["Person"]


def test_a_step_that_is_refused_says_what_to_do_instead(graph: Graph) -> None:
    before = head(graph)
    with pytest.raises(UsageError, match=r"cannot be changed(.|\n)*OG-RF-101"):
        graph.schema.apply(with_person("age: String?  nick: String?  mood: enum(good, bad)?"))
    assert head(graph) == before


# --- branches, conditions, others ---


def test_every_branch_has_its_own_schema(graph: Graph) -> None:
    graph.branches.create("draft")
    graph.schema.apply(with_person(f"{REST}  city: String?"), branch="draft")
    draft = graph.branch("draft")
    draft.mutate('query q() { update Person set { city: "Rome" } where name = "ada" }')
    assert people(draft, "name", "city") == [("ada", "Rome"), ("bob", None)]
    assert "city" not in graph.catalog.nodes["Person"].properties
    assert "city" in draft.catalog.nodes["Person"].properties
    with pytest.raises(QueryError):
        people(graph, "city")
    with open(graph.location) as other:
        assert other.catalog == graph.catalog
        assert other.branch("draft").catalog == draft.catalog
    graph.schema.apply(with_person(f"{REST}  city: String?"))
    # Each has an identity of its own.
    ids = {g.catalog.nodes["Person"].properties["city"].id for g in (graph.branch("main"), draft)}
    assert len(ids) == 2
    graph.merge("draft")
    assert people(graph, "name", "city") == [("ada", "Rome"), ("bob", None)]
    assert graph.check().problems == ()


def test_types_that_two_branches_add_have_tables_of_their_own(graph: Graph) -> None:
    graph.branches.create("draft")
    for branch in ("main", "draft"):
        graph.schema.apply(f"{SCHEMA} node Pet {{ name: String @key }}", branch=branch)
        graph.mutate(f'query q() {{ insert Pet {{ name: "{branch}" }} }}', branch=branch)
    paths = {t.path for b in ("main", "draft") for t in graph.snapshot(b).tables if t.name == "Pet"}
    assert len(paths) == 2
    for branch in ("main", "draft"):
        assert graph.snapshot(branch).read("Pet")["name"].to_pylist() == [branch]
    graph.branches.delete("draft")
    assert graph.check().problems == ()


def test_the_same_schema_again_makes_no_commit(graph: Graph) -> None:
    before = head(graph)
    result = graph.schema.apply(SCHEMA)
    assert (result.commit, result.plan.steps) == (None, ())
    assert head(graph) == before


def test_conditions_and_keys_are_those_of_every_write(graph: Graph) -> None:
    change = with_person(f"{REST}  city: String?")
    with pytest.raises(PreconditionFailed):
        graph.schema.apply(change, if_commit=graph.commits()[-1].id)
    with pytest.raises(PreconditionFailed):
        graph.schema.apply(change, if_schema="0" * 64)
    plan = graph.schema.plan(change)
    expected = plan.accepted.identity_hash
    first = graph.schema.apply(change, idempotency_key="k", if_schema=expected)
    again = graph.schema.apply(change, idempotency_key="k")
    assert again.repeated
    assert first.commit is not None and again.commit is not None
    assert first.commit.id == again.commit.id
    with open(graph.location, mode="r") as reader, pytest.raises(UsageError, match="reading only"):
        reader.schema.apply(SCHEMA)


def test_an_open_graph_notices_a_change_by_another_one(graph: Graph) -> None:
    with open(graph.location) as other:
        assert people(other, "name") == [("ada",), ("bob",)]
        graph.schema.apply(with_person(f"{REST}  city: String?"))
        assert people(other, "name", "city") == [("ada", None), ("bob", None)]
        other.mutate('query q() { insert Person { name: "cy", city: "Bern" } }')
    assert people(graph, "city") == [(None,), (None,), ("Bern",)]


def during(point: str, work: Any) -> Any:
    """A failpoint at which something is done, once."""
    left = [work]

    def act() -> None:
        if left:
            left.pop()()

    return failpoints.active(point, act)


def test_a_write_that_was_prepared_for_the_schema_before_starts_over(graph: Graph) -> None:
    with open(graph.location) as other:
        change = with_person(f"{REST}  score: F64 @default(1.5)")
        with during("write.prepared", lambda: other.schema.apply(change)):
            graph.mutate('query q() { insert Person { name: "cy" } }')
    assert people(graph, "name", "score")[-1] == ("cy", 1.5)
    assert graph.check().problems == ()


def test_a_load_that_was_prepared_for_the_schema_before_is_a_conflict(graph: Graph) -> None:
    with open(graph.location) as other:
        change = with_person(f"{REST}  score: F64 @default(1.5)")
        rows = {"Person": [{"name": "cy"}]}
        with (
            during("write.prepared", lambda: other.schema.apply(change)),
            pytest.raises(ReadSetConflict, match="schema of branch `main` was changed"),
        ):
            graph.load(rows)
    graph.load(rows)
    assert people(graph, "name", "score")[-1] == ("cy", 1.5)


def test_a_change_that_is_overtaken_by_rows_takes_them_along(graph: Graph) -> None:
    with open(graph.location) as other:
        insert = 'query q() { insert Person { name: "cy", age: 5 } }'
        with during("schema.stored", lambda: other.mutate(insert)):
            graph.schema.apply(with_person(f"{REST}  score: F64 @default(1.5)"))
    assert people(graph, "name", "score") == [("ada", 1.5), ("bob", 1.5), ("cy", 1.5)]
    assert graph.check().problems == ()


def test_of_two_changes_at_once_the_later_one_is_a_conflict(graph: Graph) -> None:
    with open(graph.location) as other:
        first = with_person(f"{REST}  one: I32?")
        with (
            during("schema.stored", lambda: other.schema.apply(first)),
            pytest.raises(ReadSetConflict, match="schema"),
        ):
            graph.schema.apply(with_person(f"{REST}  two: I32?"))
    assert "one" in graph.catalog.nodes["Person"].properties
    assert list_sidecars(graph._repository.objects) == []


# --- looking at schemas ---


def test_the_plan_changes_nothing(graph: Graph) -> None:
    before = head(graph)
    plan = graph.schema.plan(with_person("nick: String?  mood: enum(good, bad)?"))
    assert plan.effect == "destructive"
    assert head(graph) == before


def test_show_gives_the_text_of_any_state(graph: Graph) -> None:
    first = head(graph)
    changed = with_person(f"{REST}  city: String?")
    graph.schema.apply(changed)
    assert graph.schema.show().text == changed
    assert graph.schema.show(first).text == SCHEMA
    assert Path(graph.location, "_schema.pg").read_text() == changed


def test_the_history_of_the_schema_has_its_commits_and_their_steps(graph: Graph) -> None:
    graph.branches.create("draft")
    graph.schema.apply(with_person(f"{REST}  city: String?"), actor="eve")
    graph.mutate('query q() { insert City { name: "Oslo" } }')
    graph.schema.apply(with_person(f'{REST}  town: String? @rename_from("city")'))
    newest, added, first = graph.schema.history()
    assert [step.kind for step in newest.plan.steps] == ["rename_property"]
    assert [step.kind for step in added.plan.steps] == ["add_property"]
    assert added.commit.actor == "eve"
    assert {step.kind for step in first.plan.steps} == {"add_type"}
    assert first.commit.id == graph.commits()[-1].id
    assert [c.commit.id for c in graph.schema.history(limit=1)] == [newest.commit.id]
    assert [c.commit.id for c in graph.schema.history("draft")] == [first.commit.id]
