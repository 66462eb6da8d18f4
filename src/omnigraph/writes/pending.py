"""The rows of one type that a mutation has inserted or updated so far.

Pending rows shadow the committed ones with the same ids: later statements see them and only them.
Inserts are gathered as plain values and become columns when somebody looks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.evaluate import Bindings, ComputeFault, evaluate, fit, matches, value
from omnigraph.compute.keys import ids_of, physical
from omnigraph.compute.ulids import mint_ulids
from omnigraph.language import EdgeType
from omnigraph.language.query.plan import Assignment, Insert, Update
from omnigraph.language.schema.arrow import arrow_type, table_schema
from omnigraph.language.schema.catalog import ENDS
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import Value, coerce
from omnigraph.storage.blobs import read_rewritable
from omnigraph.storage.tables import ROW_ID
from omnigraph.writes.conform import fit_column
from omnigraph.writes.delta import TableDelta, old_columns, old_schema
from omnigraph.writes.reads import columns_of
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.values import misfit
from omnigraph.writes.selection import select_rows
from omnigraph.writes.vectors import embedded, fill_vectors
from omnigraph.writes.view import View

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder

_INSERTED = "_inserted"
_MOST_CHUNKS = 16


class Pending:
    """What a mutation has written to one table, before it is committed."""

    def __init__(
        self, view: View, name: str, violations: Violations, embedder: Callable[[], Embedder]
    ) -> None:
        self._view = view
        self._embedder = embedder
        self.type = view.type(name)
        self._table = view.table(name)
        self._violations = violations
        self._schema = table_schema(self.type)
        self._blobs = [p.name for p in self.type.stored_properties if p.type.is_blob]
        #: Columns that inserts give: an edge's ends and the properties, with what they are.
        self._types: dict[str, ValueType] = {
            **(dict.fromkeys(ENDS, STRING) if isinstance(self.type, EdgeType) else {}),
            **{p.name: p.type for p in self.type.stored_properties},
        }
        self._buffer: list[dict[str, Value]] = []
        #: By the place in the buffer and the property: values that could not be computed, by the
        #: rule that is broken, and why.
        self._faults: dict[tuple[int, str], tuple[str, str]] = {}
        self._rows = self._schema.empty_table()
        #: What each row replaces (null: nothing that is known yet), and if it was inserted.
        self._old = pa.schema([*old_schema(self.type), (_INSERTED, pa.bool_())]).empty_table()
        self._touched: set[str] = set()

    # --- statements ---

    def insert(self, statement: Insert, bindings: Bindings) -> None:
        """Add a row; with a key it takes the place of the committed row that has the same one."""
        row = {p.name: p.default for p in self.type.properties.values() if p.has_default}
        for assignment in statement.values:
            try:
                row[assignment.property] = value(assignment.value, bindings)
            except ComputeFault as fault:
                self._faults[len(self._buffer), assignment.property] = "type", fault.message
        self._buffer.append(row)

    def update(self, statement: Update, bindings: Bindings) -> None:
        """Rewrite the rows that match, committed and pending ones."""
        self._flush()
        committed = self._committed(statement, bindings)
        mine = matches(
            statement.condition, columns_of(self.type, self._rows), self._rows.num_rows, bindings
        )
        rows = pa.concat_tables([self._plain_rows(committed, statement), self._rows.filter(mine)])
        if not rows.num_rows:
            return
        old = committed.select([f.name for f in old_schema(self.type)])
        old = old.append_column(_INSERTED, pa.repeat(pa.scalar(False), old.num_rows))
        old = pa.concat_tables([old.cast(self._old.schema), self._old.filter(mine)])
        changed = rows
        for assignment in statement.values:
            name = physical(assignment.property, self.type)
            place = self._schema.get_field_index(name)
            column = self._assigned(assignment, rows, bindings)
            changed = changed.set_column(place, self._schema.field(place), column)
            self._touched.add(name)
        rest = pc.invert(mine)
        self._rows = _joined(self._rows.filter(rest), changed)
        self._old = _joined(self._old.filter(rest), old)

    def finish(self) -> tuple[TableDelta, int]:
        """What becomes of the table, and how many committed rows inserts have replaced."""
        self._flush()
        rows, old = self._rows, self._old
        inserted = old[_INSERTED]
        if self.type.key and pc.any(inserted).as_py():
            old = self._located(rows["id"].combine_chunks(), old)
        known = pc.is_valid(old[ROW_ID])
        replaced = int(pc.sum(pc.and_(known, inserted)).as_py() or 0)
        delta = TableDelta.of(
            self.type,
            new=rows.filter(pc.invert(known)),
            changed=rows.filter(known),
            changed_from=old.filter(known).drop_columns([_INSERTED]),
            touched=None if replaced else frozenset(self._touched),
        )
        return delta, replaced

    # --- inserts ---

    def _flush(self) -> None:
        """Turn the inserts since the last time into rows."""
        if not self._buffer:
            return
        count = len(self._buffer)
        faults = dict(self._faults)
        columns = {
            physical(name, self.type): self._column(name, type, faults)
            for name, type in self._types.items()
        }
        ids = ids_of(self.type, columns) if self.type.key else mint_ulids(count)
        columns["id"] = ids
        if not self.type.key:
            self._violations.minted.append(ids)
        for (place, name), (rule, reason) in faults.items():
            assigned, id = self._buffer[place].get(name), ids[place].as_py()
            self._violations.add(self.type.name, id, name, assigned, rule, reason, is_null=True)
        rows = pa.Table.from_arrays([columns[n] for n in self._schema.names], schema=self._schema)
        rows = self._with_vectors(rows)
        # An insert replaces the whole row, so what updates have made of it does not count.
        if self.type.key and self._rows.num_rows:
            updated = pc.and_(
                pc.invert(self._old[_INSERTED]), pc.is_in(self._rows["id"], value_set=ids)
            )
            self._rows = self._rows.filter(pc.invert(updated))
            self._old = self._old.filter(pc.invert(updated))
        old = [pa.nulls(count, field.type) for field in self._old.schema]
        old[-1] = pa.repeat(pa.scalar(True), count)
        self._rows = _joined(self._rows, rows)
        self._old = _joined(self._old, pa.Table.from_arrays(old, schema=self._old.schema))
        self._buffer, self._faults = [], {}

    def _with_vectors(self, rows: pa.Table) -> pa.Table:
        """The rows with the vectors that they need and leave out; others stay null."""
        required = [p for p in embedded(self.type) if not p.type.nullable]
        if not required:
            return rows
        nulls = {p.name: [p.name in row for row in self._buffer] for p in required}
        objects = self._view.repository.objects
        filled = fill_vectors(self.type, rows, required, self._embedder, objects, nulls)
        return pa.Table.from_arrays(filled.columns, schema=self._schema)

    def _column(
        self, name: str, type: ValueType, faults: dict[tuple[int, str], tuple[str, str]]
    ) -> pa.Array:
        values = [row.get(name) for row in self._buffer]
        try:
            return _array(values, type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            # Something does not fit: look at the values one by one.
            for place, assigned in enumerate(values):
                fault = misfit(assigned, type)
                if fault is not None:
                    faults[place, name] = fault
                values[place] = None if fault else coerce(assigned, type.as_nullable(True))
            return _array(values, type)

    def _located(self, ids: pa.Array, old: pa.Table) -> pa.Table:
        """Look up which of the inserted rows replace a committed one."""
        inserted = old[_INSERTED]
        existing = self._table.find(
            "id", ids.filter(inserted.combine_chunks()), old_columns(self.type)
        )
        at = pc.index_in(ids, value_set=existing["id"].combine_chunks())
        columns = [
            pc.if_else(inserted, existing[field.name].take(at), old[field.name])
            for field in old_schema(self.type)
        ]
        return pa.Table.from_arrays([*columns, inserted], schema=old.schema)

    # --- updates ---

    def _committed(self, statement: Update, bindings: Bindings) -> pa.Table:
        """The committed rows that match and that no pending row shadows."""
        columns = [name for name in self._schema.names if name not in self._blobs]
        rows = select_rows(self.type, self._table, statement.condition, bindings, columns)
        if not self._rows.num_rows:
            return rows
        shadowed = pc.is_in(rows["id"], value_set=self._rows["id"].combine_chunks())
        return rows.filter(pc.invert(shadowed))

    def _plain_rows(self, committed: pa.Table, statement: Update) -> pa.Table:
        """Committed rows with the columns of the table; blobs that stay are copied."""
        assigned = {assignment.property for assignment in statement.values}
        unchanged = [name for name in self._blobs if name not in assigned]
        blobs = {}
        if unchanged and committed.num_rows:
            copied = read_rewritable(self._table.snapshot, committed[ROW_ID].to_pylist(), unchanged)
            blobs = {name: copied[name] for name in unchanged}
        columns = [
            committed[field.name]
            if field.name in committed.column_names
            else blobs.get(field.name, pa.nulls(committed.num_rows, field.type))
            for field in self._schema
        ]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _assigned(self, assignment: Assignment, rows: pa.Table, bindings: Bindings) -> Any:
        """The new values of a property."""
        name = physical(assignment.property, self.type)
        type = self._types[assignment.property]
        ids = rows["id"].combine_chunks()
        if type.is_blob:
            return _array([value(assignment.value, bindings)] * rows.num_rows, type)
        try:
            column = evaluate(
                assignment.value, columns_of(self.type, rows), rows.num_rows, bindings
            )
            if type.is_float and pa.types.is_integer(column.type):
                # As everywhere in the language, an integer becomes the nearest float.
                column = fit(column, type)
        except ComputeFault as fault:
            id = None if fault.row is None else ids[fault.row].as_py()
            self._violations.add(
                self.type.name, id, assignment.property, None, "type", fault.message
            )
            return rows[name]
        fitting, wrong, why = fit_column(type, column)
        if why is not None:
            self._violations.add(self.type.name, None, assignment.property, None, "type", why)
        for place, assigned, rule, reason in wrong:
            id = ids[place].as_py()
            self._violations.add(self.type.name, id, assignment.property, assigned, rule, reason)
        # The rows keep what they had: nothing follows from a value that does not fit.
        return rows[name] if wrong or why is not None else fitting


def _joined(*tables: pa.Table) -> pa.Table:
    joined = pa.concat_tables(tables)
    # Every statement adds a chunk, and Arrow's functions pay for each.
    return joined.combine_chunks() if joined["id"].num_chunks > _MOST_CHUNKS else joined


def _array(values: list[Value], type: ValueType) -> pa.Array:
    if type.is_blob:
        return pa.array([_blob(v) for v in values], arrow_type(type))
    if type.is_float:
        values = [None if v is None else float(v) for v in values]
    return pa.array(values, arrow_type(type))


def _blob(content: bytes | str | None) -> dict[str, Any] | None:
    if content is None:
        return None
    return {"data": content} if isinstance(content, bytes) else {"uri": content}
