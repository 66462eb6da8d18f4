"""Tables by position: what a query sees of one version of a table.

A row's position is its stable row id, so it stays the same when other rows, or its own values,
change. Columns are read once and kept, in the order of positions; few rows of a large table are
read by themselves.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import ZERO, as_arrow, as_numpy, distinct_places, filled, scalar
from omnigraph.compute.keys import one_zero
from omnigraph.query.lookup import SortedColumn
from omnigraph.query.tables.files import ColumnFiles, Part
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.table_ref import ROW_ID

if TYPE_CHECKING:
    from omnigraph.storage.tables import TableSnapshot

Positions = npt.NDArray[np.int64]
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
#: What files are named, besides columns: which positions have a row; and of a column the numbers
#: of its values, the different values, and the order of the values.
_ALIVE = "#alive"
_CODES = "#codes"
_VALUES = "#values"
_ORDER = "#order"
#: A column has few values when each is there this many times.
_REPEATED = 8


class Coded(Struct, frozen=True):
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
    """One version of a table, read as far as queries have needed it. Safe to share.

    The table itself is opened when something is needed that is not in files that were kept.
    """

    def __init__(
        self,
        open: Callable[[], TableSnapshot],
        rows: int,
        schema: pa.Schema,
        files: ColumnFiles | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        self._open = open
        self._snapshot: TableSnapshot | None = None
        self._schema = schema
        self._files = files
        self._stamp = stamp
        #: What could be kept in files, and is not.
        self._unkept: set[str] = set()
        self.rows = rows
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

    @staticmethod
    def of(snapshot: TableSnapshot) -> TableImage:
        """The image of a table that is open."""
        return TableImage(lambda: snapshot, snapshot.count(), snapshot.schema)

    @property
    def snapshot(self) -> TableSnapshot:
        """The table."""
        if self._snapshot is None:
            self._snapshot = self._open()
        return self._snapshot

    @property
    def is_settled(self) -> bool:
        """True when the version has been there for a moment, so that files of it pay off."""
        return self._stamp is not None and self._stamp.is_settled

    @property
    def can_be_written(self) -> bool:
        """True when there is something to write to files now."""
        return bool(self._unkept) and self._files is not None and self.is_settled

    def type_of(self, name: str) -> pa.DataType:
        """The type of a column."""
        return self._schema.field(name).type

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
        """True when the columns are in memory, or in files that only need to be mapped."""
        return all(name in self._columns or self._is_kept(name) for name in columns)

    def _is_kept(self, name: str) -> bool:
        return self._files is not None and name in self._files.names

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
        type = self.type_of(name)
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
        if found is None and not self.has_coded(name):
            if pa.types.is_nested(self.type_of(name)) or not self.keeps([name]):
                return None
            self._sought[name] = self._sought.get(name, 0) + 1
            if self._sought[name] <= _OFTEN:
                return None
        found = found or self.coded(name)
        return found if len(found.values) * _REPEATED <= self.rows else None

    def has_coded(self, name: str) -> bool:
        """True when a column is known as numbers."""
        return name in self._coded or self._is_kept(name + _VALUES)

    def coded(self, name: str) -> Coded:
        """A whole column as numbers; not for lists."""
        found = self._coded.get(name)
        if found is None:
            kept = self._kept_coded(name)
            found = self._new_coded(name) if kept is None else kept
            with self._guard:
                self._coded[name] = found
                self.bytes += found.codes.nbytes + int(found.values.nbytes)
                if kept is None:
                    self._unkept.add(name + _VALUES)
        return found

    def _new_coded(self, name: str) -> Coded:
        column = one_zero(self.columns([name])[name])
        encoded = column.dictionary_encode()
        values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, column.type)])
        codes = filled(encoded.indices, len(values) - 1)
        return Coded(as_numpy(codes), values)

    def _kept_coded(self, name: str) -> Coded | None:
        if self._files is None or not self._is_kept(name + _VALUES):
            return None
        codes = self._files.arrays(name + _CODES)
        values = self._files.column(name + _VALUES, self.type_of(name))
        return None if codes is None or values is None else Coded(codes[0], values)

    def find(self, name: str, value: int | str) -> Positions | None:
        """The positions with one value of a column in memory; None to look at all of them."""
        found = self._sorted.get(name)
        if found is None:
            kept = None if self._files is None else self._files.arrays(name + _ORDER)
            self._sought[name] = self._sought.get(name, 0) + 1
            if kept is None and self._sought[name] <= _SOUGHT:
                return None
            found = SortedColumn(self.columns([name])[name], kept)
            with self._guard:
                self._sorted[name] = found
                self.bytes += found.bytes
                if kept is None:
                    self._unkept.add(name + _ORDER)
        return found.find(value)

    def fetch(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        """Values of some rows. A position below 0 gives null."""
        if not names:
            return {}
        if len(positions) * _FEW < self.rows and not self.keeps(names):
            return self._fetch_rows(positions, names)
        at = as_arrow(positions)
        if len(positions) and int(positions.min()) < 0:
            at = pc.if_else(pc.less(at, ZERO), scalar(None, pa.int64()), at)
        return {name: column.take(at) for name, column in self.columns(names).items()}

    def _fetch_rows(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        wanted, back = distinct_places(positions)
        missing = int(len(wanted) > 0 and wanted[0] < 0)
        found = self.snapshot.take(wanted[missing:].tolist(), list(names))
        for name in names if found.num_rows else []:
            self._widths[name] = found[name].nbytes / found.num_rows
        at = as_arrow(back - missing)
        if missing:
            at = pc.if_else(pc.less(at, ZERO), scalar(None, pa.int64()), at)
        return {name: found[name].combine_chunks().take(at) for name in names}

    def _measure(self) -> None:
        """Find out which positions have rows."""
        if self._size is not None:
            return
        with self._guard:
            alive = None if self._files is None else self._files.arrays(_ALIVE)
            if alive is not None:
                self._size = len(alive[0])
                self._alive = None if self._size == self.rows else alive[0]
            elif self.snapshot.next_row_id == self.rows:
                # There are as many rows as there were ever ids.
                self._size = self.rows
            else:
                self._load([])
            if alive is None:
                self._unkept.add(_ALIVE)

    def _load(self, names: Sequence[str]) -> None:
        with self._guard:
            for name in names:
                if name not in self._columns and self._files is not None:
                    column = self._files.column(name, self.type_of(name))
                    if column is not None:
                        self._add(name, column)
            wanted = [name for name in names if name not in self._columns]
            if not wanted and (names or self._placed):
                return
            read = self.snapshot.read(wanted, places=True)
            if not self._placed:
                self._place(as_numpy(read[ROW_ID]))
                self._placed = True
            slots = None if self._slots is None else as_arrow(self._slots, self._slots < 0)
            for name in wanted:
                column = read[name].combine_chunks()
                self._add(name, column if slots is None else column.take(slots))
                self._unkept.add(name)

    def _add(self, name: str, column: pa.Array) -> None:
        self._columns[name] = column
        self.bytes += int(column.nbytes)

    def write(self, most: int) -> int:
        """Leave what was read in files. Only one thread does so.

        Args:
            most: After so many bytes, the rest is left for another time.

        Returns:
            How many bytes were written.
        """
        written = 0
        while written < most and self.can_be_written:
            with self._guard:
                name = self._unkept.pop()
                parts = self._parts(name)
            # Queries go on meanwhile.
            for part, content in parts.items():
                assert self._files is not None
                if isinstance(content, list):
                    written += self._files.write_arrays(part, content)
                else:
                    written += self._files.write_column(part, content)
        return written

    def _parts(self, name: str) -> dict[str, pa.Array | list[Part]]:
        """What is written by a name: by file a column, or arrays."""
        column = name.partition("#")[0]
        if name == _ALIVE:
            return {name: [np.ones(self.size, bool) if self._alive is None else self._alive]}
        if name.endswith(_VALUES):
            coded = self._coded[column]
            return {column + _CODES: [coded.codes], name: coded.values}
        if name.endswith(_ORDER):
            return {name: list(self._sorted[column].arrays)}
        return {} if self._columns[name].nbytes > _LARGE_BYTES else {name: self._columns[name]}

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


#: Each image holds an open version of its table, and a graph that is written all day has thousands.
_MOST_VERSIONS = 4


class ImageCache:
    """The images used last, within a number of bytes; of a table, only those of a few versions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._images: OrderedDict[VersionKey, TableImage] = OrderedDict()

    def image(self, key: VersionKey, make: Callable[[], TableImage]) -> TableImage:
        """The image of a version of a table, which is made when it is not known yet."""
        with self._guard:
            image = self._images.get(key)
        # Others do not wait while it is made.
        made = image or make()
        with self._guard:
            image = self._images.setdefault(key, made)
            self._images.move_to_end(key)
            versions = [known for known in self._images if known.table == key.table]
            for old in versions[:-_MOST_VERSIONS]:
                del self._images[old]
            while len(self._images) > 1 and self._used() > self._limit:
                self._images.popitem(last=False)
            return image

    def _used(self) -> int:
        return sum([image.bytes for image in self._images.values()])
