"""Staged indexes: built beside the table, in use when the staged write is committed.

Several indexes of one table, new ones, replaced ones and dropped ones, are one staged write. An
index is one or more segments, each over some fragments. Rows that came later get a segment of their
own, which small ones become a part of: so a row is indexed anew as often as its segment doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.dataset import Index

from omnigraph.compute.threads import in_threads, processors
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.storage.segments import (
    IndexKind,
    IndexSpec,
    SegmentBuild,
    write_segment,
)
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite, staged
from omnigraph.storage.table_ref import ROW_ID

__all__ = ["IndexKind", "IndexSpec", "SegmentBuild", "stage_indices"]

#: A segment becomes a part of a new one that has at least this part of its rows, and of any when an
#: index has so many segments: every query looks into each of them.
_ABSORBED_PART = 2
_MOST_SEGMENTS = 8
#: These are made of row ids, which a row keeps when its values change. If another segment has the
#: row's new values, the old ones are still found: so such an index is extended by new rows only.
_BY_ROW_ID: frozenset[IndexKind] = frozenset({"bitmap", "label_list"})

#: More builds at a time than this would take too much memory.
_MOST_BUILDS = 4

#: Builds what is asked for, of a version of a table: mostly one segment each, and none where there
#: is nothing to build.
BuildSegments = Callable[[TableSnapshot, Sequence[SegmentBuild]], Sequence[Sequence[Index]]]


def build_here(snapshot: TableSnapshot, builds: Sequence[SegmentBuild]) -> list[list[Index]]:
    """Build segments in threads of this process."""

    def own() -> LanceDataset:
        # A dataset is used by one thread at a time.
        return snapshot._dataset.checkout_version((snapshot.ref.branch, snapshot.version))

    calls = [partial(write_segment, own(), build) for build in builds]
    # Lance builds an index on one core. One more than there are: while one waits for the disk, the
    # others compute.
    with table_errors(snapshot.ref):
        segments = in_threads(lambda call: call(), calls, min(_MOST_BUILDS, processors() + 1))
    return [[] if segment is None else [segment] for segment in segments]


def stage_indices(
    snapshot: TableSnapshot,
    specs: Sequence[IndexSpec],
    *,
    drop: Sequence[str] = (),
    extend: bool = False,
    build: BuildSegments = build_here,
) -> StagedWrite | None:
    """Stage indexes of a table; None when there is nothing to do.

    An index that has no rows, or too few vectors to learn from, is left out: reads are right
    without it.

    Args:
        snapshot: What is indexed.
        specs: The indexes to build.
        drop: Names of indexes to remove.
        extend: An index that exists, of the same kind, is extended by the rows that it does not
            cover yet.
        build: Builds the segments.

    Raises:
        UsageError: A column does not exist or has the wrong type, or the name is that
            of an index of another column.
    """
    snapshot = snapshot.private()
    if clashes := {spec.name for spec in specs} & set(drop):
        raise UsageError(f"cannot both build and drop the index {sorted(clashes)[0]}")
    dataset: LanceDataset = snapshot._dataset
    with table_errors(snapshot.ref):
        existing = _segments(dataset)
        known = {index.name: (index.column, index.kind) for index in snapshot.indices()}
        builds: list[SegmentBuild] = []
        replaced: list[list[Index]] = []
        removed = [segment for name in drop for segment in existing.get(name, ())]
        for spec in specs:
            old = existing.get(spec.name, [])
            fragments = snapshot.fragment_ids
            column, kind = known.get(spec.name, (spec.column, spec.kind))
            if column != spec.column:
                raise UsageError(f"the index {spec.name} is of column {column}; drop it first")
            if extend and kind == spec.kind and old:
                fragments, old = _extension(snapshot, spec.kind, old)
            builds.append(SegmentBuild(spec, fragments))
            replaced.append(old)
    built: list[Index] = []
    for segments, old in zip(build(snapshot, builds), replaced, strict=True):
        if segments:
            built += segments
            removed += old
    if not built and not removed:
        return None
    return staged(snapshot, "indices", LanceOperation.CreateIndex(built, removed))


def _extension(
    snapshot: TableSnapshot, kind: IndexKind, segments: Sequence[Index]
) -> tuple[tuple[int, ...], list[Index]]:
    """What a new segment covers so that an index covers everything, and what it replaces."""
    dataset: LanceDataset = snapshot._dataset
    rows = {f.fragment_id: f.metadata.num_rows for f in dataset.get_fragments()}
    covered = {id for segment in segments for id in segment.fragment_ids}
    wanted = [id for id in rows if id not in covered]
    if not wanted:
        return (), []
    # What covers nothing any more is replaced, too.
    sizes = {s.uuid: sum(rows.get(id, 0) for id in s.fragment_ids) for s in segments}
    everything = kind in _BY_ROW_ID and _has_old_rows(snapshot, wanted, segments)
    size = sum(rows[id] for id in wanted)
    replaced: list[Index] = []
    for segment in sorted(segments, key=lambda s: sizes[s.uuid]):
        is_small = sizes[segment.uuid] <= _ABSORBED_PART * size
        if everything or is_small or len(segments) - len(replaced) >= _MOST_SEGMENTS:
            wanted += [id for id in segment.fragment_ids if id in rows]
            size += sizes[segment.uuid]
            replaced.append(segment)
    return tuple(sorted(wanted)), replaced


def _has_old_rows(
    snapshot: TableSnapshot, fragments: Sequence[int], segments: Sequence[Index]
) -> bool:
    """True unless all rows of some fragments came after the segments were built."""
    try:
        built = snapshot.at(max(segment.dataset_version for segment in segments))
        first = built.next_row_id
    except (NotFound, StorageError):
        # A cleanup has removed that version, or it is one of the table that this is a fork of.
        return True
    least = min(
        (
            pc.min(batch[ROW_ID]).as_py()
            for batch in snapshot.batches([], places=True, fragments=fragments)
            if batch.num_rows
        ),
        default=first,
    )
    return bool(least < first)


def _segments(dataset: LanceDataset) -> dict[str, list[Index]]:
    """The segments of each index, as Lance wants them to be named when they are removed."""
    return {
        index.name: [
            Index(
                uuid=segment.uuid,
                name=index.name,
                fields=list(index.fields),
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=segment.fragment_ids,
                index_version=segment.index_version,
                base_id=segment.base_id,
            )
            for segment in index.segments
        ]
        for index in dataset.describe_indices()
    }
