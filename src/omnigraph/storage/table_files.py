"""Are all files there that versions of a table refer to, and as large as they say?

The files of a table are listed once. Of any number of versions it is then known which of their
files are missing; of a single one also whether a file is shorter or longer than it should be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.datasets import below, tracked_files
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
        files = Objects.at(tables.location).files(path)
        self._sizes = {file.path: file.size for file in files}
        #: By the folder of a part of an index, how large its files are together.
        self._folders: dict[str, int] = {}
        for file in files:
            folder = file.path.rpartition("/")[0]
            self._folders[folder] = self._folders.get(folder, 0) + file.size

    def missing_versions(self, ref: TableRef, versions: Collection[int]) -> list[int]:
        """Those of some versions that do not exist."""
        return sorted(v for v in versions if version_path(ref, v) not in self._sizes)

    def missing_files(self, ref: TableRef, versions: Collection[int]) -> Mapping[str, int]:
        """Files of rows, and of deleted rows, that some versions refer to and that do not exist.

        Returns:
            By the path of each file, the newest of the versions.
        """
        wanted = pa.array(sorted(versions), pa.int64())
        missing: dict[str, int] = {}
        with table_errors(ref):
            for batch in tracked_files(self._tables.open(ref)._dataset):
                part = batch.filter(pc.is_in(batch["version"], wanted))
                files = pa.Table.from_batches([part]).group_by(["base_uri", "path"])
                for row in files.aggregate([("version", "max")]).to_pylist():
                    path = self._address(row["base_uri"], row["path"])
                    # An old version need not have its transaction any more.
                    if path not in self._sizes and not row["path"].startswith("_transactions/"):
                        missing[path] = max(missing.get(path, 0), row["version_max"])
        return missing

    def damage(self, table: TableSnapshot) -> Iterator[str]:
        """What is wrong with the files of one version: they are missing, or have another size."""
        with table_errors(table.ref):
            dataset = table._dataset
            bases: dict[int | None, str] = {None: table.ref.folder}
            for id, base in dataset.base_paths().items():
                bases[id] = self._address(base.path, "").rstrip("/")
            for fragment in dataset.get_fragments():
                for file in fragment.metadata.files:
                    path = f"{bases[file.base_id]}/data/{file._path}"
                    yield from self._wrong(path, self._sizes.get(path), file.file_size_bytes)
                if (deleted := fragment.metadata.deletion_file) is not None:
                    path = f"{bases[deleted.base_id]}/{deleted.path(fragment.fragment_id)}"
                    yield from self._wrong(path, self._sizes.get(path), None)
            for index in dataset.describe_indices():
                for segment in index.segments:
                    path = f"{bases[segment.base_id]}/_indices/{segment.uuid}"
                    size = self._folders.get(path)
                    for text in self._wrong(path, size, segment.size_bytes):
                        yield f"index {index.name}: {text}"

    def _wrong(self, path: str, size: int | None, wanted: int | None) -> Iterator[str]:
        if size is None:
            yield f"{path} is missing"
        elif wanted and size != wanted:
            yield f"{path} has {size:,} bytes instead of {wanted:,}"

    def _address(self, base: str, path: str) -> str:
        return f"{self._path}{below(self._path, base)}/{path}"
