"""What a write has read while it was prepared, so that it can stay prepared.

When other commits land first, only the rows that they changed are looked at: if none of them is
one that a read of this write saw or would see now, preparing again would end in the same rows.
Every read of a prepared write is noted as the question it asked, not as the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.evaluate import Bindings, Columns, ComputeFault, matches
from omnigraph.compute.keys import one_zero, physical
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.query.expressions import Checked, Column, Entity, PropertyOf, walk
from omnigraph.language.types import STRING, ValueType
from omnigraph.storage.tables import TableSnapshot


class Read(Protocol):
    """A question that a write asked a table."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns it looks at."""

    @property
    def decides_anew(self) -> bool:
        """True when rows that changed are no clash: the write replaces them, whatever they are."""

    def sees(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Which of some rows belong to its answer, or may."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """The rows whose value in a column is one of some."""

    column: str
    values: pa.Array
    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The column."""
        return (self.column,)

    def sees(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The rows with one of the values."""
        return pc.is_in(one_zero(rows[self.column]), value_set=self.values)


@dataclass(frozen=True, slots=True)
class Condition:
    """The rows for which a condition of a mutation is true."""

    type: NodeType | EdgeType
    condition: Checked
    bindings: Bindings
    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """The columns in the condition."""
        return columns_in(self.type, self.condition)

    def sees(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """The rows that match; all, when that cannot be computed for one of them."""
        try:
            return matches(
                self.condition, columns_of(self.type, rows), rows.num_rows, self.bindings
            )
        except ComputeFault:
            return Everything().sees(rows)


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows of a table."""

    decides_anew: bool = False

    @property
    def columns(self) -> Sequence[str]:
        """None in particular."""
        return ()

    def sees(self, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Every row."""
        return pa.repeat(pa.scalar(True), rows.num_rows)


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table as a write reads it while it is prepared; what it asks is noted."""

    snapshot: TableSnapshot
    reads: list[Read] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.snapshot.schema

    def find(
        self,
        column: str,
        values: pa.Array,
        columns: Sequence[str] | None = None,
        type: ValueType = STRING,
        *,
        also: str | None = None,
    ) -> pa.Table:
        """Read the rows whose value is one of some; see `TableSnapshot.find`."""
        self.reads.append(LookUp(column, one_zero(values.drop_null())))
        return self.snapshot.find(column, values, columns, type, also=also)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        places: bool = False,
    ) -> pa.Table:
        """Read columns of the rows that match; see `TableSnapshot.read`."""
        self.reads.append(Everything())
        return self.snapshot.read(columns, where, places=places)

    def noted(self) -> TableSnapshot:
        """The version itself, for whoever reads all of it."""
        self.reads.append(Everything())
        return self.snapshot

    def matching(
        self, read: Read, columns: Sequence[str], where: str | None
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that a condition may match, with their places.

        Args:
            read: The condition.
            columns: What to read.
            where: A predicate that no matching row fails.
        """
        self.reads.append(read)
        return self.snapshot.batches(columns, where, places=True)


def columns_in(type: NodeType | EdgeType, condition: Checked) -> list[str]:
    """The columns of a table that a condition looks at."""
    return sorted({physical(e.name, type) for e in walk(condition) if isinstance(e, Column)})


def columns_of(type: NodeType | EdgeType, rows: pa.Table | pa.RecordBatch) -> Columns:
    """How expressions see rows: an edge's ends are `from` and `to`."""

    def column(expression: Column | PropertyOf | Entity) -> pa.Array | pa.ChunkedArray:
        assert isinstance(expression, Column)
        return rows[physical(expression.name, type)]

    return column
