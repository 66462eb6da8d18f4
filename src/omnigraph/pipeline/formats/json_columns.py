"""Many JSON lines of one type at once, as typed Arrow columns.

Arrow's own JSON reader does the work; what it takes more loosely or more strictly than the rules
of values is found on whole columns. A row that is not surely right is only marked: `json_faults`
has the last word on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from omnigraph.compute.arrays import one_array
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import EdgeType, NodeType, Property
from omnigraph.language.types import INTEGER_BOUNDS, Scalar
from omnigraph.pipeline.formats.json_faults import is_required
from omnigraph.pipeline.formats.json_values import converted, stored_array

Mask = npt.NDArray[np.bool_]

#: Names of the members beside `data`, which a property may have as well.
_OUTER = frozenset({"type", "edge", "from", "to", "data"})
_ROW = re.compile(r" in row ([0-9]+)$")
_CHANGED = re.compile(r"Column\((?:/data)?/(\w+)(?:/\[\])?\) changed from .* to .* in row 0$")
#: An escape of an ASCII character: only so can the name of a property be spelled otherwise.
_ESCAPED = re.compile(rb"\\u00[2-7]")


class Form(Enum):
    """Which part of the lines is read."""

    DATA = "data"  #: the object with the properties, nothing else
    REST = "rest"  #: the line without the name of its type
    WHOLE = "whole"  #: all of the line


class Refused(Exception):
    """The lines cannot be read at once; `row` is the first wrong one, if it is known."""

    def __init__(self, row: int | None = None) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True)
class Columns:
    """Rows of one type.

    Attributes:
        arrays: By name: `id`, an edge's `src` and `dst`, all properties. Defaults are filled in.
        present: By name, for each row whether its line has the value, null included.
        unsure: For each row whether it has to be read on its own.
    """

    arrays: dict[str, pa.Array]
    present: dict[str, Mask]
    unsure: Mask


class ColumnReader:
    """Reads lines of one type that have one form."""

    def __init__(self, type: NodeType | EdgeType, form: Form) -> None:
        self._type = type
        self._form = form
        self._kind = "edge" if isinstance(type, EdgeType) else "type"
        #: Integers that the lines have as text.
        self._texts: set[str] = set()
        self._defaults = {
            p.name: stored_array([p.default], p.type)
            for p in type.properties.values()
            if p.has_default
        }
        self._options = self._parse_options()

    def read(self, chunk: bytes, count: int) -> Columns:
        """Read lines, each of which begins with a brace and ends in one.

        This is what makes reading them at once safe. No object can go on in the next line: a
        comma would have to stand before its brace. So there are at least as many rows as lines,
        and if there are as many, each line is one object. And Arrow's reader, which crashes on
        a `null` before the first object, never meets one there.

        Args:
            chunk: The lines.
            count: How many there are.

        Raises:
            Refused: At least one of the lines is wrong, or unusual.
        """
        if not chunk.isascii():
            try:
                chunk.decode()
            except UnicodeDecodeError as error:
                raise Refused(chunk.count(b"\n", 0, error.start)) from None
        table = self._table(chunk)
        if table.num_rows != count:
            raise Refused
        return _Conversion(self._type, self._form, chunk, table, self._defaults).columns()

    def _table(self, chunk: bytes) -> pa.Table:
        turned: set[str] = set()
        while True:
            try:
                return pj.read_json(
                    pa.BufferReader(chunk),
                    read_options=pj.ReadOptions(
                        use_threads=False, block_size=min(len(chunk) + 1, (1 << 31) - 1)
                    ),
                    parse_options=self._options,
                )
            except pa.ArrowInvalid as error:
                changed = _CHANGED.search(str(error))
                if changed is None or changed[1] in turned or not self._is_integer(changed[1]):
                    row = _ROW.search(str(error))
                    raise Refused(int(row[1]) if row else None) from None
                # Whoever writes integers as text does so in all lines.
                turned.add(changed[1])
                self._texts ^= {changed[1]}
                self._options = self._parse_options()

    def _is_integer(self, name: str) -> bool:
        property = self._type.properties.get(name)
        return property is not None and property.type.scalar in INTEGER_BOUNDS

    def _parse_options(self) -> pj.ParseOptions:
        data = [pa.field("id", pa.utf8())]
        data += [pa.field(p.name, self._json_type(p)) for p in self._type.stored_properties]
        fields = data
        if self._form is not Form.DATA:
            fields = [pa.field("data", pa.struct(data))]
            if isinstance(self._type, EdgeType):
                fields += [pa.field("from", pa.utf8()), pa.field("to", pa.utf8())]
            if self._form is Form.WHOLE:
                fields.append(pa.field(self._kind, pa.utf8()))
        return pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="error")

    def _json_type(self, property: Property) -> pa.DataType:
        """How Arrow's reader is to take the values, before they are converted."""
        type = property.type
        if type.scalar in INTEGER_BOUNDS and property.name not in self._texts:
            scalar = arrow_type(type.element)
        elif type.scalar in (Scalar.F32, Scalar.F64):
            # Rounded once to 64 bits, then to 32, as one value alone is.
            scalar = pa.float64()
        else:
            scalar = pa.bool_() if type.scalar is Scalar.BOOL else pa.utf8()
        return pa.list_(scalar) if type.is_list or type.is_vector else scalar


