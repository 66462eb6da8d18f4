"""Staged patches: rows that are new, rows that take the place of others, rows that go.

All three together are one version of the table. What a patch costs follows the rows it names, not
the table: they are found before, and only the fragments they are in get a new list of deleted
rows. A row that is replaced keeps its stable row id and the version it was created in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import RowIdSequence, write_fragments

from omnigraph.storage.row_versions import encode_versions
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import FILE_FORMAT, ROWS_PER_FRAGMENT, StagedWrite, staged
from omnigraph.storage.table_ref import OFFSET_BITS, ROW_ADDRESS, ROW_ID

#: More rows than this that replace others get files of their own, and a mark; see `room`.
SEVERAL_ROWS = 1_000
#: In a table of so many rows, already so many rows that are written do, if some replace others.
_LARGE_TABLE = 300_000
_SOME_ROWS = 10
#: More rows than this that are replaced or go are marked while the others are written.
_MANY_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of some rows of one version of a table.

    Attributes:
        new: Rows to add.
        changed: Rows to put in the place of others.
        changed_at: Which ones, in the same order: the columns `_rowid` and `_rowaddr`, as
            `TableSnapshot.find` returns them.
        removed_at: Addresses (`_rowaddr`) of rows to delete.
    """

    new: pa.Table | None = None
    changed: pa.Table | None = None
    changed_at: pa.Table | None = None
    removed_at: pa.ChunkedArray | None = None


def stage_patch(snapshot: TableSnapshot, patch: Patch) -> StagedWrite | None:
    """Stage a patch; None when it changes nothing."""
    new = patch.new if patch.new is not None and patch.new.num_rows else None
    changed = patch.changed if patch.changed is not None and patch.changed.num_rows else None
    removed = patch.removed_at if patch.removed_at is not None and len(patch.removed_at) else None
    if new is None and changed is None and removed is None:
        return None
    counts: dict[str, Any] = {
        "written": new.num_rows if new is not None else 0,
        "replaced": changed.num_rows if changed is not None else 0,
        "deleted": len(removed) if removed is not None else 0,
    }
    dataset: LanceDataset = snapshot._dataset
    with table_errors(snapshot.ref):
        row_ids = None if changed is None or patch.changed_at is None else patch.changed_at[ROW_ID]
        written = [rows for rows in (changed, new) if rows is not None]
        rows = pa.concat_tables(written) if written else None
        if rows is not None and changed is None and removed is None:
            fragments = replacing_fragments(snapshot, rows, None)
            operation: Any = LanceOperation.Append(fragments)
            return staged(snapshot, "append", operation, added=new, **counts)
        addresses = [removed] if removed is not None else []
        if changed is not None:
            assert patch.changed_at is not None
            addresses.append(patch.changed_at[ROW_ADDRESS])
        places = np.concatenate([a.to_numpy() for a in addresses])
        if rows is None:
            # Lance wants a predicate for its log; the fragments identify the rows.
            operation = LanceOperation.Delete(*without(dataset, places), "false")
            return staged(snapshot, "delete", operation, addresses=places, **counts)
        if len(places) <= _MANY_ROWS:
            fragments = replacing_fragments(snapshot, rows, row_ids)
            updated, emptied = without(dataset, places)
        else:
            with ThreadPoolExecutor(1) as pool:
                removing = pool.submit(without, dataset, places)
                fragments = replacing_fragments(snapshot, rows, row_ids)
                updated, emptied = removing.result()
        operation = replacing(updated, emptied, fragments)
    return staged(snapshot, "merge", operation, addresses=places, **counts)


def replacing(updated: list[Any], emptied: list[int], fragments: list[Any]) -> Any:
    """The operation by which rows of new fragments take the place of others."""
    return LanceOperation.Update(
        removed_fragment_ids=emptied,
        updated_fragments=updated,
        new_fragments=fragments,
        # All columns are written anew: no index covers the new fragments.
        fields_for_preserving_frag_bitmap=fields_written(fragments),
        update_mode="rewrite_rows",
    )


def fields_written(fragments: Sequence[Any]) -> list[int]:
    """The fields of fragments. An index of another field would be taken to cover these."""
    # Files list only the elements of lists, and an index is of the list, which has a number before.
    last = max((field for f in fragments for file in f.files for field in file.fields), default=-1)
    return list(range(last + 1))


