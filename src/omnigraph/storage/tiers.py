"""Merging small fragments in tiers, as part of the writes that make them.

A graph that is written a row at a time would have a fragment per commit, and every version file
lists all fragments. So a write that finds enough fragments of about one size replaces them by one,
in the version that it makes anyway. A row is rewritten once per tier, and a table of n rows keeps
about log(n) small fragments. Row ids stay, and so does every older version.

Lance notes in which version each row was created and last updated, inline in every version file:
one entry per row here, since every row came in a version of its own. A merge keeps one entry for
all fragments of one tier, the newest. So a row may look newer than it is, but never older.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.blob import BlobType
from lance.fragment import FragmentMetadata
from lance.optimize import CompactionTask

from omnigraph.storage.patch import check_whole
from omnigraph.storage.row_versions import encode_versions, newest_version
from omnigraph.storage.staged import FILE_FORMAT
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS

#: So many fragments of one tier become one of the next. A tier holds sizes up to this factor.
FAN_IN = 4
#: At most so many fragments are merged in one commit: it must not take long.
MOST_FRAGMENTS = 64
#: Fragments are merged up to this size. What has a share of it already is left alone.
LARGEST_ROWS = 16_384
LARGEST_BYTES = 8 << 20
#: Which fragments are rewritten is chosen here, so most of these are asked for, but not used.
_OPTIONS = MappingProxyType(
    {
        "target_rows_per_fragment": LARGEST_ROWS,
        "max_rows_per_group": 1024,
        "materialize_deletions": True,
        "materialize_deletions_threshold": 0.1,
        "defer_index_remap": False,
        "enable_binary_copy": False,
        "enable_binary_copy_force": False,
        "data_storage_version": FILE_FORMAT,
    }
)
#: The kinds of blobs that lie in files beside those of their fragment.
_BESIDE = (1, 2)


@dataclass(frozen=True, slots=True)
class TierMerge:
    """A fragment that takes the place of several; it has the id of one of them."""

    merged: FragmentMetadata
    sources: Sequence[FragmentMetadata]

    @property
    def absorbed(self) -> list[int]:
        """The ids of the fragments that go."""
        return [source.id for source in self.sources if source.id != self.merged.id]


def stage_tier_merge(
    dataset: LanceDataset, branch: str | None, busy: Iterable[int]
) -> TierMerge | None:
    """Write the fragment that replaces small ones; None when no tier is full.

    Args:
        dataset: The version that is about to get a successor.
        branch: The table's branch that it is of.
        busy: Fragments that the successor changes anyway.
    """
    left_out = set(busy)
    fragments = [f.metadata for f in dataset.get_fragments() if f.fragment_id not in left_out]
    if not due(fragments):
        return None
    # An index finds rows by the ids of their fragments.
    for index in dataset.describe_indices():
        left_out |= {id for segment in index.segments for id in segment.fragment_ids}
    loose = [fragment for fragment in fragments if fragment.id not in left_out]
    sources = due(loose)
    if sources and (columns := _blob_columns(dataset)):
        newest = sorted((f for f in loose if _is_small(f)), key=_id)[-MOST_FRAGMENTS:]
        sources = due(newest, _bytes_beside(dataset, newest, columns))
    return put_together(dataset, branch, sources) if sources else None


def put_together(
    dataset: LanceDataset, branch: str | None, sources: Sequence[FragmentMetadata]
) -> TierMerge:
    """Write one fragment that replaces several: no index may cover one of them."""
    task = {
        "task": {"fragments": [source.to_json() for source in sources]},
        "read_version": dataset.version,
        "options": dict(_OPTIONS),
    }
    rewrite: Any = CompactionTask
    (merged,) = rewrite.from_json(json.dumps(task)).execute(dataset).new_fragments
    check_whole(dataset, branch, [merged])
    merged.id = sources[0].id
    tiers = [list(group) for _, group in groupby(sources, lambda f: _tier(f.num_rows))]
    merged.created_at_version_meta = encode_versions(
        [
            (_rows(tier), max(newest_version(f.created_at_version_meta) for f in tier))
            for tier in tiers
        ]
    )
    merged.last_updated_at_version_meta = encode_versions(
        [
            (_rows(tier), max(newest_version(f.last_updated_at_version_meta) for f in tier))
            for tier in tiers
        ]
    )
    return TierMerge(merged, sources)


def due(
    fragments: Sequence[FragmentMetadata], beside: Mapping[int, int] = MappingProxyType({})
) -> list[FragmentMetadata]:
    """The fragments to merge next, by their ids: a full tier, and the tiers it fills in turn.

    Args:
        fragments: The fragments to choose from.
        beside: Bytes that belong to a fragment, by its id, but are not in its files.
    """
    tiers: dict[int, list[FragmentMetadata]] = defaultdict(list)
    for fragment in fragments:
        if _is_small(fragment, beside):
            tiers[_tier(fragment.num_rows)].append(fragment)
    for lowest in sorted(tiers):
        if len(tiers[lowest]) >= FAN_IN:
            break
    else:
        return []
    chosen: list[FragmentMetadata] = []
    rows = size = 0
    for tier in range(lowest, max(tiers) + 1):
        # What was merged so far counts as one more fragment of this tier.
        if chosen and (_tier(rows) < tier or len(tiers[tier]) + 1 < FAN_IN):
            break
        for fragment in tiers[tier]:
            size += _bytes(fragment, beside)
            rows += fragment.num_rows
            too_large = rows > LARGEST_ROWS or size > LARGEST_BYTES
            if too_large or len(chosen) == MOST_FRAGMENTS:
                return sorted(chosen, key=_id)
            chosen.append(fragment)
    return sorted(chosen, key=_id)


def _is_small(fragment: FragmentMetadata, beside: Mapping[int, int] = MappingProxyType({})) -> bool:
    """True when a full tier of such fragments can be merged."""
    few_bytes = _bytes(fragment, beside) <= LARGEST_BYTES // FAN_IN
    return few_bytes and fragment.num_rows < LARGEST_ROWS // FAN_IN


def _bytes(fragment: FragmentMetadata, beside: Mapping[int, int]) -> int:
    in_files = sum(file.file_size_bytes or 0 for file in fragment.files)
    return in_files + beside.get(fragment.id, 0)


def _blob_columns(dataset: LanceDataset) -> list[str]:
    return [field.name for field in dataset.schema if isinstance(field.type, BlobType)]


def _bytes_beside(
    dataset: LanceDataset, fragments: Sequence[FragmentMetadata], columns: Sequence[str]
) -> dict[int, int]:
    """How many bytes of blobs a merge would copy, by the ids of fragments."""
    wanted = {fragment.id for fragment in fragments}
    rows = dataset.scanner(
        columns=list(columns),
        with_row_address=True,
        fragments=[f for f in dataset.get_fragments() if f.fragment_id in wanted],
    ).to_table()
    owners = rows[ROW_ADDRESS].to_numpy() >> np.uint64(OFFSET_BITS)
    totals = dict.fromkeys(wanted, 0)
    for column in columns:
        blobs = rows[column].combine_chunks()
        kinds, sizes = (
            pc.fill_null(pc.struct_field(blobs, name), 0).to_numpy(zero_copy_only=False)
            for name in ("kind", "size")
        )
        for owner, size in zip(owners, np.where(np.isin(kinds, _BESIDE), sizes, 0), strict=True):
            totals[int(owner)] += int(size)
    return totals


def _rows(fragments: Iterable[FragmentMetadata]) -> int:
    return sum(fragment.num_rows for fragment in fragments)


def _id(fragment: FragmentMetadata) -> int:
    return fragment.id


def _tier(rows: int) -> int:
    tier = 0
    while rows >= FAN_IN:
        rows //= FAN_IN
        tier += 1
    return tier


def with_merge(operation: Any, merge: TierMerge, fields_written: list[int]) -> Any:
    """The operation of a write that merges fragments, too."""
    updated, emptied, new = parts(operation)
    return LanceOperation.Update(
        removed_fragment_ids=[*emptied, *merge.absorbed],
        updated_fragments=[*updated, merge.merged],
        new_fragments=new,
        fields_for_preserving_frag_bitmap=fields_written,
        update_mode="rewrite_rows",
    )


def parts(operation: Any) -> tuple[list[FragmentMetadata], list[int], list[FragmentMetadata]]:
    """What an operation on rows does: fragments that change, that go, and that are new."""
    match operation:
        case LanceOperation.Append():
            return [], [], list(operation.fragments)
        case LanceOperation.Delete():
            return list(operation.updated_fragments), list(operation.deleted_fragment_ids), []
        case LanceOperation.Update():
            return (
                list(operation.updated_fragments),
                list(operation.removed_fragment_ids),
                list(operation.new_fragments),
            )
    raise TypeError(f"{type(operation).__name__} is no operation on rows")
