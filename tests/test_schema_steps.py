"""Every step between two schemas, on a graph with rows: what it does, and what it leaves alone.

The steps are those of `tests/schema_steps.py`; one that is missing there fails here.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from omnigraph.errors import OmnigraphError, UsageError, ValidationError
from omnigraph.graph import Graph, init, open
from omnigraph.language.schema.steps import RULES
from tests.schema_steps import (
    CASES,
    REFUSALS,
    SCHEMA,
    Case,
    Refusal,
    Rows,
    apply,
    edited,
    make_graph,
    move,
    rows_of,
)


def test_every_step_has_a_case() -> None:
    rules = {(rule.kind, rule.code) for rule in RULES}
    assert {(case.kind, case.code) for case in CASES} == {
        (rule.kind, rule.code) for rule in RULES if rule.effect != "refused"
    }
    refusable = {(rule.kind, rule.code) for rule in RULES if rule.effect != "safe"}
    assert {(refusal.kind, refusal.code) for refusal in REFUSALS} == refusable <= rules


@dataclass(frozen=True)
class Start:
    """The graph that all cases start from."""

    place: Path
    commit: str
    rows: Rows
    indexes: dict[str, dict[str, tuple[str, str]]]


@dataclass(frozen=True)
class Changed:
    """A graph after a step. Tests only look at it, or copy it."""

    case: Case
    place: Path
    graph: Graph
    start: Start


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    place = tmp_path_factory.mktemp("start") / "graph"
    make_graph(place)
    with open(place, mode="r") as graph:
        return Start(place, graph.snapshot().commit, rows_of(graph.snapshot()), indexes(graph))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def changed(
    request: pytest.FixtureRequest, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Changed]:
    case: Case = request.param
    place = tmp_path_factory.mktemp("changed") / "graph"
    shutil.copytree(start.place, place)
    with open(place) as graph:
        apply(graph, case)
        yield Changed(case, place, graph, start)
    shutil.rmtree(place.parent)


def indexes(graph: Graph) -> dict[str, dict[str, tuple[str, str]]]:
    """By type, the indexes that cover all rows: by name, the column and the kind."""
    found = {}
    for table in graph.snapshot().tables:
        opened = graph._repository.tables.open(table.ref, table.version)
        found[table.name] = {
            index.name: (index.column, index.kind)
            for index in opened.indices()
            if not index.uncovered
        }
    return found


def test_rows_become_what_the_step_says(changed: Changed) -> None:
    case, graph = changed.case, changed.graph
    plan = graph.schema.history(limit=1)[0].plan
    assert (case.kind, case.code) in {(step.kind, step.code) for step in plan.steps}
    assert rows_of(graph.snapshot()) == case.after(changed.start.rows)
    age = case.renamed.get("age", "age")
    match = f'match {{ $p: {case.person} {{ name: "ada" }} }}'
    assert graph.query(f"query q() {{ {match} return {{ $p.{age} }} }}").scalar() == 36
    assert graph.check().problems == ()


def test_earlier_commits_have_what_they_had(changed: Changed) -> None:
    past = changed.graph.at(changed.start.commit)
    assert rows_of(past) == changed.start.rows
    text = "query q() { match { $p: Person $p livesIn $c } return { $p.age, $c.name } }"
    rows = [tuple(row.values()) for row in past.query(text).to_rows()]
    assert sorted(rows) == [(36, "Oslo"), (36, "Rome")]
    assert changed.graph.schema.show(changed.start.commit).text == SCHEMA


def test_indexes_stay_and_what_is_written_anew_is_indexed_by_the_next_optimize(
    changed: Changed, tmp_path: Path
) -> None:
    case = changed.case
    kept = {
        case.types.get(type, type) or "": {
            name: (case.renamed.get(column, column), kind)
            for name, (column, kind) in known.items()
            if column not in (case.dropped if type == "Person" else ())
            and not (type == "Person" and column in case.rewritten)
        }
        for type, known in changed.start.indexes.items()
    }
    kept.pop("", None)
    now = indexes(changed.graph)
    assert {type: now[type] for type in kept} == kept
    place = shutil.copytree(changed.place, tmp_path / "graph")
    with open(place) as graph:
        graph.optimize()
        assert rows_of(graph.snapshot()) == case.after(changed.start.rows)
        assert rows_of(graph.at(changed.start.commit)) == changed.start.rows
        columns = {column for column, _ in indexes(graph)[case.person].values()}
        wanted = {index.property for index in graph.catalog.nodes[case.person].indexes}
        assert wanted - {"rank"} <= columns
        assert graph.check().problems == ()


def test_a_diff_the_feed_and_histories_go_through(changed: Changed) -> None:
    case, graph = changed.case, changed.graph
    commit = graph.snapshot().commit
    diff = graph.diff(changed.start.commit, "main")
    assert [(c.operation, c.type, c.id) for c in diff] == list(case.changed)
    assert diff.schema is not None
    assert case.kind in {step.kind for step in diff.schema.steps}
    page = graph.changes(start=f"after:{changed.start.commit}")
    (part,) = page.commits
    assert [(c.operation, c.type, c.id) for c in part.changes] == list(case.changed)
    assert part.schema == graph.schema.history(limit=1)[0].plan
    versions = graph.history(case.person, "ada")
    is_changed = ("update", case.person, "ada") in case.changed
    assert [v.operation for v in versions] == (["update"] if is_changed else []) + ["insert"]
    newest = versions[0].values or {}
    ada = case.after(changed.start.rows)[case.person][0]
    assert {name: newest[name] for name in ada if name != "id"} == {
        name: value for name, value in ada.items() if name != "id"
    }
    blamed = {each.property: each.commit.id for each in graph.blame(case.person, "ada")}
    assert blamed["name"] == versions[-1].commit.id
    if is_changed:
        assert {name for name, id in blamed.items() if id == commit} == set(case.filled)
    else:
        assert commit not in blamed.values()


def test_exports_of_before_and_after_are_loaded(changed: Changed, tmp_path: Path) -> None:
    case, graph = changed.case, changed.graph
    graph.export(tmp_path / "after.jsonl")
    graph.at(changed.start.commit).export(tmp_path / "before.jsonl")
    with init(tmp_path / "new", graph.schema.show().text) as new:
        new.load(tmp_path / "after.jsonl")
        assert rows_of(new.snapshot()) == rows_of(graph.snapshot())
    with init(tmp_path / "other", graph.schema.show().text) as other:
        if case.reloads is not None:
            with pytest.raises(OmnigraphError, match=case.reloads):
                other.load(tmp_path / "before.jsonl")
            return
        other.load(tmp_path / "before.jsonl")
        after = case.after(changed.start.rows)
        for place, row in enumerate(after["Person"]):
            row |= {name: values[place] for name, values in case.loaded.items()}
        assert rows_of(other.snapshot()) == after


@pytest.fixture(scope="module")
def moved(start: Start, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By the branch that is to take the step, a graph of which the other one has other rows.

    It has them on a third branch, too.
    """
    places = {}
    for stepped, other in (("draft", "main"), ("main", "draft")):
        places[stepped] = tmp_path_factory.mktemp(stepped) / "graph"
        shutil.copytree(start.place, places[stepped])
        with open(places[stepped]) as graph:
            move(graph, other)
            graph.branches.create("moved_first", source=other)
    return places


