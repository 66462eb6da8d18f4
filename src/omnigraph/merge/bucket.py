"""A merge in tasks, second step: one bucket of entities is merged, and its rows are written.

It is the same three-way merge as of all rows at once. What comes of it is small: files that no
version refers to, addresses of rows that are replaced or go, conflicts, and keys for the rules
that are about several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Violation
from omnigraph.language import EdgeType
from omnigraph.language.schema.arrow import table_schema
from omnigraph.merge.base import Doubts
from omnigraph.merge.bucket_rules import keys_of_delta
from omnigraph.merge.changes import (
    as_change_rows,
    as_row_changes,
    compared_columns,
    joined,
)
from omnigraph.merge.combine import Sides, uris
from omnigraph.merge.divided import FRESH, MergeContext, TablePlan, Type, marked
from omnigraph.merge.merged_rows import OurRows, addresses_of, merged_rows
from omnigraph.merge.rows import RowChanges, across, with_ids, without_ids
from omnigraph.merge.three_way import RowConflict, Side, ids_to_merge
from omnigraph.pipeline.engine import check_wanted
from omnigraph.pipeline.scratch import TaskContext, packed, unpacked
from omnigraph.storage.bulk import WrittenFile, write_files
from omnigraph.storage.change_parts import PLACES
from omnigraph.storage.changes import changes_of
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.tables import TableSnapshot
from omnigraph.writes.delta import TableDelta, old_columns, old_schema
from omnigraph.writes.rules import Violations
from omnigraph.writes.rules.values import check_values

Addresses = npt.NDArray[np.uint64]
#: So many conflicts are described, of a bucket and of the whole merge.
MOST_LISTED = 100_000


def _no_addresses() -> Addresses:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True)
class BucketTask:
    """A bucket to merge.

    Attributes:
        steps: For each step of the plan, where the places of rows are.
        ours: Where the places of our rows are; None looks them up.
        is_exact: All rows of the base are in a commit.
        overlay: Where those are that are in none: before, and after.
        doubts: See `three_way`.
        pins: See `three_way`.
        new_values: Values that settle broken rules, by id and column.
    """

    merge: MergeContext
    type: str
    bucket: int
    steps: tuple[tuple[str, ...], ...] = ()
    ours: tuple[str, ...] | None = None
    is_exact: bool = True
    overlay: tuple[str, str] | None = None
    doubts: Doubts = field(default_factory=dict)
    pins: Mapping[str, Side] = field(default_factory=dict)
    new_values: Mapping[tuple[str, str], Any] = field(default_factory=dict)


@dataclass
class MergedBucket:
    """What a bucket has become.

    Attributes:
        files: The rows that are written: first those that replace others, then new ones.
        replaced: The addresses of our rows that are replaced.
        removed: The addresses of our rows that go.
        new: How many rows are new.
        conflicts: What is not settled, the first of them.
        conflict_count: How many there are.
        settled: What was settled, the first of them.
        settled_count: How many there are.
        violations: Rules about single values that merged rows break, the first of them.
        violation_count: How many there are.
        ids: Where the ids are that were looked at.
        keys: By bucket of keys, where the keys of its rows are.
        edges: Where the ids and ends of written edges are.
    """

    files: list[WrittenFile] = field(default_factory=list)
    replaced: Addresses = field(default_factory=_no_addresses)
    removed: Addresses = field(default_factory=_no_addresses)
    new: int = 0
    conflicts: Sequence[RowConflict] = ()
    conflict_count: int = 0
    settled: Sequence[RowConflict] = ()
    settled_count: int = 0
    violations: Sequence[Violation] = ()
    violation_count: int = 0
    ids: str | None = None
    keys: dict[int, str] = field(default_factory=dict)
    edges: str | None = None


def merge_bucket(task: BucketTask) -> MergedBucket:
    """Merge one bucket, and write its rows."""
    bucket = _merged(task)
    # What C's allocator keeps of each bucket would add up to some times as much as one needs.
    pa.system_memory_pool().release_unused()
    return bucket


def _merged(task: BucketTask) -> MergedBucket:
    merge, site = task.merge, task.merge.site
    type, plan = merge.type(task.type), merge.plans[task.type]
    sides = Sides(
        site.open_at(plan.base),
        merge.ours(task.type),
        site.open_at(plan.theirs),
        task.is_exact,
    )
    changes = _changes(task, type, plan, sides)
    check_wanted()
    ids = ids_to_merge(changes, task.doubts, task.pins)
    our_rows = _our_rows(task, type, sides.ours, ids)
    delta, merged = merged_rows(
        type,
        sides,
        changes,
        OurRows.of(our_rows, ids, sides),
        merge.settings,
        pins=task.pins,
        new_values=task.new_values,
        doubts=task.doubts,
    )
    check_wanted()
    bucket = MergedBucket(
        replaced=addresses_of(delta.changed_from),
        removed=addresses_of(delta.removed),
        new=delta.new.num_rows,
        conflicts=merged.conflicts[:MOST_LISTED],
        conflict_count=len(merged.conflicts),
        settled=merged.settled[:MOST_LISTED],
        settled_count=len(merged.settled),
    )
    if merge.checks:
        bucket.ids = site.put(f"ids-{task.type}", packed(pa.table({"id": ids})))
        _check(site, delta, sides.ours, bucket)
    if merge.writes and delta.rows.num_rows and not merged.conflicts:
        # With conflicts nothing of the merge is written.
        bucket.files = write_files(sides.ours, delta.rows, delta.changed_from[ROW_ID])
    return bucket


def _changes(task: BucketTask, type: Type, plan: TablePlan, sides: Sides) -> RowChanges:
    """What changed on their side, and what is pinned."""
    site, names = task.merge.site, table_schema(type).names
    steps = []
    for (before, after), paths in zip(plan.steps, task.steps, strict=True):
        old, new = site.open_at(before), site.open_at(after)
        rows = _tables(site, paths, marked(PLACES.empty_table(), False))
        fresh = rows[FRESH]
        parts = rows.filter(pc.invert(fresh)), rows.filter(fresh)
        row_changes = changes_of(old, new, *parts, names, compare=False)
        steps.append(as_row_changes(type, old, new, row_changes))
    changes = joined(type, plan.kind, steps)
    overlay = None
    if task.overlay is not None:
        overlay = RowChanges(*(unpacked(site.get(path, bytes)) for path in task.overlay))
        changes = across(overlay, changes, compared_columns(type), task.doubts)
    more = without_ids(pa.table({"id": pa.array(list(task.pins), pa.utf8())}), changes.ids)
    if not more.num_rows:
        return changes
    ids = more["id"].combine_chunks()
    before = as_change_rows(type, sides.base, sides.base.find("id", ids, names))
    if overlay is not None:
        not_overlaid = without_ids(before, overlay.ids)
        before = pa.concat_tables([not_overlaid, with_ids(overlay.after, ids)])
    after = as_change_rows(type, sides.theirs, sides.theirs.find("id", ids, names))
    return RowChanges(
        pa.concat_tables([changes.before, before]), pa.concat_tables([changes.after, after])
    )


def _our_rows(task: BucketTask, type: Type, table: TableSnapshot, ids: pa.Array) -> pa.Table:
    """What `old_schema` has of our rows with some ids."""
    schema = old_schema(type)
    if task.ours is None:
        return table.find("id", ids, old_columns(type)).select(schema.names).cast(schema)
    return with_ids(_tables(task.merge.site, task.ours, schema.empty_table()), ids)


def _check(
    site: TaskContext, delta: TableDelta, table: TableSnapshot, bucket: MergedBucket
) -> None:
    """Check the values of merged rows, and leave their keys for the rules about several rows."""
    type = delta.type
    broken = Violations(most=MOST_LISTED)
    # Files that are referred to already were allowed when that was written.
    allowed = (*site.external_blobs, *sorted(uris(delta)))
    for rows in (delta.new, delta.changed):
        if rows.num_rows:
            check_values(type, rows, broken, external_blobs=allowed)
    bucket.violations, bucket.violation_count = broken.listed, broken.total
    bucket.keys = keys_of_delta(site, delta, table)
    if isinstance(type, EdgeType) and delta.rows.num_rows:
        ends = delta.rows.select(["id", "src", "dst"])
        bucket.edges = site.put(f"edges-{type.name}", packed(ends))


def _tables(site: TaskContext, paths: Sequence[str], none: pa.Table) -> pa.Table:
    return pa.concat_tables([none, *(unpacked(site.get(path, bytes)) for path in paths)])
