"""Deltas: what a write does to one table, as final rows, against one version of it.

Every writer of rows ends in deltas: they are what is validated, counted and staged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy, rows_where
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Patch, StagedWrite, Tables, TableSnapshot
from omnigraph.writes.request import TableOutcome

#: Writes of so many rows may share the lock with others, which are compared with all of them.
_FEW_ROWS = 1024
_PLACES = ((ROW_ID, pa.uint64()), (ROW_ADDRESS, pa.uint64()))


def old_columns(type: NodeType | EdgeType) -> list[str]:
    """The old values of rows that change or go: their id, and the ends of edges."""
    return ["id", "src", "dst"] if isinstance(type, EdgeType) else ["id"]


@dataclass(frozen=True)
class TableDelta:
    """A change of one table.

    Attributes:
        type: Whose table it is.
        new: Rows whose ids are not in the table.
        changed: Rows that take the place of those with the same ids.
        changed_from: In the same order, what they replace: `old_columns` and places.
        removed: The rows that go: `old_columns` and places.
        touched: Columns in which `changed` may differ from what it replaces; None is all.
        replaces_all: The table has no other rows afterwards than these.
        cascades: The edges at the nodes that go are gone by this write as well.
        strict: Rows must not take the place of others: those in `changed` are refused.
        has_distinct_ids: No two rows that are written have the same id: nobody has to look.
    """

    type: NodeType | EdgeType
    new: pa.Table
    changed: pa.Table
    changed_from: pa.Table
    removed: pa.Table
    touched: frozenset[str] | None = None
    replaces_all: bool = False
    cascades: bool = False
    strict: bool = False
    has_distinct_ids: bool = False

    @staticmethod
    def of(
        type: NodeType | EdgeType,
        *,
        new: pa.Table | None = None,
        changed: pa.Table | None = None,
        changed_from: pa.Table | None = None,
        removed: pa.Table | None = None,
        touched: frozenset[str] | None = None,
        replaces_all: bool = False,
        cascades: bool = False,
        strict: bool = False,
        has_distinct_ids: bool = False,
    ) -> TableDelta:
        """Make a delta; what is left out is empty."""
        none = table_schema(type).empty_table()
        old = old_schema(type).empty_table()
        return TableDelta(
            type,
            none if new is None else new,
            none if changed is None else changed,
            old if changed_from is None else changed_from,
            old if removed is None else removed,
            touched,
            replaces_all,
            cascades,
            strict,
            has_distinct_ids,
        )

    @cached_property
    def rows(self) -> pa.Table:
        """All rows that are written: the changed ones, then the new ones."""
        if not self.changed.num_rows:
            return self.new
        return pa.concat_tables([self.changed, self.new]) if self.new.num_rows else self.changed

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of the rows that are written."""
        return self.rows["id"].combine_chunks()

    @cached_property
    def removed_ids(self) -> pa.Array:
        """The ids of the rows that go."""
        return self.removed["id"].combine_chunks()

    def touches(self, *columns: str) -> bool:
        """True when `changed` may differ in one of the columns."""
        return self.touched is None or not self.touched.isdisjoint(columns)

    def checked(self, *columns: str) -> pa.Table:
        """The rows in which a rule about some columns may be broken."""
        return self.rows if self.touches(*columns) else self.new

    def survivors(self, rows: pa.Table) -> pa.Table:
        """Of rows of the table as it was, those that stay as they are."""
        if self.replaces_all:
            return rows.slice(0, 0)
        replaced = self.changed["id"].combine_chunks()
        for ids in (self.removed_ids, replaced[: 0 if self.strict else None]):
            if len(ids):
                rows = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=ids)))
        return rows

    # --- as a change of the protocol ---

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""
        if self.replaces_all:
            return "overwrite"
        if self.changed.num_rows or (self.new.num_rows and self.removed.num_rows):
            return "merge"
        return "append" if self.new.num_rows else "delete"

    @property
    def is_empty(self) -> bool:
        """True when the table stays as it is."""
        return not (
            self.replaces_all or self.new.num_rows or self.changed.num_rows or self.removed.num_rows
        )

    @property
    def outcome(self) -> TableOutcome:
        """How many rows are new, replaced and gone."""
        return TableOutcome(self.new.num_rows, self.changed.num_rows, self.removed.num_rows)

    @property
    def footprint(self) -> Sequence[pa.Table] | None:
        """The rows that it writes, replaces and removes, if they are few."""
        rows = (self.rows, self.changed_from, self.removed)
        if self.replaces_all or sum(r.num_rows for r in rows) > _FEW_ROWS:
            return None
        return rows

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Stage the delta on the version it was built for, or on a fork of that."""
        if self.replaces_all:
            return tables.stage_overwrite(snapshot, self.rows)
        patch = Patch(self.new, self.changed, self.changed_from, self.removed[ROW_ADDRESS])
        return tables.stage_patch(snapshot, patch)


def split(
    type: NodeType | EdgeType,
    rows: pa.Table,
    old: pa.Table,
    *,
    removed: pa.Table | None = None,
    replaces_all: bool = False,
    strict: bool = False,
) -> TableDelta:
    """Make a delta of rows, by telling new ones from those that take the place of old ones."""
    at = pc.index_in(rows["id"].combine_chunks(), value_set=old["id"].combine_chunks())
    known = as_numpy(pc.is_valid(at))
    return TableDelta.of(
        type,
        new=rows_where(rows, ~known),
        changed=rows_where(rows, known),
        changed_from=old.take(at.drop_null()),
        removed=removed,
        replaces_all=replaces_all,
        strict=strict,
    )


def old_schema(type: NodeType | EdgeType) -> pa.Schema:
    """The columns of `TableDelta.changed_from` and `removed`: `old_columns` and places."""
    known = table_schema(type)
    return pa.schema([*(known.field(name) for name in old_columns(type)), *_PLACES])
