"""Rules about rows among others of their type: ids, keys and unique groups."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import ids_of, one_zero, physical
from omnigraph.compute.sql import is_in
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.types import Scalar
from omnigraph.language.values import show
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.reads import ReadTable
from omnigraph.writes.validate.values import is_proper
from omnigraph.writes.validate.violations import MOST_SHOWN, Violations

#: Up to this many rows all columns of a group are looked up, for more only the first.
_FEW = 1000


def check_ids(delta: TableDelta, found: Violations) -> None:
    """Every id is a text, there once, and that of the row's key."""
    type, ids = delta.type, delta.ids
    check_each_id(type, delta.rows, found)
    counts = pc.value_counts(ids)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1)).drop_null()
    word = "key" if type.key else "id"
    for id in twice.to_pylist():
        text = f"the {word} {show(id)} is given twice in one write"
        found.add(type.name, id, ", ".join(type.key) or "id", id, word, text)


def check_each_id(type: NodeType | EdgeType, rows: pa.Table, found: Violations) -> None:
    """Every row has an id, and it is that of its key."""
    ids = rows["id"].combine_chunks()
    if not type.key:
        found.add_rows(
            type.name, ids, "id", ids, pc.is_null(ids), "id", lambda _: "every row needs an id"
        )
    if type.key and rows.num_rows:
        names = [physical(name, type) for name in type.key]
        columns = {name: rows[name].combine_chunks() for name in names}
        expected = ids_of(type, columns)
        # A part of the key that is null is reported as such.
        broken = pc.fill_null(pc.not_equal(ids, expected), False)
        if pc.any(broken).as_py():
            right = dict(zip(ids.to_pylist(), expected.to_pylist(), strict=True))
            found.add_rows(
                type.name,
                ids,
                "id",
                ids,
                broken,
                "key",
                lambda v: f"the id of this key is {show(right[v])}, not {show(v)}",
            )


def check_uniques(delta: TableDelta, table: ReadTable, found: Violations) -> None:
    """No two rows share the values of a unique group; a null is never equal to anything."""
    for group in delta.type.uniques:
        columns = [physical(name, delta.type) for name in group]
        rows = _held(delta.checked(*columns), columns)
        if rows.num_rows:
            _Group(delta, table, group, columns, found).check(rows)


def _held(rows: pa.Table, columns: list[str]) -> pa.Table:
    """The ids and the values of a group, as columns `id`, `0`, `1` and so on, where none is null.

    What is no proper value is reported as such, and equal to nothing. Zero has one sign.
    """
    kept = {"id": rows["id"]}
    mask = None
    for place, column in enumerate(columns):
        values = rows[column]
        proper = pc.and_(pc.is_valid(values), is_proper(values))
        mask = proper if mask is None else pc.and_(mask, proper)
        kept[str(place)] = one_zero(values)
    return pa.table(kept).filter(mask)


class _Group:
    """One unique group of a change."""

    def __init__(
        self,
        delta: TableDelta,
        table: ReadTable,
        group: tuple[str, ...],
        columns: list[str],
        found: Violations,
    ) -> None:
        self.delta = delta
        self.table = table
        self.group = group
        self.columns = columns
        self.found = found
        self.names = [str(place) for place in range(len(columns))]
        self.types = [delta.type.columns[name] for name in group]

    def check(self, rows: pa.Table) -> None:
        # The values may be in other rows of the write too, and not only in those that were touched.
        # The first row keeps them: changed rows come first, so it is an untouched one if any is.
        written = _held(self.delta.rows, self.columns).group_by(self.names, use_threads=False)
        held = written.aggregate([("id", "first"), ("id", "count")])
        held = held.filter(pc.greater(held["id_count"], 1)).rename_columns({"id_first": "other"})
        taken = rows.join(held, keys=self.names, join_type="inner")
        taken = taken.filter(pc.not_equal(taken["id"], taken["other"]))
        self.report(taken, "in the same write")
        if not self.delta.replaces_all:
            candidates = self.candidates(rows).rename_columns(["other", *self.names])
            self.report(rows.join(candidates, keys=self.names, join_type="inner"), "already")

    def candidates(self, rows: pa.Table) -> pa.Table:
        """Committed rows that may hold the same values: the first column is looked up."""
        also = None
        if rows.num_rows <= _FEW:
            tests = [
                is_in(self.columns[place], pc.unique(rows[str(place)]), self.types[place])
                for place in range(1, len(self.columns))
                if self.types[place].scalar is not Scalar.F32
            ]
            also = " and ".join(tests) or None
        candidates = self.table.find(
            self.columns[0], pc.unique(rows["0"]), ["id", *self.columns], self.types[0], also=also
        )
        return _held(self.delta.survivors(candidates), self.columns)

    def report(self, taken: pa.Table, when: str) -> None:
        for row in taken.slice(0, MOST_SHOWN).to_pylist():
            held = [row[name] for name in self.names]
            text = f"{', '.join(map(show, held))} is taken by {show(row['other'])} {when}"
            value = held[0] if len(held) == 1 else held
            type = self.delta.type.name
            self.found.add(type, row["id"], ", ".join(self.group), value, "unique", text)
        self.found.count("unique", taken.num_rows - MOST_SHOWN)