class _Conversion:
    """From what Arrow's reader returns to the columns of a table."""

    def __init__(
        self,
        type: NodeType | EdgeType,
        form: Form,
        chunk: bytes,
        table: pa.Table,
        defaults: dict[str, pa.Array],
    ) -> None:
        self._type = type
        self._form = form
        self._chunk = chunk
        self._table = table
        self._defaults = defaults
        self._has_null = b"null" in chunk
        self._starts: npt.NDArray[np.int64] | None = None
        self._unsure = np.zeros(table.num_rows, np.bool_)
        self._arrays: dict[str, pa.Array] = {}
        self._present: dict[str, Mask] = {}
        #: Rows without a value of properties where null means the same as nothing. It matters
        #: only if no other row has a value, because then the column is there or is not.
        self._same: dict[str, Mask] = {}

    def columns(self) -> Columns:
        outer = {name: one_array(self._table[name]) for name in self._table.column_names}
        data = outer
        if self._form is not Form.DATA:
            struct = outer["data"]
            data = {
                field.name: array
                for field, array in zip(struct.type, struct.flatten(), strict=True)
            }
            self._outer(outer)
        if self._has_null:
            self._unsure[self._rows(_ESCAPED)] = True
        self._id(data["id"])
        for property in self._type.stored_properties:
            self._property(property, data[property.name])
        for name, nulls in self._same.items():
            if not (self._present[name] & ~self._unsure).any():
                self._present[name] = self._present[name] | self._explicit(name, nulls)
        return Columns(self._arrays, self._present, self._unsure)

    def _outer(self, outer: dict[str, pa.Array]) -> None:
        if outer["data"].null_count and self._has_null:
            self._unsure |= _nulls(outer["data"]) & self._null_rows()
        for end, name in (("from", "src"), ("to", "dst")):
            if end in outer:
                self._arrays[name] = outer[end]
                self._present[name] = ~_nulls(outer[end])
                self._unsure |= ~self._present[name]
        kind = "edge" if isinstance(self._type, EdgeType) else "type"
        if kind in outer:
            same = pc.equal(outer[kind], self._type.name)
            self._unsure |= ~pc.fill_null(same, False).to_numpy(zero_copy_only=False)

    def _id(self, array: pa.Array) -> None:
        nulls = _nulls(array)
        if array.null_count:
            self._unsure |= self._explicit("id", nulls)
        self._arrays["id"], self._present["id"] = array, ~nulls

    def _property(self, property: Property, values: pa.Array) -> None:
        name = property.name
        array, wrong = converted(values, property.type, self._chunk)
        if wrong is not None:
            self._unsure |= wrong
        nulls = _nulls(values)
        present = ~nulls
        if values.null_count:
            if is_required(property):
                self._unsure |= nulls
            elif (
                property.type.nullable
                and not property.has_default
                and property.embed is None
                and not self._is_unclear(name)
            ):
                self._same[name] = nulls
            else:
                explicit = self._explicit(name, nulls)
                if not property.type.nullable:
                    self._unsure |= explicit
                present = present | explicit
                if property.has_default:
                    array = _filled(array, ~present, self._defaults[name])
        self._arrays[name], self._present[name] = array, present

    def _explicit(self, name: str, nulls: Mask) -> Mask:
        """Which rows of those without a value say `null`, and do not omit it."""
        if not self._has_null:
            return np.zeros(len(nulls), np.bool_)
        if self._is_unclear(name):
            unclear = nulls & self._null_rows()
            self._unsure |= unclear
            return unclear
        said = np.zeros(len(nulls), np.bool_)
        said[self._rows(re.compile(rb'"%b"[ \t\r]*:' % name.encode()))] = True
        return nulls & said

    def _is_unclear(self, name: str) -> bool:
        """Whether a property has the name of a member that stands beside `data`."""
        return self._form is not Form.DATA and name in _OUTER

    def _null_rows(self) -> Mask:
        rows = np.zeros(len(self._unsure), np.bool_)
        rows[self._rows(re.compile(rb"null"))] = True
        return rows

    def _rows(self, pattern: re.Pattern[bytes]) -> npt.NDArray[np.int64]:
        """The rows in which a pattern occurs."""
        if self._starts is None:
            ends = np.flatnonzero(np.frombuffer(self._chunk, np.uint8) == ord("\n"))
            self._starts = ends.astype(np.int64)
        places = [match.start() for match in pattern.finditer(self._chunk)]
        return np.searchsorted(self._starts, np.array(places, np.int64))


def _nulls(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    nulls: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _filled(array: pa.Array, missing: Mask, default: pa.Array) -> pa.Array:
    if not missing.any():
        return array
    places = np.where(missing, len(array), np.arange(len(array)))
    return pa.concat_arrays([array, default]).take(pa.array(places))
