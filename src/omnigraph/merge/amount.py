"""How much a merge has to look at, told by the lists of fragments before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.merge.base import Base
from omnigraph.merge.changes import GraphState, Route, route
from omnigraph.storage.blobs import mean_size
from omnigraph.storage.change_parts import Portion, portions

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
    """

    at_once: int = 128 << 20
    bucket: int = 64 << 20
    key_rows: int = 2_000_000
    portion: int = 1 << 20


@dataclass(frozen=True)
class Changed:
    """A type whose table may have changed: how that is found, and about how much it is."""

    type: Type
    route: Route
    portions: tuple[tuple[Portion, ...], ...]
    blobs: int

    @property
    def rows(self) -> int:
        """How many rows may have changed, at most."""
        return sum(part.rows for step in self.portions for part in step)

    @property
    def size(self) -> int:
        """How many bytes these have, about."""
        return self.rows * (_width(self.type) + self.blobs)


def changed_tables(base: Base, theirs: GraphState, sizes: Sizes) -> list[Changed]:
    """The types whose tables may have changed from the base to their side.

    Nothing is read but the lists of fragments, which a merge needs anyway.
    """
    found = []
    for type in base.state.repository.catalog.tables():
        way = route(type, base.state, theirs)
        steps = tuple(
            tuple(portions(one.snapshot(type), other.snapshot(type), sizes.portion))
            for one, other in way.steps
        )
        if way.kind != "none" or type.name in base.overlay or base.doubts.get(type.name):
            found.append(Changed(type, way, steps, _blobs(type, way, steps)))
    return found


def _blobs(type: Type, way: Route, steps: Sequence[Sequence[Portion]]) -> int:
    """About how many bytes the blobs of a changed row have."""
    if not any(property.type.is_blob for property in type.stored_properties):
        return 0
    found = [0]
    for (_, later), step in zip(way.steps, steps, strict=True):
        if sum(part.rows for part in step) > _SAMPLE:
            fresh = [part for part in step if part.is_fresh]
            written = [id for part in fresh for id in part.fragments][:_SAMPLE]
            found.append(mean_size(later.snapshot(type), written, _SAMPLE))
    return max(found)


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
