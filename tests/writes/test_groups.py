"""Threads that write to one branch land together, as if one had come after the other."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError, PreconditionFailed, ReadSetConflict, ValidationError
from omnigraph.graph import Graph, init, open
from omnigraph.settings import Settings
from omnigraph.writes import landing
from tests.patience import PATIENCE
from tests.writes.gathering import together

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
"""
PERSON = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
MAIL = "query q($n: String, $m: String) { insert Person { name: $n, mail: $m } }"
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
ALL_OLDER = "query q() { update Person set { age: 99 } where age > 30 }"
DELETE = "query q($n: String) { delete Person where name = $n }"
LIVES = "query q($n: String, $c: String) { insert LivesIn { from: $n, to: $c } }"
PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
HOMES = "query q() { match { $p: Person $p livesIn $c } return { $p.name as n, $c.name as c } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = init(tmp_path / "graph", SCHEMA)
    for name, age in (("ada", 36), ("bob", 60), ("cy", 20)):
        made.mutate(PERSON, params={"n": name, "a": age})
    made.mutate('query q() { insert City { name: "Bern" } insert City { name: "Rome" } }')
    return made


def people(graph: Graph, **at: Any) -> dict[str, int | None]:
    found = graph.query(PEOPLE, **at).to_rows()
    return {row["name"]: row["age"] for row in found}


def insert(graph: Graph, name: str, **more: str):
    return partial(graph.mutate, PERSON, params={"n": name, "a": 1}, **more)


