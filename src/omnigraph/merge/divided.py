"""A merge in tasks, first step: what may have changed is divided into buckets by entity id.

Only ids and places of rows are read and divided, never whole rows. Afterwards each bucket has
everything that is about its entities, and can be merged alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.language import EdgeType, NodeType
from omnigraph.merge.changes import RouteKind
from omnigraph.merge.combine import Settling
from omnigraph.pipeline.engine import check_wanted
from omnigraph.pipeline.load.key_sets import buckets_of
from omnigraph.pipeline.scratch import TableAt, TaskContext, packed
from omnigraph.storage.change_parts import Portion, read_places
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.delta import old_columns, old_schema

Type = NodeType | EdgeType
#: True for rows in a new place, false for rows that are no longer in their place.
FRESH = "fresh"


@dataclass(frozen=True)
class TablePlan:
    """How the table of one type is merged.

    Attributes:
        type: The type's name.
        base: The table in the state that the base is made of.
        theirs: The table on their side.
        kind: How what changed on their side is found; see `merge.changes.Route`.
        steps: Between which versions.
        buckets: Into how many buckets entities are divided.
        divides_ours: Our rows are divided, too; else each bucket looks for its own.
    """

    type: str
    base: TableAt
    theirs: TableAt
    kind: RouteKind
    steps: tuple[tuple[TableAt, TableAt], ...]
    buckets: int
    divides_ours: bool


@dataclass(frozen=True)
class MergeContext:
    """What every task of a merge has to know.

    Attributes:
        site: The graph, our tables, and the scratch folder; its buckets are those of keys.
        plans: The plans by type.
        settings: How it is merged.
        checks: The rules of the schema are checked.
        writes: Merged rows are written; not for a dry run.
    """

    site: TaskContext
    plans: Mapping[str, TablePlan]
    settings: Settling
    checks: bool
    writes: bool

    def ours(self, name: str) -> TableSnapshot:
        """Our table of a type."""
        return self.site.open_at(self.site.tables[name])

    def type(self, name: str) -> Type:
        """A type of the schema."""
        return self.site.catalog.type(name)


@dataclass(frozen=True)
class DivideTask:
    """Fragments to divide: those of a step of a plan, or some of our own table."""

    merge: MergeContext
    type: str
    step: int | None
    portion: Portion


def divide(task: DivideTask) -> dict[int, str]:
    """Divide the rows of some fragments; returns where those of each bucket are."""
    site, plan = task.merge.site, task.merge.plans[task.type]
    check_wanted()
    if task.step is None:
        type, table = task.merge.type(task.type), task.merge.ours(task.type)
        rows_read = table.read(old_columns(type), places=True, fragments=task.portion.fragments)
        rows = rows_read.select(old_schema(type).names).cast(old_schema(type))
    else:
        old, new = plan.steps[task.step]
        table = site.open_at(new if task.portion.is_fresh else old)
        rows = marked(read_places(table, task.portion), task.portion.is_fresh)
    name = f"places-{task.type}"
    return {bucket: site.put(name, packed(part)) for bucket, part in in_buckets(rows, plan.buckets)}


def marked(rows: pa.Table, fresh: bool) -> pa.Table:
    """Rows with a column that says if they are in a new place."""
    return rows.append_column(FRESH, pa.repeat(pa.scalar(fresh), rows.num_rows))


def in_buckets(rows: pa.Table, buckets: int, column: str = "id") -> list[tuple[int, pa.Table]]:
    """Rows by the bucket of a column, in their order; only buckets that have any."""
    if not rows.num_rows:
        return []
    places = buckets_of(rows[column], buckets)
    order = np.argsort(places, kind="stable")
    ordered, sorted_rows = places[order], rows.take(pa.array(order))
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = [*starts[1:].tolist(), len(ordered)]
    return [
        (int(ordered[start]), sorted_rows.slice(start, end - start))
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]
