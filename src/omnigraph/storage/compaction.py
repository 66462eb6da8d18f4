"""Staged compaction: small fragments and deleted rows are rewritten, the content stays the same.

Row ids stay, and so do the indexes that are made of row ids. A BTREE is made of row addresses,
which change, so it is built again over the new fragments in the same staged write.
"""

from __future__ import annotations

from collections.abc import Callable

from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction

from omnigraph.storage.indices import IndexSpec, build_segment
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite, staged
from omnigraph.storage.version_file import max_fragment_id


def stage_compaction(
    snapshot: TableSnapshot, *, rows_per_fragment: int, forget: Callable[[int], None]
) -> StagedWrite | None:
    """Stage a compaction; None when there is nothing to do.

    On a fork, a BTREE that comes from the table it was forked from loses the rewritten rows:
    reads stay right, `stage_indices` makes them fast again.

    Args:
        snapshot: What is compacted.
        rows_per_fragment: Fragments with fewer rows are put together.
        forget: Removes the file of a version that belongs to no history, by its number.
    """
    snapshot = snapshot.private()
    dataset: LanceDataset = snapshot._dataset
    with table_errors(snapshot.ref):
        plan = Compaction.plan(dataset, {"target_rows_per_fragment": rows_per_fragment})
        if plan.num_tasks() == 0:
            return None
        groups = []
        # Lance gives new fragments their ids too late for the indexes to learn them.
        next_id = max_fragment_id(dataset) + 1
        for task in plan.tasks:
            new_fragments = task.execute(dataset).new_fragments
            for fragment in new_fragments:
                fragment.id, next_id = next_id, next_id + 1
            groups.append(LanceOperation.RewriteGroup(list(task.fragments), new_fragments))
        indices = _rebuild(dataset, groups, forget)
    return staged(snapshot, "compaction", LanceOperation.Rewrite(groups, indices))


def _rebuild(
    dataset: LanceDataset,
    groups: list[LanceOperation.RewriteGroup],
    forget: Callable[[int], None],
) -> list[LanceOperation.RewrittenIndex]:
    """Build the BTREE segments again that cover rewritten fragments."""
    moved = {f.id for group in groups for f in group.old_fragments}
    stale = [
        (index, segment)
        for index in dataset.describe_indices()
        if index.index_type == "BTree"
        for segment in index.segments
        # Lance would look for what replaces an inherited segment where the inherited one is.
        if segment.base_id is None and not moved.isdisjoint(segment.fragment_ids)
    ]
    if not stale:
        return []
    # A version outside of the history: HEAD does not move, but the new fragments can be indexed.
    compacted = LanceDataset.commit(
        dataset,
        LanceOperation.Rewrite(groups, []),
        read_version=dataset.version,
        detached=True,
    )
    try:
        rewritten = []
        for index, segment in stale:
            covered = set(segment.fragment_ids)
            for group in groups:
                if not covered.isdisjoint(f.id for f in group.old_fragments):
                    covered |= {f.id for f in group.new_fragments}
            left = [f.fragment_id for f in compacted.get_fragments() if f.fragment_id in covered]
            spec = IndexSpec(index.name, index.field_names[0], "btree")
            rebuilt = build_segment(compacted, spec, left, {})
            assert rebuilt.index_details is not None
            rewritten.append(
                LanceOperation.RewrittenIndex(
                    segment.uuid, rebuilt.uuid, *rebuilt.index_details, rebuilt.index_version
                )
            )
    finally:
        forget(int(compacted.version))
    return rewritten
