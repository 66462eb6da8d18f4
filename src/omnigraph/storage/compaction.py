"""Staged compaction: small fragments and deleted rows are rewritten, the content stays the same.

Three steps: `plan` says which fragments are put together, `rewrite` writes new ones, in any process
and as many at a time as one likes, and `stage_compaction` makes one staged write of it. Row ids
stay, and so do the indexes that are made of row ids. A BTREE is made of row addresses: it loses the
rows that were rewritten. Indexes of these rows are built before, beside the table, and come with
the version after: both are published at once.

A staged compaction stays staged when others write to the table: the fragments that they have
changed are left as they are, the others are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lance import LanceDataset, LanceOperation
from lance.dataset import Index
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta
from lance.optimize import Compaction, CompactionTask, RewriteResult

from omnigraph.storage.patch import check_whole
from omnigraph.storage.row_versions import encode_versions, newest_version, size_of
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite, staged
from omnigraph.storage.version_file import max_fragment_id

#: Builds indexes of a table as it will be; None when there is nothing to build.
BuildIndices = Callable[[TableSnapshot], StagedWrite | None]
#: New fragments have ids so far above those in use: others may add as many while it is staged.
_GAP = 1024
#: Every version file has the versions of rows in it. If they need more bytes, they are told less
#: exactly: in so many runs, each with its newest.
_EXACT_BYTES = 1024
_RUNS = 64


def plan(snapshot: TableSnapshot, rows_per_fragment: int) -> list[str]:
    """Which fragments to put together, as texts for `rewrite`: one for each new group of them."""
    with table_errors(snapshot.ref):
        options: Any = {"target_rows_per_fragment": rows_per_fragment}
        tasks: list[Any] = Compaction.plan(snapshot.private()._dataset, options).tasks
        return [task.json() for task in tasks]


def bytes_of(task: str) -> int:
    """How many bytes the files have that a task rewrites."""
    fragments = _task(task).fragments
    return sum(file.file_size_bytes or 0 for f in fragments for file in f.files)


def rewrite(snapshot: TableSnapshot, task: str) -> str:
    """Write the fragments that replace those of a task; returns what came of it, as a text."""
    dataset = snapshot.private()._dataset
    with table_errors(snapshot.ref):
        result: Any = _task(task).execute(dataset)
        check_whole(dataset, snapshot.ref.branch, result.new_fragments)
        return str(result.json())


def stage_compaction(
    snapshot: TableSnapshot,
    rewritten: Iterable[str],
    *,
    forget: Callable[[int], None],
    build: BuildIndices | None = None,
) -> StagedWrite | None:
    """Stage a compaction; None when nothing was rewritten.

    Args:
        snapshot: What is compacted.
        rewritten: What `rewrite` returned for each task.
        forget: Removes the file of a version that belongs to no history, by its number.
        build: Builds the indexes that come with it.
    """
    snapshot = snapshot.private()
    dataset: LanceDataset = snapshot._dataset
    loaded: Any = RewriteResult
    with table_errors(snapshot.ref):
        groups = [_group(loaded.from_json(text)) for text in rewritten]
        if not groups:
            return None
        # Lance gives new fragments their ids too late for the indexes to learn them.
        groups = _numbered(groups, max_fragment_id(dataset) + 1 + _GAP)
        operation = LanceOperation.Rewrite(groups, [])
        then = None if build is None else _indices(snapshot, operation, build, forget)
    return replace(staged(snapshot, "compaction", operation), _then=then)


def _indices(
    snapshot: TableSnapshot,
    operation: LanceOperation.Rewrite,
    build: BuildIndices,
    forget: Callable[[int], None],
) -> LanceOperation.CreateIndex | None:
    """Build indexes of a table that is not compacted yet, as if it were."""
    # A version outside of the history: HEAD does not move, but the new fragments can be indexed.
    compacted = LanceDataset.commit(
        snapshot._dataset, operation, read_version=snapshot.version, detached=True
    )
    try:
        written = build(TableSnapshot(snapshot.ref, compacted, snapshot._ids, snapshot._objects))
    finally:
        forget(int(compacted.version))
    if written is None:
        return None
    indices: LanceOperation.CreateIndex = written._operation
    return indices


def indices_after(write: StagedWrite, snapshot: TableSnapshot) -> StagedWrite:
    """The indexes that come with a compaction, on top of the version that it has become."""
    operation = LanceOperation.CreateIndex(
        [replace(index, dataset_version=snapshot.version) for index in write._then.new_indices],
        write._then.removed_indices,
    )
    return staged(snapshot, "indices", operation)


def surviving(write: StagedWrite, old: TableSnapshot, new: TableSnapshot) -> StagedWrite | None:
    """A staged compaction on top of a later version: of the fragments that nobody has changed.

    The indexes that it came with are left out if they do not fit any more.

    Returns:
        None when others have changed all of them.
    """
    now = new.fragments()
    same = {state.id for name, state in old.fragments().items() if now.get(name) == state}
    groups = [g for g in write._operation.groups if same.issuperset(_ids(g.old_fragments))]
    if not groups:
        return None
    with table_errors(new.ref):
        next_id = max_fragment_id(new._dataset) + 1
        fits = (
            write._then is not None
            and len(groups) == len(write._operation.groups)
            and min(_new_ids(groups)) >= next_id
            and segments(old) == segments(new)
            and covered(write._then) <= unchanged(old, new) | set(_new_ids(groups))
        )
        if not fits and min(_new_ids(groups)) < next_id:
            groups = _numbered(groups, next_id)
    operation = LanceOperation.Rewrite(groups, [])
    return replace(write, _operation=operation, _then=write._then if fits else None)


def segments(table: TableSnapshot) -> set[str]:
    """The parts of a table's indexes."""
    indices = table._dataset.describe_indices()
    return {segment.uuid for index in indices for segment in index.segments}


