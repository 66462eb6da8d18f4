"""What simulated processes do: each operation as a call of the graph, and as the model means it.

Every operation has a name of its own, which is the message of its commit: so a commit tells which
operation it is of, whoever has finished it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from omnigraph.errors import (
    AlreadyExists,
    ConflictError,
    KeyConflict,
    MergeConflicts,
    NotFound,
    OmnigraphError,
    ReadSetConflict,
    ValidationError,
)
from omnigraph.graph import Graph
from tests.simulation.model import Edge, Person, Refused, Side, State

Mode = Literal["append", "merge", "overwrite"]
_MODES: tuple[Mode, ...] = ("append", "merge", "merge", "overwrite")
PEOPLE = ("p", "q", "r", "s")
BRANCHES = ("main", "one", "two")
#: Branches that may be made and deleted; the last one is not there at first.
SIDES = ("one", "two", "three")
#: What any write may be answered when others write, or delete its branch.
_MAYBE: tuple[type[OmnigraphError], ...] = (ReadSetConflict, NotFound)


@dataclass(frozen=True)
class Answer:
    """What a caller got. Without a commit nothing was written.

    Attributes:
        affected: How many nodes and edges were touched, where that is told.
        read: The commit and the state that were read.
        outcome: How a merge went.
    """

    commit: str | None = None
    affected: tuple[int, int] | None = None
    read: tuple[str, State] | None = None
    outcome: str | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Operation(ABC):
    """Something that a process does to a branch.

    Attributes:
        name: Its own name.
        branch: Where.
        key: It has an idempotency key, and is repeated by the next process if this one dies.
    """

    name: str
    branch: str
    key: bool = False

    #: The errors that may answer it, and what they mean is checked where the model knows.
    answers = _MAYBE

    @abstractmethod
    def run(self, graph: Graph) -> Answer:
        """Do it."""

    def apply(self, state: State) -> State:
        """What it makes of a state; the same one if it changes nothing.

        Raises:
            Refused: It breaks a rule there.
        """
        return state

    @property
    def idempotency_key(self) -> str | None:
        return self.name if self.key else None

    def __str__(self) -> str:
        values = [f"{n}={v!r}" for n, v in vars(self).items() if n != "name"]
        return f"{self.name} {type(self).__name__}({', '.join(values)})"


class Mutation(Operation):
    """A mutation of some statements."""

    answers = (*_MAYBE, ValidationError)

    @property
    @abstractmethod
    def statements(self) -> str:
        """What it runs."""

    def run(self, graph: Graph) -> Answer:
        made = graph.mutate(
            f"query q() {{ {self.statements} }}",
            branch=self.branch,
            message=self.name,
            idempotency_key=self.idempotency_key,
        )
        commit = None if made.commit is None else made.commit.id
        touched = (made.affected_nodes, made.affected_edges)
        return Answer(commit, None if made.repeated else touched, repeated=made.repeated)


@dataclass(frozen=True)
class Insert(Mutation):
    """A new person, or one in place of another of the same name."""

    person: str = "p"
    value: int = 0

    @property
    def statements(self) -> str:
        return f'insert Person {{ name: "{self.person}", a: {self.value} }}'

    def apply(self, state: State) -> State:
        return State({**state.people, self.person: (self.value, None)}, state.edges)


@dataclass(frozen=True)
class Count(Mutation):
    """An update that computes from the row: whoever misses another's update shows."""

    person: str = "p"

    @property
    def statements(self) -> str:
        return f'update Person set {{ a: a + 1 }} where name = "{self.person}"'

    def apply(self, state: State) -> State:
        if self.person not in state.people:
            return state
        a, b = state.people[self.person]
        return State({**state.people, self.person: (None if a is None else a + 1, b)}, state.edges)


@dataclass(frozen=True)
class Assign(Mutation):
    """A new value of the other property."""

    person: str = "p"
    value: int = 0

    @property
    def statements(self) -> str:
        return f'update Person set {{ b: {self.value} }} where name = "{self.person}"'

    def apply(self, state: State) -> State:
        if self.person not in state.people:
            return state
        a, _ = state.people[self.person]
        return State({**state.people, self.person: (a, self.value)}, state.edges)


@dataclass(frozen=True)
class Delete(Mutation):
    """A person goes, and its edges with it."""

    person: str = "p"

    @property
    def statements(self) -> str:
        return f'delete Person where name = "{self.person}"'

    def apply(self, state: State) -> State:
        if self.person not in state.people:
            return state
        people = {name: row for name, row in state.people.items() if name != self.person}
        edges = {tag: ends for tag, ends in state.edges.items() if self.person not in ends}
        return State(people, edges)


@dataclass(frozen=True)
class Connect(Mutation):
    """A person and an edge, in one commit of two tables."""

    person: str = "p"
    other: str = "q"
    value: int = 0

    @property
    def statements(self) -> str:
        return (
            f'insert Person {{ name: "{self.person}", a: {self.value} }}'
            f' insert Knows {{ from: "{self.person}", to: "{self.other}", tag: "{self.name}" }}'
        )

    def apply(self, state: State) -> State:
        people = {**state.people, self.person: (self.value, None)}
        return State(people, {**state.edges, self.name: (self.person, self.other)}).checked()


