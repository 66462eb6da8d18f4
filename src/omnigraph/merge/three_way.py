"""The three-way merge of one table, as a pure function over columns.

For each row there is what it was in the base, what it is on our side, and what it is on theirs.
Only rows that have changed on their side are looked at: all others stay as ours. A property that
only one side has changed takes that side; one that both have changed differently is a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.compute.equality import unequal
from omnigraph.merge.rows import Bools, Places, RowChanges, places, taken

Granularity = Literal["property", "row"]
Side = Literal["base", "ours", "theirs"]
SIDES: tuple[Side, ...] = ("ours", "theirs", "base")
_OURS, _THEIRS, _BASE = range(3)


class NewValue(Struct, frozen=True):
    """A value in place of those of the three sides; of a whole row, by column; None is no row."""

    value: Any


Choice = Side | NewValue


class RowConflict(Struct, frozen=True):
    """A row, or a column of it, that the two sides have changed differently.

    Attributes:
        kind: `DivergentInsert`, `DivergentUpdate` or `DeleteVsUpdate`.
        column: The column; None is the whole row.
        base: What it was: a value, or all columns of the row; None when there was no row.
        ours: What it is on our side.
        theirs: What it is on theirs.
    """

    kind: str
    id: str
    column: str | None
    base: Any
    ours: Any
    theirs: Any

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells it from others of the table."""
        return self.id, self.column


class Merged(Struct, frozen=True):
    """What to do on our side.

    Attributes:
        rows: Rows to put in the place of those with the same ids, or beside the others.
        places: Where the ids of these rows are among the `ids_to_merge`.
        removed: Ids of rows to delete.
        conflicts: What is not settled. Such rows and columns are as on our side in `rows`.
        settled: What was a conflict, and is decided.
    """

    rows: pa.Table
    places: Places
    removed: pa.Array
    conflicts: tuple[RowConflict, ...]
    settled: tuple[RowConflict, ...]


def three_way(
    theirs: RowChanges,
    ours: pa.Table,
    columns: Sequence[str],
    *,
    granularity: Granularity = "property",
    prefer: Side | None = None,
    choices: Mapping[tuple[str, str | None], Choice] | None = None,
    pins: Mapping[str, Side] | None = None,
    new_values: Mapping[tuple[str, str], Any] | None = None,
    doubts: Mapping[str, frozenset[str] | None] | None = None,
    unchanged: Bools | None = None,
) -> Merged:
    """Merge what their side has changed since the base into ours.

    Args:
        theirs: What changed from the base to their side.
        ours: The rows of our side that have one of the `ids_to_merge`, without the `unchanged`.
        columns: What is compared and merged: all columns but the id.
        granularity: `property` merges columns one by one, `row` rows as a whole.
        prefer: The side that wins conflicts without a choice of their own.
        choices: How single conflicts are settled, by id and column.
        pins: Ids of rows that are taken from one side as they are there.
        new_values: Values in place of those of all sides, by id and column, in merged rows.
        doubts: Ids of rows of which nobody can tell what the base was, in some columns, or in all
            (None): both sides count as changed.
        unchanged: Which of the `ids_to_merge` are of rows that are known to be on our side as they
            were in the base.
    """
    ids = ids_to_merge(theirs, doubts or (), pins or ())
    merge = _Merge(theirs, ours, ids, columns, unchanged)
    merge.doubt(doubts or {})
    merge.compare(granularity)
    pinned = merge.pin(pins or {})
    open_conflicts, settled = [], []
    for conflict, cell in merge.conflicts(granularity, pinned):
        choice = (choices or {}).get(conflict.key, prefer)
        if choice is None:
            open_conflicts.append(conflict)
        else:
            merge.choose(cell, conflict.column, choice)
            settled.append(conflict)
    merge.set_values(new_values or {})
    rows, at, removed = merge.outcome()
    return Merged(rows, at, removed, tuple(open_conflicts), tuple(settled))


