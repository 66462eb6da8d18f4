"""Distinct: each row of the answer once; rows are put together block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow
from omnigraph.compute.lists import hashable
from omnigraph.query.budget import Budget
from omnigraph.query.operators.accumulate import Accumulated
from omnigraph.query.operators.project import Chunk
from omnigraph.query.operators.ranks import Ints


class DistinctRows(Struct, frozen=True):
    """Rows of the answer that are in memory already."""

    table: pa.Table

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.table.num_rows)

    def column(self, name: str) -> pa.Array:
        """A column of the answer."""
        return self.table[name].combine_chunks()

    def take(self, rows: Ints) -> DistinctRows:
        """Some of the rows, by their places."""
        return DistinctRows(self.table.take(as_arrow(rows)))


def distinct(budget: Budget, chunks: Iterable[Chunk], names: Sequence[str]) -> DistinctRows | None:
    """The different rows of some chunks; None when there is no chunk."""
    rows = Accumulated(budget, "distinct", _unique)
    for chunk in chunks:
        rows.add(distinct_rows(chunk, names).table)
    table = rows.finish()
    return None if table is None else DistinctRows(table)


def distinct_rows(chunk: Chunk, names: Sequence[str]) -> DistinctRows:
    """The different rows of one chunk."""
    return DistinctRows(_unique(pa.Table.from_arrays(chunk, names=names)))


def _unique(table: pa.Table) -> pa.Table:
    """Each row once."""
    columns = [column.combine_chunks() for column in table.columns]
    names = [str(place) for place in range(len(columns))]
    keys = pa.Table.from_arrays([hashable(column) for column in columns], names=names)
    if any(pa.types.is_nested(column.type) for column in columns):
        rows = keys.append_column("row", as_arrow(np.arange(table.num_rows)))
        first = rows.group_by(names).aggregate([("row", "min")])["row_min"]
        return table.take(first)
    return keys.group_by(names).aggregate([]).rename_columns(table.column_names)
