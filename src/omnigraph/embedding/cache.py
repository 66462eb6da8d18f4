"""Vectors that were computed before, by a hash of all that decides them.

The newest are cached in memory. With a folder, all are cached on disk as well, in an SQLite file
that several processes share. The cache only saves work: when its file cannot be read or written,
vectors are computed again and nothing fails.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import sqlite3

Vector = npt.NDArray[np.float32]

#: The number in it changes when an older file cannot be used any more.
FILE = "vectors-2.sqlite"
#: How many keys are looked up with one statement.
_TOGETHER = 500
#: How long a process waits for another one that writes.
_PATIENCE_SECONDS = 10.0


class VectorCache:
    """Vectors by key, in memory and perhaps in a folder. Safe to share between threads."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        memory_bytes: int = 16 << 20,
        disk_bytes: int = 1 << 30,
    ) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._disk_bytes = disk_bytes
        self._used = 0
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, keys: Iterable[bytes], dimension: int) -> dict[bytes, Vector]:
        """Find the vectors that are known."""
        vectors: dict[bytes, Vector] = {}
        unknown: list[bytes] = []
        with self._guard:
            for key in dict.fromkeys(keys):
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    vectors[key] = self._vectors[key]
                else:
                    unknown.append(key)
        read = self._read(unknown, dimension) if unknown else {}
        self._keep(read)
        return vectors | read

    def put(self, vectors: Mapping[bytes, Vector]) -> None:
        """Remember vectors."""
        self._keep(vectors)
        if self._folder is not None:
            with self._tried(), self._opened(self._folder) as connection:
                self._write(connection, vectors)

    # --- in memory ---

    def _keep(self, vectors: Mapping[bytes, Vector]) -> None:
        with self._guard:
            for key, vector in vectors.items():
                if key not in self._vectors:
                    # A copy: a row of a batch would keep all of the batch.
                    self._vectors[key] = vector.copy()
                    self._used += vector.nbytes
            while self._used > self._memory_bytes:
                _, oldest = self._vectors.popitem(last=False)
                self._used -= oldest.nbytes

    # --- on disk ---

    def _read(self, keys: list[bytes], dimension: int) -> dict[bytes, Vector]:
        vectors: dict[bytes, Vector] = {}
        if self._folder is None or not (self._folder / FILE).exists():
            return vectors
        with self._tried(), self._opened(self._folder) as connection:
            for start in range(0, len(keys), _TOGETHER):
                part = keys[start : start + _TOGETHER]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part
                )
                for key, data in rows:
                    vector = data[:-4]
                    if len(vector) == 4 * dimension and data == _with_checksum(key, vector):
                        vectors[key] = np.frombuffer(vector, "<f4").astype(np.float32)
        return vectors

    def _write(self, connection: sqlite3.Connection, vectors: Mapping[bytes, Vector]) -> None:
        with connection:
            connection.executemany(
                # One that is there was damaged, or another process has just made the same.
                "INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)",
                [
                    (key, _with_checksum(key, vector.astype("<f4").tobytes()))
                    for key, vector in vectors.items()
                ],
            )
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            if (pages - free) * size > self._disk_bytes:
                # The oldest quarter makes room.
                connection.execute(
                    "DELETE FROM vectors WHERE number <="
                    " (SELECT min(number) + (max(number) - min(number)) / 4 FROM vectors)"
                )

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[sqlite3.Connection]:
        """A connection for one use: none is shared between threads, or kept across a fork."""
        import sqlite3

        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink() or (folder / FILE).is_symlink():
            raise OSError("a link could lead to a file that is no cache")
        with closing(sqlite3.connect(folder / FILE, timeout=_PATIENCE_SECONDS)) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors"
                " (number INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB)"
            )
            yield connection

    @contextmanager
    def _tried(self) -> Iterator[None]:
        """What fails here is left undone; a file that is damaged is removed."""
        import sqlite3

        try:
            yield
        except (sqlite3.OperationalError, OSError):
            pass
        except sqlite3.DatabaseError:
            if self._folder is not None:
                (self._folder / FILE).unlink(missing_ok=True)


def _with_checksum(key: bytes, vector: bytes) -> bytes:
    """A vector as it is stored: SQLite does not notice damaged bytes of a value."""
    return vector + zlib.crc32(vector, zlib.crc32(key)).to_bytes(4, "little")