def covered(operation: LanceOperation.CreateIndex) -> set[int]:
    """The fragments that new indexes cover."""
    new: Sequence[Index] = operation.new_indices
    return {id for index in new for id in index.fragment_ids}


def unchanged(old: TableSnapshot, new: TableSnapshot) -> set[int]:
    """The fragments that are in both versions; some of their rows may be deleted since."""
    now = new.fragments()
    return {fragment.id for name, fragment in old.fragments().items() if name in now}


def _task(text: str) -> CompactionTask:
    loaded: Any = CompactionTask
    task: CompactionTask = loaded.from_json(text)
    return task


def _ids(fragments: Iterable[FragmentMetadata]) -> Iterator[int]:
    return (fragment.id for fragment in fragments)


def _new_ids(groups: Iterable[LanceOperation.RewriteGroup]) -> list[int]:
    return [id for group in groups for id in _ids(group.new_fragments)]


def _numbered(
    groups: Iterable[LanceOperation.RewriteGroup], next_id: int
) -> list[LanceOperation.RewriteGroup]:
    """Groups whose new fragments have ids from one on."""
    numbered = []
    for group in groups:
        # As copies: what was staged before stays what it is.
        new = [replace(f, id=id) for id, f in enumerate(group.new_fragments, next_id)]
        numbered.append(LanceOperation.RewriteGroup(list(group.old_fragments), new))
        next_id += len(new)
    return numbered


# --- versions of rows ---


def _group(result: Any) -> LanceOperation.RewriteGroup:
    old, new = list(result.original_fragments), list(result.new_fragments)
    created = _versions(old, new, [f.created_at_version_meta for f in old + new])
    updated = _versions(old, new, [f.last_updated_at_version_meta for f in old + new])
    new = [
        replace(f, created_at_version_meta=c, last_updated_at_version_meta=u)
        for f, c, u in zip(new, created, updated, strict=True)
    ]
    return LanceOperation.RewriteGroup(old, new)


def _versions(
    old: Sequence[FragmentMetadata],
    new: Sequence[FragmentMetadata],
    known: Sequence[RowDatasetVersionMeta | None],
) -> list[RowDatasetVersionMeta | None]:
    """The versions of the rows of new fragments, told in few bytes: they may look newer."""
    before, after = known[: len(old)], list(known[len(old) :])
    if any(versions is None for versions in known) or max(map(size_of, after)) <= _EXACT_BYTES:
        return after
    runs = [(f.num_rows, newest_version(v)) for f, v in zip(old, before, strict=True)]
    coarse: list[RowDatasetVersionMeta | None] = []
    for fragment in new:
        taken, runs = _split(runs, fragment.num_rows)
        together = -(-len(taken) // _RUNS)
        chunks = [taken[at : at + together] for at in range(0, len(taken), together)]
        coarse.append(
            encode_versions(
                [(sum(rows for rows, _ in c), max(version for _, version in c)) for c in chunks]
            )
        )
    return coarse


def _split(
    runs: list[tuple[int, int]], rows: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Divide runs after a number of rows."""
    taken: list[tuple[int, int]] = []
    for at, (length, version) in enumerate(runs):
        if rows <= length:
            left = [(length - rows, version)] if rows < length else []
            return [*taken, (rows, version)], [*left, *runs[at + 1 :]]
        taken.append((length, version))
        rows -= length
    return taken, []
