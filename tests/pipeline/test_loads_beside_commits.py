"""Loads that land beside other commits: what is staged stays staged, and only clashes count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError, ReadSetConflict
from omnigraph.graph import Graph, init
from omnigraph.graph.writes import LoadMode
from omnigraph.maintenance.indexes import ensure_indices
from omnigraph.pipeline.load.run import Loading

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String?  @unique(mail) }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
edge Knows: Person -> Person
"""
PERSON = "query q($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
MAIL = "query q($n: String, $m: String) { insert Person { name: $n, mail: $m } }"
AGE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DELETE = "query q($n: String) { delete Person where name = $n }"
LIVES = "query q($a: String, $b: String) { insert LivesIn { from: $a, to: $b } }"
AGES = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = init(tmp_path / "graph", SCHEMA)
    for name, age in (("ada", 36), ("bob", 60), ("cy", 20)):
        made.mutate(PERSON, params={"n": name, "a": age})
    made.mutate('query q() { insert City { name: "Bern" } }')
    return made


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes each time an input is read and staged."""
    times: list[int] = []
    stage = Loading._staged

    def counted(self, context):
        times.append(1)
        return stage(self, context)

    monkeypatch.setattr(Loading, "_staged", counted)
    return times


def person(name: str, **data) -> dict:
    return {"type": "Person", "data": {"name": name, **data}}


def edge(type: str, source: str, target: str) -> dict:
    return {"edge": type, "from": source, "to": target, "data": {}}


def load(
    graph: Graph, tmp_path: Path, mode: LoadMode, lines: list[dict], others: Callable[[], object]
):
    """Load while others commit: after everything is staged and checked."""
    path = tmp_path / "input.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    left = [others]

    def act() -> None:
        if left:
            left.pop()()

    with failpoints.active("write.prepared", act):
        return graph.load(path, mode=mode, engine="local")


def ages(graph: Graph) -> dict[str, int | None]:
    rows = graph.query(AGES).to_rows()
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: row["age"] for row in rows}


def other_commits(graph: Graph) -> None:
    for number in range(20):
        graph.mutate(PERSON, params={"n": f"other{number}", "a": number})
    graph.mutate(AGE, params={"n": "bob", "a": 61})
    graph.mutate(DELETE, params={"n": "cy"})
    ensure_indices(graph._repository, "main")


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_of_other_rows_is_staged_once(graph, staged, tmp_path, mode):
    lines = [person(f"new{n}", age=n) for n in range(50)]
    lines += [edge("Knows", "ada", "new1"), edge("LivesIn", "new2", "Bern")]
    if mode == "merge":
        lines.append(person("ada", age=99))
    made = load(graph, tmp_path, mode, lines, lambda: other_commits(graph))
    assert len(staged) == 1
    assert graph.commits()[0].id == made.commit
    assert graph.check().problems == ()
    assert len(ages(graph)) == 2 + 20 + 50
    assert ages(graph)["ada"] == (99 if mode == "merge" else 36)
    assert made.tables["Person"].inserted == 50


def test_a_merge_decides_anew_about_just_the_rows_that_others_changed(graph, staged, tmp_path):
    def others() -> None:
        graph.mutate(PERSON, params={"n": "came", "a": 1})
        graph.mutate(AGE, params={"n": "ada", "a": 2})
        graph.mutate(DELETE, params={"n": "bob"})
        for number in range(30):
            graph.mutate(PERSON, params={"n": f"other{number}", "a": number})

    lines = [person(name, age=100) for name in ("came", "ada", "bob", "cy", "new")]
    made = load(graph, tmp_path, "merge", lines, others)
    assert len(staged) == 1
    assert {name: age for name, age in ages(graph).items() if age == 100} == dict.fromkeys(
        ("came", "ada", "bob", "cy", "new"), 100
    )
    outcome = made.tables["Person"]
    assert (outcome.inserted, outcome.replaced) == (2, 3)
    assert graph.check().problems == ()
    # What was decided anew can be changed and read at every commit as any other row.
    graph.mutate(AGE, params={"n": "bob", "a": 3})
    graph.mutate(DELETE, params={"n": "came"})
    assert ages(graph)["bob"] == 3
    for commit in graph.commits():
        graph.snapshot(commit=commit.id).count("Person")


@pytest.mark.parametrize(
    ("lines", "query", "params", "reason"),
    [
        ([person("eve", age=1)], PERSON, {"n": "eve", "a": 2}, "eve"),
        ([edge("Knows", "ada", "cy")], DELETE, {"n": "cy"}, "cy"),
        ([person("eve", mail="m@x")], MAIL, {"n": "dora", "m": "m@x"}, "m@x"),
        ([edge("LivesIn", "cy", "Bern")], LIVES, {"a": "cy", "b": "Bern"}, "cy"),
    ],
)
def test_an_append_that_breaks_a_rule_after_another_commit_is_refused(
    graph, tmp_path, lines, query, params, reason
):
    with pytest.raises(OmnigraphError, match=reason):
        load(graph, tmp_path, "append", lines, lambda: graph.mutate(query, params=params))
    assert graph.check().problems == ()


def test_an_overwrite_lands_when_nothing_that_it_touches_has_changed(graph, staged, tmp_path):
    lines = [{"type": "City", "data": {"name": "Rome"}}]
    load(graph, tmp_path, "overwrite", lines, lambda: other_commits(graph))
    assert len(staged) == 1
    assert graph.snapshot().count("City") == 1


def test_an_overwrite_of_what_others_changed_is_a_conflict(graph, tmp_path):
    lines = [{"type": "City", "data": {"name": "Rome"}}]
    other = 'query q() { insert City { name: "Oslo" } }'
    with pytest.raises(ReadSetConflict, match="Oslo"):
        load(graph, tmp_path, "overwrite", lines, lambda: graph.mutate(other))
    assert graph.snapshot().count("City") == 2
