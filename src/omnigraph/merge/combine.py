"""What a merge does to the tables of a branch: rows that keep the schema's rules, or conflicts.

Rows that two sides have changed differently are conflicts of the rows. Rows that fit each other and
break a rule together are conflicts, too: to settle one with a side, everything that is involved is
taken from that side.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph import failpoints
from omnigraph.compute.arrays import as_arrow, rows_where
from omnigraph.compute.keys import physical
from omnigraph.errors import UsageError, Violation
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.catalog import ENDS
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.merge.amount import Sizes
from omnigraph.merge.base import Base
from omnigraph.merge.changes import (
    GraphState,
    as_change_rows,
    stored_columns,
)
from omnigraph.merge.conflicts import (
    Conflict,
    Key,
    Resolutions,
)
from omnigraph.merge.merged_rows import (
    RULE_KINDS,
    OurRows,
    merged_rows,
    of_row,
    typed_choice,
)
from omnigraph.merge.rows import RowChanges, with_ids
from omnigraph.merge.schemas.terms import AS_STORED, Terms
from omnigraph.merge.three_way import (
    Choice,
    Granularity,
    Merged,
    NewValue,
    Side,
    ids_to_merge,
    theirs_places,
)
from omnigraph.storage.changes import kept_places, moves_between, rows_at
from omnigraph.storage.snapshot import FEW_IDS, READS_PER_LOOKUP
from omnigraph.storage.table_ref import ROW_ADDRESS, ROW_ID
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.delta import TableDelta, old_columns, old_schema
from omnigraph.writes.reads import LookUp, ReadTable
from omnigraph.writes.request import Change
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.write import check_write
from omnigraph.writes.view import View

Type = NodeType | EdgeType
Entity = tuple[str, str]


class Settling(Struct, frozen=True):
    """How a merge is done.

    Attributes:
        granularity: Properties are merged one by one, or rows as a whole.
        prefer: The side that wins conflicts without a resolution of their own.
        resolutions: How single conflicts are settled.
        work: Does large merges in tasks; None does all of them at once.
    """

    granularity: Granularity = "property"
    prefer: Literal["ours", "theirs"] | None = None
    resolutions: Resolutions = field(default_factory=dict)
    work: Work | None = None

    def choice(self, key: Key) -> Choice | None:
        """How a conflict is settled; None when it is not."""
        return self.resolutions.get(key, self.prefer)

    @property
    def described(self) -> str:
        """What tells it from other ways."""
        return repr((self.granularity, self.prefer, sorted(map(repr, self.resolutions.items()))))


class Combined(Struct, frozen=True):
    """What a merge does: changes by type, what is left to settle, and what was settled.

    `more_settled` is how many conflicts were settled that are not listed, and `schema` what becomes
    of the schema, if it changes.
    """

    deltas: Mapping[str, Change]
    conflicts: tuple[Conflict, ...]
    settled: tuple[Conflict, ...]
    more_settled: int = 0
    schema: SchemaPlan | None = None


class Work(Protocol):
    """Does large merges in tasks, with the same results."""

    @property
    def sizes(self) -> Sizes:
        """What is large."""

    def combined(
        self, view: View, base: Base, theirs: GraphState, settings: Settling, check: bool
    ) -> Combined | None:
        """Merge as `combine` does; None for a merge that is small enough to be done at once."""

    def trial(self) -> AbstractContextManager[Work]:
        """The same for a merge that writes nothing, beside this one."""


class Sides(Struct, frozen=True):
    """The versions of a table that the rows of a merge come from.

    With `is_exact` the rows of the base are those of its table, and not others in their place.
    """

    base: TableSnapshot
    ours: TableSnapshot
    theirs: TableSnapshot
    is_exact: bool
    terms: Terms = AS_STORED


def combine(
    view: View, base: Base, theirs: GraphState, settings: Settling, *, check: bool = True
) -> Combined:
    """Merge what changed from a base to their state into the branch that a view shows.

    Args:
        view: Our side; everything that is read of it is noted.
        base: The base.
        theirs: Their side.
        settings: How it is done.
        check: Check the schema's rules; not needed when the outcome is their state.
    """
    done = None
    if settings.work is not None:
        done = settings.work.combined(view, base, theirs, settings, check)
    return done or Combination(view, base, theirs, settings).run(check)


class Combination:
    """Puts what changed on their side on top of ours, again and again until all is settled."""

    def __init__(self, view: View, base: Base, theirs: GraphState, settings: Settling) -> None:
        self.view = view
        self.base = base
        self.theirs = theirs
        self.settings = settings
        #: The schema of the outcome.
        self.catalog: Catalog = base.own_catalog or view.catalog
        #: Rows that are taken from one side as they are there, and values that settle conflicts.
        self.pins: dict[str, dict[str, Side]] = {}
        self.new_values: dict[str, dict[tuple[str, str], Any]] = {}
        self.changes: Mapping[str, RowChanges] = self._compared()
        failpoints.hit("merge.compared")

    def run(self, check: bool) -> Combined:
        """Merge; `check` is for the schema's rules."""
        settled: dict[Key, Conflict] = {}
        while True:
            deltas, conflicts, decided = self._rows_merged()
            settled |= {conflict.key: conflict for conflict in decided}
            broken = self._broken(deltas) if check else []
            # All of them, and not only up to the first that makes a difference.
            makes_difference = [self._settle(conflict) for conflict in broken]
            if any(makes_difference):
                settled |= {c.key: c for c in broken if self.settings.choice(c.key) is not None}
                continue
            left = {conflict.key: conflict for conflict in (*conflicts, *broken)}
            done = [c for key, c in settled.items() if key not in left]
            return Combined(deltas, tuple(left.values()), tuple(done))

    # --- rows ---

    def _compared(self) -> Mapping[str, RowChanges]:
        """What changed on their side."""
        return self.base.changes_to(self.theirs)

    def _is_changed(self, type: Type, id: str) -> bool:
        """True when a row has changed on their side."""
        changes = self.changes.get(type.name)
        return changes is not None and bool(pc.is_in(pa.scalar(id), changes.ids).as_py())

    def _rows_merged(self) -> tuple[Mapping[str, Change], list[Conflict], list[Conflict]]:
        """Merge the rows of all types: the changes, conflicts, and what is settled."""
        deltas: dict[str, Change] = {}
        conflicts: list[Conflict] = []
        settled: list[Conflict] = []
        for type in self.catalog.tables():
            if type.name not in self.changes and type.name not in self.pins:
                continue
            delta, merged = self._merged(type)
            if not delta.is_empty:
                deltas[type.name] = delta
            conflicts += [of_row(type, conflict) for conflict in merged.conflicts]
            settled += [of_row(type, conflict) for conflict in merged.settled]
        return deltas, conflicts, settled

    def _merged(self, type: Type) -> tuple[TableDelta, Merged]:
        pins = self.pins.get(type.name, {})
        doubts = self.base.doubts.get(type.name, {})
        changes = self._with_pinned(type, pins)
        ids = ids_to_merge(changes, doubts, pins)
        sides = self._sides(type)
        ours = self._our_rows(type, sides, changes, ids)
        return merged_rows(
            type,
            sides,
            changes,
            ours,
            self.settings,
            pins=pins,
            new_values=self.new_values.get(type.name, {}),
            doubts=doubts,
        )

    def _sides(self, type: Type) -> Sides:
        return Sides(
            self.base.state.snapshot(type),
            self._table(type).snapshot,
            self.theirs.snapshot(type),
            type.name not in self.base.overlay,
        )

    def _table(self, type: Type) -> ReadTable:
        """The table of a type on our side."""
        return self.view.table(type.name)

    def _our_rows(self, type: Type, sides: Sides, changes: RowChanges, ids: pa.Array) -> OurRows:
        """The rows of our side with some ids.

        Those in the same place as in the base are not looked for.
        """
        if not sides.is_exact or changes.addresses is None:
            return OurRows.of(self._looked_up(type, ids), ids, sides)
        addresses, stayed_put = kept_places(sides.base, sides.ours, changes.addresses)
        known = changes.before.select([*old_columns(type), ROW_ID])
        known = known.append_column(ROW_ADDRESS, as_arrow(addresses))
        stayed = rows_where(known.select(old_schema(type).names), stayed_put).cast(old_schema(type))
        self.view.note(type.name, LookUp("id", stayed["id"].combine_chunks()))
        at = theirs_places(changes, ids)[0]
        if len(stayed_put):
            at = np.where((at >= 0) & stayed_put[at], (np.cumsum(stayed_put) - 1)[at], -1)
        same = np.ones(stayed.num_rows, bool)
        missing = at < 0
        if not missing.any():
            return OurRows(stayed, at, same)
        others = ids.filter(as_arrow(missing))
        moved = OurRows.of(self._came_since(type, sides, others), others, sides)
        at[missing] = np.where(moved.at < 0, -1, moved.at + stayed.num_rows)
        return OurRows(
            pa.concat_tables([stayed, moved.rows]), at, np.concatenate([same, moved.same])
        )

    def _came_since(self, type: Type, sides: Sides, ids: pa.Array) -> pa.Table:
        """The rows of our side with some ids that it has got, or has moved, since the base."""
        moves = moves_between(sides.base, sides.ours)
        if len(ids) <= FEW_IDS or moves.fresh_count > READS_PER_LOOKUP * len(ids):
            return self._looked_up(type, ids)
        self.view.note(type.name, LookUp("id", ids))
        came = rows_at(sides.ours, moves.written, moves.restored, old_columns(type))
        schema = old_schema(type)
        return with_ids(came.select(schema.names), ids).cast(schema)

    def _looked_up(self, type: Type, ids: pa.Array) -> pa.Table:
        schema = old_schema(type)
        rows = self._table(type).find("id", ids, old_columns(type))
        return rows.select(schema.names).cast(schema)

    def _with_pinned(self, type: Type, pins: Mapping[str, Side]) -> RowChanges:
        """The changes on their side, with rows that they left alone and that are asked for."""
        known = self.changes.get(type.name)
        if known is not None and not pins:
            return known
        ids = pa.array(list(pins), pa.utf8())
        if known is None:
            return RowChanges(self.base.rows(type, ids), self.theirs.rows(type, ids))
        more = ids.filter(pc.invert(pc.is_in(ids, value_set=known.ids)))
        if not len(more):
            return known
        return RowChanges(
            pa.concat_tables([known.before, self.base.rows(type, more)]),
            pa.concat_tables([known.after, self.theirs.rows(type, more)]),
        )

    # --- rules ---

    def _broken(self, deltas: Mapping[str, Change]) -> list[Conflict]:
        """Find all rules that the merged rows would break; types, then ids in their order."""
        order = {type.name: place for place, type in enumerate(self.catalog.tables())}

        def place(violation: Violation) -> tuple[Any, ...]:
            return (
                order[violation.type or ""],
                violation.id or "",
                violation.rule,
                violation.property or "",
            )

        self._others = {}
        conflicts: dict[Key, Conflict] = {}
        for violation in sorted(self._violations(deltas), key=place):
            conflict = self._of_rule(violation)
            conflicts.setdefault(conflict.key, conflict)
            if violation.other is not None:
                self._others.setdefault(conflict.key, set()).add(violation.other)
        return list(conflicts.values())

    def _violations(self, deltas: Mapping[str, Change]) -> Sequence[Violation]:
        rows = {name: delta for name, delta in deltas.items() if isinstance(delta, TableDelta)}
        violations = self._checked(rows)
        if "unique" in violations.counts:
            # The first row with a value keeps it: which one that is depends on the ids alone.
            violations = self._checked({name: by_id(delta) for name, delta in rows.items()})
        return violations.listed

    def _checked(self, deltas: Mapping[str, TableDelta]) -> Violations:
        violations = Violations(most=sys.maxsize)
        # Files that are referred to already were allowed when that was written.
        known = {uri for delta in deltas.values() for uri in uris(delta)}
        allowed = (*self.view.repository.external_blobs, *sorted(known))
        check_write(self.view.catalog, deltas, self.view.table, violations, external_blobs=allowed)
        return violations

    _others: dict[Key, set[str]]

    def _of_rule(self, violation: Violation) -> Conflict:
        assert violation.type is not None and violation.id is not None
        kind = RULE_KINDS.get(violation.rule, "ValueConstraintViolation")
        type = self.catalog.type(violation.type)
        id, property = violation.id, violation.property

        def on(side: str) -> Any:
            if kind == "CardinalityViolation":
                return len(self._edges_from(type, id, side))
            return self._value(type, id, property, side)

        return Conflict(
            kind, type.kind, type.name, id, property, on("base"), on("ours"), on("theirs"),
            violation.message,
        )  # fmt: skip

    def _rows(self, type: Type, ids: pa.Array, side: str) -> pa.Table:
        if side == "base":
            return self.base.rows(type, ids)
        if side == "theirs":
            return self.theirs.rows(type, ids)
        table, terms = self._table(type), self.theirs.terms
        rows = table.find("id", ids, stored_columns(type, table.snapshot, terms))
        return as_change_rows(type, table.snapshot, rows, terms)

    def _value(self, type: Type, id: str, property: str | None, side: str) -> Any:
        rows = self._rows(type, pa.array([id]), side).to_pylist()
        if not rows:
            return None
        values = [rows[0].get(physical(p, type)) for p in (property or "id").split(", ")]
        return values[0] if len(values) == 1 else values

    def _edges_from(self, type: Type, source: str, side: str) -> list[str]:
        state = self.base.state if side == "base" else self.theirs
        if side == "ours":
            rows = self._table(type).find("src", pa.array([source]), ["id"])
        else:
            rows = state.find(type, "src", pa.array([source]))
        ids: list[str] = rows["id"].to_pylist()
        return ids

    def _settle(self, conflict: Conflict) -> bool:
        """Settle a broken rule, if that is wanted and makes a difference."""
        choice = self.settings.choice(conflict.key)
        if choice is None:
            return False
        type = self.catalog.type(conflict.type)
        if isinstance(choice, NewValue):
            return self._give(type, conflict, choice)
        return any(
            self._pin(entities, choice) for entities in self._involved(type, conflict, choice)
        )

    def _pin(self, entities: list[Entity], side: Side) -> bool:
        """Take rows from a side; False when all of them were settled before."""
        before = sum(map(len, self.pins.values()))
        for name, id in entities:
            self.pins.setdefault(name, {}).setdefault(id, side)
        return sum(map(len, self.pins.values())) > before

    def _give(self, type: Type, conflict: Conflict, choice: NewValue) -> bool:
        new_values = self.new_values.setdefault(type.name, {})
        property = conflict.property
        is_one = property is not None and property in type.columns
        if property is None or not is_one or conflict.kind == "CardinalityViolation":
            raise UsageError(f"{conflict}: no value settles this; name `ours`, `theirs` or `base`")
        place = conflict.id, physical(property, type)
        if place in new_values:
            return False
        typed = typed_choice(type, conflict.key, choice)
        assert isinstance(typed, NewValue)
        new_values[place] = typed.value
        if not self._is_changed(type, conflict.id):
            # A row that the merge would not touch.
            self.pins.setdefault(type.name, {}).setdefault(conflict.id, "ours")
        return True

    def _involved(self, type: Type, conflict: Conflict, side: Side) -> Iterator[list[Entity]]:
        """What takes part in a broken rule; a second portion if the first one does not help.

        Nothing else is taken from a side: what the other one has changed there would be lost.
        """
        this = (type.name, conflict.id)
        match conflict.kind:
            case "UniqueViolation":
                others = sorted(self._others.get(conflict.key, ()))
                yield [this, *((type.name, id) for id in others)]
            case "OrphanEdge":
                assert isinstance(type, EdgeType)
                node = type.source if conflict.property == ENDS[0] else type.target
                ends = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
                end = ends[side]
                yield [this] if end is None else [this, (node, end)]
            case "CardinalityViolation":
                assert isinstance(type, EdgeType)
                sides = ("base", "ours", "theirs")
                edges = {id for s in sides for id in self._edges_from(type, conflict.id, s)}
                yield [(type.name, id) for id in sorted(edges)]
                # A new node that must have edges, and that the side has not.
                yield [(type.source, conflict.id)]
            case _:
                yield [this]


def by_id(delta: TableDelta) -> TableDelta:
    """A delta with its rows in the order of their ids."""
    order = pc.sort_indices(delta.changed["id"])
    return dataclasses.replace(
        delta,
        new=delta.new.take(pc.sort_indices(delta.new["id"])),
        changed=delta.changed.take(order),
        changed_from=delta.changed_from.take(order),
    )


def uris(delta: TableDelta) -> set[str]:
    """The files elsewhere that blobs of a delta refer to."""
    addresses: set[str] = set()
    for property in delta.type.stored_properties:
        if property.type.is_blob:
            uris = pc.struct_field(delta.rows[property.name].combine_chunks(), "uri")
            addresses.update(pc.unique(uris).drop_null().to_pylist())
    return addresses
