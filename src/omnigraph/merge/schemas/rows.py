"""A merge of states with different schemas: the rows of all sides in the terms of the merged one.

The tables of the branch get the columns of the merged schema and the merged rows in one write.
Rules that the branch did not have are checked over all its rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct, structs

from omnigraph.compute.keys import physical
from omnigraph.errors import UsageError
from omnigraph.history.manifest import PublishedTable, SchemaChange, new_table
from omnigraph.language import EdgeType, NodeType, print_schema
from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.merge.changes import (
    GraphState,
    as_change_rows,
    change_schema,
    identity_of,
    stored_columns,
)
from omnigraph.merge.combine import Combination, Combined, Settling, Sides, by_id, uris
from omnigraph.merge.conflicts import Conflict
from omnigraph.merge.rows import RowChanges, without_ids
from omnigraph.merge.schemas.columns import column_change
from omnigraph.merge.schemas.losses import schema_conflict
from omnigraph.merge.schemas.outcome import SchemaOutcome
from omnigraph.merge.schemas.terms import Terms
from omnigraph.storage.table_ref import TableRef
from omnigraph.writes.delta import TableDelta, old_schema
from omnigraph.writes.reads import ReadTable
from omnigraph.writes.request import Change
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.values import check_values
from omnigraph.writes.rules.write import check_keys
from omnigraph.writes.view import View

Type = NodeType | EdgeType


class AcrossSchemas(Struct, frozen=True):
    """A merge of states with different schemas: what becomes of the rows and of the schema."""

    combined: Combined
    changes: Mapping[str, Change]


def combine_across(
    view: View, outcome: SchemaOutcome, settings: Settling, *, source: GraphState
) -> AcrossSchemas:
    """Merge rows once the schemas are.

    Args:
        view: Our side.
        outcome: What comes of the schemas.
        settings: How it is done.
        source: Their side as it is.
    """
    if outcome.plan is None:
        return AcrossSchemas(Combined({}, outcome.conflicts, outcome.settled), {})
    combination = _Combination(view, outcome, settings)
    rows = combination.run(True)
    combined = Combined(
        {name: delta for name, delta in rows.deltas.items() if any(_counts(delta))},
        (*outcome.conflicts, *rows.conflicts),
        (*outcome.settled, *rows.settled),
        schema=outcome.plan if outcome.plan.steps else None,
    )
    if combined.conflicts:
        return AcrossSchemas(combined, {})
    changes = combination.table_changes(rows.deltas)
    _set_schema(view, outcome.plan, combination.adopted, source)
    return AcrossSchemas(combined, changes)


def _counts(delta: Change) -> tuple[int, int, int]:
    planned = delta.outcome
    return planned.inserted, planned.replaced, planned.deleted


def _set_schema(
    view: View, plan: SchemaPlan, adopted: Mapping[int, PublishedTable], source: GraphState
) -> None:
    """Say what becomes of the branch's schema, if that changes."""
    catalog, schemas = plan.desired, view.repository.history.schemas
    if catalog.identity_hash == view.catalog.identity_hash:
        return
    text = print_schema(catalog)
    if catalog.identity_hash == source.catalog.identity_hash:
        text = schemas.schema(source.state.schema).text
    before = {identity_of(type): type.table_key for type in view.catalog.tables()}
    after = {identity_of(type): type.table_key for type in catalog.tables()}
    view.schema_change = SchemaChange(
        schemas.store(text, catalog),
        (),
        {i: key for i, key in after.items() if before.get(i, key) != key},
        tuple(identity for identity in before if identity not in after),
        tuple(adopted.values()),
    )


