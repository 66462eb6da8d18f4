"""The simplest writer: whole batches of rows for several tables, in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import UsageError
from omnigraph.history.repository import Repository
from omnigraph.language import EdgeType, NodeType
from omnigraph.writes.conform import check_rows, conform
from omnigraph.writes.delta import TableDelta, old_columns, split
from omnigraph.writes.digests import request_digest
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import WriteRequest, WriteResult
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.write import check_keys
from omnigraph.writes.view import View

Mode = Literal["append", "merge", "overwrite", "delete"]

#: Per type: a mode with rows, or `delete` with a predicate over the table's columns.
Batches = Mapping[str, tuple[Mode, pa.Table | str]]


def write_batches(
    repository: Repository,
    branch: str,
    batches: Batches,
    options: CommitOptions,
) -> WriteResult:
    """Write batches to several tables in one commit.

    Args:
        repository: The graph.
        branch: The branch to write to.
        batches: Rows have the columns of their table: `id`, for edges `src` and `dst` (or `from`
            and `to`), and properties. Ids may be left out.
        options: What the caller says about the commit.

    Raises:
        NotFound: There is no such branch or type.
        KeyConflict: A row to append already exists.
        ValidationError: Rows do not fit their table, or break a rule; nothing was written.
    """
    if not isinstance(batches, Mapping):
        raise UsageError("batches are given by type, as in {'Person': ('merge', rows)}")
    for name, batch in batches.items():
        _check_form(name, batch)

    def prepare(view: View) -> Mapping[str, TableDelta]:
        violations = Violations()
        unknown: set[str] = set()
        deltas: dict[str, TableDelta] = {}
        for name, (mode, data) in batches.items():
            if mode == "delete":
                deltas[name] = _deleted(view, name, str(data))
                continue
            type = view.type(name)
            assert isinstance(data, pa.Table)
            rows = conform(type, data, violations)
            check_rows(type, rows, violations, external_blobs=repository.external_blobs)
            if not rows.whole.isdisjoint(("id", *type.key)):
                unknown.add(name)
            deltas[name] = _delta(view, type, mode, rows.table)
        check_keys(view.catalog, deltas, view.table, violations, unknown=unknown)
        violations.refuse()
        return deltas

    may_repeat = all(mode in ("append", "merge") for mode, _ in batches.values())
    described = [part for name, batch in sorted(batches.items()) for part in (name, *batch)]
    return write(
        repository,
        WriteRequest(
            branch,
            prepare,
            may_repeat,
            options,
            request_digest=request_digest(options.idempotency_key, *described),
        ),
    )


def _check_form(name: str, batch: tuple[Mode, pa.Table | str]) -> None:
    if not isinstance(name, str):
        raise UsageError(f"a type is given by its name, not as {name!r}")
    if not isinstance(batch, tuple) or len(batch) != 2:
        raise UsageError(
            f"{name} is given as a pair, such as ('merge', rows) or ('delete', predicate)"
        )
    mode, data = batch
    if mode == "delete":
        if not isinstance(data, str) or not data.strip():
            raise UsageError(f"a delete of {name} needs a predicate, such as \"id = 'x'\"")
    elif mode not in ("append", "merge", "overwrite"):
        raise UsageError(f"`{mode}` is no way to write: use append, merge, overwrite or delete")
    elif not isinstance(data, pa.Table):
        raise UsageError(f"rows of {name} are given as a pyarrow Table")


def _deleted(view: View, name: str, predicate: str) -> TableDelta:
    type, table = view.type(name), view.table(name)
    table.snapshot.check_predicate(predicate)
    return TableDelta.of(type, removed=table.read(old_columns(type), predicate, places=True))


def _delta(view: View, type: NodeType | EdgeType, mode: Mode, rows: pa.Table) -> TableDelta:
    table, ids = view.table(type.name), rows["id"].combine_chunks()
    if mode == "overwrite":
        old = table.read(old_columns(type), places=True)
        gone = pc.invert(pc.is_in(old["id"], value_set=ids))
        return split(type, rows, old, removed=old.filter(gone), replaces_all=True)
    return split(type, rows, table.find("id", ids, old_columns(type)), strict=mode == "append")
