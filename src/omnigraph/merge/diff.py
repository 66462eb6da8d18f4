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

from omnigraph.compute.equality import unequal
from omnigraph.compute.keys import PHYSICAL_ENDS
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, UsageError
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.values import to_json
from omnigraph.merge.changes import GraphState, changed_types, compared_columns, table_changes
from omnigraph.merge.rows import aligned, ordered_union

EntityKind = Literal["node", "edge"]
Operation = Literal["insert", "update", "delete"]
OPERATIONS: tuple[Operation, ...] = ("insert", "update", "delete")
_NAMES = {column: name for name, column in PHYSICAL_ENDS.items()}
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
        old: The commit of the first state.
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
        self.old, self.new = old.commit, new.commit
        self._old, self._new = old, new
        self._kinds = _one_of("kind", kinds, ("node", "edge"))
        self._ops = _one_of("operation", ops, OPERATIONS)
        self._types = _known_types(old, types)

    def __repr__(self) -> str:
        return f"<Diff {self.old}..{self.new}>"

    def __iter__(self) -> Iterator[EntityChange]:
        for part in self.columns():
            names = [
                _NAMES.get(n, n) if part.kind == "edge" else n for n in part.after.schema.names
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

    def columns(self) -> Iterator[ColumnChanges]:
        """The changes by columns, one type after the other."""
        for type in changed_types(self._old, self._new):
            kind: EntityKind = "edge" if isinstance(type, EdgeType) else "node"
            if kind in self._kinds and (self._types is None or type.name in self._types):
                part = self._of(type, kind)
                if len(part.ids):
                    yield part

    def summary(self) -> DiffSummary:
        """How many nodes and edges of each type have changed."""
        found = []
        for part in self.columns():
            operations = part.operations.to_pylist()
            counts = [operations.count(operation) for operation in OPERATIONS]
            found.append(TypeSummary(part.kind, part.type, *counts))
        return DiffSummary(tuple(found))

    def _of(self, type: NodeType | EdgeType, kind: EntityKind) -> ColumnChanges:
        changes = table_changes(type, self._old, self._new)
        ids = ordered_union(changes.before["id"], changes.after["id"])
        names = compared_columns(type)
        before, was = aligned(changes.before, ids)
        after, is_ = aligned(changes.after, ids)
        place = np.where(~was, 0, np.where(is_, 1, 2))
        wanted = np.isin(place, [OPERATIONS.index(operation) for operation in self._ops])
        operations = pa.array(OPERATIONS, pa.utf8()).take(pa.array(place))
        mask = pa.array(wanted)
        return ColumnChanges(
            kind,
            type.name,
            ids.filter(mask),
            operations.filter(mask),
            before.select(names).filter(mask),
            after.select(names).filter(mask),
        )


@dataclass(frozen=True, slots=True)
class DiffSummary:
    """How many nodes and edges of each type differ between two states."""

    types: tuple[TypeSummary, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.types)) or "no changes"

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as plain values."""
        return {"types": [each.to_dict() for each in self.types]}


def _one_of(what: str, given: Collection[str] | None, known: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(given, str):
        given = (given,)
    for each in given or ():
        if each not in known:
            raise UsageError(f"`{each}` is no {what}; there are {', '.join(known)}")
    return tuple(known) if given is None else tuple(each for each in known if each in given)


def _known_types(state: GraphState, given: Collection[str] | None) -> frozenset[str] | None:
    if given is None:
        return None
    names = [type.name for type in state.repository.catalog.tables()]
    chosen = (given,) if isinstance(given, str) else tuple(given)
    for each in chosen:
        if each not in names:
            hint = did_you_mean(each, names)
            raise NotFound(f"the graph has no type `{each}`" + (f"; {hint}" if hint else ""))
    return frozenset(chosen)


def _is_same(left: Any, right: Any) -> bool:
    if (left is None) != (right is None):
        return False
    return left is None or left == right or not unequal(pa.array([left]), pa.array([right])).any()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in row.items()}
