"""Files of a table that many processes write: fragments that no version refers to yet.

Who writes them needs nothing but the table. Plain text describes them, which travels;
one process puts all of them into one staged write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance import LanceOperation
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata

from omnigraph.storage.objects import Objects
from omnigraph.storage.patch import replacing, replacing_fragments, without
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.staged import StagedWrite, staged
from omnigraph.storage.table_ref import TableRef


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A fragment that is written; `description` is all that storage has to know of it."""

    description: str
    rows: int

    @property
    def names(self) -> list[str]:
        """The names of its files below the table's folder of data."""
        return [file["path"] for file in json.loads(self.description)["files"]]


def write_files(
    snapshot: TableSnapshot, rows: pa.Table, row_ids: pa.ChunkedArray | None = None
) -> list[WrittenFile]:
    """Write rows to files of a table.

    Args:
        snapshot: The table.
        rows: The rows.
        row_ids: The stable row ids of the first of them, which take the place of others.
    """
    with table_errors(snapshot.ref):
        fragments = replacing_fragments(snapshot, rows, row_ids)
    return [WrittenFile(json.dumps(f.to_json()), f.physical_rows) for f in fragments]


def stage_files(
    snapshot: TableSnapshot,
    files: Sequence[WrittenFile],
    *,
    replaced: npt.NDArray[np.uint64],
    replaces_all: bool,
    removed: npt.NDArray[np.uint64] | None = None,
) -> StagedWrite | None:
    """Stage files that are written as one change of a table; None when it changes nothing.

    Args:
        snapshot: The version of the table that is changed.
        files: The files, which lie in the table's folder.
        replaced: The addresses of rows whose place is taken by rows of the files.
        replaces_all: All other rows go.
        removed: The addresses of rows that go.
    """
    fragments = [FragmentMetadata.from_json(file.description) for file in files]
    written = sum(file.rows for file in files)
    if replaces_all:
        operation: Any = LanceOperation.Overwrite(snapshot._dataset.lance_schema, fragments)
        return staged(snapshot, "overwrite", operation, written=written, deleted=snapshot.count())
    gone = 0 if removed is None else len(removed)
    addresses = replaced if removed is None else np.concatenate([replaced, removed])
    if not fragments and not gone:
        return None
    if not len(addresses):
        return staged(snapshot, "append", LanceOperation.Append(fragments), written=written)
    with table_errors(snapshot.ref):
        updated, emptied = without(snapshot._dataset, addresses)
    if not fragments:
        # Lance wants a predicate for its log; the fragments identify the rows.
        operation = LanceOperation.Delete(updated, emptied, "false")
        return staged(snapshot, "delete", operation, addresses=addresses, deleted=gone)
    operation = replacing(updated, emptied, fragments)
    counts = {"written": written - len(replaced), "replaced": len(replaced), "deleted": gone}
    return staged(snapshot, "merge", operation, addresses=addresses, **counts)


def read_file(
    objects: Objects, table: TableRef, file: WrittenFile, columns: Sequence[str]
) -> pa.Table:
    """Read columns of a file that no version refers to."""
    parts = []
    with table_errors(table):
        for name in file.names:
            address = objects.location.store_address(f"{_data(table)}/{name}")
            parts.append(LanceFileReader(address, columns=list(columns)).read_all().to_table())
    return pa.concat_tables(parts)


def move_files(
    objects: Objects, files: Sequence[WrittenFile], source: TableRef, target: TableRef
) -> None:
    """Move files from the folder of a table to that of its fork, with what belongs to them."""
    for file in files:
        for name in file.names:
            objects.move(f"{_data(source)}/{name}", f"{_data(target)}/{name}")
            # Large blobs lie in a folder beside their file.
            beside = name.removesuffix(".lance")
            for path in objects.paths(f"{_data(source)}/{beside}"):
                inner = path.removeprefix(f"{_data(source)}/")
                objects.move(path, f"{_data(target)}/{inner}")


def delete_files(objects: Objects, files: Sequence[WrittenFile], table: TableRef) -> None:
    """Delete files that no version refers to."""
    for file in files:
        for name in file.names:
            objects.delete(f"{_data(table)}/{name}")
            objects.delete_folder(f"{_data(table)}/{name.removesuffix('.lance')}")


def _data(table: TableRef) -> str:
    return f"{table.folder}/data"
