"""Are all files there that versions of a table refer to, and can they be read?

The files of a table are listed once. Of any number of versions it is then known which of their
files are missing, or have another size than they should have. A file that several versions share is
read once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import StorageError
from omnigraph.storage.blobs import blob_columns, blob_ends
from omnigraph.storage.datasets import below, tracked_files
from omnigraph.storage.deletions import deleted_offsets
from omnigraph.storage.objects import Objects
from omnigraph.storage.snapshot import TableSnapshot, table_errors
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.tables import Tables
from omnigraph.storage.version_file import version_path


class TableFiles:
    """The files of one table and of all its branches, as they are now."""

    def __init__(self, tables: Tables, path: str) -> None:
        self._tables = tables
        self._path = path
        self._objects = Objects.at(tables.location)
        self._sizes = {file.path: file.size for file in self._objects.files(path)}
        #: By the folder of a part of an index, how large its files are together.
        self._folders: dict[str, int] = {}
        for file, size in self._sizes.items():
            folder = file.rpartition("/")[0]
            self._folders[folder] = self._folders.get(folder, 0) + size
        #: What was reported, and what was read: by path, and of rows by what tells deleted ones.
        self._reported: set[str] = set()
        self._read: set[tuple[str, ...]] = set()

    def missing_versions(self, ref: TableRef, versions: Collection[int]) -> list[int]:
        """Those of some versions that do not exist."""
        return sorted(v for v in versions if version_path(ref, v) not in self._sizes)

    def with_files_of_their_own(self, ref: TableRef, versions: Collection[int]) -> list[int]:
        """Some of the versions, that together have all files of rows which the others have.

        Raises:
            StorageError: One of them cannot be opened.
        """
        wanted = pa.array(sorted(versions), pa.int64())
        newest: dict[tuple[str, str], int] = {}
        with table_errors(ref):
            for batch in tracked_files(self._tables.open(ref, max(versions))._dataset):
                part = batch.filter(pc.is_in(batch["version"], wanted))
                files = pa.Table.from_batches([part]).group_by(["base_uri", "path"])
                for row in files.aggregate([("version", "max")]).to_pylist():
                    # An old version need not have its transaction any more.
                    if not row["path"].startswith(("_transactions/", "_versions/")):
                        key = row["base_uri"], row["path"]
                        newest[key] = max(newest.get(key, 0), row["version_max"])
        return sorted({*newest.values(), max(versions)}, reverse=True)

    def damage(self, table: TableSnapshot) -> Iterator[str]:
        """What is wrong with the files of one version, as far as it was not reported before."""
        for path, text in self._damage(table):
            if path not in self._reported:
                self._reported.add(path)
                yield text

    def _damage(self, table: TableSnapshot) -> Iterator[tuple[str, str]]:
        with table_errors(table.ref):
            dataset = table._dataset
            bases: dict[int | None, str] = {None: table.ref.folder}
            for id, base in dataset.base_paths().items():
                bases[id] = self._address(base.path)
            fragments = dataset.get_fragments()
            unread = []
            for fragment in fragments:
                known = fragment.metadata
                paths = [f"{bases[file.base_id]}/data/{file._path}" for file in known.files]
                wrong = [
                    text
                    for path, file in zip(paths, known.files, strict=True)
                    for text in self._wrong(path, self._sizes.get(path), file.file_size_bytes)
                ]
                if (deleted := known.deletion_file) is not None:
                    path = f"{bases[deleted.base_id]}/{deleted.path(fragment.fragment_id)}"
                    paths.append(path)
                    wrong += self._wrong(path, self._sizes.get(path), None)
                    if not wrong and (path,) not in self._read:
                        self._read.add((path,))
                        wrong += self._wrong_deletions(table, fragment, path)
                yield from wrong
                if not wrong and tuple(paths) not in self._read:
                    self._read.add(tuple(paths))
                    unread.append((fragment, paths))
            for index in dataset.describe_indices():
                for segment in index.segments:
                    path = f"{bases[segment.base_id]}/_indices/{segment.uuid}"
                    size = self._folders.get(path)
                    for where, text in self._wrong(path, size, segment.size_bytes):
                        yield where, f"index {index.name}: {text}"
        for fragment, paths in unread:
            yield from self._wrong_rows(table, fragment, paths)

    def _wrong_deletions(
        self, table: TableSnapshot, fragment: Any, path: str
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with the list of a fragment's deleted rows."""
        known = fragment.metadata
        try:
            gone = deleted_offsets(self._objects, table.ref, table._dataset, known)
        except (StorageError, ValueError, IndexError, OSError) as error:
            yield path, f"{path} cannot be read: {error}"
            return
        wanted = known.deletion_file.num_deleted_rows
        if len(np.unique(gone)) != wanted or (gone >= known.physical_rows).any():
            yield path, f"{path} is damaged: it does not have the {wanted:,} rows that are deleted"

    def _wrong_rows(
        self, table: TableSnapshot, fragment: Any, paths: Sequence[str]
    ) -> Iterator[tuple[str, str]]:
        """What is wrong with the rows of a fragment, and with the values beside them."""
        blobs = blob_columns(table)
        count = 0
        try:
            for batch in table.batches(places=True, fragments=[fragment.fragment_id]):
                count += batch.num_rows
                for name in blobs:
                    yield from self._wrong_blobs(paths[0], batch.column(name))
        except StorageError as error:
            yield paths[0], f"{paths[0]} cannot be read: {error.message}"
            return
        wanted = fragment.metadata.num_rows
        if count != wanted:
            yield paths[0], f"{paths[0]} has {count:,} rows instead of {wanted:,}"

    def _wrong_blobs(self, data: str, column: pa.Array) -> Iterator[tuple[str, str]]:
        """What is wrong with the files of large values."""
        for name, end in blob_ends(column):
            path = f"{data.removesuffix('.lance')}/{name}"
            size = self._sizes.get(path)
            if size is None:
                yield path, f"{path} is missing, which has values of blobs"
            elif size < end:
                yield path, f"{path} has {size:,} bytes, but values of blobs up to byte {end:,}"

    def _wrong(self, path: str, size: int | None, wanted: int | None) -> Iterator[tuple[str, str]]:
        if size is None:
            yield path, f"{path} is missing"
        elif wanted and size != wanted:
            yield path, f"{path} has {size:,} bytes instead of {wanted:,}"

    def _address(self, base: str) -> str:
        return f"{self._path}{below(self._path, base)}".rstrip("/")