def versions(graph: Graph) -> int:
    return graph._repository.history.read().ledger.version


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many writes each sidecar announced."""
    found: list[int] = []
    arm = landing._arm

    def counted(repository, now, jobs):
        found.append(len(jobs))
        return arm(repository, now, jobs)

    monkeypatch.setattr(landing, "_arm", counted)
    return found


def test_each_write_of_a_group_is_a_commit_that_can_be_read(graph: Graph, groups: list[int]):
    before, head, seen = versions(graph), graph.snapshot().commit, people(graph)
    names = [f"n{number}" for number in range(6)]
    results = together(graph, *(insert(graph, name, actor=name) for name in names))
    assert groups == [6] and versions(graph) == before + 1
    ids = [result.commit.id for result in results]
    assert ids == sorted(ids)
    for name, result in zip(names, results, strict=True):
        assert (result.commit.parents, result.commit.actor) == ((head,), name)
        assert result.nodes["Person"].inserted == 1
        head, seen = result.commit.id, seen | {name: 1}
        assert people(graph, commit=head) == seen
    assert graph.snapshot().commit == head and people(graph) == seen
    with open(graph.location) as other:
        assert people(other) == seen and other.check().problems == ()
        assert [c.actor for c in other.commits()[:6]] == names[::-1]


def test_a_group_may_write_to_several_tables_and_replace_rows(graph: Graph, groups: list[int]):
    together(
        graph,
        partial(graph.mutate, UPDATE, params={"n": "ada", "a": 1}),
        partial(graph.mutate, LIVES, params={"n": "bob", "c": "Bern"}),
        partial(graph.mutate, UPDATE, params={"n": "bob", "a": 2}),
        partial(graph.mutate, DELETE, params={"n": "cy"}),
        insert(graph, "dan"),
    )
    assert people(graph) == {"ada": 1, "bob": 2, "dan": 1}
    assert graph.query(HOMES).to_rows() == [{"n": "bob", "c": "Bern"}]
    assert graph.check().problems == ()
    assert sum(groups) == 5 and max(groups) > 1


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        pytest.param(
            [(PERSON, {"n": "eve", "a": 1}), (PERSON, {"n": "eve", "a": 2})],
            {"eve": 2},
            id="the same key twice",
        ),
        pytest.param(
            [(UPDATE, {"n": "ada", "a": 1}), (PERSON, {"n": "ada", "a": 2})],
            {"ada": 2},
            id="a row that was updated is replaced",
        ),
        pytest.param(
            [(DELETE, {"n": "ada"}), (PERSON, {"n": "ada", "a": 2})],
            {"ada": 2},
            id="a row that was deleted comes back",
        ),
    ],
)
def test_what_touches_the_same_rows_lands_one_after_another(graph, works, expected, groups):
    before = people(graph)
    results = together(graph, *(partial(graph.mutate, q, params=p) for q, p in works))
    assert not any(isinstance(result, BaseException) for result in results)
    assert people(graph) == before | expected
    assert groups == [1, 1]
    assert graph.check().problems == ()


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        pytest.param(
            (MAIL, {"n": "x", "m": "m@x"}), (MAIL, {"n": "y", "m": "m@x"}), ValidationError,
            id="unique",
        ),
        pytest.param(
            (DELETE, {"n": "ada"}), (LIVES, {"n": "ada", "c": "Bern"}), ValidationError,
            id="end",
        ),
        pytest.param(
            (LIVES, {"n": "ada", "c": "Bern"}), (LIVES, {"n": "ada", "c": "Rome"}),
            ValidationError, id="cardinality",
        ),
        pytest.param(
            (PERSON, {"n": "old", "a": 77}), (ALL_OLDER, {}), ReadSetConflict,
            id="a row that the condition would see",
        ),
    ],
)  # fmt: skip
def test_a_rule_holds_between_the_writes_of_a_group(graph, first, second, error):
    head = graph.snapshot().commit
    results = together(
        graph, *(partial(graph.mutate, query, params=params) for query, params in (first, second))
    )
    assert not isinstance(results[0], BaseException)
    assert isinstance(results[1], error)
    assert [c.id for c in graph.commits()][:2] == [results[0].commit.id, head]
    assert graph.check().problems == ()


def test_conditions_are_those_of_the_branch_when_the_write_lands(graph: Graph):
    head = graph.snapshot().commit
    first, second = together(
        graph, insert(graph, "a", if_commit=head), insert(graph, "b", if_commit=head)
    )
    assert first.commit.parents == (head,)
    assert isinstance(second, PreconditionFailed)
    assert set(people(graph)) == {"ada", "bob", "cy", "a"}


def test_one_idempotency_key_in_a_group_is_one_commit(graph: Graph):
    results = together(graph, *[insert(graph, "a", idempotency_key="k")] * 4)
    assert sorted(result.repeated for result in results) == [False, True, True, True]
    assert len({result.commit.id for result in results}) == 1
    assert len(graph.commits()) == 6


def test_writes_to_other_branches_land_apart(graph: Graph, groups: list[int]):
    graph.branches.create("b")
    groups.clear()
    works = [insert(graph, f"x{n}", branch=branch) for n in range(3) for branch in ("main", "b")]
    together(graph, *works)
    assert set(people(graph)) == set(people(graph, branch="b"))
    assert sum(groups) == 6 and 3 in groups
    assert graph.check().problems == ()


@pytest.mark.parametrize(
    "point", ["write.armed", "write.table_committed", "write.confirmed", "write.publishing"]
)
def test_what_goes_wrong_with_a_group_is_tried_again_one_by_one(graph, point, groups):
    before = people(graph)
    names = ["a", "b", "c"]
    left = [1]

    def fail() -> None:
        if left:
            left.pop()
            raise OSError("just now")

    with failpoints.active(point, fail):
        results = together(graph, *(insert(graph, name) for name in names))
    assert [type(result).__name__ for result in results] == ["MutationResult"] * 3
    assert len({result.commit.id for result in results}) == 3
    assert people(graph) == before | dict.fromkeys(names, 1)
    assert graph.check().problems == ()
    assert groups[0] == 3


@pytest.mark.parametrize("point", ["write.revalidated", "write.armed", "write.published"])
def test_a_leader_that_is_interrupted_takes_nobody_with_it(graph: Graph, point: str):
    before = people(graph)
    left = [1]

    def interrupt() -> None:
        if left:
            left.pop()
            raise KeyboardInterrupt

    with failpoints.active(point, interrupt):
        first, *others = together(graph, *(insert(graph, name) for name in "abc"))
    assert isinstance(first, KeyboardInterrupt)
    assert len({result.commit.id for result in others}) == 2
    found = set(people(graph))
    assert found - {"a"} == {*before, "b", "c"}
    assert ("a" in found) == (point == "write.published")
    assert graph.check().problems == ()


def test_a_lock_that_cannot_be_had_fails_all_who_wait_for_it(graph: Graph, tmp_path: Path):
    with open(tmp_path / "graph", settings=Settings(lock_wait_seconds=0.05)) as impatient:
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            inside.set()
            leave.wait(PATIENCE)

        holder = threading.Thread(target=insert(graph, "holder"))
        with failpoints.active("write.armed", hold):
            holder.start()
            inside.wait(PATIENCE)
            errors: list[BaseException] = []

            def attempt(name: str) -> None:
                try:
                    insert(impatient, name)()
                except OmnigraphError as error:
                    errors.append(error)

            threads = [threading.Thread(target=attempt, args=(name,)) for name in "abc"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            leave.set()
            holder.join(PATIENCE)
        assert len(errors) == 3
        assert set(people(impatient)) == {"ada", "bob", "cy", "holder"}
