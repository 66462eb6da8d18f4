"""Rows of many blocks, put together now and then, so that of equal ones there is only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from msgspec import Struct, field

from omnigraph.query.budget import Budget
from omnigraph.query.tables.large_texts import joined_tables


class Accumulated(Struct):
    """Tables that are put together when there are about twice as many rows as after the last time.

    Attributes:
        operator: Named when the budget is used up.
        combine: Puts the rows of one table together.
        concat: Makes one table of several.
    """

    budget: Budget
    operator: str
    combine: Callable[[pa.Table], pa.Table]
    concat: Callable[[Sequence[pa.Table]], pa.Table] = joined_tables
    _tables: list[pa.Table] = field(default_factory=list)
    _combined_rows: int = 0
    _pending_rows: int = 0

    def add(self, table: pa.Table) -> None:
        """Take in the rows of a block, which are put together already."""
        self.budget.keep(table.nbytes, self.operator)
        self._tables.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows > max(self.budget.block_rows, self._combined_rows):
            self._combine()

    def finish(self) -> pa.Table | None:
        """All rows put together; None when there was no table."""
        if not self._tables:
            return None
        self._combine()
        return self._tables[0]

    def _combine(self) -> None:
        if len(self._tables) > 1:
            before = self.concat(self._tables)
            with self.budget.using(before.nbytes, self.operator):
                after = self.budget.apart(
                    self.operator, before.num_rows, lambda: self.combine(before)
                )
            self.budget.free(sum(table.nbytes for table in self._tables))
            self._tables = [after]
            self.budget.keep(after.nbytes, self.operator)
        self._combined_rows = self._tables[0].num_rows
        self._pending_rows = 0
