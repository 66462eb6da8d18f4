"""Where tasks leave what later tasks need: small files in a folder of one load, inside the graph.

Nothing in it is ever part of the graph. The folder goes when the load ends.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.language import Catalog
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import TableRef, Tables, TableSnapshot
from omnigraph.writes.signs import SCRATCH

__all__ = ["SCRATCH", "Site", "TableAt", "packed", "unpacked"]


@dataclass(frozen=True)
class TableAt:
    """One version of a table."""

    path: str
    branch: str | None
    version: int
    rows: int

    @property
    def ref(self) -> TableRef:
        """The table, or the branch of it."""
        return TableRef(self.path, self.branch)


@dataclass(frozen=True)
class Site:
    """What every task of a load has to know.

    Attributes:
        location: The graph.
        catalog: Its schema.
        tables: The tables by type, at the versions that the load is made on.
        folder: The load's scratch folder.
        external_blobs: What addresses of blobs may start with.
        mode: `append`, `merge` or `overwrite`.
        buckets: Into how many parts keys are divided.
        written: The types that the load writes; None while that is not known.
        skips: Rows with faults may be left out, and the others loaded.
        held: What is kept, if all tasks run in this process; None keeps it in files.
    """

    location: str
    catalog: Catalog
    tables: Mapping[str, TableAt]
    folder: str
    external_blobs: tuple[str, ...]
    mode: str
    buckets: int
    written: frozenset[str] | None = None
    skips: bool = False
    held: dict[str, Any] | None = None

    @property
    def objects(self) -> Objects:
        """The files of the graph."""
        return Objects(Location(self.location))

    def open(self, type: str) -> TableSnapshot:
        """The table of a type."""
        table = self.tables[type]
        return Tables(Location(self.location)).open(table.ref, table.version)

    def replaces(self, type: str) -> bool:
        """True when all rows of a type go."""
        return self.mode == "overwrite" and self.written is not None and type in self.written

    # --- files ---

    def put(self, name: str, value: Any) -> str:
        """Keep a value under a name of its own; gives where."""
        path = f"{self.folder}/{name}-{uuid.uuid4().hex}"
        if self.held is not None:
            self.held[path] = value
            return path
        self.objects.write(path, pickle.dumps(value, protocol=5))
        return path

    def get(self, path: str) -> Any:
        """A value that was kept."""
        if self.held is not None:
            return self.held[path]
        found = self.objects.read(path)
        if found is None:
            raise StorageError(f"{path}: a file of the load is gone; run it again", transient=True)
        return pickle.loads(found.data)


def packed(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    """A table from its bytes."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
