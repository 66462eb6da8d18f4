"""What the deletes of one mutation remove, each row once, with the edges at deleted nodes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.evaluate import Bindings
from omnigraph.language.query.plan import Delete
from omnigraph.writes.delta import TableDelta, old_columns
from omnigraph.writes.selection import select_rows
from omnigraph.writes.view import View


class Deletion:
    """The rows that the statements so far have deleted, by type."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._removed: dict[str, pa.Table] = {}

    def delete(self, statement: Delete, bindings: Bindings) -> None:
        """Delete what a statement matches, and the edges of the nodes among it."""
        type, table = self._view.type(statement.type), self._view.table(statement.type)
        rows = select_rows(type, table, statement.condition, bindings, old_columns(type))
        gone = self._remove(statement.type, rows)
        for name in statement.cascades if len(gone) else ():
            edge = self._view.catalog.edges[name]
            for column, end in (("src", edge.source), ("dst", edge.target)):
                if end == statement.type:
                    at_end = self._view.table(name).find(column, gone, old_columns(edge))
                    self._remove(name, at_end)

    def deltas(self) -> dict[str, TableDelta]:
        """What became of the tables that lose rows."""
        return {
            name: TableDelta.of(self._view.type(name), removed=rows, cascades=True)
            for name, rows in self._removed.items()
            if rows.num_rows
        }

    def _remove(self, name: str, rows: pa.Table) -> pa.Array:
        """Add rows to what is removed; returns the ids of those that were not yet."""
        known = self._removed.get(name)
        if known is not None:
            rows = rows.filter(
                pc.invert(pc.is_in(rows["id"], value_set=known["id"].combine_chunks()))
            )
            self._removed[name] = pa.concat_tables([known, rows])
        else:
            self._removed[name] = rows
        return rows["id"].combine_chunks()
