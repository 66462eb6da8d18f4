"""What a graph is and what writes and merges mean, said in plain Python, row by row.

A state has people by name, with two numbers each, and edges by the tag that every edge has for
itself. The rules of merges are those of `docs/merging.md`; nothing is shared with the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = """
node Person { name: String @key  a: I32?  b: I32? }
edge Knows: Person -> Person { tag: String }
"""

#: A value that nobody can tell: the two bases of a criss-cross merge disagree.
_UNKNOWN: Any = "unknown"

Side = Literal["ours", "theirs"]
Person = tuple[int | None, int | None]
Edge = tuple[str, str]


class Refused(Exception):
    """A write that does not keep the rules on the state it is applied to."""


@dataclass(frozen=True)
class State:
    """All rows of a graph."""

    people: Mapping[str, Person] = field(default_factory=dict)
    edges: Mapping[str, Edge] = field(default_factory=dict)

    def checked(self) -> State:
        """The same, if every edge has its ends.

        Raises:
            Refused: One has not.
        """
        for tag in orphans(self.people, self.edges):
            raise Refused(f"edge {tag} has lost an end")
        return self


def orphans(people: Mapping[str, Any], edges: Mapping[str, Edge]) -> list[str]:
    """The edges that have lost an end."""
    return [tag for tag, ends in edges.items() if not all(end in people for end in ends)]


@dataclass(frozen=True)
class Merge:
    """What a merge comes to; with conflicts and without a preference nothing is written."""

    state: State
    has_conflicts: bool


class Ancestry:
    """Commits with their parents and states."""

    def __init__(self) -> None:
        self.parents: dict[str, tuple[str, ...]] = {}
        self.states: dict[str, State] = {}

    def add(self, commit: str, parents: Iterable[str], state: State) -> None:
        """Note a commit."""
        self.parents[commit] = tuple(parents)
        self.states[commit] = state

    def below(self, commit: str) -> set[str]:
        """A commit and all before it."""
        found, todo = {commit}, [commit]
        while todo:
            more = set(self.parents[todo.pop()]) - found
            found |= more
            todo += more
        return found

    def bases(self, one: str, other: str) -> list[str]:
        """The best common ancestors, the newest first."""
        common = self.below(one) & self.below(other)
        return sorted(
            (c for c in common if not any(c != d and c in self.below(d) for d in common)),
            reverse=True,
        )

    def merged(self, ours: str, theirs: str, prefer: Side | None) -> Merge:
        """What a commit becomes when another one is merged into it."""
        base = self._base(self.bases(ours, theirs))
        return _merged(base, self.states[ours], self.states[theirs], prefer)

    def _base(self, commits: list[str]) -> _Rows:
        """What commits that are all best common ancestors make together."""
        first = self.states[commits[0]]
        made = _Rows(dict(first.people), dict(first.edges))
        for other in commits[1:]:
            below = self._base(self.bases(commits[0], other))
            theirs = self.states[other]
            made = _Rows(
                _combined(below.people, made.people, theirs.people, "unknown")[0],
                _combined(below.edges, made.edges, theirs.edges, "unknown")[0],
            )
        return made


@dataclass(frozen=True)
class _Rows:
    """A state in which values, or whole rows, may be unknown."""

    people: dict[str, Any]
    edges: dict[str, Any]


def _merged(base: _Rows, ours: State, theirs: State, prefer: Side | None) -> Merge:
    pins: dict[str, set[str]] = {"people": set(), "edges": set()}
    has_conflicts = False
    while True:
        people, open_people = _combined(base.people, ours.people, theirs.people, prefer)
        edges, open_edges = _combined(base.edges, ours.edges, theirs.edges, prefer)
        has_conflicts |= bool(open_people or open_edges)
        wanted = theirs if prefer == "theirs" else ours
        for name in pins["people"]:
            _take(people, wanted.people, name)
        for tag in pins["edges"]:
            _take(edges, wanted.edges, tag)
        lost = orphans(people, edges)
        has_conflicts |= bool(lost)
        # An edge that would lose its end is taken from one side, together with the end.
        ends = {end for tag in lost for end in edges[tag] if end not in people}
        if prefer is None or (set(lost) <= pins["edges"] and ends <= pins["people"]):
            return Merge(State(people, edges), has_conflicts)
        pins["edges"] |= set(lost)
        pins["people"] |= ends


def _take(rows: dict[str, Any], wanted: Mapping[str, Any], id: str) -> None:
    if id in wanted:
        rows[id] = wanted[id]
    else:
        rows.pop(id, None)


def _combined(
    base: Mapping[str, Any],
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    prefer: Side | Literal["unknown"] | None,
) -> tuple[dict[str, Any], set[str]]:
    """Rows of two sides put together, and the ids of those that have conflicts."""
    made: dict[str, Any] = {}
    conflicts: set[str] = set()
    for id in {*base, *ours, *theirs}:
        b, o, t = base.get(id), ours.get(id), theirs.get(id)
        whole = {"ours": o, "theirs": t, "unknown": _UNKNOWN, None: o}[prefer]
        if o is _UNKNOWN or t is _UNKNOWN:
            made[id] = _UNKNOWN
        elif t == o or (t == b and b is not _UNKNOWN):
            made[id] = o
        elif o == b:
            made[id] = t
        elif o is None or t is None:
            conflicts.add(id)
            made[id] = whole
        else:
            made[id], is_open = _columns(b, o, t, prefer)
            if is_open:
                conflicts.add(id)
    return {id: row for id, row in made.items() if row is not None}, conflicts


def _columns(base: Any, ours: Any, theirs: Any, prefer: str | None) -> tuple[Any, bool]:
    """A row that both sides have changed, value by value; and if there are conflicts."""
    row, is_open = [], False
    for place, (y, z) in enumerate(zip(ours, theirs, strict=True)):
        is_known = base is not None and base is not _UNKNOWN and base[place] is not _UNKNOWN
        x = base[place] if is_known else None
        if y == z or (is_known and z == x):
            row.append(y)
        elif is_known and y == x:
            row.append(z)
        else:
            is_open = True
            row.append({"theirs": z, "unknown": _UNKNOWN}.get(prefer or "", y))
    return tuple(row), is_open
