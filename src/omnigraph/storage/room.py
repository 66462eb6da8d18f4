"""Room for rows that take the place of many others, so that committing them takes a moment.

Lance finds out for every row of a new fragment that replaces another one when that one was created:
about a second for a million rows, while everybody else waits for the lock. It does not ask for
fragments that it knows. So a version of its own comes first, which reserves ids for the fragments,
with placeholders of one row each; in the next version the fragments take these ids. Rows that are
new come with the first of the two. Nobody reads it: it is never published.

These rows keep their row ids. Like merged rows, they may look newer than they are, never older.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lance import LanceOperation
from lance.fragment import FragmentMetadata

from omnigraph.storage.patch import replacing
from omnigraph.storage.row_versions import encode_versions
from omnigraph.storage.snapshot import TableSnapshot
from omnigraph.storage.staged import StagedWrite
from omnigraph.storage.tiers import parts


def stage_room(write: StagedWrite) -> StagedWrite:
    """Stage the version that reserves ids for what a write replaces, and has its new rows."""
    placed, new, _ = _divided(write)
    placeholders = [
        FragmentMetadata.from_json(json.dumps({**_bare(fragment), "physical_rows": 1}))
        for fragment in placed
    ]
    return replace(
        write,
        kind="room",
        rows_written=0,
        rows_replaced=0,
        _operation=LanceOperation.Append([*placeholders, *new]),
        _addresses=None,
    )


def in_room(write: StagedWrite, snapshot: TableSnapshot) -> StagedWrite:
    """The write on top of the version that has reserved ids for it."""
    placed, new, mixed = _divided(write)
    # Ids are given in the order of the fragments: these are the last ones.
    ids = sorted(snapshot.fragment_ids)[len(snapshot.fragment_ids) - len(placed) - len(new) :]
    # As copies: a write that has to be tried again reserves other ids.
    placed = [
        replace(
            fragment,
            id=id,
            last_updated_at_version_meta=encode_versions(
                [(fragment.physical_rows, snapshot.version + 1)]
            ),
        )
        for id, fragment in zip(ids, placed, strict=False)
    ]
    updated, emptied, _ = parts(write._operation)
    return replace(
        write,
        read_version=snapshot.version,
        _operation=replacing([*updated, *placed], emptied, mixed),
        _dataset=snapshot._dataset,
    )


def _divided(write: StagedWrite) -> tuple[list[FragmentMetadata], ...]:
    """The fragments of a write in which all rows replace others, none do, and some do."""
    _, _, fragments = parts(write._operation)
    placed = [f for f in fragments if f.created_at_version_meta is not None]
    new = [f for f in fragments if f.row_id_meta is None]
    mixed = [f for f in fragments if f.row_id_meta and f.created_at_version_meta is None]
    return placed, new, mixed


def _bare(fragment: FragmentMetadata) -> dict[str, Any]:
    bare: dict[str, Any] = replace(
        fragment, row_id_meta=None, created_at_version_meta=None
    ).to_json()
    return bare
