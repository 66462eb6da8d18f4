"""Staged changes of a table's columns: added, dropped and renamed without touching other data.

Lance tells columns apart by field ids. A schema that is given as a pyarrow schema gets new ids,
and the table then reads the data of other columns, silently. So the new schema is made by Lance
itself, on an empty table in memory that starts with the table's own ids.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.schema import LanceSchema

from omnigraph.errors import StorageError, UsageError
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import FILE_FORMAT, StagedWrite, staged

_PAD = "__pad_{}"
_MOVED = "__moved_{}"
_NEW = "__new_{}"


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add: null in every row, the same value in every row, or computed from the row.

    Attributes:
        field: The column. Its metadata stays: it carries the property's stable id.
        value: The value of every row.
        compute: Gives the values for some rows, instead.
        reads: The columns of the table, as it is, that `compute` gets.
    """

    field: pa.Field
    value: Any = None
    compute: Callable[[pa.RecordBatch], pa.Array] | None = None
    reads: tuple[str, ...] = ()

    @property
    def is_filled(self) -> bool:
        """True when rows get a value."""
        return self.value is not None or self.compute is not None

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """The values for some rows."""
        if self.compute is not None:
            return self.compute(rows)
        value = pa.array([self.value], self.field.type)
        return value.take(pa.repeat(0, rows.num_rows))


def stage_schema(
    snapshot: TableSnapshot,
    *,
    adds: Sequence[NewColumn] = (),
    drops: Sequence[str] = (),
    renames: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
) -> StagedWrite:
    """Stage a change of columns. Drops come first, then renames, then adds.

    Without a value for a new column, only the schema changes. Indexes of other columns stay.

    Args:
        snapshot: The version to change.
        adds: New columns. One may have the name of a dropped one, and be computed from it.
        drops: Columns that go.
        renames: The names that columns get.
        nullable: By the names after renames, whether columns may have null; those that may not
            have none, as the caller knows.

    Raises:
        UsageError: A column to change does not exist, or a name would be a duplicate.
    """
    snapshot = snapshot.private()
    renames, nullable = renames or {}, nullable or {}
    names = snapshot.schema.names
    dataset: LanceDataset = snapshot._dataset
    with table_errors(snapshot.ref):
        has_rows = bool(dataset.get_fragments())
        _check(names, adds, drops, renames, has_rows)
        if not has_rows or not any(column.is_filled for column in adds):
            schema = _changed(dataset, [c.field for c in adds], drops, renames, nullable)
            return staged(snapshot, "schema", LanceOperation.Project(schema))
        # Beside data, Lance wants data for every name that comes to stand for another column.
        filled = [c for c in adds if c.is_filled or c.field.name in names]
        # Lance numbers the columns it writes first.
        ordered = [*filled, *(c for c in adds if c not in filled)]
        schema = _changed(dataset, [c.field for c in ordered], drops, renames, nullable)
        fragments = _fill(dataset, filled, schema)
        return staged(snapshot, "schema", LanceOperation.Merge(fragments, schema))


def _check(
    names: Sequence[str],
    adds: Sequence[NewColumn],
    drops: Sequence[str],
    renames: Mapping[str, str],
    has_rows: bool,
) -> None:
    for name in (*drops, *renames):
        if name not in names:
            raise UsageError(f"there is no column {name} to change")
    left = [renames.get(name, name) for name in names if name not in drops]
    left += [column.field.name for column in adds]
    if twice := {name for name in left if left.count(name) > 1}:
        raise UsageError(f"there would be two columns {sorted(twice)[0]}")
    for column in adds if has_rows else ():
        if not column.is_filled and not column.field.nullable:
            raise UsageError(f"the new column {column.field.name} needs a value for the rows")
    if (
        has_rows
        and any(c.is_filled for c in adds)
        and (taken := set(renames.values()) & set(names))
    ):
        raise UsageError(
            f"cannot rename a column to {sorted(taken)[0]}, the name of another one, and fill a new"
            " column in one step; make it two"
        )


def _changed(
    dataset: LanceDataset,
    adds: Sequence[pa.Field],
    drops: Sequence[str],
    renames: Mapping[str, str],
    nullable: Mapping[str, bool],
) -> LanceSchema:
    """The table's schema after the change, with the right field ids."""
    draft = lance.write_dataset(
        pa.table({"_": pa.array([], pa.bool_())}),
        f"memory://{uuid.uuid4().hex}",
        data_storage_version=FILE_FORMAT,
    )
    draft = LanceDataset.commit(
        draft, LanceOperation.Overwrite(dataset.lance_schema, []), read_version=draft.version
    )
    if drops:
        draft.drop_columns(list(drops))
    if renames:
        # In two steps, so that two columns can swap their names.
        _alter(draft, [{"path": n, "name": _MOVED.format(n)} for n in renames])
        _alter(draft, [{"path": _MOVED.format(n), "name": new} for n, new in renames.items()])
    if nullable:
        _alter(draft, [{"path": name, "nullable": may} for name, may in nullable.items()])
    if adds:
        # Data files may still hold dropped columns: their ids must not be given out again.
        taken = range(dataset.max_field_id - draft.max_field_id)
        pads = [pa.field(_PAD.format(n), pa.bool_()) for n in taken]
        draft.add_columns(pa.schema([*pads, *(field.with_nullable(True) for field in adds)]))
        if pads:
            draft.drop_columns([pad.name for pad in pads])
        if required := [field.name for field in adds if not field.nullable]:
            _alter(draft, [{"path": name, "nullable": False} for name in required])
    return draft.lance_schema


def _alter(draft: LanceDataset, changes: Sequence[Any]) -> None:
    draft.alter_columns(*changes)


def _fill(
    dataset: LanceDataset, columns: Sequence[NewColumn], schema: LanceSchema
) -> list[lance.FragmentMetadata]:
    """Write the values of new columns beside the files of each fragment."""
    # The files know field ids only, so the names need not be free yet.
    fields = [column.field.with_name(_NEW.format(n)) for n, column in enumerate(columns)]
    written = pa.schema(fields)
    reads = list(dict.fromkeys(name for column in columns for name in column.reads))

    def new_values(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([column.values(rows) for column in columns], schema=written)

    fragments = []
    for fragment in dataset.get_fragments():
        metadata, merged = fragment.merge_columns(
            new_values, columns=reads or [dataset.schema.names[0]]
        )
        for field, column in zip(fields, columns, strict=True):
            if _field_id(merged, field.name) != _field_id(schema, column.field.name):
                raise StorageError(f"Lance numbered the new column {column.field.name} otherwise")
        fragments.append(metadata)
    return fragments


def _field_id(schema: LanceSchema, name: str) -> int:
    field = schema.field(name)
    return -1 if field is None else int(field.id())
