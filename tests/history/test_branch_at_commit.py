"""A branch that starts at an earlier commit: by its id, a tag, a version or a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from omnigraph.errors import AlreadyExists, ConflictError, MergeConflicts, NotFound, UsageError
from omnigraph.graph import Graph, open
from omnigraph.graph.backups import restore
from omnigraph.history.manifest import Commit
from omnigraph.history.names import START_PREFIX
from tests.crash.children import KILLED, run_child
from tests.history.children import create_at_and_die
from tests.merge.graphs import edges, make, people, run

NOW = timedelta(0)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return make(tmp_path)


def put(graph: Graph, age: int, branch: str = "main", name: str = "ada") -> str:
    return run(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)


def starts(graph: Graph) -> list[str]:
    """The internal branches that branches start from."""
    names = graph._repository.history.branch_names()
    return [name for name in names if name.startswith(START_PREFIX)]


def as_id(graph: Graph, id: str) -> object:
    return id


def as_tag(graph: Graph, id: str) -> object:
    graph.tags.create("v1", id)
    return "v1"


def as_version(graph: Graph, id: str) -> object:
    return graph.commit(id).manifest_version


def as_time(graph: Graph, id: str) -> object:
    return graph.commit(id).time


def as_text_of_time(graph: Graph, id: str) -> object:
    return graph.commit(id).time.isoformat()


@pytest.mark.parametrize("named", [as_id, as_tag, as_version, as_time, as_text_of_time])
def test_it_has_the_rows_and_the_commits_of_then(
    named: Callable[[Graph, str], object], graph: Graph
) -> None:
    first = put(graph, 1)
    before = [commit.id for commit in graph.commits()]
    run(graph, 'insert Knows { from: "bob", to: "cy" }')
    second = put(graph, 2)
    new = graph.branches.create("fix", source=named(graph, first))  # type: ignore[arg-type]
    assert (new.name, new.parent, new.head) == ("fix", "main", first)
    with open(graph.location, mode="r") as other:
        for each in (graph, other):
            assert people(each, "fix")["ada"][0] == 1
            assert edges(each, "fix") == [("ada", "bob")]
            assert [commit.id for commit in each.commits("fix")] == before
            assert [b.to_dict() for b in each.branches] == [
                {"name": "main", "parent": None, "head": second},
                {"name": "fix", "parent": "main", "head": first},
            ]
            assert each.at(each.commit(first).manifest_version, branch="fix").commit == first
            assert people(each)["ada"][0] == 2
    assert graph.check().problems == ()


def test_it_is_written_to_and_merged_both_ways(graph: Graph) -> None:
    first = put(graph, 1)
    put(graph, 50, name="bob")
    fix = graph.branch("fix", create=True, source=first)
    mine = put(graph, 7, "fix", "cy")
    run(graph, 'insert Person { name: "dee" }', "fix")
    assert {n: age for n, (age, _) in people(graph, "fix").items()} == {
        "ada": 1,
        "bob": 40,
        "cy": 7,
        "dee": None,
    }
    assert str(graph.diff(first, "fix").summary()) == "+1 ~1 Person"
    assert graph.snapshot(commit=mine).count("Person") == 3
    graph.merge("fix", into="main")
    ages = {"ada": 1, "bob": 50, "cy": 7, "dee": None}
    assert {n: age for n, (age, _) in people(graph).items()} == ages
    put(graph, 8, name="dee")
    graph.merge("main", into="fix")
    assert people(graph, "fix") == people(graph)
    put(graph, 9, "fix")
    put(graph, 10)
    with pytest.raises(MergeConflicts):
        fix.merge_into("main")
    assert graph.check().problems == ()


def test_one_without_commits_of_its_own_is_behind(graph: Graph) -> None:
    first, second = put(graph, 1), put(graph, 2)
    graph.branches.create("old", source=first)
    assert graph.merge("old", into="main").commit is None
    assert graph.snapshot().commit == second
    graph.merge("main", into="old")
    assert people(graph, "old") == people(graph)
    assert graph.check().problems == ()


def test_the_newest_commit_needs_no_start(graph: Graph) -> None:
    graph.tags.create("v1", graph.snapshot().commit)
    graph.branches.create("new", source="v1")
    assert starts(graph) == []


def test_of_a_commit_of_a_branch_and_of_such_a_branch_again(graph: Graph) -> None:
    graph.branches.create("zoo")
    first, second = put(graph, 1, "zoo"), put(graph, 2, "zoo")
    third = put(graph, 3, "zoo")
    assert graph.branches.create("fix", source=second).parent == "zoo"
    # The later commits of `zoo` are not in the manifest of this one.
    assert graph._repository.history.home(third) == "zoo"
    own = put(graph, 4, "fix", "bob")
    put(graph, 5, "fix", "bob")
    assert graph.branches.create("again", source=own).parent == "fix"
    # It was made on `zoo`, though `fix` has it, too.
    assert graph.branches.create("low", source=first).parent == "zoo"
    graph.branches.create("plain", source="again")
    ages = {b.name: [people(graph, b.name)[n][0] for n in ("ada", "bob")] for b in graph.branches}
    assert ages == {
        "main": [36, 40],
        "again": [2, 4],
        "fix": [2, 5],
        "low": [1, 40],
        "plain": [2, 4],
        "zoo": [3, 40],
    }
    with pytest.raises(ConflictError, match="`fix`, `low` were created from it"):
        graph.branches.delete("zoo")
    put(graph, 6, "plain")
    assert graph.check().problems == ()
    for name in ("plain", "again", "low", "fix", "zoo"):
        graph.branches.delete(name)
    assert starts(graph) == []
    assert graph.snapshot(commit=own).count("Person") == 3
    with pytest.raises(UsageError, match="of the deleted branch `fix`: it can be read until"):
        graph.branches.create("fix", source=own)
    assert graph.check().problems == ()


def test_also_when_the_manifest_of_then_is_gone(graph: Graph) -> None:
    first = put(graph, 1)
    for age in range(2, 9):
        put(graph, age)
    # This trims the manifest to its last versions; the versions of tables are too young to go.
    graph.cleanup(confirm=True, keep=100)
    graph.branches.create("fix", source=first)
    for age in range(20, 26):
        put(graph, age, "fix")
        put(graph, age + 10)
    graph.cleanup(confirm=True, keep=100, leftovers_older_than=NOW)
    graph.optimize("fix")
    with open(graph.location) as other:
        assert (people(other, "fix")["ada"][0], people(other)["ada"][0]) == (25, 35)
        assert other.commits("fix")[-3].id == first
        assert other.check().problems == ()


def test_what_is_cleaned_up_cannot_be_started_from(graph: Graph) -> None:
    first = put(graph, 1)
    put(graph, 2)
    graph.cleanup(confirm=True, keep=1, grace=NOW)
    with pytest.raises(NotFound, match="was cleaned up"):
        graph.branches.create("fix", source=first)
    assert [b.name for b in graph.branches] == ["main"] and starts(graph) == []


def test_a_cleanup_spares_what_it_starts_with(graph: Graph) -> None:
    first = put(graph, 1)
    put(graph, 2)
    graph.branches.create("fix", source=first)
    graph.cleanup(confirm=True, keep=1, grace=NOW, leftovers_older_than=NOW)
    assert people(graph, "fix")["ada"][0] == 1
    put(graph, 3, "fix")
    assert graph.check().problems == ()


def test_commits_that_were_published_together(graph: Graph) -> None:
    history = graph._repository.history
    base = history.read()
    time = graph.commits()[0].time
    ids = ["01K9V3D7T5W0S8Q2B6M4XZ1RH1", "01K9V3D7T5W0S8Q2B6M4XZ1RH2"]
    commits = [
        Commit(id, (parent,), "main", None, time, None, base.ledger.version + 1)
        for id, parent in zip(ids, [base.head, ids[0]], strict=True)
    ]
    history.publish(base, history.completed(base, commits), [])
    graph.branches.create("fix", source=ids[0])
    assert [c.id for c in graph.commits("fix")] == [ids[0], *[c.id for c in graph.commits()[2:]]]
    rows = history.rows("fix", "object_type = 'graph_commit'")["object_id"].to_pylist()
    assert ids[0] in rows and ids[1] not in rows


def test_it_has_the_schema_of_then(graph: Graph) -> None:
    first = put(graph, 1)
    before = graph._repository.history.read().state
    changed = graph.schema.apply(
        """
        node Human @rename_from("Person") {
          name: String @key  years: I32? @rename_from("age")  city: String?  email: String? @unique
        }
        node Pet { name: String @key }
        node Note { text: String  stars: I64?  @range(stars, 0..5) }
        edge Wrote: Human -> Note @card(0..2)
        """,
        allow_data_loss=True,
    )
    assert changed.commit is not None
    run(graph, 'insert Pet { name: "rex" } update Human set { years: 2 } where name = "bob"')
    graph.branches.create("old", source=first)
    graph.branches.create("between", source=changed.commit.id)
    with open(graph.location, mode="r") as other:
        for each in (graph, other):
            state = each._repository.history.read("old").state
            assert (state.tables, state.schema) == (before.tables, before.schema)
            assert each.schema.show("old") == each.schema.show(first)
            assert [c.commit.id for c in each.schema.history("old")] == [each.commits()[-1].id]
            assert (people(each, "old")["ada"], edges(each, "old")) == (
                (1, "Rome"),
                [("ada", "bob")],
            )
            assert each.snapshot("between").count("Pet") == 0
            assert each.schema.history("between")[0].commit.id == changed.commit.id
    put(graph, 5, "old", "cy")
    run(graph, 'update Human set { years: 6 } where name = "ada"', "between")
    graph.merge("between", into="main")
    graph.merge("old", into="main")
    rows = graph.snapshot().read("Human", ["id", "years"]).to_pylist()
    assert {row["id"]: row["years"] for row in rows} == {"ada": 6, "bob": 2, "cy": 5}
    graph.merge("main", into="old")
    assert graph.snapshot("old").read("Human").num_rows == 3
    assert graph.check().problems == ()


def test_it_is_in_a_backup(graph: Graph, tmp_path: Path) -> None:
    first = put(graph, 1)
    put(graph, 2)
    graph.branches.create("fix", source=first)
    put(graph, 3, "fix", "bob")
    graph.backup(tmp_path / "backups")
    restore(tmp_path / "backups", tmp_path / "copy")
    with open(tmp_path / "copy") as copy:
        assert people(copy, "fix") == people(graph, "fix")
        assert copy.commits("fix") == graph.commits("fix")
        put(copy, 4, "fix", "cy")
        copy.merge("fix", into="main")
        copy.branches.delete("fix")
        assert starts(copy) == []
        assert copy.check().problems == ()


@pytest.mark.parametrize("point", ["branch.started", "branch.created"])
def test_one_whose_creator_dies_is_there_or_not(point: str, graph: Graph) -> None:
    first, second = put(graph, 1), put(graph, 2)
    assert run_child(create_at_and_die, str(graph.location), first, point) == KILLED
    is_there = point == "branch.created"
    assert [b.name for b in graph.branches] == (["main", "fix"] if is_there else ["main"])
    assert len(starts(graph)) == 1
    assert graph.check().problems == ()
    if is_there:
        assert graph.snapshot("fix").commit == first
        with pytest.raises(AlreadyExists):
            graph.branches.create("fix", source=first)
        graph.branches.delete("fix")
        assert starts(graph) == []
    graph.branches.create("fix", source=first)
    assert len(starts(graph)) == 1
    put(graph, 3, "fix", "bob")
    assert [people(graph, "fix")[n][0] for n in ("ada", "bob")] == [1, 3]
    assert graph.snapshot().commit == second
    assert graph.check().problems == ()