def merges() -> list[ParameterSet]:
    """Each case on both sides: one of them each time, the other one in long runs."""
    listed = []
    for number, case in enumerate(CASES):
        for side in ("draft", "main"):
            is_short = side == ("draft", "main")[number % 2]
            marks = [] if is_short else [pytest.mark.soak]
            listed.append(pytest.param(case, side, id=f"{case.id}-{side}", marks=marks))
    return listed


@pytest.mark.parametrize(("case", "stepped"), merges())
def test_a_branch_with_the_step_and_one_with_other_rows_are_merged(
    case: Case, stepped: str, start: Start, moved: dict[str, Path], tmp_path: Path
) -> None:
    place = shutil.copytree(moved[stepped], tmp_path / "graph")
    with open(place) as graph:
        apply(graph, case, "moved_first")
        apply(graph, case, stepped)
        expected = rows_of(graph.snapshot("moved_first"))
        conflicts = graph.merge("draft", dry_run=True).conflicts
        assert {(each.id, each.property) for each in conflicts} <= {("cy", case.missing)}
        settled = [{**each.to_dict(), "resolution": {"value": True}} for each in conflicts]
        graph.merge("draft", resolutions=settled)
        if case.missing is not None and not conflicts:
            expected["Person"][2][case.missing] = None
        assert rows_of(graph.snapshot()) == expected
        assert rows_of(graph.at(start.commit)) == start.rows
        assert graph.check().problems == ()


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: f"{each.kind}-{each.code}")
def test_a_step_that_is_refused_changes_nothing_and_says_why(
    refusal: Refusal, start: Start, tmp_path: Path
) -> None:
    schema = edited(refusal.edits)
    place = shutil.copytree(start.place, tmp_path / "graph")
    with open(place) as graph:
        steps = {(step.kind, step.code): step for step in graph.schema.plan(schema).steps}
        step = steps[refusal.kind, refusal.code]
        assert refusal.hint in (step.hint or "")
        with pytest.raises((UsageError, ValidationError)) as caught:
            graph.schema.apply(schema)
        assert step.message in str(caught.value) or refusal.ids
        if isinstance(caught.value, ValidationError):
            assert {violation.id for violation in caught.value.violations} == {*refusal.ids}
        else:
            assert refusal.code in str(caught.value) and not refusal.ids
            assert refusal.hint in str(caught.value)
        assert graph.snapshot().commit == start.commit
        assert graph.schema.show().text == SCHEMA
        assert rows_of(graph.snapshot()) == start.rows
        assert indexes(graph) == start.indexes
