"""Dropping old versions of a table, with the files that only they refer to.

Lance could do it, but it tells what branches need by the absolute addresses that they were written
with, and would remove files of branches after the graph was moved. Here every version stays that a
branch was created from: it refers to all that the branch has of the table.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraph.storage.datasets import below, tracked_files
from omnigraph.storage.objects import Objects
from omnigraph.storage.table_ref import TableRef

_VERSIONS = "_versions/"


def drop_versions(objects: Objects, ref: TableRef, dataset: LanceDataset, keep: int) -> None:
    """Drop all but the newest versions of a table, and those that branches were created from.

    The caller holds the effect lock. Killed in between, files are left that nothing refers to.

    Args:
        objects: The files of the graph.
        ref: The table, or a branch of it.
        dataset: Its newest version.
        keep: How many of the newest stay.
    """
    files = pa.Table.from_batches(list(tracked_files(dataset)))
    own = ref.folder.removeprefix(ref.path)
    bases = [
        base for base in files["base_uri"].unique().to_pylist() if below(ref.path, base) == own
    ]
    files = files.filter(pc.is_in(files["base_uri"], pa.array(bases, pa.utf8())))
    forks: dict[str, Any] = dataset.branches.list()
    versions = sorted(files["version"].unique().to_pylist())[-keep:] + [
        fork["parent_version"] for fork in forks.values() if fork["parent_branch"] == ref.branch
    ]
    stays = pc.is_in(files["version"], pa.array(versions, files["version"].type))
    needed = set(files["path"].filter(stays).to_pylist())
    dropped = set(files["path"].filter(pc.invert(stays)).to_pylist())
    # The versions go first: what they refer to is of no use without them.
    doomed = sorted(dropped - needed, key=lambda path: (not path.startswith(_VERSIONS), path))
    objects.delete_all([f"{ref.folder}/{path}" for path in doomed])
