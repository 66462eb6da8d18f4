"""JSON lines: from a block of bytes to typed columns for each node and edge type.

Lines of the usual forms are read many at once. Whatever is wrong or unusual is read again, alone,
so that every fault is named by its line and a few bad lines cost little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import Violation
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import Value
from omnigraph.pipeline.formats.faults import Faults
from omnigraph.pipeline.formats.json_columns import ColumnReader, Columns, Form, Refused
from omnigraph.pipeline.formats.json_faults import Line, LineReader
from omnigraph.pipeline.formats.json_values import stored_array

Places = npt.NDArray[np.int64]

_MARK = b"\xef\xbb\xbf"
#: Before the name of a column that marks which rows say null; no property has such a name.
_SAID = "null "
#: So many bytes are read at once: they stay in the processor's cache, and one fault costs little.
_CHUNK = 1 << 16
#: Fewer lines than these are not divided further to find a wrong one.
_FEW = 8
#: After so many failures the lines of a chunk are read one by one.
_MOST_FAILURES = 20
#: After so many lines of unusual form all others are looked at one by one.
_MOST_ODD = 32
_NODE = re.compile(rb'\{[ \t]*"type"[ \t]*:[ \t]*"(\w+)"[ \t]*,[ \t]*"data"[ \t]*:[ \t]*\{')
_EDGE = re.compile(rb'\{[ \t]*"edge"[ \t]*:[ \t]*"(\w+)"[ \t]*,')
_ANYWHERE = re.compile(rb'"(type|edge)"[ \t]*:[ \t]*"(\w+)"')


@dataclass(frozen=True)
class Rows:
    """Rows of one type.

    Attributes:
        table: `id` if a line gave one (or no line gave anything), an edge's `src` and `dst`, and
            the properties that a line gave, in the Arrow types of the type's table. Defaults are
            filled in where a line left the property out.
        lines: The line of each row in the block, from 1 on, ascending.
        nulls: Of properties with `@embed`, which rows say null; others may omit it, and get a
            vector.
        unfit: By column, in which rows the value does not fit; it is null there.
        minted: Which rows have an id that was made for them; None is none.
    """

    table: pa.Table
    lines: Places
    nulls: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    unfit: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    minted: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Parsed:
    """What a block of lines says.

    Attributes:
        rows: By the name of the type.
        faults: What is wrong, by line.
        lines: How many lines there are, blank ones and comments included.
        bad_lines: The lines with faults, each once, ascending.
        faulty: What lines with faults say otherwise, by the name of the type.
    """

    rows: dict[str, Rows]
    faults: Faults
    lines: int
    bad_lines: list[int]
    faulty: dict[str, Rows] = field(default_factory=dict)


def parse(
    block: bytes | memoryview, catalog: Catalog, file: str | None, *, first: bool = False
) -> Parsed:
    """Read a block of whole lines.

    Args:
        block: The lines; the last one may lack its end.
        catalog: The types.
        file: The name that faults carry.
        first: The block begins a file, and a byte order mark there is skipped.
    """
    return _Block(bytes(block), catalog, file, first).parsed()


@dataclass
class _Gathered:
    """The rows of one type found so far."""

    pieces: list[tuple[Places, Columns]] = field(default_factory=list)
    single: list[tuple[int, dict[str, Value]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Shape:
    """How lines of one type begin, and which part of them is read."""

    type: NodeType | EdgeType
    form: Form
    prefix: bytes = b""

    def cut(self, starts: Places, ends: Places) -> tuple[Places, Places, bytes]:
        """Where the parts that are read begin and end, and what is put before each."""
        if self.form is Form.DATA:
            return starts + (len(self.prefix) - 1), ends - 1, b""
        if self.form is Form.REST:
            return starts + len(self.prefix), ends, b"{"
        return starts, ends, b""


class _Block:
    def __init__(self, data: bytes, catalog: Catalog, file: str | None, first: bool) -> None:
        self._data = data
        self._catalog = catalog
        self._reader = LineReader(catalog, file)
        self._bytes = np.frombuffer(data, np.uint8)
        self._starts, self._ends = _line_bounds(self._bytes)
        if first and data.startswith(_MARK):
            self._starts[0] = len(_MARK)
        self._gathered: dict[str, _Gathered] = {}
        self._faults: list[Violation] = []
        self._faulty: dict[str, list[tuple[int, Line]]] = {}

    def parsed(self) -> Parsed:
        whole, alone = self._whole_and_odd()
        singles = [alone]
        for shape, lines in self._shapes(whole, singles):
            self._read_many(shape, lines, singles)
        for line in np.concatenate(singles).tolist():
            self._read_one(line)
        rows = {
            type.name: _rows(type, self._gathered[type.name])
            for type in self._catalog.tables()
            if self._has_rows(type.name)
        }
        bad = sorted({fault.line for fault in self._faults if fault.line is not None})
        faulty = {
            type.name: _faulty_rows(type, self._faulty[type.name])
            for type in self._catalog.tables()
            if type.name in self._faulty
        }
        return Parsed(rows, Faults.of(self._faults), len(self._starts), bad, faulty)

    def _has_rows(self, type: str) -> bool:
        gathered = self._gathered.get(type)
        return gathered is not None and (
            bool(gathered.single) or any(not columns.unsure.all() for _, columns in gathered.pieces)
        )

    # --- which lines are read how ---

    def _whole_and_odd(self) -> tuple[Places, Places]:
        """The lines from one brace to another one; and the rest, without blank ones."""
        filled = np.flatnonzero(self._ends > self._starts)
        whole = (self._bytes[self._starts[filled]] == ord("{")) & (
            self._bytes[self._ends[filled] - 1] == ord("}")
        )
        odd = [
            line
            for line in filled[~whole].tolist()
            if (text := self._line(line).strip(b" \t\r")) and not text.startswith(b"//")
        ]
        return filled[whole], np.array(odd, np.int64)

    def _shapes(self, lines: Places, singles: list[Places]) -> Iterator[tuple[_Shape, Places]]:
        """Lines that can be read together."""
        words = np.ndarray(
            (max(len(self._data) - 7, 0),), np.uint64, buffer=self._data, strides=(1,)
        )
        odd: list[int] = []
        while len(lines) and len(odd) < _MOST_ODD:
            shape = self._shape(self._line(int(lines[0])))
            if shape is None:
                odd.append(int(lines[0]))
                lines = lines[1:]
                continue
            same = self._begin_with(words, lines, shape)
            yield shape, lines[same]
            lines = lines[~same]
        others: dict[tuple[bytes, bytes], list[int]] = {}
        unknown: list[int] = []
        left = np.concatenate([np.array(odd, np.int64), lines])
        bounds = zip(self._starts[left].tolist(), self._ends[left].tolist(), strict=True)
        for line, (start, end) in zip(left.tolist(), bounds, strict=True):
            match = _ANYWHERE.search(self._data, start, end)
            if match is None:
                unknown.append(line)
            else:
                others.setdefault((match[1], match[2]), []).append(line)
        for (kind, name), same_name in others.items():
            type = self._type(kind, name)
            if type is None:
                unknown += same_name
            else:
                yield _Shape(type, Form.WHOLE), np.array(same_name, np.int64)
        singles.append(np.array(unknown, np.int64))

    def _shape(self, line: bytes) -> _Shape | None:
        kind, form = b"type", Form.DATA
        begin = _NODE.match(line)
        if begin is None:
            kind, form = b"edge", Form.REST
            begin = _EDGE.match(line)
        if begin is None:
            return None
        type = self._type(kind, begin[1])
        if type is None or not (form is Form.REST or line.endswith(b"}}")):
            return None
        return _Shape(type, form, begin[0])

    def _type(self, kind: bytes, name: bytes) -> NodeType | EdgeType | None:
        known = self._catalog.nodes if kind == b"type" else self._catalog.edges
        type: NodeType | EdgeType | None = known.get(name.decode("latin-1"))
        return type

    def _begin_with(
        self, words: npt.NDArray[np.uint64], lines: Places, shape: _Shape
    ) -> npt.NDArray[np.bool_]:
        """Which lines begin with the prefix of a shape, and end as it needs."""
        prefix, starts = shape.prefix, self._starts[lines]
        size = len(prefix)
        room = size + 2 if shape.form is Form.DATA else size + 1
        places = np.flatnonzero(self._ends[lines] - starts >= room)
        # The last bytes tell most types apart.
        for offset in [size - 8, *range(0, size - 8, 8)]:
            word = np.frombuffer(prefix[offset : offset + 8], np.uint64)[0]
            places = places[words[starts[places] + offset] == word]
        if shape.form is Form.DATA:
            places = places[self._bytes[self._ends[lines[places]] - 2] == ord("}")]
        same = np.zeros(len(lines), np.bool_)
        same[places] = True
        return same

    # --- reading ---

    def _read_many(self, shape: _Shape, lines: Places, singles: list[Places]) -> None:
        reader = ColumnReader(shape.type, shape.form)
        gathered = self._gathered.setdefault(shape.type.name, _Gathered())
        starts, ends, before = shape.cut(self._starts[lines], self._ends[lines])
        filled = np.cumsum(ends - starts) // _CHUNK
        cuts = np.flatnonzero(np.diff(filled)) + 1
        for piece in np.split(np.arange(len(lines)), cuts):
            failures = 0
            stack = [piece]
            while stack:
                part = stack.pop()
                if failures > _MOST_FAILURES:
                    singles.append(lines[part])
                    continue
                chunk = self._joined(starts[part], ends[part], before)
                try:
                    columns = reader.read(chunk, len(part))
                except Refused as refused:
                    failures += 1
                    if len(part) <= _FEW:
                        singles.append(lines[part])
                    elif refused.row is None or refused.row >= len(part):
                        stack += reversed(np.array_split(part, 2))
                    else:
                        row = refused.row
                        singles.append(lines[part[row : row + 1]])
                        stack += [part[row + 1 :], part[:row]]
                    continue
                gathered.pieces.append((lines[part], columns))
                if columns.unsure.any():
                    singles.append(lines[part[columns.unsure]])

    def _joined(self, starts: Places, ends: Places, before: bytes) -> bytes:
        data = self._data
        parts = [data[s:e] for s, e in zip(starts.tolist(), ends.tolist(), strict=True)]
        return before + (b"\n" + before).join(parts)

    def _line(self, line: int) -> bytes:
        return self._data[self._starts[line] : self._ends[line]]

    def _read_one(self, line: int) -> None:
        read, faults = self._reader.read(self._line(line), line + 1)
        self._faults += faults
        if read is None:
            return
        if faults:
            self._faulty.setdefault(read.type, []).append((line, read))
        else:
            gathered = self._gathered.setdefault(read.type, _Gathered())
            gathered.single.append((line, read.values))


def _line_bounds(data: npt.NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where lines begin and end, without their line ends."""
    ends = np.flatnonzero(data == ord("\n")).astype(np.int64)
    if len(data) and data[-1] != ord("\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    filled = np.flatnonzero(ends > starts)
    ends[filled] -= data[ends[filled] - 1] == ord("\r")
    return starts, ends


def _rows(type: NodeType | EdgeType, gathered: _Gathered) -> Rows:
    """Put the rows of one type together, in the order of their lines."""
    types = {"id": STRING}
    if isinstance(type, EdgeType):
        types |= {"src": STRING, "dst": STRING}
    types |= {p.name: p.type for p in type.stored_properties}
    names: set[str] = {name for _, values in gathered.single for name in values}
    for _, columns in gathered.pieces:
        sure = ~columns.unsure
        names |= {name for name in types.keys() - names if (columns.present[name] & sure).any()}
    # A table without columns would forget how many rows it has.
    names = names or {"id"}
    schema = pa.schema([pa.field(n, arrow_type(types[n])) for n in types if n in names])
    embedded = [p.name for p in type.stored_properties if p.embed is not None and p.name in names]
    tables, lines = [], []
    for places, columns in gathered.pieces:
        table = pa.Table.from_arrays([columns.arrays[n] for n in schema.names], schema=schema)
        for n in embedded:
            said = columns.present[n] & columns.arrays[n].is_null().to_numpy(zero_copy_only=False)
            table = table.append_column(_SAID + n, pa.array(said))
        if columns.unsure.any():
            sure = ~columns.unsure
            table, places = table.filter(pa.array(sure)), places[sure]
        tables.append(table)
        lines.append(places)
    if gathered.single:
        table = _single_rows(type, gathered.single, types, schema)
        for n in embedded:
            said = [n in values and values[n] is None for _, values in gathered.single]
            table = table.append_column(_SAID + n, pa.array(said, pa.bool_()))
        tables.append(table)
        lines.append(np.array([line for line, _ in gathered.single], np.int64))
    table, places = pa.concat_tables(tables).combine_chunks(), np.concatenate(lines) + 1
    if (np.diff(places) < 0).any():
        order = np.argsort(places, kind="stable")
        table, places = table.take(pa.array(order)), places[order]
    nulls = {n: table[_SAID + n].to_numpy() for n in embedded}
    return Rows(table.select(schema.names), places, nulls)


def _faulty_rows(type: NodeType | EdgeType, numbered: list[tuple[int, Line]]) -> Rows:
    """Rows of lines with faults: all columns, and null for what does not fit."""
    numbered = sorted(numbered, key=lambda pair: pair[0])
    types = {"id": STRING} if any("id" in line.values for _, line in numbered) else {}
    if isinstance(type, EdgeType):
        types |= {"src": STRING, "dst": STRING}
    types |= {p.name: p.type for p in type.stored_properties}
    # A table without columns would forget how many rows it has.
    types = types or {"id": STRING}
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in types.items()])
    table = _single_rows(type, [(n, line.values) for n, line in numbered], types, schema)
    unfit = {
        name: np.array([name in line.unfit for _, line in numbered])
        for name in types
        if any(name in line.unfit for _, line in numbered)
    }
    # Nothing is embedded for rows that are refused.
    unfit |= {
        p.name: np.ones(len(numbered), np.bool_)
        for p in type.stored_properties
        if p.embed is not None
    }
    return Rows(table, np.array([n for n, _ in numbered], np.int64) + 1, unfit=unfit)


def _single_rows(
    type: NodeType | EdgeType,
    rows: list[tuple[int, dict[str, Value]]],
    types: dict[str, ValueType],
    schema: pa.Schema,
) -> pa.Table:
    defaults = {p.name: p.default for p in type.properties.values() if p.has_default}
    arrays = [
        stored_array([values.get(name, defaults.get(name)) for _, values in rows], types[name])
        for name in schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
