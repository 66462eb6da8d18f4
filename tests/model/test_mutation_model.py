"""Random mutation programs, compared with a plain Python model of what they mean.

Each program has to succeed or be refused as in the model, with the same rows, counts or
violations. Between programs, indexes are built, branches are made and the graph is opened again:
none of that may change what a program does.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from omnigraph.errors import ValidationError
from omnigraph.graph import Graph, init, open
from omnigraph.maintenance.indexes import ensure_indices
from omnigraph.storage import snapshot as table_snapshot
from omnigraph.writes.mutate import MutationResult
from tests.writes.graphs import make, rows, run

from .mutation_model import NEW, Model, Outcome, Row, Schema, Tables
from .mutation_programs import SCHEMAS, Program, make_program, schema_text

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
#: What happens before a program, and what the program is: those that are there twice more often.
FIRST = ("nothing", "nothing", "nothing", "build indexes", "branch", "open again")
KINDS = ("change", "change", "change", "insert", "delete", "delete")
SEEDS = st.integers(0, 2**24 - 1)
ENDS = {"src": "from", "dst": "to"}


class MutationModel(RuleBasedStateMachine):
    """See the module."""

    schema: Schema
    #: An empty graph: copying it is faster than making one.
    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.serials = itertools.count()
        self.steps = 0
        self.branches: dict[str, Model] = {}

    @initialize(data=st.data(), seeds=st.tuples(SEEDS, SEEDS))
    def begin(self, data: Any, seeds: tuple[int, int]) -> None:
        self.folder = tempfile.mkdtemp(prefix="omnigraph-mutations-")
        self.place = f"{self.folder}/graph"
        shutil.copytree(self.template, self.place)
        self.graph = open(self.place)
        self.branches["main"] = Model(self.schema)
        for seed in seeds:
            self._run(data, seed, "seed", "main", looked_up=False)

    @rule(
        data=st.data(),
        seed=SEEDS,
        first=st.sampled_from(FIRST),
        kind=st.sampled_from(KINDS),
        looked_up=st.booleans(),
    )
    def program(self, data: Any, seed: int, first: str, kind: str, looked_up: bool) -> None:
        branch = str(data.draw(st.sampled_from(sorted(self.branches, reverse=True))))
        if first == "build indexes":
            ensure_indices(self.graph._repository, branch)
        elif first == "branch" and len(self.branches) < 3:
            source, branch = branch, f"branch{len(self.branches)}"
            self.graph.branches.create(branch, source=source)
            self.branches[branch] = self.branches[source].copy()
        elif first == "open again":
            self.graph.close()
            self.graph = open(self.place)
        self._run(data, seed, kind, branch, looked_up)

    def teardown(self) -> None:
        if not self.branches:
            return
        try:
            with open(self.place) as graph:
                for name, model in self.branches.items():
                    assert contents(graph, name, self.schema) == by_id(model.tables)
                assert graph.check().problems == ()
        finally:
            shutil.rmtree(self.folder)

    # --- parts ---

    def _run(self, data: Any, seed: int, kind: str, branch: str, looked_up: bool) -> None:
        model = self.branches[branch]
        # Hypothesis likes to repeat itself; with the step, the same seed gives another program.
        self.steps += 1
        program = make_program(seed * 1000 + self.steps, kind, model, self.serials)
        # A seed cannot be made simpler, but most of what it gives can be left out.
        left = data.draw(st.lists(st.integers(0, 20), min_size=len(program), max_size=len(program)))
        if not any(left):
            return
        program = program.keeping([n for n, keep in enumerate(left) if keep])
        note(repr(program))
        expected = model.run(program.statements)
        before, tables = self.graph.snapshot(branch).commit, places(self.graph, branch)
        # A table as small as these is read as a whole, unless a lookup is said to be cheap.
        limit = 0 if looked_up else table_snapshot.READS_PER_LOOKUP
        with mock.patch.object(table_snapshot, "READS_PER_LOOKUP", limit):
            refused, result = self._mutate(program, branch)
        moved = {n for n, place in places(self.graph, branch).items() if place != tables[n]}
        if refused is not None:
            assert moved == set() and self.graph.snapshot(branch).commit == before
            compare_violations(refused, expected)
            assert contents(self.graph, branch, self.schema) == by_id(model.tables)
            return
        assert result is not None
        assert (expected.violations, expected.faults) == ([], [])
        assert counts_of(result) == {n: dict(+c) for n, c in expected.counts.items()}
        assert moved == set(expected.counts)
        head = self.graph.snapshot(branch).commit
        if expected.counts:
            assert result.commit is not None
            assert (result.commit.id, result.commit.parents) == (head, (before,))
        else:
            assert result.commit is None and head == before
        self._check_totals(result, expected)
        found = contents(self.graph, branch, self.schema)
        model.tables = expected.tables
        adopt_ids(model, found)
        assert found == by_id(model.tables)

    def _mutate(
        self, program: Program, branch: str
    ) -> tuple[ValidationError | None, MutationResult | None]:
        try:
            return None, self.graph.mutate(program.text, params=program.parameters, branch=branch)
        except ValidationError as error:
            return error, None

    def _check_totals(self, result: MutationResult, expected: Outcome) -> None:
        totals: Counter[bool] = Counter()
        for name, counts in expected.counts.items():
            totals[self.schema.type(name).is_edge] += counts.total()
        assert (result.affected_nodes, result.affected_edges) == (totals[False], totals[True])


def contents(graph: Graph, branch: str, schema: Schema) -> dict[str, dict[str, Row]]:
    """The rows of a branch by type and id, each id once."""
    snapshot = graph.snapshot(branch)
    found: dict[str, dict[str, Row]] = {}
    for type in schema.types:
        read = [
            {ENDS.get(name, name): value for name, value in row.items()}
            for row in snapshot.read(type.name).to_pylist()
        ]
        found[type.name] = {row["id"]: row for row in read}
        assert len(found[type.name]) == len(read) == snapshot.count(type.name)
    return found


def by_id(tables: Tables) -> dict[str, dict[str, Row]]:
    return {name: {row["id"]: row for row in table} for name, table in tables.items()}


def places(graph: Graph, branch: str) -> dict[str, tuple[str | None, int]]:
    return {t.name: (t.branch, t.version) for t in graph.snapshot(branch).tables}


def counts_of(result: MutationResult) -> dict[str, dict[str, int]]:
    return {
        name: {what: n for what, n in counts.to_dict().items() if n}
        for name, counts in {**result.nodes, **result.edges}.items()
    }


def adopt_ids(model: Model, found: dict[str, dict[str, Row]]) -> None:
    """Take over the ids that the engine has made for new rows, which their serials tell."""
    for name, table in model.tables.items():
        known = {row["id"] for row in table}
        made = {row.get("serial"): id for id, row in found[name].items() if id not in known}
        for row in table:
            if row["id"].startswith(NEW):
                row["id"] = made.get(row["serial"], row["id"])
                assert ULID.fullmatch(row["id"])


def compare_violations(refused: ValidationError, expected: Outcome) -> None:
    """Check that the same rules are broken by the same rows."""
    assert refused.total == len(refused.violations)
    found = [
        (
            v.rule,
            v.type,
            v.id,
            v.property,
            v.value,
        )
        for v in refused.violations
    ]
    wanted = [(rule, t, new_or(id), p, value) for rule, t, id, p, value in expected.violations]
    if expected.faults:
        # Where a value could not be computed, what follows from it is not known.
        faults = {(t, new_or(id), p) for _, t, id, p, _ in expected.faults}
        inserted = {v[1:4] for v in wanted if v[0] == "type"}
        named = {v[1:4] for v in found if v[0] == "type"}
        assert named and inserted <= named <= inserted | faults
        return
    assert sorted(map(repr, comparable(found))) == sorted(map(repr, comparable(wanted)))


def comparable(violations: list[Any]) -> list[Any]:
    """Each group of values that are not unique once, without the row that is named for it."""
    shared = {repr(v): (v[0], v[1], None, *v[3:]) for v in violations if v[0] == "unique"}
    groups = {repr(v): v for v in shared.values()}
    return [*(v for v in violations if v[0] != "unique"), *groups.values()]


def new_or(id: str | None) -> str | None:
    return None if id is not None and id.startswith(NEW) else id


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def _machine(schema: Schema, place: Path) -> type[MutationModel]:
    template = place / schema.name
    init(template, schema_text(schema)).close()
    made = {"schema": schema, "template": template}
    return type(f"{schema.name.title()}Model", (MutationModel,), made)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.name)
def test_programs_do_what_their_model_does(tmp_path: Path, schema: Schema) -> None:
    run_state_machine_as_test(_machine(schema, tmp_path), settings=_settings(10))


@pytest.mark.soak
def test_programs_do_what_their_model_does_for_long(tmp_path: Path) -> None:
    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 300)
    machines = [_machine(schema, tmp_path) for schema in SCHEMAS]
    for machine in itertools.cycle(machines):
        if time.monotonic() > until:
            break
        run_state_machine_as_test(machine, settings=_settings(25))


# --- what it has found, in short ---


def test_an_updated_row_keeps_its_unique_value_from_a_new_one(tmp_path: Path) -> None:
    graph = make(tmp_path, "node P { k: String @key  code: String? @unique  n: I64? }")
    run(graph, 'insert P { k: "b", code: "x" }')
    with pytest.raises(ValidationError, match='"x" is taken by "b"'):
        run(
            graph,
            'update P set { n: 1 } where k = "b"',
            'insert P { k: "a", code: "x" }',
        )


def test_a_float_that_equals_two_keys_finds_both(tmp_path: Path) -> None:
    graph = make(tmp_path, "node P { k: I64 @key  n: I64? }")
    run(graph, *(f"insert P {{ k: {2**53 + more} }}" for more in range(3)))
    assert run(graph, "update P set { n: 1 } where k = 9007199254740992.0").affected_nodes == 2
    assert run(graph, "delete P where k in [9007199254740992.0]").affected_nodes == 2


def test_a_large_integer_becomes_the_same_float_in_updates_as_in_inserts(tmp_path: Path) -> None:
    graph = make(tmp_path, "node P { k: I64 @key  f: F64? }")
    given: dict[str, Any] = {"head": "$n: I64", "params": {"n": 2**53 + 1}}
    run(graph, "insert P { k: $n, f: $n }", **given)
    run(graph, "insert P { k: 1 }", "insert P { k: 2 }")
    run(graph, "update P set { f: $n } where k = 1", **given)
    run(graph, "update P set { f: k } where k > 2")
    assert rows(graph, "P", "k", "f") == [(1, 2.0**53), (2, None), (2**53 + 1, 2.0**53)]