class _Combination(Combination):
    """Merges rows in the terms of the merged schema."""

    def __init__(self, view: View, outcome: SchemaOutcome, settings: Settling) -> None:
        assert outcome.plan is not None
        self._plan = outcome.plan
        self._terms: Terms = outcome.theirs.terms
        self._known_changes = outcome.changes
        self._our_names = {identity_of(type): type.name for type in view.catalog.tables()}
        #: The tables of types that our side does not have, by type id.
        self.adopted: dict[int, PublishedTable] = {}
        for type in outcome.plan.desired.tables():
            if identity_of(type) not in self._our_names:
                self.adopted[type.id] = _adopted(view, type)
                view.adopted[_adopted_key(type)] = self.adopted[type.id]
        super().__init__(view, outcome.base, outcome.theirs, settings)

    def run(self, check: bool) -> Combined:
        """Merge, and see that what works without rows only has none."""
        combined = super().run(check)
        conflicts = [*combined.conflicts]
        for step in self._plan.steps:
            type = self.catalog.table(step.type)
            if step.needs_no_rows and step.kind != "add_property" and type is not None:
                delta = combined.deltas.get(type.name)
                replaced = 0 if delta is None else sum(_counts(delta)[1:])
                rows = self._table(type).snapshot.count() - replaced
                if rows > 0 and type.id not in self.adopted:
                    message = f"{step.message}: there are {rows:,} rows; {step.hint}"
                    conflicts.append(
                        schema_conflict(type.kind, type.name, step.kind, step.property, message)
                    )
        return structs.replace(combined, conflicts=tuple(conflicts))

    def table_changes(self, deltas: Mapping[str, Change]) -> dict[str, Change]:
        """What is done to the tables, by the names that the write protocol knows them by."""
        changes: dict[str, Change] = {}
        for type in self.catalog.tables():
            columns = column_change(type, self._table(type).snapshot, self._terms)
            delta = deltas.get(type.name)
            change: Change = dataclasses.replace(columns, then=delta)
            if columns.is_empty:
                if delta is None:
                    continue
                change = delta
            name = self._our_names.get(identity_of(type), _adopted_key(type))
            changes[name] = change
        return changes

    # --- rows ---

    def _compared(self) -> Mapping[str, RowChanges]:
        return self._known_changes

    def _table(self, type: Type) -> ReadTable:
        return self.view.table(self._our_names.get(identity_of(type), _adopted_key(type)))

    def _sides(self, type: Type) -> Sides:
        ours = self._table(type).snapshot
        return Sides(
            self.base.state.snapshot(type) if self.base.state.has(type) else ours,
            ours,
            self.theirs.snapshot(type) if self.theirs.has(type) else ours,
            # Rows in the same place may have other values by the change of the schema.
            False,
            self._terms,
        )

    def _looked_up(self, type: Type, ids: pa.Array) -> pa.Table:
        if type.id in self.adopted:
            return old_schema(type).empty_table()
        return super()._looked_up(type, ids)

    def _rows(self, type: Type, ids: pa.Array, side: str) -> pa.Table:
        if side == "ours" and type.id in self.adopted:
            return change_schema(type).empty_table()
        return super()._rows(type, ids, side)

    def _rows_merged(self) -> tuple[Mapping[str, Change], list[Conflict], list[Conflict]]:
        deltas, conflicts, settled = super()._rows_merged()
        deltas = dict(deltas)
        for type in self.catalog.tables():
            if type.id in self.adopted:
                # Whatever the table has had: the branch does not know it.
                delta = deltas.get(type.name, TableDelta.of(type))
                assert isinstance(delta, TableDelta)
                deltas[type.name] = dataclasses.replace(delta, replaces_all=True)
        return deltas, conflicts, settled

    # --- rules ---

    def _checked(self, deltas: Mapping[str, TableDelta]) -> Violations:
        violations = Violations(most=2**62)
        known = {uri for delta in deltas.values() for uri in uris(delta)}
        allowed = (*self.view.repository.external_blobs, *sorted(known))
        for delta in deltas.values():
            check_values(delta.type, delta.rows, violations, external_blobs=allowed)
        whole = dict.fromkeys(deltas)
        values: dict[str, dict[str, None]] = {}
        for step in self._plan.of_effect("data-dependent"):
            if step.kind == "add_unique":
                whole[step.type] = None
            elif step.kind in ("narrow_cardinality", "add_type"):
                edge = self.catalog.edges[step.type]
                whole |= dict.fromkeys((edge.name, edge.source, edge.target))
            elif step.property is not None and step.property in (
                self.catalog.type(step.type).properties
            ):
                values.setdefault(step.type, {})[step.property] = None
        for name, columns in values.items():
            type = self.catalog.type(name)
            rows = self._staying(type, deltas.get(name), list(columns))
            check_values(type, rows, violations, columns=frozenset(columns))
        every = {name: self._whole(self.catalog.type(name), deltas.get(name)) for name in whole}
        check_keys(
            self.catalog, every, lambda name: self._table(self.catalog.type(name)), violations
        )
        return violations

    def _staying(self, type: Type, delta: TableDelta | None, columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows of our side that stay as they are, in the merged terms."""
        ends = ["src", "dst"] if isinstance(type, EdgeType) else []
        names = list(dict.fromkeys(["id", *ends, *columns]))
        if type.id in self.adopted:
            return change_schema(type).empty_table().select(names)
        snapshot = self._table(type).snapshot
        stored = stored_columns(type, snapshot, self._terms)
        rows = as_change_rows(type, snapshot, snapshot.read(stored, places=True), self._terms)
        rows = rows.select(names)
        if delta is not None:
            rows = without_ids(rows, delta.removed_ids)
            rows = without_ids(rows, delta.changed["id"].combine_chunks())
        return rows

    def _whole(self, type: Type, delta: TableDelta | None) -> TableDelta:
        """All rows of a type afterwards, with the columns that rules about several rows need."""
        groups = [physical(name, type) for group in type.uniques for name in group]
        rows = self._staying(type, delta, groups)
        schema = table_schema(type)
        schema = pa.schema([schema.field(name) for name in rows.column_names])
        parts = [rows.cast(schema)]
        if delta is not None:
            parts.append(delta.rows.select(rows.column_names).cast(schema))
        whole = TableDelta.of(
            type,
            new=pa.concat_tables(parts),
            removed=None if delta is None else delta.removed,
            replaces_all=True,
            has_distinct_ids=True,
        )
        empty = schema.empty_table()
        return by_id(dataclasses.replace(whole, changed=empty))


def _adopted_key(type: Type) -> str:
    """What a write calls a table that the branch does not have: no type has such a name."""
    return f"+{type.name}"


def _adopted(view: View, type: Type) -> PublishedTable:
    """The table of a type that another branch has created, for the branch to write to.

    Raises:
        UsageError: The branch had the type before, and has dropped it.
    """
    tables, table = view.repository.tables, new_table(identity_of(type), type.table_key)
    fork = view.base.fork
    if fork is not None and tables.has_branch(table.path, fork):
        raise UsageError(
            f"`{type.name}` was dropped on branch `{view.base.name}`, and would have to come back"
            " there, which is not possible: do this on another branch, such as main, and create"
            " this one from it"
        )
    if not tables.exists(table.path):
        raise UsageError(
            f"the table of `{type.name}` is gone: it was dropped, and a cleanup has removed it"
        )
    ref = TableRef(table.path)
    version = tables.head(ref)
    rows = tables.open(ref, version).count()
    return structs.replace(table, version=version, rows=rows)
