"""Random lives of a graph, compared step by step with a plain Python model of it.

The model is a dictionary per branch and table. Writes, branches, tags, re-opens, reads at old
commits, two handles in turn, and writers that fail or die at any point of the protocol: the graph
has to hold what the model holds. After a death the model does not know what happened. It looks,
and demands that it is the state before or the state after.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from omnigraph import Snapshot, failpoints
from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    NotFound,
    PreconditionFailed,
    ReadSetConflict,
    RecoveryRequired,
    UsageError,
)
from omnigraph.failpoints import POINTS, FailpointError
from omnigraph.graph import Graph, init, open
from omnigraph.language.schema.arrow import table_schema
from omnigraph.writes.sidecar import list_sidecars
from tests.leftover_files import unreferenced

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
node Pet { name: String @key  age: I32? }
"""
TABLES = ("Person", "City", "Pet")
NAMES = ("one", "two", "deep/one", "deep/two")
IDS = (
    "a",
    "b",
    "it's",
    'q"q',
    "b\\s",
    "100%_",
    "é",
    "e\u0301",
    "😀",
    " x ",
    "",
    "new\nline",
    "null",
)
KEYS = ("k1", "it's", 'q"q', "b\\", "%", "é😀", "new\nline", "''", "k")
DEADLY = [p for p in POINTS if p.startswith("write.")]
IN_RECOVERY = [p for p in POINTS if p.startswith("recovery.")]

Table = dict[str, int | None]
Content = dict[str, Table]


class Death(BaseException):
    """The end of a process, as far as the code can tell: nothing catches it, nothing cleans up."""


def die() -> None:
    raise Death


@dataclass(frozen=True)
class Change:
    """A change of one table: rows by id, or a predicate and what it means."""

    mode: str
    rows: tuple[tuple[str, int | None], ...] = ()
    where: str = ""
    matches: Callable[[str, int | None], bool] = field(default=lambda id, age: False)

    def apply(self, table: Table) -> Table:
        if self.mode == "delete":
            return {id: age for id, age in table.items() if not self.matches(id, age)}
        return dict(self.rows) if self.mode == "overwrite" else {**table, **dict(self.rows)}

    def __repr__(self) -> str:
        return f"{self.mode}({self.where or dict(self.rows)!r})"


@dataclass
class BranchModel:
    parent: str | None
    content: Content
    chain: list[str]
    keys: dict[str, str]


def sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def equal_to(ids: frozenset[str]) -> Change:
    listed = ", ".join(sql(id) for id in sorted(ids))
    return Change("delete", where=f"id in ({listed})", matches=lambda id, age: id in ids)


def at_least(limit: int) -> Change:
    return Change(
        "delete",
        where=f"age >= {limit}",
        matches=lambda id, age: age is not None and age >= limit,
    )


ages = st.none() | st.integers(-3, 3)
rows = st.dictionaries(st.sampled_from(IDS), ages, max_size=5).map(lambda d: tuple(d.items()))
puts = st.builds(Change, st.sampled_from(["append", "merge", "merge", "overwrite"]), rows)
deletes = st.one_of(
    st.frozensets(st.sampled_from(IDS), min_size=1, max_size=3).map(equal_to),
    st.just(Change("delete", where="true", matches=lambda id, age: True)),
    st.just(Change("delete", where="id = 'nobody'", matches=lambda id, age: False)),
)
aged = st.integers(-3, 3).map(at_least)
changes = st.fixed_dictionaries(
    {}, optional={"Person": puts | deletes | aged, "City": puts | deletes, "Pet": puts | aged}
)
handles = st.integers(0, 1)


