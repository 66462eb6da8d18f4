"""Merging small fragments in tiers, as part of the writes that make them.

A graph that is written a row at a time would have a fragment per commit, and every version file
lists all fragments. So a write that finds enough fragments of about one size replaces them by one,
in the version that it makes anyway. A row is rewritten once per tier, and a table of n rows keeps
about log(n) small fragments. Row ids stay, and so does every older version.

Lance notes in which version each row was created and last updated, inline in every version file:
one entry per row here, since every row came in a version of its own. A merge keeps one entry per
merged fragment, the newest. So a row may look newer than it is, but never older.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta
from lance.optimize import Compaction, CompactionTask

from omnigraph.storage.patch import check_whole
from omnigraph.storage.protobuf import fields, message, number

#: So many fragments of one tier become one of the next. A tier holds sizes up to this factor.
FAN_IN = 4
#: At most so many fragments are merged in one commit: it must not take long.
_MOST_FRAGMENTS = 64
#: Fragments are merged up to this size.
LARGEST_ROWS = 16_384
_LARGEST_BYTES = 8 << 20


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
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    left_out = set(busy)
    if not due([f for f in fragments if f.id not in left_out]):
        return None
    # An index finds rows by the ids of their fragments.
    for index in dataset.describe_indices():
        left_out |= {id for segment in index.segments for id in segment.fragment_ids}
    sources = due([f for f in fragments if f.id not in left_out])
    if not sources:
        return None
    task = {
        "task": {"fragments": [source.to_json() for source in sources]},
        "read_version": dataset.version,
        "options": _options(dataset),
    }
    rewrite: Any = CompactionTask
    (merged,) = rewrite.from_json(json.dumps(task)).execute(dataset).new_fragments
    check_whole(dataset, branch, [merged])
    merged.id = sources[0].id
    merged.created_at_version_meta = _versions(
        [(source.num_rows, _newest(source.created_at_version_meta)) for source in sources]
    )
    merged.last_updated_at_version_meta = _versions(
        [(source.num_rows, _newest(source.last_updated_at_version_meta)) for source in sources]
    )
    return TierMerge(merged, sources)


def due(fragments: Sequence[FragmentMetadata]) -> list[FragmentMetadata]:
    """The fragments to merge next, by their ids: a full tier, and the tiers it fills in turn."""
    tiers: dict[int, list[FragmentMetadata]] = defaultdict(list)
    for fragment in fragments:
        if fragment.num_rows < LARGEST_ROWS // FAN_IN:
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
            size += sum(file.file_size_bytes or 0 for file in fragment.files)
            rows += fragment.num_rows
            if size > _LARGEST_BYTES or len(chosen) == _MOST_FRAGMENTS:
                return sorted(chosen, key=_id) if len(chosen) >= FAN_IN else []
            chosen.append(fragment)
    return sorted(chosen, key=_id)


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


def _options(dataset: LanceDataset) -> Any:
    """What Lance wants to know of a compaction, as it would say it itself."""
    plan: Any = Compaction.plan(dataset, {"target_rows_per_fragment": LARGEST_ROWS})
    return json.loads(plan.tasks[0].json())["options"]


# --- versions of rows: `RowDatasetVersionSequence` in Lance's table format ---


def _versions(runs: Sequence[tuple[int, int]]) -> RowDatasetVersionMeta:
    """Versions of rows, told by how many rows in turn have which."""
    encoded = b""
    for rows, version in runs:
        # A run has a span of rows, of which only the length counts, and a version.
        span = message(1, message(1, number(2, rows)))
        encoded += message(1, span + number(2, version))
    return RowDatasetVersionMeta.from_json(json.dumps({"inline": list(encoded)}))


def _newest(versions: RowDatasetVersionMeta | None) -> int:
    assert versions is not None
    encoded = bytes(json.loads(versions.json())["inline"])
    return max(
        int(value) for _, run in fields(encoded) for field, value in fields(run) if field == 2
    )
