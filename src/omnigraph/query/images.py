"""Tables by position: what a query sees of one version of a table.

A row's position is its stable row id, so it stays the same when other rows, or its own values,
change. Columns are read once and kept, in the order of positions; few rows of a large table are
read by themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables import ROW_ID, TableSnapshot

Positions = npt.NDArray[np.int64]
#: What tells versions of tables apart: path, lifetime of the branch (if it is not main), version.
TableKey = tuple[str, str | None, int]

#: Rows are read one by one, and not as whole columns, when they are fewer than this part of all.
_FEW = 200
#: Tables of up to this many rows are always read as columns.
_SMALL = 20_000
#: Tables of up to this many rows are read as columns when a few rows were asked for this often.
_LARGE = 1_000_000
_OFTEN = 4


class TableImage:
    """One version of a table, read as far as queries have needed it. Safe to share."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self.snapshot = snapshot
        self.rows = snapshot.count()
        self._guard = threading.RLock()
        self._columns: dict[str, pa.Array] = {}
        #: How often a few values of a column were asked for.
        self._asked: dict[str, int] = {}
        #: For each position the place in scans, or -1; None when they are the same.
        self._slots: Positions | None = None
        self._alive: npt.NDArray[np.bool_] | None = None
        self._size: int | None = None

    @property
    def bytes(self) -> int:
        """How much memory is used."""
        kept = sum(int(column.nbytes) for column in list(self._columns.values()))
        return kept + (self._slots.nbytes if self._slots is not None else 0)

    @property
    def size(self) -> int:
        """One more than the highest position."""
        self._load([])
        assert self._size is not None
        return self._size

    @property
    def alive(self) -> npt.NDArray[np.bool_] | None:
        """Which positions have a row; None when all have."""
        self._load([])
        return self._alive

    def positions(self) -> Positions:
        """The positions of all rows."""
        alive = self.alive
        return np.arange(self.size) if alive is None else np.flatnonzero(alive)

    def has(self, columns: Sequence[str]) -> bool:
        """True when the columns are in memory."""
        return self._size is not None and all(name in self._columns for name in columns)

    def keeps(self, names: Sequence[str]) -> bool:
        """True when columns are in memory, or should be: small ones, and those asked for often.

        Who asks uses them right away if so, and else reads a few rows without them. Texts, lists
        and vectors may be large, so they are not read as a whole for the sake of a few.
        """
        if self.rows <= _SMALL or self.has(names):
            return True
        schema = self.snapshot.schema
        if self.rows > _LARGE or not all(
            name == "id" or pa.types.is_primitive(schema.field(name).type) for name in names
        ):
            return False
        with self._guard:
            for name in names:
                self._asked[name] = self._asked.get(name, 0) + 1
            return all(self._asked[name] > _OFTEN for name in names)

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Whole columns, in the order of positions; where there is no row they are null."""
        self._load(names)
        return {name: self._columns[name] for name in names}

    def fetch(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        """Values of some rows. A position below 0 gives null."""
        if not names:
            return {}
        if len(positions) * _FEW < self.rows and not self.keeps(names):
            return self._fetch_rows(positions, names)
        at = pa.array(positions)
        if len(positions) and int(positions.min()) < 0:
            at = pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at)
        return {name: column.take(at) for name, column in self.columns(names).items()}

    def _fetch_rows(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        wanted, back = np.unique(positions, return_inverse=True)
        missing = int(len(wanted) > 0 and wanted[0] < 0)
        found = self.snapshot.take(wanted[missing:].tolist(), list(names))
        at = pa.array(back - missing)
        if missing:
            at = pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at)
        return {name: found[name].combine_chunks().take(at) for name in names}

    def _load(self, names: Sequence[str]) -> None:
        with self._guard:
            wanted = [name for name in names if name not in self._columns]
            if self._size is not None and not wanted:
                return
            read = self.snapshot.read(wanted, places=True)
            if self._size is None:
                self._place(read[ROW_ID].to_numpy())
            slots = None if self._slots is None else pa.array(self._slots, mask=self._slots < 0)
            for name in wanted:
                column = read[name].combine_chunks()
                self._columns[name] = column if slots is None else column.take(slots)

    def _place(self, row_ids: npt.NDArray[np.uint64]) -> None:
        ids = row_ids.astype(np.int64)
        count = len(ids)
        size = int(ids.max()) + 1 if count else 0
        if size == count and bool((ids == np.arange(count)).all()):
            self._size = size
            return
        self._slots = np.full(size, -1, np.int64)
        self._slots[ids] = np.arange(count)
        self._alive = None if size == count else self._slots >= 0
        self._size = size


class ImageCache:
    """The images used last, within a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._images: OrderedDict[TableKey, TableImage] = OrderedDict()

    def image(self, key: TableKey, open: Callable[[], TableSnapshot]) -> TableImage:
        """The image of a version of a table, which is opened when it is not known yet."""
        with self._guard:
            image = self._images.get(key)
        # Opening may take a while, so others do not wait for it.
        made = image or TableImage(open())
        with self._guard:
            image = self._images.setdefault(key, made)
            self._images.move_to_end(key)
            while len(self._images) > 1 and self._used() > self._limit:
                self._images.popitem(last=False)
            return image

    def _used(self) -> int:
        return sum(image.bytes for image in self._images.values())