class GraphModel(RuleBasedStateMachine):
    """See the module."""

    template: Path | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="omnigraph-model-")
        self.place = f"{self.folder}/graph"

    @initialize()
    def begin(self) -> None:
        kind = type(self)
        if kind.template is None or not kind.template.exists():
            kind.template = Path(tempfile.mkdtemp(prefix="omnigraph-model-template-")) / "graph"
            init(kind.template, SCHEMA)
        shutil.copytree(kind.template, self.place)
        self.handles = [open(self.place), open(self.place)]
        self.reader = open(self.place, mode="r")
        genesis = self.reader.snapshot().commit
        empty: Content = {name: {} for name in TABLES}
        self.branches = {"main": BranchModel(None, empty, [genesis], {})}
        self.commits = {genesis: ("main", empty)}
        #: What was asked for with a key.
        self.requests: dict[tuple[str, str], object] = {}
        self.tags: dict[str, str] = {}
        self.recoveries = 0

    # --- writing ---

    @rule(
        handle=handles,
        data=st.data(),
        batch=changes,
        key=st.none() | st.sampled_from(KEYS),
        condition=st.sampled_from(["none", "none", "right", "wrong"]),
    )
    def write(
        self, handle: int, data: Any, batch: dict[str, Change], key: str | None, condition: str
    ) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        now = self.branches[branch]
        batch = self._possible(branch, batch)
        if_commit = None
        if condition == "right":
            if_commit = now.chain[-1]
        elif condition == "wrong":
            if_commit = data.draw(st.sampled_from([*now.chain[:-1], "01ARZ3NDEKTSV4RRFFQ69G5FAV"]))
        before = now.chain[-1]
        graph = self.handles[handle]
        if key is not None and key in now.keys:
            if self._asked(batch) != self.requests[branch, key]:
                with pytest.raises(UsageError, match="belongs to another write"):
                    self._write(graph, branch, batch, key, if_commit)
                return
            answer = self._write(graph, branch, batch, key, if_commit)
            assert answer.repeated and answer.commit is not None
            assert answer.commit.id == now.keys[key]
            return
        if key is not None:
            self.requests[branch, key] = self._asked(batch)
        if condition == "wrong":
            with pytest.raises(PreconditionFailed) as refusal:
                self._write(graph, branch, batch, key, if_commit)
            assert (refusal.value.expected, refusal.value.actual) == (if_commit, before)
            return
        answer = self._write(graph, branch, batch, key, if_commit)
        after = self._after(branch, batch)
        if answer.commit is None:
            assert after == now.content
            assert not any(c.mode == "overwrite" for c in batch.values())
            return
        assert answer.commit.parents == (before,)
        assert not answer.repeated
        for name, outcome in answer.tables.items():
            grown = outcome.inserted - outcome.deleted
            assert grown == len(after[name]) - len(now.content[name]), (name, outcome)
        self._commit(branch, answer.commit.id, after, key)

    @rule(
        handle=handles,
        data=st.data(),
        batch=changes.filter(bool),
        point=st.sampled_from(DEADLY),
        skip=st.integers(0, 2),
        key=st.none() | st.sampled_from(KEYS),
        how=st.sampled_from(["raise", "die"]),
        again=st.none() | st.sampled_from(IN_RECOVERY),
        next_=st.sampled_from(["open", "tag", "write", "branch", "same write"]),
    )
    def write_and_fail(
        self,
        handle: int,
        data: Any,
        batch: dict[str, Change],
        point: str,
        skip: int,
        key: str | None,
        how: str,
        again: str | None,
        next_: str,
    ) -> None:
        branch = data.draw(st.sampled_from(sorted(self.branches)))
        now = self.branches[branch]
        if key in now.keys:
            key = None
        batch = self._possible(branch, batch)
        if key is not None:
            self.requests[branch, key] = self._asked(batch)
        before, after = now.content, self._after(branch, batch)
        acknowledged = None
        action = die if how == "die" else "raise"
        try:
            with failpoints.active(point, action, skip=skip):
                answer = self._write(self.handles[handle], branch, batch, key, None)
            acknowledged = answer.commit and answer.commit.id
        except (FailpointError, Death):
            pass
        # Whoever only looks sees one of the two, also before anybody has cleaned up.
        assert self._content(self.reader.snapshot(branch)) in (before, after)
        if again is not None:
            try:
                with failpoints.active(again, die):
                    open(self.place)
            except Death:
                pass
            assert self._content(self.reader.snapshot(branch)) in (before, after)
        self._take_notice(next_, handle, branch, batch, key)
        assert list_sidecars(self.reader._repository.objects) == []
        self._learn(branch, before, after, key, acknowledged)

    def _take_notice(
        self, next_: str, handle: int, branch: str, batch: dict[str, Change], key: str | None
    ) -> None:
        """Do something that has to clean up after a dead writer first."""
        other = self.handles[1 - handle]
        if next_ == "open":
            self.handles[handle] = open(self.place)
        elif next_ == "branch":
            other.branches.create("passing")
            other.branches.delete("passing")
        elif next_ == "write" and branch != "main":
            main = self.branches["main"]
            answer = self._write(
                other, "main", {"City": Change("merge", (("z", None),))}, None, None
            )
            assert answer.commit is not None
            content = {**main.content, "City": {**main.content["City"], "z": None}}
            self._commit("main", answer.commit.id, content, None)
        elif next_ == "same write" and key is not None:
            try:
                answer = self._write(other, branch, batch, key, None)
            except ReadSetConflict:
                # The dead writer's work was undone first; a strict write is not simply repeated.
                assert any(c.mode in ("overwrite", "delete") for c in batch.values())
                answer = self._write(other, branch, batch, key, None)
            if answer.commit is not None:
                assert self._content(other.snapshot(branch)) == self._after(branch, batch)
        else:
            genesis = self.branches["main"].chain[0]
            other.tags.create("noticed", genesis)
            other.tags.delete("noticed")
        if list_sidecars(other._repository.objects):
            open(self.place)

    def _learn(
        self,
        branch: str,
        before: Content,
        after: Content,
        key: str | None,
        acknowledged: str | None,
    ) -> None:
        """Find out by looking whether a write that failed took effect; all must fit together."""
        now = self.branches[branch]
        graph = open(self.place)
        chain = [c.id for c in graph.commits(branch)][::-1]
        assert chain[: len(now.chain)] == now.chain
        new = [graph.commit(id) for id in chain[len(now.chain) :]]
        content = self._content(graph.snapshot(branch))
        written = [c for c in new if c.actor == "model"]
        assert len(written) <= 1
        assert content == (after if written else before)
        assert acknowledged is None or [c.id for c in written] == [acknowledged]
        content = before
        for commit in new:
            assert commit.actor in ("model", "omnigraph:recovery")
            own = key if commit in written else None
            assert commit.idempotency_key == own
            content = after if commit in written else content
            self._commit(branch, commit.id, content, own)
        assert self._content(graph.snapshot(branch)) == self.branches[branch].content

    # --- branches and tags ---

    @rule(handle=handles, name=st.sampled_from((*NAMES, "deep", "main")), data=st.data())
    def create_branch(self, handle: int, name: str, data: Any) -> None:
        source = data.draw(st.sampled_from([*sorted(self.branches), "nowhere"]))
        graph = self.handles[handle]
        clash = any(
            name == b or name.startswith(f"{b}/") or b.startswith(f"{name}/") for b in self.branches
        )
        if clash or source == "nowhere":
            with pytest.raises((AlreadyExists, NotFound)):
                graph.branches.create(name, source=source)
            return
        if data.draw(st.booleans()):
            info = graph.branches.create(name, source=source)
            assert info.head == self.branches[source].chain[-1]
        else:
            with failpoints.active("branch.created", die), pytest.raises(Death):
                graph.branches.create(name, source=source)
        made = self.branches[source]
        self.branches[name] = BranchModel(source, made.content, [*made.chain], {})

    @rule(handle=handles, data=st.data())
    def delete_branch(self, handle: int, data: Any) -> None:
        name = data.draw(st.sampled_from([*sorted(self.branches), "nowhere"]))
        graph = self.handles[handle]
        if name == "main":
            with pytest.raises(UsageError):
                graph.branches.delete(name)
        elif name == "nowhere":
            with pytest.raises(NotFound):
                graph.branches.delete(name)
        elif any(b.parent == name for b in self.branches.values()) or any(
            self.commits[id][0] == name for id in self.tags.values()
        ):
            with pytest.raises(ConflictError):
                graph.branches.delete(name)
        else:
            held = self.reader.snapshot(name)
            if data.draw(st.booleans()):
                graph.branches.delete(name)
            else:
                with failpoints.active("branch.deleted", die), pytest.raises(Death):
                    graph.branches.delete(name)
            del self.branches[name]
            gone = [id for id, (branch, _) in self.commits.items() if branch == name]
            for id in gone:
                del self.commits[id]
            if any(t.branch == name for t in held.tables):
                with pytest.raises(NotFound):
                    self._content(held)

    @rule(handle=handles, name=st.sampled_from(["v1", "v2"]), data=st.data())
    def tag(self, handle: int, name: str, data: Any) -> None:
        graph = self.handles[handle]
        if name in graph.tags.list():
            graph.tags.delete(name)
            self.tags.pop(name, None)
            return
        id = data.draw(st.sampled_from(sorted(self.commits)))
        graph.tags.create(name, id)
        self.tags[name] = id
        assert graph.tags.list()[name] == id

    @rule(handle=handles)
    def clean_up(self, handle: int) -> None:
        try:
            self.handles[handle].cleanup(confirm=True, leftovers_older_than=timedelta(0))
        except RecoveryRequired:
            assert list_sidecars(self.reader._repository.objects)
        else:
            assert unreferenced(self.place) == set()

    # --- reading ---

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = open(self.place)

    @rule(which=st.integers(0, 2), data=st.data())
    def look(self, which: int, data: Any) -> None:
        graph = [*self.handles, self.reader][which]
        name = data.draw(st.sampled_from(sorted(self.branches)))
        snapshot = graph.snapshot(name)
        assert snapshot.commit == self.branches[name].chain[-1]
        assert self._content(snapshot) == self.branches[name].content
        assert [c.id for c in graph.commits(name)][::-1] == self.branches[name].chain

    @precondition(lambda self: self.commits)
    @rule(which=st.integers(0, 2), data=st.data())
    def look_back(self, which: int, data: Any) -> None:
        graph = [*self.handles, self.reader][which]
        id = data.draw(st.sampled_from(sorted(self.commits)))
        branch, content = self.commits[id]
        snapshot = graph.snapshot(commit=id)
        assert snapshot.branch == branch
        assert self._content(snapshot) == content
        for name, tagged in self.tags.items():
            assert self._content(graph.snapshot(commit=name)) == self.commits[tagged][1]

    def teardown(self) -> None:
        if not hasattr(self, "branches"):
            return
        with open(self.place) as graph:
            assert {b.name: b.parent for b in graph.branches} == {
                name: model.parent for name, model in self.branches.items()
            }
            for name, model in self.branches.items():
                assert self._content(graph.snapshot(name)) == model.content
                chain = graph.commits(name)[::-1]
                assert [c.id for c in chain] == model.chain
                assert [c.parents for c in chain] == [(), *((id,) for id in model.chain[:-1])]
            assert list_sidecars(graph._repository.objects) == []
            assert graph.check().problems == ()
        shutil.rmtree(self.folder)

    # --- parts ---

    def _possible(self, branch: str, batch: dict[str, Change]) -> dict[str, Change]:
        """Leave out rows whose append would double an id: batches do not check that."""
        found = {}
        for name, change in batch.items():
            if change.mode == "append":
                held = self.branches[branch].content[name]
                change = Change("append", tuple(r for r in change.rows if r[0] not in held))
            if name == "City":
                change = _ageless(change)
            found[name] = change
        return found

    @staticmethod
    def _asked(batch: dict[str, Change]) -> object:
        """What tells a batch from others."""
        return {name: (c.mode, c.rows, c.where) for name, c in batch.items()}

    def _after(self, branch: str, batch: dict[str, Change]) -> Content:
        content = dict(self.branches[branch].content)
        for name, change in batch.items():
            content[name] = change.apply(content[name])
        return content

    def _commit(self, branch: str, id: str, content: Content, key: str | None) -> None:
        model = self.branches[branch]
        model.content = content
        model.chain.append(id)
        self.commits[id] = (branch, content)
        if key is not None:
            model.keys[key] = id

    def _write(
        self,
        graph: Graph,
        branch: str,
        batch: dict[str, Change],
        key: str | None,
        if_commit: str | None,
    ) -> Any:
        batches: dict[str, Any] = {}
        for name, change in batch.items():
            if change.mode == "delete":
                batches[name] = ("delete", change.where)
                continue
            columns: dict[str, Any] = {
                "id": [id for id, _ in change.rows],
                "name": [id for id, _ in change.rows],
            }
            if name != "City":
                columns["age"] = pa.array([age for _, age in change.rows], pa.int32())
            schema = table_schema(graph.catalog.nodes[name])
            batches[name] = (change.mode, pa.table(columns, schema=schema))
        return graph.write_batches(
            batches, branch=branch, actor="model", if_commit=if_commit, idempotency_key=key
        )

    @staticmethod
    def _content(snapshot: Snapshot) -> Content:
        found: Content = {}
        for name in TABLES:
            read = snapshot.read(name).to_pylist()
            found[name] = {row["id"]: row.get("age") for row in read}
            assert len(found[name]) == len(read) == snapshot.count(name)
            assert all(row["name"] == row["id"] for row in read)
        return found


def _ageless(change: Change) -> Change:
    rows = tuple((id, None) for id, _ in change.rows)
    return Change(change.mode, rows, change.where, change.matches)


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_a_graph_does_what_its_model_does() -> None:
    run_state_machine_as_test(GraphModel, settings=_settings(12))


@pytest.mark.soak
def test_a_graph_does_what_its_model_does_for_long() -> None:
    until = time.monotonic() + float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 300)
    while time.monotonic() < until:
        run_state_machine_as_test(GraphModel, settings=_settings(50))