def new_fragments(dataset: LanceDataset, rows: pa.Table, branch: str | None) -> list[Any]:
    """Write rows to files of a table, or of a branch of it, that no version refers to yet."""
    fragments = list(
        write_fragments(
            rows,
            dataset,
            schema=dataset.schema,
            max_rows_per_file=ROWS_PER_FRAGMENT,
            data_storage_version=FILE_FORMAT,
            enable_stable_row_ids=True,
            # Whether a blob may refer to a file elsewhere is decided before, by validation.
            allow_external_blob_outside_bases=True,
        )
    )
    check_whole(dataset, branch, fragments)
    return fragments


def check_whole(dataset: LanceDataset, branch: str | None, fragments: Sequence[Any]) -> None:
    """Refuse local files of new fragments that end too early.

    Lance does not notice when just the last bytes of a file could not be written, as on a disk
    that is full. An object store has the whole file, or none.
    """
    if "://" in dataset.uri:
        return
    # A branch is named by the address of the table, or by its own.
    tree = "" if branch is None else f"/tree/{branch}"
    folder = f"{dataset.uri.removesuffix(tree)}{tree}/data"
    for file in (file for fragment in fragments for file in fragment.files):
        size = os.stat(f"{folder}/{file._path}").st_size
        if file.file_size_bytes not in (None, size):
            raise OSError(
                f"{size:,} of {file.file_size_bytes:,} bytes were written to {file._path};"
                " is the disk full?"
            )


def replacing_fragments(
    snapshot: TableSnapshot, rows: pa.Table, row_ids: pa.ChunkedArray | None
) -> list[Any]:
    """Write rows to files of a table, of which the first may take the place of others.

    Args:
        snapshot: The version of the table that has the rows which are replaced.
        rows: The rows.
        row_ids: The stable row ids of those that are replaced, which the first rows get. The others
            get ids of their own.
    """
    dataset, branch = snapshot._dataset, snapshot.ref.branch
    count = 0 if row_ids is None else len(row_ids)
    if count <= SEVERAL_ROWS and not (count and needs_room(rows.num_rows, snapshot.count())):
        fragments = new_fragments(dataset, rows, branch)
        _keep_row_ids(fragments, row_ids)
        return fragments
    replaced = new_fragments(dataset, rows[:count], branch)
    _keep_row_ids(replaced, row_ids)
    for fragment in replaced:
        fragment.created_at_version_meta = encode_versions(
            [(fragment.physical_rows, snapshot.version)]
        )
    more = new_fragments(dataset, rows[count:], branch) if rows.num_rows > count else []
    return [*replaced, *more]


def needs_room(rows: int, table_rows: int) -> bool:
    """True when rows of which some replace others get room in a large table; see `room`."""
    return rows > _SOME_ROWS and table_rows > _LARGE_TABLE


def _keep_row_ids(fragments: list[Any], row_ids: pa.ChunkedArray | None) -> None:
    """Let the first rows have the ids of those that they replace."""
    start = 0
    for fragment in fragments:
        ids = [] if row_ids is None else row_ids[start : start + fragment.physical_rows].to_pylist()
        if not ids:
            return
        fragment.row_id_meta = RowIdSequence(ids).to_inline_metadata()
        start += len(ids)


def without(dataset: LanceDataset, addresses: npt.ArrayLike) -> tuple[list[Any], list[int]]:
    """Fragments with some rows fewer, and the ids of fragments that have none left."""
    updated, emptied = [], []
    for id, offsets in _by_fragment(np.asarray(addresses, np.uint64)):
        fragment = dataset.get_fragment(id)
        if fragment is None:
            raise ValueError(f"there is no fragment {id} in version {dataset.version}")
        left = fragment.delete_rows(offsets)
        if left is None:
            emptied.append(id)
        else:
            updated.append(left)
    return updated, emptied


def _by_fragment(addresses: npt.NDArray[np.uint64]) -> Iterator[tuple[int, list[int]]]:
    ordered = np.sort(addresses)
    ids = ordered >> np.uint64(OFFSET_BITS)
    offsets = ordered & np.uint64((1 << OFFSET_BITS) - 1)
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    for start, part in zip(starts, np.split(offsets, starts[1:]), strict=True):
        yield int(ids[start]), part.tolist()
