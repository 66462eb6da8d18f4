"""The difference between two states of a graph, in the order of types and ids.

Nothing is read before somebody looks, and then one table after the other. The states may be on
different branches, or the same one at different times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from omnigraph.errors import UsageError
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.catalog import ENDS_AS_COLUMNS
from omnigraph.language.schema.plan import plan_schema
from omnigraph.language.schema.steps import SchemaPlan
from omnigraph.language.values import to_json
from omnigraph.merge.changes import GraphState, changed_types, compared_columns, table_changes
from omnigraph.merge.rows import RowChanges, aligned, ordered_union
from omnigraph.merge.schemas.filled import with_filled

EntityKind = Literal["node", "edge"]
Operation = Literal["insert", "update", "delete"]
KINDS: tuple[EntityKind, ...] = ("node", "edge")
OPERATIONS: tuple[Operation, ...] = ("insert", "update", "delete")
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class EntityChange:
    """What became of one node or edge.

    Attributes:
        kind: `node` or `edge`.
        type: Its type.
        id: Which one.
        operation: `insert`, `update` or `delete`.
        before: Its properties before, with the ends of an edge; None if it was not there. A Blob
            is told by its digest, or by the file that it refers to.
        after: The same afterwards.
    """

    kind: EntityKind
    type: str
    id: str
    operation: Operation
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @property
    def properties(self) -> tuple[str, ...]:
        """Of an update, the properties that have changed."""
        if self.before is None or self.after is None:
            return ()
        before, after = self.before, self.after
        return tuple(name for name in after if not _is_same(before[name], after[name]))

    def to_dict(self) -> dict[str, Any]:
        """Give the change as plain values."""
        return {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "operation": self.operation,
            "before": None if self.before is None else _plain(self.before),
            "after": None if self.after is None else _plain(self.after),
        }


@dataclass(frozen=True, slots=True)
class TypeSummary:
    """How many nodes or edges of a type were inserted, updated and deleted."""

    kind: EntityKind
    type: str
    inserted: int
    updated: int
    deleted: int

    def __str__(self) -> str:
        counts = zip("+~-", (self.inserted, self.updated, self.deleted), strict=True)
        return " ".join([*(f"{sign}{n:,}" for sign, n in counts if n), self.type])

    def to_dict(self) -> dict[str, Any]:
        """Give the counts as plain values."""
        return {
            "kind": self.kind,
            "type": self.type,
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
        }


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """Changes of one type by columns, in the order of ids.

    Attributes:
        operations: `insert`, `update` or `delete` for each id.
        before: The rows before, null where there was none.
        after: The rows afterwards, null where there is none.
    """

    kind: EntityKind
    type: str
    ids: pa.Array
    operations: pa.Array
    before: pa.Table
    after: pa.Table


class Diff:
    """The changes that lead from one state of a graph to another: iterate over them.

    Attributes:
        old: The commit of the first state; None when that is nothing.
        new: The commit of the second state.

    Example:
        >>> print(graph.diff("main", "draft").summary())
        +3 ~2 -1 Person, +12 Knows
    """

    def __init__(
        self,
        old: GraphState,
        new: GraphState,
        *,
        kinds: Collection[str] | None = None,
        types: Collection[str] | None = None,
        ops: Collection[str] | None = None,
    ) -> None:
        self.old: str | None = old.commit or None
        self.new: str = new.commit
        self._old, self._new = old, new
        self._filter = change_filter(new.catalog, kinds, types, ops, old.catalog)

    def __repr__(self) -> str:
        return f"<Diff {self.old or ''}..{self.new}>"

    def __iter__(self) -> Iterator[EntityChange]:
        for part in self.columns():
            yield from entity_changes(part)

    def columns(self) -> Iterator[ColumnChanges]:
        """The changes by columns, one type after the other."""
        for type in changed_types(self._old, self._new):
            if self._filter.wants(type):
                changes = table_changes(type, self._old, self._new)
                changes = with_filled(type, self._old, self._new, changes)
                part = column_changes(type, changes, self._filter.ops)
                if len(part.ids):
                    yield part

    def summary(self) -> DiffSummary:
        """How many nodes and edges of each type have changed."""
        summaries = []
        for part in self.columns():
            operations = part.operations.to_pylist()
            counts = [operations.count(operation) for operation in OPERATIONS]
            summaries.append(TypeSummary(part.kind, part.type, *counts))
        steps = () if self.schema is None else tuple(step.message for step in self.schema.steps)
        return DiffSummary(tuple(summaries), steps)

    @property
    def schema(self) -> SchemaPlan | None:
        """What leads from the schema of the first state to that of the second; None if nothing.

        Rows are compared in the terms of the second: a property that has another name, or that is
        new and has its default, is no change of a row; one that was computed is.
        """
        if not self.old or self._old.state.schema == self._new.state.schema:
            return None
        return plan_schema(self._old.catalog, self._new.catalog, merged=True)


@dataclass(frozen=True, slots=True)
class DiffSummary:
    """How many nodes and edges of each type differ between two states.

    `schema` has the steps from one schema to the other, each in words.
    """

    types: tuple[TypeSummary, ...]
    schema: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"schema: {step}" for step in self.schema]
        return ", ".join([*parts, *map(str, self.types)]) or "no changes"

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as plain values."""
        types = [each.to_dict() for each in self.types]
        return {"types": types, "schema": list(self.schema)} if self.schema else {"types": types}


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes somebody wants: kinds and operations in their order, and types; None is all."""

    kinds: tuple[EntityKind, ...] = KINDS
    types: tuple[str, ...] | None = None
    ops: tuple[Operation, ...] = OPERATIONS

    def wants(self, type: NodeType | EdgeType) -> bool:
        """True when changes of a type are wanted."""
        return type.kind in self.kinds and (self.types is None or type.name in self.types)


def change_filter(
    catalog: Catalog,
    kinds: Collection[str] | None,
    types: Collection[str] | None,
    ops: Collection[str] | None = None,
    earlier: Catalog | None = None,
) -> ChangeFilter:
    """What a caller wants, checked.

    Args:
        catalog: The schema that has the types.
        kinds: Only nodes, or only edges.
        types: Only these types.
        ops: Only these operations.
        earlier: A schema that may have some of the types instead.

    Raises:
        UsageError: There is no such kind or operation.
        NotFound: There is no such type.
    """
    return ChangeFilter(
        _one_of("kind", kinds, KINDS),
        _known_types([catalog, *([] if earlier is None else [earlier])], types),
        _one_of("operation", ops, OPERATIONS),
    )


def column_changes(
    type: NodeType | EdgeType, changes: RowChanges, ops: Collection[Operation]
) -> ColumnChanges:
    """Changes of a table in the order of ids, with just some operations."""
    ids = ordered_union(changes.before["id"], changes.after["id"])
    names = compared_columns(type)
    before, was = aligned(changes.before, ids)
    after, is_ = aligned(changes.after, ids)
    place = np.where(~was, 0, np.where(is_, 1, 2))
    wanted = np.isin(place, [OPERATIONS.index(operation) for operation in ops])
    operations = pa.array(OPERATIONS, pa.utf8()).take(pa.array(place))
    mask = pa.array(wanted)
    return ColumnChanges(
        type.kind,
        type.name,
        ids.filter(mask),
        operations.filter(mask),
        before.select(names).filter(mask),
        after.select(names).filter(mask),
    )


def entity_changes(part: ColumnChanges) -> Iterator[EntityChange]:
    """Changes one by one."""
    names = [
        ENDS_AS_COLUMNS.get(n, n) if part.kind == "edge" else n for n in part.after.column_names
    ]
    for start in range(0, len(part.ids), _BATCH):
        ids, operations, before, after = (
            each.slice(start, _BATCH).to_pylist()
            for each in (
                part.ids,
                part.operations,
                part.before.rename_columns(names),
                part.after.rename_columns(names),
            )
        )
        for id, operation, was, now in zip(ids, operations, before, after, strict=True):
            yield EntityChange(
                part.kind,
                part.type,
                id,
                operation,
                None if operation == "insert" else was,
                None if operation == "delete" else now,
            )


def _texts(names: Collection[str] | None) -> tuple[str, ...] | None:
    """What a filter names; one name may stand alone."""
    if names is None:
        return None
    return (names,) if isinstance(names, str) else tuple(names)


def _one_of(what: str, names: Collection[str] | None, known: Sequence[Any]) -> tuple[Any, ...]:
    names = _texts(names)
    for each in names or ():
        if each not in known:
            raise UsageError(f"`{each}` is no {what}; there are {', '.join(known)}")
    return tuple(known) if names is None else tuple(each for each in known if each in names)


def _known_types(
    catalogs: Sequence[Catalog], types: Collection[str] | None
) -> tuple[str, ...] | None:
    chosen = _texts(types)
    if chosen is None:
        return None
    known, *earlier = catalogs
    for name in chosen:
        if all(catalog.table(name) is None for catalog in earlier):
            known.type(name)
    return tuple(sorted(set(chosen)))


def _is_same(left: Any, right: Any) -> bool:
    """Typed equality of two values of one property; NaN equals NaN."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right or (left != left and right != right))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in row.items()}
