"""What a change of the schema means for the columns of one table.

Renames, drops, new columns that are null, and whether null is allowed are changes of the table's
description alone: no data is read or written. Columns that get values are written beside others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.compute.backfill import backfill_columns, backfill_values
from omnigraph.language import EdgeType, NodeType, Property
from omnigraph.language.schema.arrow import arrow_type, property_field
from omnigraph.language.schema.steps import Step
from omnigraph.storage.tables import NewColumn, StagedWrite, Tables, TableSnapshot
from omnigraph.writes.request import Change, TableOutcome

Type = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The columns of a table after a change of the schema; a `Change` of the write protocol.

    Attributes:
        adds: New columns, and those that are written anew.
        drops: Columns that go, as the table calls them.
        renames: The names that columns get.
        nullable: By the new names, whether columns may have null.
        then: What becomes of the rows, in one more version of the table.
    """

    adds: Sequence[NewColumn]
    drops: Sequence[str]
    renames: Mapping[str, str]
    nullable: Mapping[str, bool]
    then: Change | None = None

    @property
    def kind(self) -> str:
        """What sidecars and the audit log call it."""
        return "schema"

    @property
    def is_empty(self) -> bool:
        """True when the table stays as it is."""
        return not (self.adds or self.drops or self.renames or self.nullable)

    @property
    def outcome(self) -> TableOutcome:
        """There are as many rows as before, unless rows come along."""
        return TableOutcome(0, 0, 0) if self.then is None else self.then.outcome

    @property
    def footprint(self) -> None:
        """It is about the whole table."""
        return None

    def stage(self, tables: Tables, snapshot: TableSnapshot) -> StagedWrite | None:
        """Write new columns beside the table."""
        return tables.stage_schema(
            snapshot,
            adds=self.adds,
            drops=self.drops,
            renames=self.renames,
            nullable=self.nullable,
        )


class NewShape:
    """The columns of a type after a change of the schema, as they come from the table of before.

    Args:
        old: The type before.
        new: The type afterwards.
        steps: The steps of the type.
        now: The moment of the change.
    """

    def __init__(self, old: Type, new: Type, steps: Sequence[Step], now: dt.datetime) -> None:
        self.new = new
        self._filling = _filling(steps)
        self._now = now
        self._before = {property.id: property for property in old.properties.values()}
        kept = {property.id for property in new.properties.values()}
        self.dropped = [p for p in old.stored_properties if p.id not in kept]

    def change(self, count_nulls: Callable[[str], int]) -> ColumnChange:
        """What becomes of the table.

        Args:
            count_nulls: How many rows have null in a column of the table.
        """
        adds, drops = [], [property.name for property in self.dropped]
        renames, nullable = {}, {}
        for property in self.new.stored_properties:
            before = self._before.get(property.id)
            if before is None:
                adds.append(self._column(property))
            elif self._is_rewritten(before, property, count_nulls):
                drops.append(before.name)
                adds.append(self._column(property))
            else:
                if before.name != property.name:
                    renames[before.name] = property.name
                if before.type.nullable != property.type.nullable:
                    nullable[property.name] = property.type.nullable
        return ColumnChange(adds, drops, renames, nullable)

    def reads(self, columns: Sequence[str]) -> list[str]:
        """What has to be read of the table to have some of the new columns."""
        names: dict[str, None] = {}
        for column in columns:
            names |= dict.fromkeys(self._sources(column))
        return list(names)

    def values(self, column: str, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The values of a new column, given what `reads` names.

        Raises:
            ComputeFault: One cannot be computed.
        """
        property = self.new.properties.get(column)
        if property is None:
            return rows[column]
        step = self._filling.get(property.id)
        if step is not None and _fills(step):
            return backfill_values(step, rows, now=self._now)
        before = self._before.get(property.id)
        if before is None:
            return pa.nulls(rows.num_rows, arrow_type(property.type))
        return rows[before.name].cast(arrow_type(property.type))

    def _sources(self, column: str) -> tuple[str, ...]:
        property = self.new.properties.get(column)
        if property is None:
            return (column,)
        step = self._filling.get(property.id)
        if step is not None and _fills(step):
            return backfill_columns(step)
        before = self._before.get(property.id)
        return () if before is None else (before.name,)

    def _column(self, property: Property) -> NewColumn:
        field = property_field(property)
        step = self._filling.get(property.id)
        if step is None or not (_fills(step) or step.old_property is not None):
            return NewColumn(field)
        if step.fill is not None and step.fill.backfill is None and step.old_property is None:
            return NewColumn(field, step.fill.default)

        def compute(rows: pa.RecordBatch) -> pa.Array:
            return backfill_values(step, pa.Table.from_batches([rows]), now=self._now)

        return NewColumn(field, compute=compute, reads=backfill_columns(step))

    def _is_rewritten(
        self, before: Property, after: Property, count_nulls: Callable[[str], int]
    ) -> bool:
        if arrow_type(before.type) != arrow_type(after.type):
            return True
        step = self._filling.get(after.id)
        return step is not None and _fills(step) and count_nulls(before.name) > 0


def _fills(step: Step) -> bool:
    """True when rows that have no value get one."""
    fill = step.fill
    return fill is not None and (fill.backfill is not None or fill.default is not None)


def _filling(steps: Sequence[Step]) -> dict[int, Step]:
    """By property, the step that says which values rows get."""
    by_property: dict[int, Step] = {}
    for step in steps:
        if step.target is None or step.property_id is None:
            continue
        known = by_property.get(step.property_id)
        if known is None or known.fill is None:
            by_property[step.property_id] = step
    return by_property
