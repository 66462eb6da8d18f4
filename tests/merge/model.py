"""Merging, said once more in plain Python: row by row, over whole states of a graph.

It is what tests compare the real thing with. It is slow, has no tables, no branches of storage and
no shortcuts: a state is a dictionary of rows, and every rule is looked at in the whole of it.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A type and an id.
Entity = tuple[str, str]
#: All properties of a node or edge, with the ends of an edge as `from` and `to`.
Row = Mapping[str, Any]
State = dict[Entity, Row]
#: Kind, type, id and property.
Key = tuple[str, str, str, str | None]


class _Unknown:
    """A value, or a whole row, of which nobody can tell what it was. It equals nothing."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


UNKNOWN: Any = _Unknown()
Same = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Conflict:
    kind: str
    type: str
    id: str
    property: str | None
    base: Any = None
    ours: Any = None
    theirs: Any = None

    @builtins.property
    def key(self) -> Key:
        return self.kind, self.type, self.id, self.property

    @builtins.property
    def entity(self) -> Entity:
        return self.type, self.id


# --- one row ---


def same_row(one: Any, other: Any, same: Same) -> bool:
    if one is UNKNOWN or other is UNKNOWN:
        return False
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(same_value(one[n], other[n], same) for n in one)


def same_value(one: Any, other: Any, same: Same) -> bool:
    return one is not UNKNOWN and other is not UNKNOWN and same(one, other)


def equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def merge_row(
    entity: Entity, base: Any, ours: Any, theirs: Any, granularity: str, same: Same = equal
) -> tuple[Any, list[Conflict]]:
    """One row of two sides: the outcome, in which conflicts are as on our side, and those."""

    def conflict(kind: str, property: str | None, *values: Any) -> Conflict:
        return Conflict(kind, *entity, property, *values)

    if same_row(theirs, base, same) or same_row(theirs, ours, same):
        return ours, []
    if same_row(ours, base, same):
        return theirs, []
    if ours is None or theirs is None:
        return ours, [conflict("DeleteVsUpdate", None, base, ours, theirs)]
    kind = "DivergentInsert" if base is None else "DivergentUpdate"
    if granularity == "row":
        return ours, [conflict(kind, None, base, ours, theirs)]
    merged, conflicts = {}, []
    for name in ours:
        was = UNKNOWN if base is UNKNOWN else None if base is None else base[name]
        mine, other = ours[name], theirs[name]
        is_old = base is not None
        merged[name] = mine
        if same_value(mine, other, same) or (is_old and same_value(other, was, same)):
            continue
        if is_old and same_value(mine, was, same):
            merged[name] = other
        else:
            conflicts.append(conflict(kind, name, was, mine, other))
    return merged, conflicts


# --- the schema's rules ---


@dataclass(frozen=True)
class Rules:
    """What a schema demands of a state.

    Attributes:
        ends: By edge type, the types of the nodes at `from` and `to`.
        uniques: By type, groups of properties that no two rows share.
        most: By edge type, how many edges may leave a node.
    """

    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    uniques: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)

    def orphans(self, state: State) -> list[Conflict]:
        return [
            Conflict("OrphanEdge", type, id, end)
            for (type, id), row in state.items()
            for end, node in zip(("from", "to"), self.ends.get(type, ()), strict=False)
            if (node, row[end]) not in state
        ]

    def shared(self, state: State) -> dict[tuple[Hashable, ...], set[Entity]]:
        """Rows that share values which no two rows may have, by these values."""
        found: dict[tuple[Hashable, ...], set[Entity]] = defaultdict(set)
        for (type, id), row in state.items():
            for group in self.uniques.get(type, ()):
                values = tuple(row[name] for name in group)
                if None not in values:
                    found[type, ", ".join(group), values].add((type, id))
        return {key: rows for key, rows in found.items() if len(rows) > 1}

    def crowded(self, state: State) -> list[Conflict]:
        counts: dict[Entity, int] = defaultdict(int)
        for (type, _), row in state.items():
            if type in self.most:
                counts[type, row["from"]] += 1
        return [
            Conflict("CardinalityViolation", type, source, "from")
            for (type, source), count in counts.items()
            if count > self.most[type] and (self.ends[type][0], source) in state
        ]

    def are_kept(self, state: State) -> bool:
        return not (self.orphans(state) or self.shared(state) or self.crowded(state))

    def involved(self, merged: State, side: State, other: State) -> set[Entity]:
        """What is taken from a side to mend the broken rules of a merged state.

        An edge together with its end, all rows that share values, all edges of a node.
        """
        found: set[Entity] = set()
        for orphan in self.orphans(merged):
            found.add(orphan.entity)
            if orphan.entity in side:
                assert orphan.property is not None
                node = self.ends[orphan.type][("from", "to").index(orphan.property)]
                found.add((node, side[orphan.entity][orphan.property]))
        for rows in self.shared(merged).values():
            found |= rows
        for each in self.crowded(merged):
            found |= {
                entity
                for state in (side, other)
                for entity, row in state.items()
                if entity[0] == each.type and row["from"] == each.id
            }
        return found


