"""Does the data fit a new schema? Looks at what data-dependent steps are about, and no further.

The rules are those of every write, over the rows as they would be afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from omnigraph.compute.datum import ComputeFault
from omnigraph.compute.keys import physical
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.schema.steps import SchemaPlan, Step
from omnigraph.writes.delta import TableDelta
from omnigraph.writes.reads import ReadTable
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.values import check_values
from omnigraph.writes.rules.write import check_keys
from omnigraph.writes.schema_columns import NewShape
from omnigraph.writes.view import View

Type = NodeType | EdgeType


def check_data(view: View, plan: SchemaPlan, shapes: Mapping[int, NewShape]) -> None:
    """Check the rows of a branch against the schema that it is to have.

    Args:
        view: The branch as it is.
        plan: The change.
        shapes: The columns of types that stay, by the ids of the types.

    Raises:
        ValidationError: Rows break rules; their ids are listed.
    """
    check = _Check(view, plan.desired, shapes)
    for step in plan.of_effect("data-dependent"):
        check.add(step)
    check.run()


class _Check:
    def __init__(self, view: View, desired: Catalog, shapes: Mapping[int, NewShape]) -> None:
        self._view = view
        self._desired = desired
        self._shapes = shapes
        self._violations = Violations()
        #: By type, the columns whose values are looked at.
        self._columns: dict[int, dict[str, None]] = {}
        self._uniques: dict[int, Type] = {}
        self._edges: dict[int, EdgeType] = {}
        self._tables = {type.id: type for type in desired.tables()}
        self._old_names = {type.id: type.name for type in view.catalog.tables()}

    def add(self, step: Step) -> None:
        """Have something looked at."""
        type = self._tables[step.type_id]
        if step.needs_no_rows:
            rows = self._rows(type)
            if rows:
                counted = "is 1 row" if rows == 1 else f"are {rows:,} rows"
                reason = f"{step.message}: there {counted}; {step.hint}"
                self._violations.add(type.name, None, step.property, None, "schema", reason)
        elif step.kind == "add_unique":
            self._uniques[type.id] = type
        elif step.kind in ("narrow_cardinality", "add_type"):
            assert isinstance(type, EdgeType)
            self._edges[type.id] = type
        else:
            assert step.property is not None
            self._columns.setdefault(type.id, {})[step.property] = None

    def run(self) -> None:
        """Look at everything that was added."""
        for id, columns in self._columns.items():
            self._check_values(self._tables[id], list(columns))
        self._violations.refuse()
        types: dict[str, Type] = {type.name: type for type in self._uniques.values()}
        for edge in self._edges.values():
            for name in (edge.name, edge.source, edge.target):
                types[name] = self._desired.type(name)
        deltas = {name: self._delta(type) for name, type in types.items()}
        if deltas:
            edges = list(self._edges.values())
            uniques = {type.name for type in self._uniques.values()}
            check_keys(
                self._desired,
                deltas,
                self._table,
                self._violations,
                edges=edges,
                uniques=uniques,
            )
        self._violations.refuse()

    def _rows(self, type: Type) -> int:
        name = self._old_names.get(type.id)
        return 0 if name is None else self._view.published(name).rows

    def _table(self, name: str) -> ReadTable:
        type = self._desired.table(name)
        assert type is not None
        return self._view.table(self._old_names[type.id])

    def _check_values(self, type: Type, columns: Sequence[str]) -> None:
        for rows in self._parts(type, ["id", *columns]):
            check_values(type, rows, self._violations, columns=frozenset(columns))

    def _delta(self, type: Type) -> TableDelta:
        """All rows of a type as if they were written to an empty table, as far as keys go."""
        ends = ["src", "dst"] if isinstance(type, EdgeType) else []
        groups = type.uniques if type.id in self._uniques else ()
        uniques = [physical(name, type) for group in groups for name in group]
        names = list(dict.fromkeys(["id", *ends, *uniques]))
        schema = table_schema(type)
        empty = pa.schema([schema.field(name) for name in names]).empty_table()
        parts = list(self._parts(type, names))
        rows = pa.concat_tables([empty, *(part.cast(empty.schema) for part in parts)])
        return TableDelta.of(type, new=rows, replaces_all=True, has_distinct_ids=True)

    def _parts(self, type: Type, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of a type as they would be, a part at a time."""
        shape = self._shapes.get(type.id)
        if shape is None:
            return
        snapshot = self._view.table(self._old_names[type.id]).snapshot
        for batch in snapshot.batches(list(dict.fromkeys(["id", *shape.reads(columns)]))):
            part = self._part(type, shape, columns, pa.Table.from_batches([batch]))
            if part is not None:
                yield part

    def _part(
        self, type: Type, shape: NewShape, columns: Sequence[str], rows: pa.Table
    ) -> pa.Table | None:
        """Rows as they would be, without those of which something cannot be computed."""
        while True:
            column = ""
            try:
                values = {}
                for column in columns:
                    values[column] = shape.values(column, rows)
                return pa.table(values)
            except ComputeFault as fault:
                id = None if fault.row is None else rows["id"][fault.row].as_py()
                self._violations.add(type.name, id, column, None, "type", fault.message)
                if fault.row is None or self._violations.total >= self._violations.most:
                    return None
                rows = pa.concat_tables([rows[: fault.row], rows[fault.row + 1 :]])
