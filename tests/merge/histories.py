"""Histories of many branches as lists of steps, run on a graph and on the model side by side.

A step is a tuple of small numbers, which are taken modulo what there is: every list of steps is a
history, also with some of them left out. A step that makes no sense does nothing.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Snapshot
from omnigraph.errors import ConflictError, MergeConflicts, UsageError
from omnigraph.graph import Graph, init, open
from omnigraph.merge.apply import MergeResult
from tests.merge.model import (
    UNKNOWN,
    Conflict,
    Entity,
    Histories,
    Key,
    NewValue,
    Outcome,
    Row,
    Rules,
    State,
    merge_states,
)

SCHEMA = """
node Person { name: String @key  a: I32?  b: I32?  email: String? @unique }
node Note { a: I32?  b: I32? }
edge Knows: Person -> Person { a: I32? }
edge Pair: Person -> Person { a: I32?  @unique(from, to) }
edge Wrote: Person -> Note @card(0..2) { a: I32?  @key(from, to) }
"""
RULES = Rules(
    ends={"Knows": ("Person", "Person"), "Pair": ("Person", "Person"), "Wrote": ("Person", "Note")},
    uniques={"Person": (("email",),), "Pair": (("from", "to"),)},
    most={"Wrote": 2},
)
COLUMNS = {
    "Person": ("name", "a", "b", "email"),
    "Note": ("a", "b"),
    "Knows": ("from", "to", "a"),
    "Pair": ("from", "to", "a"),
    "Wrote": ("from", "to", "a"),
}
TYPES = tuple(COLUMNS)
PEOPLE = ("p0", "p1", "p2")
NOTES = ("n0", "n1", "n2")
SLOTS: tuple[Entity, ...] = (
    *(("Person", id) for id in PEOPLE),
    *(("Note", id) for id in NOTES),
    *(("Knows", f"k{number}") for number in range(3)),
    *(("Pair", f"x{number}") for number in range(3)),
    *(("Wrote", json.dumps([p, n], separators=(",", ":"))) for p in PEOPLE[:2] for n in NOTES),
)
EMAILS = (None, "x", "y")
BRANCHES = ("main", "b1", "b2", "b3")
#: How a merge settles conflicts: granularity, the side that wins, and which resolutions there are.
WAYS: tuple[tuple[str, str | None, str], ...] = (
    ("property", None, "none"),
    ("property", "ours", "none"),
    ("property", "theirs", "none"),
    ("property", "ours", "all"),
    ("row", "theirs", "some"),
    ("property", "theirs", "some"),
    ("row", "ours", "none"),
    ("property", None, "all"),
)
Step = tuple[Any, ...]
#: Slot, what is done to it, and a number that makes the new values.
Edits = Sequence[tuple[int, int, int]]


# --- edits ---


def edited(state: State, edits: Edits) -> State:
    """A state after edits. Those that would break a rule are left out."""
    for slot, action, value in edits:
        entity = SLOTS[slot % len(SLOTS)]
        made = _after(state, entity, action, value)
        if RULES.are_kept(made):
            state = made
    return state


def _after(state: State, entity: Entity, action: int, value: int) -> State:
    type, _ = entity
    row = state.get(entity)
    if row is not None and action == 0:
        left = {e: r for e, r in state.items() if e != entity}
        return {e: r for e, r in left.items() if type not in RULES.ends.get(e[0], ()) or
                not _hangs_on(e, r, entity)}  # fmt: skip
    number = value % 3
    if row is None:
        return {**state, entity: _new(entity, value)}
    changes: dict[str, Any] = {"a": number}
    if action == 2 and type in ("Person", "Note"):
        changes = {"b": number}
    elif action == 3 and type == "Person":
        changes = {"email": EMAILS[number]}
    elif action == 3 and type in ("Knows", "Pair"):
        changes = {("from", "to")[value % 2]: PEOPLE[value // 2 % len(PEOPLE)]}
    return {**state, entity: {**row, **changes}}


def _hangs_on(edge: Entity, row: Row, node: Entity) -> bool:
    ends = zip(RULES.ends[edge[0]], (row["from"], row["to"]), strict=True)
    return node in ends


def _new(entity: Entity, value: int) -> Row:
    type, id = entity
    match type:
        case "Person":
            return {"name": id, "a": value % 3, "b": None, "email": EMAILS[value // 3 % 3]}
        case "Note":
            return {"a": value % 3, "b": None}
        case "Wrote":
            source, target = json.loads(id)
            return {"from": source, "to": target, "a": value % 3}
    source, target = PEOPLE[value % 3], PEOPLE[value // 3 % 3]
    return {"from": source, "to": target, "a": value % 3}


def write(graph: Graph, branch: str, old: State, new: State) -> str:
    """Write the difference of two states in one commit."""
    batches: dict[str, tuple[Any, Any]] = {}
    for type in TYPES:
        gone = [id for (t, id) in old if t == type and (type, id) not in new]
        rows = {id: row for (t, id), row in new.items() if t == type}
        changed = {id: row for id, row in rows.items() if old.get((type, id)) != row}
        if gone and not changed:
            ids = ", ".join(f"'{id}'" for id in gone)
            batches[type] = ("delete", f"id in ({ids})")
        elif gone:
            batches[type] = ("overwrite", _table(type, rows))
        elif changed:
            batches[type] = ("merge", _table(type, changed))
    made = graph.write_batches(batches, branch=branch).commit
    assert made is not None
    return made.id


def _table(type: str, rows: dict[str, Row]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows.values()],
                              pa.int32() if name in "ab" else pa.utf8())
               for name in COLUMNS[type]}  # fmt: skip
    return pa.table({"id": pa.array(list(rows), pa.utf8()), **columns})


# --- what a graph holds ---


class Reader:
    """Reads whole states. A version of a table is read once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._tables: dict[Any, dict[str, Row]] = {}

    def state(self, snapshot: Snapshot) -> State:
        found: State = {}
        for table in snapshot.tables:
            key = table.ref, table.version
            if key not in self._tables:
                self._tables[key] = self._rows(snapshot, table.name)
            found |= {(table.name, id): row for id, row in self._tables[key].items()}
        return found

    def _rows(self, snapshot: Snapshot, type: str) -> dict[str, Row]:
        columns = {"src": "from", "dst": "to"}
        rows = snapshot.read(type).to_pylist()
        found: dict[str, Row] = {
            row["id"]: {columns.get(n, n): value for n, value in row.items() if n != "id"}
            for row in rows
        }
        assert len(found) == len(rows), f"{type} has an id twice"
        return found