@dataclass(frozen=True)
class Load(Operation):
    """A load of a few people and an edge between the first and the last."""

    mode: Mode = "merge"
    people: tuple[str, ...] = ()
    value: int = 0
    connects: bool = True

    answers = (*_MAYBE, KeyConflict, ValidationError)

    @property
    def _rows(self) -> tuple[dict[str, Person], dict[str, Edge]]:
        people: dict[str, Person] = dict.fromkeys(self.people, (self.value, self.value))
        edges = {self.name: (self.people[0], self.people[-1])} if self.connects else {}
        return people, edges

    def run(self, graph: Graph) -> Answer:
        people, edges = self._rows
        lines = {"Person": [{"name": name, "a": a, "b": b} for name, (a, b) in people.items()]}
        if edges:
            lines["Knows"] = [{"from": f, "to": t, "tag": tag} for tag, (f, t) in edges.items()]
        made = graph.load(
            lines,
            mode=self.mode,
            branch=self.branch,
            engine="local",
            message=self.name,
            idempotency_key=self.idempotency_key,
        )
        return Answer(made.commit, repeated=made.repeated)

    def apply(self, state: State) -> State:
        people, edges = self._rows
        if self.mode == "append" and state.people.keys() & people.keys():
            raise Refused("a person is there already")
        if self.mode == "overwrite":
            return State(people, edges if edges else state.edges).checked()
        return State({**state.people, **people}, {**state.edges, **edges}).checked()


@dataclass(frozen=True)
class MergeInto(Operation):
    """A merge; what it comes to is for the model's ancestry to say."""

    source: str = "one"
    prefer: Side | None = None

    answers = (*_MAYBE, MergeConflicts)

    def run(self, graph: Graph) -> Answer:
        made = graph.merge(
            self.source,
            into=self.branch,
            prefer=self.prefer,
            message=self.name,
            idempotency_key=self.idempotency_key,
        )
        return Answer(None if made.commit is None else made.commit.id, outcome=made.outcome)


@dataclass(frozen=True)
class Create(Operation):
    """A new branch."""

    source: str = "main"

    answers = (AlreadyExists, *_MAYBE)

    def run(self, graph: Graph) -> Answer:
        graph.branches.create(self.branch, source=self.source)
        return Answer()


@dataclass(frozen=True)
class Drop(Operation):
    """A branch goes."""

    answers = (ConflictError, *_MAYBE)

    def run(self, graph: Graph) -> Answer:
        graph.branches.delete(self.branch)
        return Answer()


@dataclass(frozen=True)
class Read(Operation):
    """A reader, who sees one commit, whole."""

    def run(self, graph: Graph) -> Answer:
        return Answer(read=read(graph, self.branch))


def read(graph: Graph, branch: str = "main", commit: str | None = None) -> tuple[str, State]:
    """A commit, and the state at it; without one, the head of a branch."""
    snapshot = graph.snapshot(branch, commit=commit)
    people = snapshot.read("Person").to_pylist()
    edges = snapshot.read("Knows").to_pylist()
    state = State(
        {row["id"]: (row["a"], row["b"]) for row in people},
        {row["tag"]: (row["src"], row["dst"]) for row in edges},
    )
    assert len(state.people) == len(people), f"people are there twice: {people}"
    assert len(state.edges) == len(edges), f"edges are there twice: {edges}"
    return snapshot.commit, state


def random_operation(chance: random.Random, name: str, kinds: tuple[str, ...]) -> Operation:
    """An operation of one of some kinds."""
    kind = chance.choice(kinds)
    branches = (*BRANCHES, "three") if "create" in kinds else BRANCHES
    branch = chance.choices(branches, (5, 3, 2, 1)[: len(branches)])[0]
    key = chance.random() < 0.5
    value = chance.randrange(100)
    one, other = chance.sample(PEOPLE, 2)
    match kind:
        case "insert":
            return Insert(name, branch, key, one, value)
        case "count":
            return Count(name, branch, key, one)
        case "assign":
            return Assign(name, branch, key, one, value)
        case "delete":
            return Delete(name, branch, key, one)
        case "connect":
            return Connect(name, branch, key, one, other, value)
        case "load":
            mode: Mode = chance.choice(_MODES)
            people = tuple(chance.sample(PEOPLE, chance.randint(1, 3)))
            if mode == "append":
                # Of names that nobody else has there is not always one.
                people = (f"{name}-new", *people[: chance.randint(0, 1)])
            return Load(name, branch, key, mode, people, value, chance.random() < 0.6)
        case "merge":
            source = chance.choice([b for b in branches if b != branch])
            return MergeInto(name, branch, key, source, chance.choice((None, "ours", "theirs")))
        case "create":
            target = chance.choice(SIDES[1:])
            return Create(name, target, False, chance.choice([b for b in BRANCHES if b != target]))
        case "drop":
            return Drop(name, chance.choice(SIDES))
        case "read":
            return Read(name, branch)
    raise AssertionError(kind)
