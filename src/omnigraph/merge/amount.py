"""How much a merge has to look at, told by the lists of fragments before any row is read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState, Route, route
from omnigraph.storage.blobs import mean_size

Type = NodeType | EdgeType
#: What is taken for the width of values whose type does not tell: texts and lists.
_TEXT, _LIST = 32, 64
#: So many rows tell how large the blobs are, if there are more.
_SAMPLE = 64


@dataclass(frozen=True)
class Sizes:
    """How a merge is divided.

    Attributes:
        at_once: So many bytes of changed rows are merged at once, without tasks.
        bucket: So many bytes of changed rows are in one bucket: some times as many are in memory.
        key_rows: So many changed rows have their keys in one bucket.
        portion: So many rows are divided by one task.
        across_schemas: So many bytes of changed rows are merged when the schemas differ, which is
            not done in tasks.
    """

    at_once: int = 128 << 20
    bucket: int = 64 << 20
    key_rows: int = 2_000_000
    portion: int = 1 << 20
    across_schemas: int = 1 << 30


@dataclass(frozen=True)
class Changed:
    """A type whose table may have changed: how that is found, and about how much it is.

    Attributes:
        type: The type.
        route: How it is found.
        rows: How many rows may have changed; more when fragments were merged.
        blobs: How many bytes the blobs of a row have.
    """

    type: Type
    route: Route
    rows: int
    blobs: int

    @property
    def size(self) -> int:
        """How many bytes the rows have, about."""
        return self.rows * (_width(self.type) + self.blobs)


def is_surely_less(base: Base, theirs: GraphState, size: int) -> bool:
    """True when all rows of all tables that changed have less than so many bytes."""
    rows = [
        (type, base.state.table(type).rows + theirs.table(type).rows)
        for type in base.state.catalog.tables()
        if base.state.place(type) != theirs.place(type)
    ]
    if base.overlay or any(_has_blobs(type) and count > _SAMPLE for type, count in rows):
        return False
    return sum(_width(type) * count for type, count in rows) < size


def changed_tables(base: Base, theirs: GraphState) -> list[Changed]:
    """The types whose tables may have changed from the base to their side.

    Nothing is read but the lists of fragments, which a merge needs anyway.
    """
    changed = []
    for type in base.state.catalog.tables():
        way = route(type, base.state, theirs)
        if way.kind != "none" or type.name in base.overlay or base.doubts.get(type.name):
            steps = [_step(type, one, other) for one, other in way.steps]
            overlay = base.overlay.get(type.name)
            rows = 0 if overlay is None else overlay.before.num_rows + overlay.after.num_rows
            rows += sum(rows for rows, _ in steps)
            changed.append(Changed(type, way, rows, max((blobs for _, blobs in steps), default=0)))
    return changed


def size_of_changes(base: Base, theirs: GraphState) -> int:
    """About how many bytes of rows have changed on their side, whatever schema the base has."""
    size = 0
    for type in theirs.catalog.tables():
        rows, blobs = theirs.table(type).rows, 0
        if base.state.has(type):
            steps = [_step(type, *states) for states in route(type, base.state, theirs).steps]
            rows = sum(rows for rows, _ in steps)
            blobs = max((blobs for _, blobs in steps), default=0)
        size += rows * (_width(type) + blobs)
    return size


def _step(type: Type, one: GraphState, other: GraphState) -> tuple[int, int]:
    """About how many rows changed in a step, and how many bytes the blobs of one have."""
    table, known = other.snapshot(type), one.snapshot(type).fragments()
    written = {f.id: f.rows for name, f in table.fragments().items() if name not in known}
    fresh = sum(written.values())
    # What is no longer there as it was makes the difference.
    rows = fresh + max(0, one.table(type).rows + fresh - other.table(type).rows)
    if rows <= _SAMPLE or not _has_blobs(type):
        return rows, 0
    return rows, mean_size(table, list(written)[:_SAMPLE], _SAMPLE)


def _has_blobs(type: Type) -> bool:
    return any(property.type.is_blob for property in type.stored_properties)


def _width(type: Type) -> int:
    """About how many bytes a row has."""
    width = 0
    for column in table_schema(type):
        if pa.types.is_fixed_size_list(column.type):
            width += column.type.list_size * 4
        elif pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            width += _LIST
        else:
            width += _TEXT if pa.types.is_string(column.type) else 8
    return width