# --- a whole state ---


@dataclass(frozen=True)
class Outcome:
    """What a merge makes; `shared` are broken rules about values that no two rows may share."""

    state: State
    conflicts: dict[Key, Conflict]
    settled: dict[Key, Conflict]
    shared: dict[tuple[Hashable, ...], set[Entity]]

    @property
    def is_open(self) -> bool:
        return bool(self.conflicts or self.shared)


@dataclass(frozen=True)
class NewValue:
    """A value that settles a conflict."""

    value: Any


def merge_states(
    base: Mapping[Entity, Any],
    ours: State,
    theirs: State,
    rules: Rules,
    granularity: str = "property",
    prefer: str | None = None,
    choices: Mapping[Key, Any] | None = None,
) -> Outcome:
    """Merge two states. A choice is `base`, `ours`, `theirs` or `NewValue`."""
    choices = choices or {}
    sides = {"base": base, "ours": ours, "theirs": theirs}
    taken: set[Entity] = set()
    settled: dict[Key, Conflict] = {}
    while True:
        state: State = {}
        conflicts: dict[Key, Conflict] = {}
        for entity in sorted({*base, *ours, *theirs}):
            rows = {name: side.get(entity) for name, side in sides.items()}
            row, found = merge_row(
                entity, rows["base"], rows["ours"], rows["theirs"], granularity
            )  # fmt: skip
            if entity in taken:
                row, found = rows[prefer or ""], []
            for conflict in found:
                choice = choices.get(conflict.key, prefer)
                if choice is None:
                    conflicts[conflict.key] = conflict
                else:
                    settled[conflict.key] = conflict
                    row = chosen(row, conflict, choice)
            if row is not None:
                state[entity] = row
        if prefer is None:
            break
        both = (ours, theirs) if prefer == "ours" else (theirs, ours)
        involved = rules.involved(state, *both) - taken
        if not involved:
            break
        for each in (*rules.orphans(state), *rules.crowded(state)):
            settled[each.key] = each
        taken |= involved
    for each in (*rules.orphans(state), *rules.crowded(state)):
        conflicts[each.key] = each
    return Outcome(state, conflicts, settled, rules.shared(state))


def chosen(row: Any, conflict: Conflict, choice: Any) -> Any:
    """A row with one of its conflicts settled."""
    sides = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
    if conflict.property is not None:
        value = choice.value if isinstance(choice, NewValue) else sides[choice]
        return {**row, conflict.property: value}
    if not isinstance(choice, NewValue):
        return sides[choice]
    if choice.value is None:
        return None
    return {**(conflict.ours or conflict.theirs), **choice.value}


# --- histories ---


@dataclass
class Histories:
    """Commits with their whole states, and branches that point to them."""

    rules: Rules
    states: list[State]
    parents: list[tuple[int, ...]]
    heads: dict[str, int]

    def commit(self, branch: str, state: State, *merged: int) -> int:
        self.states.append(state)
        self.parents.append((self.heads[branch], *merged))
        self.heads[branch] = len(self.states) - 1
        return self.heads[branch]

    def before(self, commit: int) -> set[int]:
        """A commit and all that it comes from."""
        found, todo = set(), [commit]
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += self.parents[each]
        return found

    def bases(self, one: int, other: int) -> list[int]:
        """The best common ancestors, the newest first."""
        common = self.before(one) & self.before(other)
        lower = {p for commit in common for each in self.parents[commit] for p in self.before(each)}
        return sorted(common - lower, reverse=True)

    def base(self, commits: list[int]) -> dict[Entity, Any]:
        """The base that several best common ancestors make: rows of which some are unknown."""
        made: dict[Entity, Any] = dict(self.states[commits[0]])
        for other in commits[1:]:
            below = self.base(self.bases(commits[0], other))
            made = self._both(below, made, self.states[other])
        return made

    def _both(
        self, below: dict[Entity, Any], ours: dict[Entity, Any], theirs: State
    ) -> dict[Entity, Any]:
        made = {}
        for entity in {*below, *ours, *theirs}:
            mine, other = ours.get(entity), theirs.get(entity)
            if mine is UNKNOWN:
                made[entity] = UNKNOWN
                continue
            row, conflicts = merge_row(entity, below.get(entity), mine, other, "property")
            for conflict in conflicts:
                row = UNKNOWN if conflict.property is None else {**row, conflict.property: UNKNOWN}
            if row is not None:
                made[entity] = row
        return made
