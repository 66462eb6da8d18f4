"""Where tasks leave what later tasks need: files in a folder of one load or merge, in the graph.

Nothing in it is ever part of the graph, and the folder goes when the work ends. Files are tables
(Arrow) or values of a type that the reader names (msgspec): reading one never runs what it says.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.history.manifest import PublishedTable
from omnigraph.language import Catalog
from omnigraph.storage.location import Location
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import TableRef, Tables, TableSnapshot
from omnigraph.writes.heartbeat import SCRATCH

__all__ = ["SCRATCH", "TableAt", "TaskContext", "close_tables", "packed", "unpacked"]

Value = TypeVar("Value")
#: How many versions of tables a process has open at a time for tasks.
_OPEN_TABLES = 16


@dataclass(frozen=True)
class TableAt:
    """One version of a table."""

    path: str
    branch: str | None
    version: int
    rows: int

    @staticmethod
    def of(table: PublishedTable) -> TableAt:
        """A version that the manifest names."""
        return TableAt(table.path, table.branch, table.version, table.rows)

    @property
    def ref(self) -> TableRef:
        """The table, or the branch of it."""
        return TableRef(self.path, self.branch)


@dataclass(frozen=True)
class TaskContext:
    """What every task of a load, or of a merge, has to know.

    Attributes:
        location: The graph.
        catalog: Its schema.
        tables: The tables by type, at the versions that the load is made on.
        folder: The scratch folder.
        external_blobs: What addresses of blobs may start with.
        mode: `append`, `merge` or `overwrite`.
        buckets: Into how many parts keys are divided.
        written: The types that the load writes; None while that is not known.
        skips: Rows with faults are omitted, and the others loaded.
        unknown: Types whose ids are not known, because a column with them is wrong as a whole.
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
    unknown: frozenset[str] = frozenset()
    held: dict[str, Any] | None = None

    @property
    def objects(self) -> Objects:
        """The files of the graph."""
        return Objects.at(Location(self.location))

    def open(self, type: str) -> TableSnapshot:
        """The table of a type."""
        table = self.tables[type]
        return Tables(Location(self.location)).open(table.ref, table.version)

    def open_at(self, table: TableAt) -> TableSnapshot:
        """Any version of any table; opened once for all tasks of this work in a process."""
        return _opened(self.location, self.folder, table)

    def replaces(self, type: str) -> bool:
        """True when all rows of a type go."""
        return self.mode == "overwrite" and self.written is not None and type in self.written

    # --- files ---

    def put(self, name: str, value: Any) -> str:
        """Store a value under a name of its own; returns where."""
        path = f"{self.folder}/{name}-{uuid.uuid4().hex}"
        if self.held is not None:
            self.held[path] = value
            return path
        # Bytes are a table already, of any size.
        data = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
        self.objects.write(path, data)
        return path

    def get(self, path: str, kind: type[Value]) -> Value:
        """A value that was stored, of the type that it has to be."""
        if self.held is not None:
            held: Value = self.held[path]
            return held
        stored = self.objects.read(path)
        if stored is None:
            raise StorageError(f"{path}: a file of this work is gone; run it again", transient=True)
        if kind is bytes:
            return cast("Value", stored.data)
        try:
            return msgspec.msgpack.decode(stored.data, type=kind)
        except msgspec.MsgspecError:
            raise StorageError(f"{path}: not what a task has written; run it again") from None


@lru_cache(maxsize=_OPEN_TABLES)
def _opened(location: str, folder: str, table: TableAt) -> TableSnapshot:
    # The folder is of this work alone: at any other time the table may be another one.
    return _tables(location, folder).open(table.ref, table.version)


@lru_cache(maxsize=1)
def _tables(location: str, folder: str) -> Tables:
    return Tables(Location(location))


def close_tables() -> None:
    """Let go of the tables that `TaskContext.open_at` has opened in this process."""
    _opened.cache_clear()
    _tables.cache_clear()


def packed(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(data: bytes) -> pa.Table:
    """A table from its bytes."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_all()
    except (pa.ArrowInvalid, OSError):
        raise StorageError("a file is not what a task has written; run it again") from None
