"""Random histories of branches, edits and merges, compared with a plain model of the graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import MergeConflicts
from omnigraph.graph import Graph
from tests.merge.graphs import make, run

SCHEMA = "node Person { name: String @key  a: I32?  b: I32? }"
NAMES = ("p", "q", "r")
BRANCHES = ("main", "one", "two", "three")
Row = tuple[int | None, int | None]
State = dict[str, Row]
_UNKNOWN = object()

EDIT = st.tuples(
    st.just("edit"), st.sampled_from(BRANCHES), st.sampled_from(NAMES),
    st.sampled_from(("a", "b", "delete", "insert")), st.integers(0, 2),
)  # fmt: skip
MERGE = st.tuples(
    st.just("merge"), st.sampled_from(BRANCHES), st.sampled_from(BRANCHES),
    st.sampled_from((None, "ours", "theirs")),
)  # fmt: skip


class Model:
    """Commits with all their rows, and the same rules said row by row."""

    def __init__(self, state: State) -> None:
        self.states: list[State] = [state]
        self.parents: list[tuple[int, ...]] = [()]
        self.heads = dict.fromkeys(BRANCHES, 0)

    def commit(self, branch: str, state: State, *more: int) -> None:
        self.states.append(state)
        self.parents.append((self.heads[branch], *more))
        self.heads[branch] = len(self.states) - 1

    def above(self, commit: int) -> set[int]:
        found = {commit}
        for parent in self.parents[commit]:
            found |= self.above(parent)
        return found

    def bases(self, one: int, other: int) -> list[int]:
        common = self.above(one) & self.above(other)
        return sorted(c for c in common if not any(c != d and c in self.above(d) for d in common))[
            ::-1
        ]

    def base(self, commits: list[int]) -> dict[str, Any]:
        """The base that commits make: rows whose values may be unknown."""
        made: dict[str, Any] = dict(self.states[commits[0]])
        for other in commits[1:]:
            below = self.base(self.bases(commits[0], other))
            made, _ = merged(below, made, dict(self.states[other]), "unknown")
        return made


def merged(
    base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], prefer: str | None
) -> tuple[dict[str, Any], set[tuple[str, int | None]]]:
    made: dict[str, Any] = {}
    conflicts: set[tuple[str, int | None]] = set()
    for name in NAMES:
        b, o, t = base.get(name), ours.get(name), theirs.get(name)
        whole = {"ours": o, "theirs": t, "unknown": _UNKNOWN, None: o}[prefer]
        if o is _UNKNOWN or t is _UNKNOWN:
            made[name] = _UNKNOWN
        elif t == o or (t == b and b is not _UNKNOWN):
            made[name] = o
        elif o == b:
            made[name] = t
        elif o is None or t is None:
            conflicts.add((name, None))
            made[name] = whole
        else:
            row = []
            for place in (0, 1):
                x = None if b is None or b is _UNKNOWN else b[place]
                is_open = b is None or b is _UNKNOWN or x is _UNKNOWN
                y, z = o[place], t[place]
                if y == z or (z == x and not is_open):
                    row.append(y)
                elif y == x and not is_open:
                    row.append(z)
                else:
                    conflicts.add((name, place))
                    row.append({"theirs": z, "unknown": _UNKNOWN}.get(prefer or "", y))
            made[name] = tuple(row)
    return {name: row for name, row in made.items() if row is not None}, conflicts


def rows(graph: Graph, branch: str) -> State:
    found = graph.snapshot(branch).read("Person").to_pylist()
    return {row["id"]: (row["a"], row["b"]) for row in found}


def follow(graph: Graph, steps: Iterable[tuple[Any, ...]]) -> None:
    start: State = {"p": (0, 0), "q": (1, 1)}
    model = Model(start)
    for step in steps:
        if step[0] == "edit":
            _, branch, name, what, value = step
            state = dict(model.states[model.heads[branch]])
            there = name in state
            if what == "insert" and not there:
                state[name] = (value, None)
                run(graph, f'insert Person {{ name: "{name}", a: {value} }}', branch)
            elif what == "delete" and there:
                del state[name]
                run(graph, f'delete Person where name = "{name}"', branch)
            elif what in ("a", "b") and there:
                a, b = state[name]
                state[name] = (value, b) if what == "a" else (a, value)
                run(graph, f'update Person set {{ {what}: {value} }} where name = "{name}"', branch)
            else:
                continue
            model.commit(branch, state)
            continue
        _, source, into, prefer = step
        if source == into:
            continue
        ours, theirs = model.heads[into], model.heads[source]
        bases = model.bases(ours, theirs)
        if bases == [theirs]:
            assert graph.merge(source, into=into).outcome == "already_up_to_date"
            continue
        state, conflicts = merged(
            model.base(bases), dict(model.states[ours]), dict(model.states[theirs]), prefer
        )
        planned = graph.merge(source, into=into, dry_run=True)
        told = {
            (c.id, None if c.property is None else ("a", "b").index(c.property))
            for c in planned.conflicts
        }
        assert told == conflicts
        if conflicts and prefer is None:
            with pytest.raises(MergeConflicts):
                graph.merge(source, into=into)
            continue
        outcome = graph.merge(source, into=into, prefer=prefer).outcome
        assert outcome == ("fast_forward" if bases == [ours] else "merged")
        model.commit(into, state, theirs)
        assert rows(graph, into) == state
    for branch in BRANCHES:
        assert rows(graph, branch) == model.states[model.heads[branch]]
    assert graph.check().problems == ()


def check(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        start = 'insert Person { name: "p", a: 0, b: 0 } insert Person { name: "q", a: 1, b: 1 }'
        with make(Path(folder), SCHEMA, start) as graph:
            for name in BRANCHES[1:]:
                graph.branches.create(name)
            follow(graph, steps)


@settings(max_examples=12, deadline=None, derandomize=True,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.lists(st.one_of(EDIT, EDIT, MERGE), min_size=12, max_size=24))
def test_random_histories_merge_as_the_model_says(steps):
    check(steps)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_many_random_histories_merge_as_the_model_says():
    import time

    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS", "60"))

    @settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.one_of(EDIT, MERGE), min_size=12, max_size=60))
    def one(steps: list[tuple[Any, ...]]) -> None:
        if time.monotonic() < until:
            check(steps)

    one()
