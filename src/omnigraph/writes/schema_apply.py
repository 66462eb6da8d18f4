"""Changing the schema of a branch, in one commit through the write protocol.

Everything that the plan of the change says happens at once: tables of new types are created,
columns are added, renamed and dropped, and the branch has the new schema. Or nothing happens.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, structs

from omnigraph import failpoints
from omnigraph.errors import PreconditionFailed, UsageError
from omnigraph.history.manifest import Commit, SchemaChange, TableIdentity, new_table
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog, compile_schema
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.digests import request_digest
from omnigraph.writes.options import CommitOptions
from omnigraph.writes.protocol import write
from omnigraph.writes.request import WriteRequest
from omnigraph.writes.schema_columns import ColumnChange, NewShape
from omnigraph.writes.schema_data import check_data
from omnigraph.writes.view import View


class SchemaResult(Struct, frozen=True):
    """The answer to a change of the schema.

    Attributes:
        branch: Whose schema.
        commit: The commit; None when the branch had the schema already.
        plan: What was changed.
        repeated: True when an earlier call with the same idempotency key made the commit.
    """

    branch: str
    commit: Commit | None
    plan: SchemaPlan
    repeated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "branch": self.branch,
            "commit": None if self.commit is None else self.commit.id,
            "repeated": self.repeated,
            "plan": self.plan.to_dict(),
        }


def apply_schema(
    repository: Repository,
    branch: str,
    text: str,
    options: CommitOptions,
    *,
    path: str | None = None,
    allow_data_loss: bool = False,
    if_schema: str | None = None,
) -> SchemaResult:
    """Change the schema of a branch; see `Graph.schema.apply`."""
    history = repository.history
    accepted_hash = history.present(branch).state.schema
    accepted = history.schemas.catalog(accepted_hash)
    if if_schema is not None and accepted.identity_hash != if_schema:
        raise PreconditionFailed(
            f"branch `{branch}` has another schema than the one that was expected; nothing was"
            " written: look at the plan again",
            expected=if_schema,
            actual=accepted.identity_hash,
        )
    desired = compile_schema(text, path=path, accepted=accepted)
    _refuse_refused(plan_schema(accepted, desired))
    count = desired.next_id - accepted.next_id
    if count:
        # Other branches may have given out the same ids.
        first = history.schemas.reserve_ids(accepted.next_id, count)
        accepted = structs.replace(accepted, next_id=first)
        desired = compile_schema(text, path=path, accepted=accepted)
    plan = plan_schema(accepted, desired)
    now = dt.datetime.now(dt.UTC)
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)

    def prepare(view: View) -> Mapping[str, ColumnChange]:
        if not plan.steps:
            return {}
        if not allow_data_loss:
            _refuse_loss(view, plan)
        shapes = _shapes(view.catalog, plan, now)
        check_data(view, plan, shapes)
        changes = _changes(view, shapes)
        view.schema_change = structs.replace(
            schema_change(view.catalog, desired), schema=history.schemas.store(text, desired)
        )
        failpoints.hit("schema.stored")
        view.is_exact = True
        return changes

    result = write(
        repository,
        WriteRequest(
            branch,
            prepare,
            may_repeat=True,
            options=options,
            writer="schema",
            request_digest=request_digest(options.idempotency_key, "schema", text),
            is_long=True,
            schema=accepted_hash,
        ),
    )
    return SchemaResult(branch, result.commit, plan, result.repeated)


def schema_change(accepted: Catalog, desired: Catalog) -> SchemaChange:
    """Which tables come, get another name, and go; the schema's hash is not there yet."""
    before = {_identity(type): type.table_key for type in accepted.tables()}
    after = {_identity(type): type.table_key for type in desired.tables()}
    return SchemaChange(
        "",
        tuple(
            new_table(identity, key) for identity, key in after.items() if identity not in before
        ),
        {i: key for i, key in after.items() if before.get(i, key) != key},
        tuple(identity for identity in before if identity not in after),
    )


def _identity(type: Any) -> TableIdentity:
    return TableIdentity(type.id, type.incarnation)


def _refuse_refused(plan: SchemaPlan) -> None:
    refused = plan.of_effect("refused")
    if refused:
        lines = [f"  {step.type}: {step.message} ({step.code}); {step.hint}" for step in refused]
        raise UsageError("\n".join(["the schema cannot be changed like this:", *lines]))


def _refuse_loss(view: View, plan: SchemaPlan) -> None:
    """Refuse to put values out of reach that are there."""
    lost = list(_lost(view, plan))
    if lost:
        raise UsageError(
            "\n".join(
                [
                    "data would be out of reach; allow it with allow_data_loss"
                    " (`--allow-data-loss`):",
                    *lost,
                ]
            )
        )


def _lost(view: View, plan: SchemaPlan) -> Iterator[str]:
    for step in plan.of_effect("destructive"):
        assert step.old_type is not None
        rows = view.published(step.old_type).rows
        if rows:
            yield f"  {step.old_type}, {rows:,} rows: {step.message} ({step.code}); {step.hint}"


def _shapes(accepted: Catalog, plan: SchemaPlan, now: dt.datetime) -> dict[int, NewShape]:
    """The columns of the types that stay, by the ids of the types."""
    before = {type.id: type for type in accepted.tables()}
    return {
        type.id: NewShape(
            before[type.id], type, [step for step in plan.steps if step.type_id == type.id], now
        )
        for type in plan.desired.tables()
        if type.id in before
    }


def _changes(view: View, shapes: Mapping[int, NewShape]) -> dict[str, ColumnChange]:
    """What becomes of the tables, by the names that their types have now."""
    changes = {}
    for type in view.catalog.tables():
        shape = shapes.get(type.id)
        if shape is not None:
            snapshot = view.table(type.name).snapshot
            change = shape.change(lambda column, of=snapshot: _count_nulls(of, column))  # type: ignore[misc]
            if not change.is_empty:
                changes[type.name] = change
    return changes


def _count_nulls(snapshot: TableSnapshot, column: str) -> int:
    return snapshot.count(f"`{column}` is null")