# --- both side by side ---


@dataclass
class World:
    """A graph and its model.

    Attributes:
        handles: The graph, opened once or twice: one notices what the other has done.
        ids: The commits of the model by their ids in the graph, in order.
        checked: How many commits were compared with the model.
    """

    handles: list[Graph]
    model: Histories
    ids: list[str]
    checked: int = 0
    made_from: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            name, *arguments = step
            getattr(self, f"do_{name}")(*arguments)
        self.compare()

    @property
    def graph(self) -> Graph:
        return self.handles[-1]

    def do_switch(self) -> None:
        """Go on with another handle of the same graph."""
        if len(self.handles) == 1:
            self.handles.append(open(self.graph.location))
        self.handles.reverse()

    def branch(self, number: int) -> str:
        known = list(self.model.heads)
        return known[number % len(known)]

    def do_edit(self, branch: int, edits: Edits) -> None:
        name = self.branch(branch)
        old = self.model.states[self.model.heads[name]]
        new = edited(old, edits)
        if new != old:
            self.ids.append(write(self.graph, name, old, new))
            self.model.commit(name, new)

    def do_index(self, branch: int) -> None:
        """Index all tables of a branch: a commit that changes no row."""
        name = self.branch(branch)
        made = self.graph.ensure_indices(name).commit
        if made is not None:
            self.ids.append(made.id)
            self.model.commit(name, self.model.states[self.model.heads[name]])
            self._count("indexed")

    def do_create(self, source: int) -> None:
        free = [name for name in BRANCHES if name not in self.model.heads]
        if free:
            name = self.branch(source)
            self.graph.branches.create(free[0], source=name)
            self.model.heads[free[0]] = self.model.heads[name]
            self.made_from[free[0]] = name

    def do_delete(self, branch: int) -> None:
        name = self.branch(branch)
        if name == "main":
            return
        if name in self.made_from.values():
            with pytest.raises(ConflictError):
                self.graph.branches.delete(name)
            return
        self.graph.branches.delete(name)
        del self.model.heads[name], self.made_from[name]
        self._count("branches deleted")

    def do_merge(self, source: int, into: int, way: int, back: int = 0) -> None:
        """Merge a branch, or what it was some commits ago."""
        name, other = self.branch(source), self.model.heads[self.branch(source)]
        for _ in range(back):
            other = next(iter(self.model.parents[other]), other)
        if name != self.branch(into):
            self._merge(self.ids[other] if back else name, other, self.branch(into), way)

    def do_join(self, commit: int, into: int, way: int) -> None:
        """Merge any commit, also of a branch that was deleted."""
        other = self._commit(commit)
        self._merge(self.ids[other], other, self.branch(into), way)

    def do_revert(self, branch: int, commit: int, way: int) -> None:
        self._do_again("revert", self.branch(branch), self._commit(commit), way)

    def do_pick(self, branch: int, commit: int, way: int) -> None:
        self._do_again("cherry_pick", self.branch(branch), self._commit(commit), way)

    def _do_again(self, verb: str, branch: str, commit: int, way: int) -> None:
        """Undo a commit, or do it once more."""
        states, parents = self.model.states, self.model.parents[commit]
        id = self.ids[commit]
        if not parents:
            with pytest.raises(UsageError):
                getattr(self.graph, verb)(id)
            return
        before, after = states[parents[0]], states[commit]
        outcome = "picked"
        if verb == "revert":
            before, after, outcome = after, before, "reverted"

        def call(**given: Any) -> MergeResult:
            where = {"branch" if verb == "revert" else "onto": branch}
            return getattr(self.graph, verb)(id, **where, **given)  # type: ignore[no-any-return]

        self._count(verb)
        made = self._apply(call, branch, dict(before), after, way, outcome)
        if made is not None:
            self.ids.append(made[0])
            self.model.commit(branch, made[1])

    def _commit(self, number: int) -> int:
        """A commit; the last ones more often."""
        count = len(self.ids)
        return count - 1 - number % min(count, 8 if number % 2 else count)

    def _merge(self, name: str, other: int, into: str, way: int) -> None:
        model, head = self.model, self.model.heads[into]
        bases = model.bases(head, other)
        if bases == [other]:
            assert self.graph.merge(name, into=into).outcome == "already_up_to_date"
            return
        outcome = "fast_forward" if bases == [head] else "merged"

        def call(**given: Any) -> MergeResult:
            return self.graph.merge(name, into=into, **given)

        base = model.base(bases)
        self._count("criss-cross" if len(bases) > 1 else "one base")
        made = self._apply(call, into, base, model.states[other], way, outcome)
        if made is not None:
            self.ids.append(made[0])
            model.commit(into, made[1], other)

    def _apply(
        self,
        call: Any,
        branch: str,
        base: dict[Entity, Any],
        theirs: State,
        way: int,
        outcome: str,
    ) -> tuple[str, State] | None:
        """Merge on both sides and compare; gives the commit and the state, if there are."""
        granularity, prefer, how = WAYS[way % len(WAYS)]
        head = self.model.heads[branch]
        ours = self.model.states[head]
        choices: dict[Key, Any] = {}
        if how != "none":
            first = merge_states(base, ours, theirs, RULES, granularity)
            choices = choices_for(first.conflicts.values(), 2 if how == "some" else 1)
        expected = merge_states(base, ours, theirs, RULES, granularity, prefer, choices)
        given: dict[str, Any] = {"granularity": granularity, "prefer": prefer}
        if choices:
            given["resolutions"] = [entry(key, choice) for key, choice in choices.items()]
        if outcome in ("picked", "reverted") and expected.state == ours:
            outcome = "already_up_to_date"
        if way // len(WAYS) % 2:
            result = call(dry_run=True, **given)
            assert result.commit is None
            assert result.outcome == ("conflicts" if expected.is_open else outcome)
            compare_conflicts(result.conflicts, expected.conflicts, expected)
            self._compare_tables(result, ours, expected, choices)
        if expected.is_open:
            try:
                call(**given)
            except MergeConflicts as error:
                compare_conflicts(error.conflicts, expected.conflicts, expected)
            else:
                raise AssertionError(f"no conflicts, but {expected.conflicts} {expected.shared}")
            for conflict in expected.conflicts.values():
                self._count(f"open {conflict.kind}")
            assert self.graph.snapshot(branch).commit == self.ids[head]
            return None
        result = call(**given)
        assert result.outcome == outcome
        assert result.conflicts == ()
        self._compare_tables(result, ours, expected, choices)
        settled = {c.key for c in result.settled if c.kind != "UniqueViolation"}
        assert_equal_keys(settled, expected.settled)
        for conflict in result.settled:
            self._count(f"settled {conflict.kind}")
        if outcome == "already_up_to_date":
            assert result.commit is None
            return None
        assert result.commit is not None
        return result.commit.id, expected.state

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @staticmethod
    def _compare_tables(
        result: MergeResult, ours: State, expected: Outcome, choices: dict[Key, Any]
    ) -> None:
        if expected.is_open or any(isinstance(choice, NewValue) for choice in choices.values()):
            return
        counts = {
            type: (
                sum(e[0] == type and e not in ours for e in expected.state),
                sum(e[0] == type and e in ours and ours[e] != row
                    for e, row in expected.state.items()),
                sum(e[0] == type and e not in expected.state for e in ours),
            )
            for type in TYPES
        }  # fmt: skip
        told = {n: (t.inserted, t.replaced, t.deleted) for n, t in result.tables.items()}
        assert told == {name: found for name, found in counts.items() if any(found)}

    # --- comparing ---

    def compare(self) -> None:
        """Every commit that was made, every head, and a few differences are as in the model."""
        reader = Reader(self.graph)
        model = self.model
        assert len(self.ids) == len(model.states)
        before = {self.checked * 3 // 4, self.checked // 2} if self.checked else set()
        for number in (*sorted(before), *range(self.checked, len(self.ids))):
            found = reader.state(self.graph.snapshot(commit=self.ids[number]))
            assert found == model.states[number], f"commit {number}"
        parents: dict[str, tuple[str, ...]] = {}
        for branch, head in model.heads.items():
            parents |= {commit.id: commit.parents for commit in self.graph.commits(branch)}
            snapshot = self.graph.snapshot(branch)
            assert snapshot.commit == self.ids[head], branch
            assert reader.state(snapshot) == model.states[head], branch
        for number in range(self.checked, len(self.ids)):
            id = self.ids[number]
            expected = tuple(self.ids[parent] for parent in model.parents[number])
            assert (parents.get(id) or self.graph.commit(id).parents) == expected
        latest = len(self.ids) - 1
        self.compare_diff(latest // 2, latest)
        self.checked = len(self.ids)

    def compare_diff(self, old: int, new: int) -> None:
        before, after = self.model.states[old], self.model.states[new]
        expected = {
            entity: (before.get(entity), after.get(entity))
            for entity in {*before, *after}
            if before.get(entity) != after.get(entity)
        }
        told = list(self.graph.diff(self.ids[old], self.ids[new]))
        found = {(c.type, c.id): (c.before, c.after) for c in told}
        assert found == expected
        places = [(TYPES.index(c.type), c.id) for c in told]
        assert places == sorted(places)
        for change in told:
            was, now = expected[change.type, change.id]
            wanted = "insert" if was is None else "delete" if now is None else "update"
            assert change.operation == wanted
            if was is not None and now is not None:
                assert set(change.properties) == {n for n in now if was[n] != now[n]}


def choices_for(conflicts: Any, every: int) -> dict[Key, Any]:
    """Resolutions of conflicts about rows, of each kind in turn."""
    found: dict[Key, Any] = {}
    for number, conflict in enumerate(sorted(conflicts, key=lambda c: str(c.key))):
        if conflict.kind in ("OrphanEdge", "CardinalityViolation") or number % every:
            continue
        if conflict.base is UNKNOWN and conflict.kind != "DeleteVsUpdate":
            continue  # Nobody can tell if it is an insert or an update.
        choice: Any = ("theirs", "base", "ours", NewValue(9))[number // every % 4]
        if conflict.property is not None:
            is_number = conflict.property in ("a", "b")
            if conflict.property in ("from", "to") and choice == "base":
                choice = "theirs"
            if isinstance(choice, NewValue) and not is_number:
                choice = "theirs"
        elif isinstance(choice, NewValue):
            choice = NewValue({"a": 9} if number % 8 < 4 else None)
        if choice == "base" and (conflict.base is UNKNOWN or _has_unknown(conflict.base)):
            choice = "ours"
        found[conflict.key] = choice
    return found


def _has_unknown(base: Any) -> bool:
    return isinstance(base, dict) and any(value is UNKNOWN for value in base.values())


def entry(key: Key, choice: Any) -> dict[str, Any]:
    """A resolution as a file has it."""
    kind, type, id, property = key
    resolution = {"value": choice.value} if isinstance(choice, NewValue) else choice
    return {"kind": kind, "type": type, "id": id, "property": property, "resolution": resolution}


def compare_conflicts(told: Sequence[Any], expected: dict[Key, Conflict], outcome: Outcome) -> None:
    rows = {c.key: c for c in told if c.kind != "UniqueViolation"}
    assert_equal_keys(set(rows), expected)
    for key, conflict in expected.items():
        if conflict.kind in ("OrphanEdge", "CardinalityViolation"):
            continue
        found = rows.get(key)
        if found is not None:
            assert (found.ours, found.theirs) == (conflict.ours, conflict.theirs), key
            if conflict.base is not UNKNOWN and not _has_unknown(conflict.base):
                assert found.base == conflict.base, key
    groups = {
        (c.type, c.property, frozenset(rows))
        for c in told
        if c.kind == "UniqueViolation"
        for rows in outcome.shared.values()
        if (c.type, c.id) in rows
    }
    assert groups == {(key[0], key[1], frozenset(rows)) for key, rows in outcome.shared.items()}
    assert len({c.key for c in told}) == len(told)


def assert_equal_keys(told: set[Any], expected: dict[Key, Conflict]) -> None:
    """Compare what tells conflicts; of an unknown base nobody can tell if it had the row."""

    def loose(key: Key) -> Key:
        conflict = expected.get(key)
        unknown = conflict is not None and conflict.base is UNKNOWN
        return ("Divergent*", *key[1:]) if unknown and key[0].startswith("Divergent") else key

    wanted = {loose(key) for key in expected}
    loosely = {("Divergent*", *key[1:]) for key in told if key[0].startswith("Divergent")} & wanted
    strictly = {key for key in told if ("Divergent*", *key[1:]) not in loosely or key in wanted}
    assert loosely | strictly == wanted


# --- random steps ---


def random_steps(seed: int, rounds: int) -> list[Step]:
    """A history by its seed: some rounds of a few steps each, and sometimes something else."""
    chance = random.Random(seed)

    def number() -> int:
        return chance.randrange(60)

    def edit(branch: int) -> Step:
        count = chance.randrange(2, 9)
        return ("edit", branch, [(number(), chance.randrange(5), number()) for _ in range(count)])

    found: list[Step] = []
    one, other = 0, 1
    for _ in range(rounds):
        # Often the same two: what they did to each other comes back to them.
        if chance.randrange(2):
            one = chance.randrange(3)
            other = one + chance.randrange(1, 3)
        match chance.choice((*["meet"] * 3, *["cross"] * 3, "again", "name", "switch")):
            case "meet":
                found += [edit(one), edit(other), ("merge", other, one, number())]
            case "cross":
                found += [edit(one), edit(other), ("merge", other, one, number()),
                          ("merge", one, other, number(), 1)]  # fmt: skip
            case "switch":
                found += [("switch",), edit(one), ("switch",), ("merge", one, other, number())]
            case "again":
                again = chance.choice(("revert", "pick", "pick", "join"))
                first = (number(), number())
                found.append((again, *first, number()))
            case "name":
                found.append((chance.choice(("create", "delete", "index")), number()))
                found += [edit(number()), ("merge", number(), number(), number())]
    return found


def shortest(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """A shorter history that fails as well: none of its steps and edits can be left out."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for place in range(len(steps) - 1, -1, -1):
            tries: list[list[Step]] = [[]]
            if steps[place][0] == "edit":
                name, branch, edits = steps[place]
                less = [[*edits[:n], *edits[n + 1 :]] for n in range(len(edits))]
                tries += [[(name, branch, each)] for each in less if each]
            for each in tries:
                shorter = [*steps[:place], *each, *steps[place + 1 :]]
                if fails(shorter):
                    steps, is_shorter = shorter, True
                    break
    return steps


# --- beginnings ---


START = edited({}, [(slot, 1, slot) for slot in range(len(SLOTS)) if slot % 4])


@dataclass
class Beginning:
    """A graph on disk with its model, to be copied for histories that go on from there."""

    place: Path
    model: Histories
    ids: list[str]
    made_from: dict[str, str]

    @contextmanager
    def copied(self) -> Iterator[World]:
        with TemporaryDirectory(prefix="histories-") as folder:
            place = Path(folder) / "graph"
            shutil.copytree(self.place, place)
            model, count = copy.deepcopy(self.model), len(self.ids)
            handles = [open(place)]
            try:
                yield World(handles, model, list(self.ids), count, dict(self.made_from))
            finally:
                for each in handles:
                    each.close()


def begin(place: Path, steps: Sequence[Step]) -> Beginning:
    """Make a graph that has a history already."""
    with init(place / "graph", SCHEMA) as graph:
        first = graph.commits()[0].id
        model = Histories(RULES, [{}], [()], {"main": 0})
        world = World([graph], model, [first])
        world.ids.append(write(graph, "main", {}, START))
        model.commit("main", START)
        world.run([("create", 0), ("create", 0), *steps])
    return Beginning(place / "graph", model, world.ids, world.made_from)