def ids_to_merge(theirs: RowChanges, *more: Iterable[str]) -> pa.Array:
    """The ids of rows that a merge looks at: those in the changes, and in `doubts` and `pins`."""
    others = [pa.array(list(ids), pa.utf8()) for ids in more]
    if not any(map(len, others)):
        return theirs.ids
    return pc.unique(pa.chunked_array([theirs.ids, *others]))


def theirs_places(theirs: RowChanges, ids: pa.Array) -> tuple[Places, Places]:
    """Where the rows with the `ids_to_merge` are before and after their changes; -1 for nowhere."""
    if ids is theirs.ids:
        in_before, in_after = theirs.places
        return in_before.copy(), in_after.copy()
    return places(ids, theirs.before), places(ids, theirs.after)


class _Merge:
    """Where the rows are on all sides, and which side each column of each row is taken from."""

    def __init__(
        self,
        theirs: RowChanges,
        ours: pa.Table,
        ids: pa.Array,
        columns: Sequence[str],
        unchanged: Bools | None,
    ) -> None:
        self.ids = ids
        self.columns = list(columns)
        count = len(ids)
        self.sides = [ours, theirs.after, theirs.before]
        self.known = theirs.differs
        in_before, in_after = theirs_places(theirs, ids)
        self.at = [places(ids, ours), in_after, in_before]
        self.unchanged = np.zeros(count, bool) if unchanged is None else unchanged
        if self.unchanged.any():
            # These rows of ours are those of the base.
            self.sides[_OURS] = pa.concat_tables([ours, theirs.before])
            at_base = self.at[_BASE][self.unchanged]
            assert (at_base >= 0).all(), "a row of the base is not there"
            self.at[_OURS][self.unchanged] = at_base + ours.num_rows
        self.exists = [at >= 0 for at in self.at]
        self.doubtful = {name: np.zeros(count, bool) for name in columns}
        self.whole_doubt = np.zeros(count, bool)
        #: Which side a column is taken from, and which side says if there is a row.
        self.picks = {name: np.zeros(count, np.int8) for name in columns}
        self.present = self.exists[_OURS].copy()
        self.new_values: dict[tuple[int, str], Any] = {}

    def doubt(self, doubts: Mapping[str, frozenset[str] | None]) -> None:
        for place, id in self._places(doubts):
            names = doubts[id]
            self.whole_doubt[place] |= names is None
            for name in self.columns if names is None else names:
                self.doubtful[name][place] = True

    def compare(self, granularity: Granularity) -> None:
        """Find what each side has changed, and take over what only theirs has."""
        has_ours, has_theirs, has_base = self.exists
        # Only rows that are on two sides are compared; nobody asks about others.
        changed_ours, changed_theirs, self.differs = {}, {}, {}
        for name in self.columns:
            mine = self._unequal(name, _OURS, _BASE, ~self.unchanged)
            other = self._changed_theirs(name)
            differs = self._unequal(name, _OURS, _THEIRS, ~self.unchanged)
            self.differs[name] = differs | (self.unchanged & other)
            changed_ours[name] = mine | self.doubtful[name]
            changed_theirs[name] = other | self.doubtful[name]
        any_ours = self._any(changed_ours) | self.whole_doubt
        any_theirs = self._any(changed_theirs) | self.whole_doubt
        both = has_ours & has_theirs
        updated = both & has_base
        #: Conflicts about whole rows, and about columns.
        self.divergent = {n: both & ~has_base & self.differs[n] for n in self.columns}
        self.rows_divergent = np.zeros(len(self.ids), bool)
        if granularity == "row":
            take = updated & any_theirs & ~any_ours
            differs = self._any(self.differs)
            self.rows_divergent = both & differs & (~has_base | (any_theirs & any_ours))
            self.divergent = {n: np.zeros(len(self.ids), bool) for n in self.columns}
            for name in self.columns:
                self.picks[name][take] = _THEIRS
        else:
            for name in self.columns:
                mine, other = changed_ours[name], changed_theirs[name]
                self.divergent[name] |= updated & mine & other & self.differs[name]
                self.picks[name][updated & other & ~mine] = _THEIRS
        # Rows that are on one side only.
        inserted = has_theirs & ~has_ours & ~has_base & ~self.whole_doubt
        gone = has_ours & ~has_theirs
        deleted = gone & has_base & ~any_ours
        self._take(inserted, _THEIRS)
        self._take(deleted, _THEIRS)
        kept_by_ours = gone & (any_ours & has_base | self.whole_doubt)
        lost = has_theirs & ~has_ours & (has_base & any_theirs | self.whole_doubt)
        self.delete_vs_update = kept_by_ours | lost

    def pin(self, pins: Mapping[str, Side]) -> Bools:
        """Take rows from one side; returns which."""
        pinned = np.zeros(len(self.ids), bool)
        for place, id in self._places(pins):
            pinned[place] = True
            self._take(np.array([place]), SIDES.index(pins[id]))
        return pinned

    def conflicts(self, granularity: Granularity, settled: Bools) -> list[tuple[RowConflict, int]]:
        """All conflicts in the order of ids and columns, each with the place of its row."""
        conflicts: list[tuple[int, int, RowConflict]] = []
        whole = np.flatnonzero((self.rows_divergent | self.delete_vs_update) & ~settled)
        if len(whole):
            ids = self.ids.take(pa.array(whole)).to_pylist()
            sides = [self._rows(side, whole) for side in (_BASE, _OURS, _THEIRS)]
            for place, id, *values in zip(whole.tolist(), ids, *sides, strict=True):
                kind = "DeleteVsUpdate" if self.delete_vs_update[place] else self._kind(place)
                conflicts.append((place, -1, RowConflict(kind, id, None, *values)))
        for order, name in enumerate(self.columns):
            at = np.flatnonzero(self.divergent[name] & ~settled)
            if not len(at):
                continue
            ids = self.ids.take(as_arrow(at)).to_pylist()
            values = [
                taken(self.sides[side][name], self.at[side][at]).to_pylist()
                for side in (_BASE, _OURS, _THEIRS)
            ]
            cells = zip(*values, strict=True)
            for place, id, cell in zip(at.tolist(), ids, cells, strict=True):
                conflict = RowConflict(self._kind(place), id, name, *cell)
                conflicts.append((place, order, conflict))
        conflicts.sort(key=lambda item: (item[2].id, item[1]))
        return [(conflict, place) for place, _, conflict in conflicts]

    def choose(self, place: int, column: str | None, choice: Choice) -> None:
        """Settle a conflict."""
        at = np.array([place])
        if isinstance(choice, NewValue):
            if column is not None:
                self.new_values[place, column] = choice.value
            elif choice.value is None:
                self.present[at] = False
            else:
                if not self.exists[_OURS][place]:
                    self._take(at, _THEIRS)
                self.present[at] = True
                self.new_values.update({(place, name): v for name, v in choice.value.items()})
        elif column is None:
            self._take(at, SIDES.index(choice))
        else:
            self.picks[column][at] = SIDES.index(choice)

    def set_values(self, new_values: Mapping[tuple[str, str], Any]) -> None:
        """Put values in the place of those of all sides."""
        for place, id in self._places({id: None for id, _ in new_values}):
            values = {column: value for (of, column), value in new_values.items() if of == id}
            self.new_values.update({(place, column): value for column, value in values.items()})

    def outcome(self) -> tuple[pa.Table, Places, pa.Array]:
        """The rows that our side has to have, where, and the ids of those that it has to lose."""
        removed = self.exists[_OURS] & ~self.present
        written = self.present & ~self.exists[_OURS]
        for name in self.columns:
            moved = self.present & (self.picks[name] == _THEIRS) & self.differs[name]
            to_base = self.present & (self.picks[name] == _BASE)
            if to_base.any():
                moved |= self._unequal(name, _OURS, _BASE, to_base & ~self.unchanged)
                # What was not there had no value.
                new = np.flatnonzero(to_base & self.exists[_OURS] & ~self.exists[_BASE])
                mine = taken(self.sides[_OURS][name], self.at[_OURS][new])
                moved[new] = as_numpy(mine.is_valid())
            written |= moved
        for (place, name), value in self.new_values.items():
            # A value that is there already is nothing to write.
            at = self.at[_OURS][place : place + 1]
            mine = taken(self.sides[_OURS][name], at)
            if self.present[place] and unequal(pa.array([value], mine.type), mine)[0]:
                written[place] = True
        at = np.flatnonzero(written)
        columns = {name: self._column(name, at) for name in self.columns}
        ids = taken(pa.chunked_array([self.ids]), at)
        return pa.table({"id": ids, **columns}), at, self.ids.filter(as_arrow(removed))

    def _column(self, name: str, rows: Places) -> pa.ChunkedArray:
        """The values of a column in some rows, each from the side that is picked."""
        picks = self.picks[name][rows]
        sides = [side for side in (_OURS, _THEIRS, _BASE) if (picks == side).any()]
        chunks, at, start = [], np.zeros(len(rows), np.int64), 0
        for side in sides:
            values = self.sides[side][name]
            here = np.flatnonzero(picks == side)
            place = self.at[side][rows[here]]
            at[here] = np.where(place < 0, -1, place + start)
            chunks += values.chunks
            start += len(values)
        column = taken(pa.chunked_array(chunks, self.sides[_OURS][name].type), at)
        replacements = {
            place: value for (place, of), value in self.new_values.items() if of == name
        }
        if replacements:
            order = {place: i for i, place in enumerate(rows.tolist())}
            values = {order[place]: v for place, v in replacements.items() if place in order}
            column = _replaced(column, values)
        return column

    def _take(self, places: Bools | npt.NDArray[np.int64], side: int) -> None:
        """Take whole rows from a side, or have none if it has none."""
        self.present[places] = self.exists[side][places]
        for name in self.columns:
            self.picks[name][places] = side

    def _unequal(self, name: str, one: int, other: int, where: Bools | None = None) -> Bools:
        """In which rows two sides have different values; not in those that one of them lacks."""
        both = self.exists[one] & self.exists[other]
        rows = np.flatnonzero(both if where is None else both & where)
        differs = np.zeros(len(self.ids), bool)
        if len(rows):
            left, right = (
                taken(self.sides[side][name], self.at[side][rows]) for side in (one, other)
            )
            differs[rows] = unequal(left, right)
        return differs

    def _changed_theirs(self, name: str) -> Bools:
        """In which rows their side has another value than the base."""
        if self.known is None:
            return self._unequal(name, _THEIRS, _BASE)
        differs = np.zeros(len(self.ids), bool)
        exists = self.exists[_THEIRS]
        differs[exists] = self.known[name][self.at[_THEIRS][exists]]
        return differs

    def _any(self, columns: Mapping[str, Bools]) -> Bools:
        any_column = np.zeros(len(self.ids), bool)
        for each in columns.values():
            any_column |= each
        return any_column

    def _kind(self, place: int) -> str:
        return "DivergentUpdate" if self.exists[_BASE][place] else "DivergentInsert"

    def _rows(self, side: int, places: Places) -> list[dict[str, Any] | None]:
        """Whole rows of a side; None where it has none."""
        at, exists = self.at[side][places], self.exists[side][places].tolist()
        columns = {name: taken(self.sides[side][name], at) for name in self.columns}
        rows = pa.table(columns).to_pylist() if columns else [{}] * len(places)
        return [row if is_there else None for row, is_there in zip(rows, exists, strict=True)]

    def _places(self, wanted: Mapping[str, Any]) -> list[tuple[int, str]]:
        if not wanted:
            return []
        keys = pa.array(list(wanted), pa.utf8())
        at = pc.index_in(keys, value_set=self.ids).to_pylist()
        return [(p, id) for p, id in zip(at, wanted, strict=True) if p is not None]


def _replaced(column: pa.ChunkedArray, values: Mapping[int, Any]) -> pa.ChunkedArray:
    """A column with some values exchanged."""
    new = pa.array(list(values.values()), column.type)
    at = np.arange(len(column))
    at[list(values)] = len(column) + np.arange(len(values))
    return pa.chunked_array([*column.chunks, new], column.type).take(pa.array(at))
