"""Tables by position: what a query sees of one version of a table.

A row's position is its stable row id, so it stays the same when other rows, or its own values,
change. Columns are read once and held, in the order of positions; few rows of a large table are
read by themselves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute.arrays import ZERO, as_arrow, as_numpy, distinct_places, filled, scalar
from omnigraph.compute.keys import one_zero
from omnigraph.query.budget import run_long
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import ColumnFiles, Part
from omnigraph.query.tables.large_texts import has_texts, in_one_piece, joined, take, usual
from omnigraph.query.tables.memory import Held
from omnigraph.query.tables.open_table import OpenTable
from omnigraph.query.tables.sorted import SortedColumn
from omnigraph.storage.table_ref import ROW_ID

if TYPE_CHECKING:
    from omnigraph.storage.tables import TableSnapshot

Positions = npt.NDArray[np.int64]
SearchData = TypeVar("SearchData")

#: What files are named, besides columns: which positions have a row; and of a column the numbers
#: of its values, the different values, and the order of the values.
_ALIVE = "#alive"
_CODES = "#codes"
_VALUES = "#values"
_ORDER = "#order"
#: The columns of ids, and how many bytes one has, about, as long as that is not known.
_IDS = frozenset({"id", "src", "dst"})
_ID_BYTES = 32.0


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


class Places(Struct, frozen=True):
    """Which positions of a table have rows.

    Attributes:
        size: One more than the highest position.
        alive: Which positions have a row; None when all have.
        slots: For each position the place in scans, or -1; None when they are the same.
        is_scanned: False when a file has told, which does not know the places in scans.
    """

    size: int
    alive: npt.NDArray[np.bool_] | None = None
    slots: Positions | None = None
    is_scanned: bool = True


class _TooLong(Exception):
    """A column is too large to be held: its name, and how many bytes a value has."""

    def __init__(self, name: str, width: float) -> None:
        super().__init__(name)
        self.name = name
        self.width = width


class TableColumns:
    """One version of a table, read as far as queries have needed it. Safe to share.

    The table itself is opened when something is needed that is not in files of the cache.
    """

    def __init__(
        self, table: OpenTable, schema: pa.Schema, files: ColumnFiles | None = None
    ) -> None:
        self.table = table
        self.rows = table.rows
        self._schema = schema
        self._files = files
        #: What could be in files, and is not.
        self._unwritten: set[str] = set()
        #: The version is written about at once: it is not one of many small ones.
        self._is_to_stay = False
        #: Held for a moment by who changes or lists what is held.
        self._guard = threading.RLock()
        #: Held by who reads the table, which may take long; taken before the guard.
        self._reading = threading.RLock()
        self._columns: dict[str, pa.Array] = {}
        self._coded: dict[str, Coded] = {}
        self._sorted: dict[str, SortedColumn] = {}
        #: How often a few values of a column were asked for, and how large one was.
        self._asked: dict[str, int] = {}
        self._widths: dict[str, float] = {}
        self._sought: dict[str, int] = {}
        #: The columns that are too large to be held.
        self._long: set[str] = set()
        #: The columns with an index, once that was asked.
        self._indexed: frozenset[str] | None = None
        #: What searches know about columns, and its bytes.
        self._search_data: dict[tuple[type[Any], str], Any] = {}
        self._search_bytes = 0
        self._places: Places | None = None
        #: By column, when it was last used; "" is for the table as a whole.
        self._used: dict[str, float] = {}
        #: How often what is held has changed.
        self.changes = 0

    @property
    def snapshot(self) -> TableSnapshot:
        """The table, opened."""
        return self.table.snapshot

    @property
    def is_settled(self) -> bool:
        """True when the version has been there for a moment, so that files of it pay off."""
        return self.table.is_settled

    @property
    def can_be_written(self) -> bool:
        """True when there is something to write to files now."""
        is_time = self._is_to_stay or self.is_settled
        return bool(self._unwritten) and self._files is not None and is_time

    # --- memory ---

    @property
    def state(self) -> tuple[int, bool]:
        """What differs when something else is held."""
        return self.changes, self.table.is_open

    @property
    def bytes(self) -> int:
        """How much memory is used."""
        return sum({id: size for part in self.held() for id, size in part.sizes.items()}.values())

    def held(self) -> list[Held]:
        """What is held: columns, each with all that belongs to it, and the rest of the table."""
        with self._guard:
            names = self._columns.keys() | self._coded.keys() | self._sorted.keys()
            parts = [Held(name, self._used.get(name, 0.0), self._sizes(name)) for name in names]
            rest = {id(self._search_data): self._search_bytes, id(self.table): self.table.bytes}
            if self._places is not None:
                arrays = (self._places.alive, self._places.slots)
                rest |= {id(array): array.nbytes for array in arrays if array is not None}
            return [*parts, Held("", self._used.get("", 0.0), rest)]

    def _sizes(self, name: str) -> dict[int, int]:
        sizes: dict[int, int] = {}
        if (column := self._columns.get(name)) is not None:
            sizes[id(column)] = int(column.nbytes)
        if (coded := self._coded.get(name)) is not None:
            sizes |= {id(coded.codes): coded.codes.nbytes, id(coded.values): coded.values.nbytes}
        if (ordered := self._sorted.get(name)) is not None:
            sizes |= {id(ordered.column): int(ordered.column.nbytes), id(ordered): ordered.bytes}
        return sizes

    def let_go(self, name: str) -> None:
        """Let go of a column, or of the rest of the table; it is read again when it is needed."""
        with self._guard:
            self.changes += 1
            if name:
                self._columns.pop(name, None)
                self._coded.pop(name, None)
                self._sorted.pop(name, None)
                self._unwritten = {n for n in self._unwritten if n.partition("#")[0] != name}
            else:
                self.table.close()
                self._places = None
                self._unwritten.discard(_ALIVE)
            if not name or any(column == name for _, column in self._search_data):
                # What searches know may refer to the column.
                self._search_data = {}
                self._search_bytes = 0

    def _use(self, name: str) -> None:
        self._used[name] = time.monotonic()

    # --- columns ---

    def type_of(self, name: str) -> pa.DataType:
        """The type of a column."""
        return self._schema.field(name).type

    @property
    def size(self) -> int:
        """One more than the highest position."""
        return self._placed().size

    @property
    def alive(self) -> npt.NDArray[np.bool_] | None:
        """Which positions have a row; None when all have."""
        return self._placed().alive

    def positions(self) -> Positions:
        """The positions of all rows."""
        places = self._placed()
        return np.arange(places.size) if places.alive is None else np.flatnonzero(places.alive)

    def all_positions(self) -> Positions:
        """All positions up to the highest; below 0 where there is no row."""
        places = self._placed()
        numbers = np.arange(places.size)
        return numbers if places.alive is None else np.where(places.alive, numbers, -1)

    def has(self, columns: Sequence[str]) -> bool:
        """True when the columns are in memory, or in files that only need to be mapped."""
        return all(name in self._columns or self._is_in_file(name) for name in columns)

    def _is_in_file(self, name: str) -> bool:
        return self._files is not None and name in self._files.names

    def keeps(self, names: Sequence[str], most: int | None = None) -> bool:
        """True when columns are in memory, or should be: small ones, and those asked for often.

        Who asks uses them right away if so, and else reads a few rows without them. Texts and
        lists may be large, so they are not read as a whole before it is known how large they are.

        Args:
            names: The columns.
            most: How many bytes a column may have, if it is not the common number.
        """
        if self.has(names) or self.rows <= policy.SMALL_TABLE_ROWS:
            return True
        if self.rows > policy.LARGE_TABLE_ROWS:
            return False
        with self._guard:
            for name in names:
                self._asked[name] = self._asked.get(name, 0) + 1
            return self._pays_off(names, policy.OFTEN, most)

    def ask_less(self, names: Sequence[str]) -> None:
        """Forget that columns were just asked for: they do not have to be read for that."""
        with self._guard:
            for name in names:
                self._asked[name] = max(0, self._asked.get(name, 0) - 1)

    def has_index(self, names: Sequence[str]) -> bool:
        """True when one of some columns has an index."""
        if self._indexed is None:
            self._indexed = frozenset(index.column for index in self.snapshot.indices())
        return not self._indexed.isdisjoint(names)

    def would_keep(self, names: Sequence[str]) -> bool:
        """What `keeps` is going to say when it is asked."""
        if self.has(names) or self.rows <= policy.SMALL_TABLE_ROWS:
            return True
        is_large = self.rows > policy.LARGE_TABLE_ROWS
        return not is_large and self._pays_off(names, policy.OFTEN - 1, None)

    def _pays_off(self, names: Sequence[str], often: int, most: int | None) -> bool:
        """True when columns were asked for more often than so, and are not too large."""
        limit = policy.LARGE_COLUMN_BYTES if most is None else most
        return all(
            self._asked.get(name, 0) > often and self.width(name) * self.rows <= limit
            for name in names
        )

    def width(self, name: str) -> float:
        """How many bytes a value has, as far as is known."""
        type = self.type_of(name)
        if pa.types.is_primitive(type):
            return float(type.bit_width / 8)
        if pa.types.is_fixed_size_list(type) and pa.types.is_primitive(type.value_type):
            return float(type.list_size * type.value_type.bit_width / 8)
        return _ID_BYTES if name == "id" else self._widths.get(name, float("inf"))

    def rows_at_once(self, count: int, names: Sequence[str]) -> int:
        """How many of some rows are fetched at once, so that their texts take a bounded memory."""
        names = [name for name in names if name not in _IDS]
        texts = [name for name in names if has_texts(self.type_of(name))]
        if not texts or count <= 1:
            return count
        if count * policy.ROWS_PER_ROW_READ >= self.rows or self.would_keep(names):
            self.columns(names, if_held=True)
        return min(count, self._texts_at_once(texts))

    def _texts_at_once(self, names: Sequence[str]) -> int:
        """Of how many rows the texts take a bounded memory."""
        widths = [self._widths.get(name) for name in names if name not in _IDS]
        if None in widths:
            return policy.TEXTS_AT_ONCE
        width = sum(width for width in widths if width is not None)
        return max(1, int(policy.TEXT_BYTES_AT_ONCE / max(1.0, width)))

    def is_long(self, name: str, positions: Positions) -> bool:
        """True when the texts of some rows are too large to be held together."""
        if not has_texts(self.type_of(name)):
            return False
        rows = self.rows_at_once(len(positions), [name])
        if name not in self._widths:
            self.fetch(positions[:rows], [name])
        width = self._widths.get(name, 0.0)
        is_large = width * len(positions) > policy.LONG_COLUMN_BYTES
        return is_large and width > policy.LONG_VALUE_BYTES

    def search_data(self, kind: type[SearchData], name: str) -> SearchData:
        """What searches know about a column, made without arguments when it is first asked for.

        Who adds to it says how much with `grow`.
        """
        self._use("")
        with self._guard:
            known: SearchData = self._search_data.setdefault((kind, name), kind())
            return known

    def grow(self, size: int) -> None:
        """Account for memory of what `search_data` has returned."""
        with self._guard:
            self._search_bytes += size
            self.changes += 1

    def columns(self, names: Sequence[str], *, if_held: bool = False) -> dict[str, pa.Array]:
        """Whole columns, in the order of positions; where there is no row they are null.

        Args:
            names: The columns.
            if_held: Leave out those that are too large to be held.
        """
        for name in names:
            self._use(name)
        try:
            return {name: self._columns[name] for name in names}
        except KeyError:
            operator = f"read {', '.join(names)}"
            return run_long(operator, self.rows, lambda: self._read(names, if_held))

    def _read(self, names: Sequence[str], if_held: bool) -> dict[str, pa.Array]:
        with self._reading:
            return self._load(names, if_held)

    def coded_often(self, name: str) -> Coded | None:
        """A whole column as numbers, if it has few values and was asked for a few times."""
        coded = self._coded.get(name)
        if coded is None and not self.has_coded(name):
            if pa.types.is_nested(self.type_of(name)) or not self.keeps([name]):
                return None
            self._sought[name] = self._sought.get(name, 0) + 1
            if self._sought[name] <= policy.OFTEN:
                return None
        coded = coded or self.coded(name)
        return coded if len(coded.values) * policy.REPEATED <= self.rows else None

    def has_coded(self, name: str) -> bool:
        """True when a column is known as numbers."""
        return name in self._coded or self._is_in_file(name + _VALUES)

    def coded(self, name: str) -> Coded:
        """A whole column as numbers; not for lists."""
        self._use(name)
        coded = self._coded.get(name)
        if coded is None:
            in_file = self._coded_in_file(name)
            coded = in_file or run_long(
                f"number the values of {name}", self.rows, lambda: self._new_coded(name)
            )
            with self._guard:
                self._coded[name] = coded
                self.changes += 1
                if in_file is None:
                    self._unwritten.add(name + _VALUES)
        return coded

    def _new_coded(self, name: str) -> Coded:
        column = one_zero(self.columns([name])[name])
        encoded = column.dictionary_encode()
        values = joined([encoded.dictionary, pa.nulls(1, usual(column.type))])
        codes = filled(encoded.indices, len(values) - 1)
        return Coded(as_numpy(codes), values)

    def _coded_in_file(self, name: str) -> Coded | None:
        if self._files is None or not self._is_in_file(name + _VALUES):
            return None
        codes = self._files.arrays(name + _CODES)
        values = self._files.column(name + _VALUES, self.type_of(name))
        return None if codes is None or values is None else Coded(codes[0], values)

    def find(self, name: str, value: int | str) -> Positions | None:
        """The positions with one value of a column in memory; None to look at all of them."""
        self._use(name)
        ordered = self._sorted.get(name)
        if ordered is None:
            in_file = None if self._files is None else self._files.arrays(name + _ORDER)
            self._sought[name] = self._sought.get(name, 0) + 1
            if in_file is None and self._sought[name] <= policy.SOUGHT_OFTEN:
                return None
            column = self.columns([name])[name]
            ordered = run_long(f"sort {name}", self.rows, lambda: SortedColumn(column, in_file))
            with self._guard:
                self._sorted[name] = ordered
                self.changes += 1
                if in_file is None:
                    self._unwritten.add(name + _ORDER)
        return ordered.find(value)

    def find_in_order(self, name: str, value: Any, *, in_memory: bool = False) -> Positions | None:
        """The same if the column is in order already, and the value is a text or an integer.

        Args:
            name: The column.
            value: The value.
            in_memory: Do not look into files for the order.
        """
        ordered = self._sorted.get(name)
        if ordered is not None:
            self._use(name)
            return ordered.find(value) if ordered.has_kind(value) else None
        if in_memory or not self._is_in_file(name + _ORDER):
            return None
        type = self.type_of(name)
        is_fit = (value.__class__ is int and pa.types.is_integer(type)) or (
            value.__class__ is str and pa.types.is_string(type)
        )
        return self.find(name, value) if is_fit else None

    def prepare_keys(self, name: str) -> None:
        """Put a column in order before it is asked for, and leave it in files at once.

        Tables that are too large for that are left to the indexes of the storage.
        """
        is_too_wide = self.width(name) * self.rows > policy.LARGE_COLUMN_BYTES
        if self.rows > policy.LARGE_TABLE_ROWS or (is_too_wide and not self.has([name])):
            return
        self._is_to_stay = True
        self._sought[name] = max(policy.SOUGHT_OFTEN, self._sought.get(name, 0))
        type = self.type_of(name)
        if pa.types.is_integer(type):
            self.find(name, 0)
        elif pa.types.is_string(type):
            self.find(name, "")

    def fetch(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        """Values of some rows. A position below 0 gives null."""
        if not names:
            return {}
        if not self._are_read_whole(len(positions), names):
            return self._fetch_rows(positions, names)
        columns = self.columns(names, if_held=True)
        if len(columns) < len(names):
            long = [name for name in names if name not in columns]
            others = [name for name in names if name in columns]
            return self._fetch_rows(positions, long) | self.fetch(positions, others)
        if len(positions) == 1 and positions[0] >= 0:
            place = int(positions[0])
            return {name: _single(column, place) for name, column in columns.items()}
        at = as_arrow(positions)
        if len(positions) and int(positions.min()) < 0:
            at = pc.if_else(pc.less(at, ZERO), scalar(None, pa.int64()), at)
        return {name: take(column, at) for name, column in columns.items()}

    def _are_read_whole(self, count: int, names: Sequence[str]) -> bool:
        """True when columns are read as a whole for so many rows."""
        return count * policy.ROWS_PER_ROW_READ >= self.rows or self.keeps(names)

    def rows_in_memory(
        self, positions: Positions, names: Sequence[str]
    ) -> list[list[pa.Scalar]] | None:
        """Values of a few rows, from columns in memory; None when one of them is not there.

        Not for lists: these would hold on to the whole column.
        """
        try:
            columns = [self._columns[name] for name in names]
        except KeyError:
            return None
        now = time.monotonic()
        for name in names:
            self._used[name] = now
        return [[column[place] for column in columns] for place in positions.tolist()]

    def _fetch_rows(self, positions: Positions, names: Sequence[str]) -> dict[str, pa.Array]:
        wanted, back = distinct_places(positions)
        missing = int(len(wanted) > 0 and wanted[0] < 0)
        rows = self._take(wanted[missing:], list(names))
        at = as_arrow(back - missing)
        if missing:
            at = pc.if_else(pc.less(at, ZERO), scalar(None, pa.int64()), at)
        return {name: take(in_one_piece(rows[name]), at) for name in names}

    def _take(self, positions: Positions, names: list[str]) -> pa.Table:
        """Rows of the table, read so many at once that their texts fit into memory."""
        texts = [name for name in names if has_texts(self.type_of(name))]
        parts: list[pa.Table] = []
        start = 0
        while start < len(positions) or not parts:
            count = self._texts_at_once(texts) if texts else len(positions)
            rows = self.snapshot.take(positions[start : start + count].tolist(), names)
            for name in names if rows.num_rows else []:
                self._widths[name] = rows[name].nbytes / rows.num_rows
            parts.append(rows)
            start += count
        return pa.concat_tables(parts)

    def _placed(self) -> Places:
        """Which positions have rows."""
        self._use("")
        places = self._places
        if places is not None:
            return places
        return run_long("read positions", self.rows, self._read_places)

    def _read_places(self) -> Places:
        with self._reading:
            places = self._places
            if places is not None:
                return places
            in_file = None if self._files is None else self._files.arrays(_ALIVE)
            if in_file is not None:
                size = len(in_file[0])
                alive = None if size == self.rows else in_file[0]
                return self._place(Places(size, alive, is_scanned=False))
            if self.snapshot.next_row_id == self.rows:
                # There are as many rows as there were ever ids.
                places = Places(self.rows, is_scanned=False)
            else:
                places = self._placed_by(self.snapshot.read([], places=True))
            with self._guard:
                self._unwritten.add(_ALIVE)
            return self._place(places)

    def _load(self, names: Sequence[str], if_held: bool) -> dict[str, pa.Array]:
        """Columns from memory, from files, and else from the table."""
        columns = {name: self._columns[name] for name in names if name in self._columns}
        for name in names:
            if name not in columns and self._files is not None:
                column = self._files.column(name, self.type_of(name))
                if column is not None:
                    columns[name] = self._add(name, column)
        left_out = self._long if if_held else frozenset()
        missing = [name for name in names if name not in columns and name not in left_out]
        if not missing:
            return columns
        try:
            rows = self._scan(missing, if_held)
        except _TooLong as error:
            self._widths[error.name] = error.width
            self._long.add(error.name)
            return self._load(names, if_held)
        places = self._placed_by(rows)
        slots = None if places.slots is None else as_arrow(places.slots, places.slots < 0)
        for name in missing:
            column = in_one_piece(rows[name])
            columns[name] = self._add(name, column if slots is None else take(column, slots))
        with self._guard:
            self._unwritten.update(missing)
        return columns

    def _scan(self, names: Sequence[str], if_held: bool) -> pa.Table:
        """Columns of the table.

        Raises:
            _TooLong: One of them is too large, and only those that can be held are asked for.
        """
        texts = [name for name in names if has_texts(self.type_of(name))]
        if not texts:
            return self.snapshot.read(names, places=True)
        batches: list[pa.RecordBatch] = []
        sizes = dict.fromkeys(texts, 0)
        count = 0
        for batch in self.snapshot.batches(names, places=True):
            batches.append(batch)
            count += batch.num_rows
            for name in texts if if_held else []:
                sizes[name] += batch[name].nbytes
                if sizes[name] > max(policy.LONG_COLUMN_BYTES, policy.LONG_VALUE_BYTES * count):
                    raise _TooLong(name, sizes[name] / count)
        if not batches:
            return self.snapshot.read(names, places=True)
        return pa.Table.from_batches(batches)

    def _placed_by(self, rows: pa.Table) -> Places:
        """Where the rows of a scan are."""
        places = self._places
        if places is None or not places.is_scanned:
            places = self._place(_scanned(as_numpy(rows[ROW_ID])))
        return places

    def _place(self, places: Places) -> Places:
        with self._guard:
            self._places = places
            self.changes += 1
        return places

    def _add(self, name: str, column: pa.Array) -> pa.Array:
        with self._guard:
            self._columns[name] = column
            self._widths[name] = column.nbytes / max(1, len(column))
            self.changes += 1
        return column

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
                parts = self._parts(self._unwritten.pop()) if self._unwritten else {}
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
            places = self._places
            if places is None:
                return {}
            return {name: [np.ones(places.size, bool) if places.alive is None else places.alive]}
        if name.endswith(_VALUES):
            coded = self._coded[column]
            return {column + _CODES: [coded.codes], name: coded.values}
        if name.endswith(_ORDER):
            return {name: list(self._sorted[column].arrays)}
        return (
            {}
            if self._columns[name].nbytes > policy.LARGE_COLUMN_BYTES
            else {name: self._columns[name]}
        )


def _single(column: pa.Array, place: int) -> pa.Array:
    """A column of one value, as a copy: in half the time that `take` needs."""
    return pa.concat_arrays([column.slice(place, 1), column.slice(0, 0)])


def _scanned(row_ids: npt.NDArray[np.uint64]) -> Places:
    """Where the rows of a scan are."""
    ids = row_ids.astype(np.int64)
    count = len(ids)
    size = int(ids.max()) + 1 if count else 0
    if size == count and bool((ids == np.arange(count)).all()):
        return Places(size)
    slots = np.full(size, -1, np.int64)
    slots[ids] = np.arange(count)
    return Places(size, None if size == count else slots >= 0, slots)
