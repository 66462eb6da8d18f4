"""Tables by position: what a query sees of one version of a table.

A row's position is its stable row id, so it stays the same when other rows, or its own values,
change. Columns are read once and kept, in the order of positions; few rows of a large table are
read by themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow, distinct_places
from omnigraph.compute.keys import one_zero
from omnigraph.query.lookup import SortedColumn
from omnigraph.storage.tables import ROW_ID, TableSnapshot

Positions = npt.NDArray[np.int64]
#: What tells versions of tables apart: path, lifetime of the branch (if it is not main), version.
TableKey = tuple[str, str | None, int]
Kept = TypeVar("Kept")

#: Rows are read one by one, and not as whole columns, when they are fewer than this part of all.
_FEW = 200
#: Tables of up to this many rows are always read as columns.
_SMALL = 20_000
#: Tables of up to this many rows are read as columns when a few rows were asked for this often,
#: if a column has at most so many bytes.
_LARGE = 1_000_000
_OFTEN = 4
_LARGE_BYTES = 64 << 20
#: Single values of a column are looked up in order once they were asked for this often.
_SOUGHT = 8
#: A column has few values when each is there this many times.
_REPEATED = 8


@dataclass(frozen=True)
class Coded:
    """A column as numbers: for each position the place of its value among the different values.

    The last of the values is null.
    """

    codes: npt.NDArray[np.int32]
    values: pa.Array

    def at(self, positions: Positions) -> npt.NDArray[np.int32]:
        """The numbers of some positions; one below 0 is null."""
        if len(positions) and int(positions.min()) < 0:
            return np.where(positions < 0, len(self.values) - 1, self.codes[positions])
        return self.codes[positions]


class TableImage:
    """One version of a table, read as far as queries have needed it. Safe to share."""

    def __init__(self, snapshot: TableSnapshot, rows: int | None = None) -> None:
        self.snapshot = snapshot
        self.rows = snapshot.count() if rows is None else rows
        self._guard = threading.RLock()
        self._columns: dict[str, pa.Array] = {}
        self._coded: dict[str, Coded] = {}
        self._sorted: dict[str, SortedColumn] = {}
        #: How often a few values of a column were asked for, and how large one was.
        self._asked: dict[str, int] = {}
        self._widths: dict[str, float] = {}
        self._sought: dict[str, int] = {}
        self._kept: dict[tuple[type[Any], str], Any] = {}
        #: How much memory is used.
        self.bytes = 0
        #: For each position the place in scans, or -1; None when they are the same.
        self._slots: Positions | None = None
        self._placed = False
        self._alive: npt.NDArray[np.bool_] | None = None
        self._size: int | None = None

    @property
    def size(self) -> int:
        """One more than the highest position."""
        self._measure()
        assert self._size is not None
        return self._size

    @property
    def alive(self) -> npt.NDArray[np.bool_] | None:
        """Which positions have a row; None when all have."""
        self._measure()
        return self._alive

    def positions(self) -> Positions:
        """The positions of all rows."""
        alive = self.alive
        return np.arange(self.size) if alive is None else np.flatnonzero(alive)

    def has(self, columns: Sequence[str]) -> bool:
        """True when the columns are in memory."""
        return all(name in self._columns for name in columns)

    def keeps(self, names: Sequence[str], most: int | None = None) -> bool:
        """True when columns are in memory, or should be: small ones, and those asked for often.

        Who asks uses them right away if so, and else reads a few rows without them. Texts and
        lists may be large, so they are not read as a whole before it is known how large they are.

        Args:
            names: The columns.
            most: How many bytes a column may have, if it is not the common number.
        """
        if self.has(names) or self.rows <= _SMALL:
            return True
        if self.rows > _LARGE:
            return False
        limit = _LARGE_BYTES if most is None else most
        with self._guard:
            for name in names:
                self._asked[name] = self._asked.get(name, 0) + 1
            return all(
                self._asked[name] > _OFTEN and self._width(name) * self.rows <= limit
                for name in names
            )

    def _width(self, name: str) -> float:
        """How many bytes a value has, as far as is known."""
        type = self.snapshot.schema.field(name).type
        if pa.types.is_primitive(type):
            return float(type.bit_width / 8)
        if pa.types.is_fixed_size_list(type) and pa.types.is_primitive(type.value_type):
            return float(type.list_size * type.value_type.bit_width / 8)
        return 32.0 if name == "id" else self._widths.get(name, float("inf"))

    def kept(self, kind: type[Kept], name: str) -> Kept:
        """What else is known about a column, made without arguments when it is first asked for.

        Who adds to it tells how much with `grow`.
        """
        with self._guard:
            found: Kept = self._kept.setdefault((kind, name), kind())
            return found

    def grow(self, size: int) -> None:
        """Account for memory that is kept with this image."""
        with self._guard:
            self.bytes += size

    def columns(self, names: Sequence[str]) -> dict[str, pa.Array]:
        """Whole columns, in the order of positions; where there is no row they are null."""
        self._load(names)
        return {name: self._columns[name] for name in names}

    def coded_often(self, name: str) -> Coded | None:
        """A whole column as numbers, if it has few values and was asked for a few times."""
        found = self._coded.get(name)
        if found is None:
            if pa.types.is_nested(self.snapshot.schema.field(name).type) or not self.keeps([name]):
                return None
            self._sought[name] = self._sought.get(name, 0) + 1
            if self._sought[name] <= _OFTEN:
                return None
            found = self.coded(name)
        return found if len(found.values) * _REPEATED <= self.rows else None

    def has_coded(self, name: str) -> bool:
        """True when a column is known as numbers."""
        return name in self._coded

    def coded(self, name: str) -> Coded:
        """A whole column as numbers; not for lists."""
        found = self._coded.get(name)
        if found is None:
            column = one_zero(self.columns([name])[name])
            encoded = column.dictionary_encode()
            values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, column.type)])
            codes = encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
            found = Coded(codes, values)
            with self._guard:
                self._coded[name] = found
                self.bytes += codes.nbytes + int(values.nbytes)
        return found

    def find(self, name: str, value: int | str) -> Positions | None:
        """The positions with one value of a column in memory; None to look at all of them."""
        found = self._sorted.get(name)
        if found is None:
            self._sought[name] = self._sought.get(name, 0) + 1
            if self._sought[name] <= _SOUGHT:
                return None
            found = SortedColumn(self.columns([name])[name])
            with self._guard:
                self._sorted[name] = found
                self.bytes += found.bytes
        return found.find(value)

    def fetch(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        """Values of some rows. A position below 0 gives null."""
        if not names:
            return {}
        if len(positions) * _FEW < self.rows and not self.keeps(names):
            return self._fetch_rows(positions, names)
        at = as_arrow(positions)
        if len(positions) and int(positions.min()) < 0:
            at = pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at)
        return {name: column.take(at) for name, column in self.columns(names).items()}

    def _fetch_rows(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        wanted, back = distinct_places(positions)
        missing = int(len(wanted) > 0 and wanted[0] < 0)
        found = self.snapshot.take(wanted[missing:].tolist(), list(names))
        for name in names if found.num_rows else []:
            self._widths[name] = found[name].nbytes / found.num_rows
        at = as_arrow(back - missing)
        if missing:
            at = pc.if_else(pc.less(at, 0), pa.scalar(None, pa.int64()), at)
        return {name: found[name].combine_chunks().take(at) for name in names}

    def _measure(self) -> None:
        """Find out which positions have rows."""
        if self._size is not None:
            return
        with self._guard:
            if self.snapshot.next_row_id == self.rows:
                # There are as many rows as there were ever ids.
                self._size = self.rows
            else:
                self._load([])

    def _load(self, names: Sequence[str]) -> None:
        with self._guard:
            wanted = [name for name in names if name not in self._columns]
            if self._placed and not wanted:
                return
            read = self.snapshot.read(wanted, places=True)
            if not self._placed:
                self._place(read[ROW_ID].to_numpy())
                self._placed = True
            slots = None if self._slots is None else as_arrow(self._slots, self._slots < 0)
            for name in wanted:
                column = read[name].combine_chunks()
                self._columns[name] = column if slots is None else column.take(slots)
                self.bytes += int(self._columns[name].nbytes)

    def _place(self, row_ids: npt.NDArray[np.uint64]) -> None:
        ids = row_ids.astype(np.int64)
        count = len(ids)
        size = int(ids.max()) + 1 if count else 0
        if size == count and bool((ids == np.arange(count)).all()):
            self._size = size
            return
        self._slots = np.full(size, -1, np.int64)
        self._slots[ids] = np.arange(count)
        self.bytes += self._slots.nbytes
        self._alive = None if size == count else self._slots >= 0
        self._size = size


class ImageCache:
    """The images used last, within a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._images: OrderedDict[TableKey, TableImage] = OrderedDict()

    def image(self, key: TableKey, rows: int, open: Callable[[], TableSnapshot]) -> TableImage:
        """The image of a version of a table, which is opened when it is not known yet."""
        with self._guard:
            image = self._images.get(key)
        # Opening may take a while, so others do not wait for it.
        made = image or TableImage(open(), rows)
        with self._guard:
            image = self._images.setdefault(key, made)
            self._images.move_to_end(key)
            while len(self._images) > 1 and self._used() > self._limit:
                self._images.popitem(last=False)
            return image

    def _used(self) -> int:
        return sum([image.bytes for image in self._images.values()])
