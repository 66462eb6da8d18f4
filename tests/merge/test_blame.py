"""`Graph.blame`: who has last set each property of a node or edge, also through merges."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from omnigraph.errors import NotFound
from omnigraph.graph import Graph
from tests.merge.graphs import make, run


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def put(graph: Graph, text: str, branch: str = "main") -> str:
    return run(graph, f'update Person set {{ {text} }} where name = "ada"', branch)


def blamed(graph: Graph, branch: str = "main") -> dict[str, str]:
    return {p.property: p.commit.id for p in graph.blame("Person", "ada", branch=branch)}


def merge(graph: Graph, source: str, into: str = "main") -> str:
    commit = graph.merge(source, into=into).commit
    assert commit is not None
    return commit.id


def test_each_property_has_its_value_and_the_commit_that_set_it(graph: Graph) -> None:
    start = graph.commits()[0].id
    older = put(graph, 'age: 37, city: "Oslo"')
    put(graph, 'city: "Bonn"')
    back = put(graph, 'city: "Rome"')
    put(graph, 'city: "Rome", age: 37')
    found = graph.blame("Person", "ada")
    assert [(p.property, p.value, p.commit.id) for p in found] == [
        ("name", "ada", start), ("age", 37, older), ("city", "Rome", back), ("email", None, start),
    ]  # fmt: skip
    told = found[1].to_dict()
    assert (told["property"], told["value"], told["commit"]["id"]) == ("age", 37, older)


def test_ends_of_an_edge_are_told_too(graph: Graph) -> None:
    start = graph.commits()[0].id
    (edge,) = graph.snapshot().read("Knows")["id"].to_pylist()
    later = run(graph, 'update Knows set { since: 2 } where from = "ada"')
    found = [(p.property, p.value, p.commit.id) for p in graph.blame("Knows", edge)]
    assert found == [("from", "ada", start), ("to", "bob", start), ("since", 2, later)]


def test_what_was_inserted_again_owes_nothing_to_what_was_there_before(graph: Graph) -> None:
    run(graph, 'delete Person where name = "ada"')
    again = run(graph, 'insert Person { name: "ada", age: 36, city: "Rome" }')
    assert set(blamed(graph).values()) == {again}


def test_a_merge_is_passed_through_to_the_commit_that_it_brought(graph: Graph) -> None:
    start = graph.commits()[0].id
    graph.branches.create("draft")
    on_draft = put(graph, "age: 1", "draft")
    fast = merge(graph, "draft")
    assert blamed(graph) == {"name": start, "age": on_draft, "city": start, "email": start}
    again = put(graph, "age: 2", "draft")
    on_main = put(graph, 'city: "Oslo"')
    real = merge(graph, "draft")
    assert blamed(graph) == {"name": start, "age": again, "city": on_main, "email": start}
    assert [v.commit.id for v in graph.history("Person", "ada")] == [real, on_main, fast, start]


def test_merges_of_merges_lead_to_the_first_commit(graph: Graph) -> None:
    graph.branches.create("outer")
    graph.branches.create("inner", source="outer")
    first = put(graph, "age: 1", "inner")
    merge(graph, "inner", "outer")
    put(graph, 'city: "Oslo"')
    merge(graph, "outer")
    assert blamed(graph)["age"] == first
    graph.branches.create("other")
    assert blamed(graph, "other")["age"] == first


def test_a_new_entity_and_a_value_that_no_side_had(graph: Graph) -> None:
    graph.branches.create("draft")
    theirs = put(graph, 'age: 1, email: "e"', "draft")
    inserted = run(graph, 'insert Person { name: "dan" }', "draft")
    put(graph, "age: 2")
    conflict = {"kind": "DivergentUpdate", "type": "Person", "id": "ada", "property": "age"}
    settled = graph.merge("draft", resolutions=[{**conflict, "resolution": {"value": 3}}]).commit
    assert settled is not None
    found = blamed(graph)
    assert (found["age"], found["email"]) == (settled.id, theirs)
    assert {p.commit.id for p in graph.blame("Person", "dan")} == {inserted}


def test_a_deleted_branch_is_told_until_it_is_cleaned_up(graph: Graph) -> None:
    # Two branches whose tables have versions with the same numbers.
    for name, age in (("other", 9), ("draft", 1)):
        graph.branches.create(name)
        put(graph, f"age: {age}", name)
    put(graph, 'email: "e"', "draft")
    on_draft = [commit.id for commit in graph.commits("draft")][:2]
    merged = merge(graph, "draft")
    for name in ("other", "draft"):
        graph.branches.delete(name)
    graph.branches.create("draft")
    found = blamed(graph)
    assert [found["email"], found["age"]] == on_draft
    graph.cleanup(confirm=True, leftovers_older_than=timedelta(0))
    found = blamed(graph)
    assert [found["email"], found["age"]] == [merged, merged]


def test_what_is_not_there_is_told_with_the_commit_that_deleted_it(graph: Graph) -> None:
    query = 'query q() { delete Person where name = "ada" }'
    gone = graph.mutate(query, actor="eve").commit
    assert gone is not None
    with pytest.raises(NotFound, match=f"any more: commit {gone.id} by eve has deleted it"):
        graph.blame("Person", "ada")
    with pytest.raises(NotFound, match="no Person `nobody` on branch `main`, nor in its history"):
        graph.blame("Person", "nobody")
    with pytest.raises(NotFound, match="no type `Persn`; did you mean `Person`"):
        graph.blame("Persn", "ada")
