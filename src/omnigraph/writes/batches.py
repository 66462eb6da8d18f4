"""The simplest writer: whole batches of rows for several tables, in one commit."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError, ValidationError, Violation
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.writes.protocol import Mode, TableChange, WriteRequest, WriteResult, write

#: Per type: a mode with rows, or `delete` with a predicate over the table's columns.
Batches = Mapping[str, tuple[Mode, pa.Table | str]]


def write_batches(
    repository: Repository,
    branch: str,
    batches: Batches,
    *,
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
    idempotency_key: str | None = None,
) -> WriteResult:
    """Write batches to several tables in one commit.

    Args:
        repository: The graph.
        branch: The branch to write to.
        batches: Rows have the physical columns: `id`, for edges `src` and `dst`, and properties.
        actor: Who writes.
        message: What for.
        if_commit: Write only if this is the branch's head.
        idempotency_key: Makes a repeated call give the first one's commit.

    Raises:
        NotFound: There is no such branch or type.
        ValidationError: Rows do not have the form of their table; nothing was written.
    """
    changes: dict[str, TableChange] = {}
    violations: list[Violation] = []
    for name, batch in batches.items():
        if not isinstance(batch, tuple) or len(batch) != 2:
            raise UsageError(
                f"{name} is given as a pair, such as ('merge', rows) or ('delete', predicate)"
            )
        try:
            changes[name] = _change(repository, name, *batch)
        except ValidationError as error:
            violations += error.violations
    if violations:
        raise ValidationError(violations)
    request = WriteRequest(branch, changes, actor, message, if_commit, idempotency_key)
    return write(repository, request)


def _change(repository: Repository, name: str, mode: Mode, data: pa.Table | str) -> TableChange:
    type = repository.catalog.table(name)
    if type is None:
        known = [t.name for t in repository.catalog.tables()]
        hint = did_you_mean(name, known)
        raise NotFound(f"the graph has no type `{name}`" + (f"; {hint}" if hint else ""))
    if mode == "delete":
        if not isinstance(data, str) or not data.strip():
            raise UsageError(f"a delete of {name} needs a predicate, such as \"id = 'x'\"")
        return TableChange("delete", where=data)
    if mode not in ("append", "merge", "overwrite"):
        raise UsageError(f"`{mode}` is no way to write: use append, merge, overwrite or delete")
    if not isinstance(data, pa.Table):
        raise UsageError(f"rows of {name} are given as a pyarrow Table")
    return TableChange(mode, rows=conform(type, data))


def conform(type: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    """Give rows the columns and types of their table, or say what does not fit.

    Raises:
        ValidationError: A column is missing, unknown, of another type, or has nulls it may not
            have; or an id is there twice.
    """
    schema = table_schema(type)
    violations = [
        _violation(type, name, "column", f"{type.name} has no column `{name}`")
        for name in rows.column_names
        if name not in schema.names
    ]
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            if field.nullable:
                columns.append(pa.nulls(rows.num_rows, field.type))
            else:
                text = f"{type.name} needs the column `{field.name}`"
                violations.append(_violation(type, field.name, "column", text))
            continue
        column = rows[field.name]
        if column.null_count and not field.nullable:
            text = f"`{field.name}` of {type.name} has {column.null_count} nulls and allows none"
            violations.append(_violation(type, field.name, "not_null", text))
            continue
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            text = f"`{field.name}` of {type.name} is {field.type}, not {column.type}: {error}"
            violations.append(_violation(type, field.name, "type", text))
    if not violations:
        counts = pc.value_counts(rows["id"].combine_chunks())
        twice = counts.filter(pc.greater(counts.field("counts"), 1))
        violations += [
            Violation(type.name, str(id), "id", str(id), "unique_ids",
                      f"the id {id!r} of {type.name} is given twice")
            for id in twice.field("values")[:100].to_pylist()
        ]  # fmt: skip
    if violations:
        raise ValidationError(violations)
    return pa.Table.from_arrays(columns, schema=schema)


def _violation(type: NodeType | EdgeType, column: str, rule: str, message: str) -> Violation:
    return Violation(type.name, None, column, None, rule, message)
