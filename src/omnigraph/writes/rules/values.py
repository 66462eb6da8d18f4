"""Rules about single values: type, null, enum, finite numbers, range, pattern, dates, blobs.

They need nothing but the rows themselves, so they hold for a batch as well as for a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_numpy
from omnigraph.diagnostics import did_you_mean
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.catalog import Property
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import ValueFault, coerce, show
from omnigraph.writes.rules.violations import Violations

#: The days that Python, JSON readers and most databases know: the years 1 to 9999.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MS = 86_400_000
#: In a URI: white space, control characters, backslashes, and `.` or `..` as a part of the path.
_ASTRAY = r"(?i)[\x00-\x20\\]|/(\.|%2e){1,2}([/?#]|$)"


def check_values(
    type: NodeType | EdgeType,
    rows: pa.Table,
    violations: Violations,
    *,
    columns: frozenset[str] | None = None,
    unfit: Mapping[str, pa.Array] | None = None,
    external_blobs: Sequence[str] = (),
) -> None:
    """Check the values of rows, of some columns or of all.

    Args:
        type: The rows' type.
        rows: Rows with the columns of the type's table.
        violations: Where violations go.
        columns: The columns to look at; None is all.
        unfit: By column, in which rows the value had the wrong type: it is null, but not missing.
        external_blobs: What the URI of a blob outside of the graph may start with.
    """
    checker = _Checker(type, rows, violations, unfit or {}, external_blobs)
    if isinstance(type, EdgeType):
        for column, name, node in (("src", "from", type.source), ("dst", "to", type.target)):
            if columns is None or column in columns:
                checker.require(column, name, "end", end_reason(node))
    for property in type.stored_properties:
        if columns is None or property.name in columns:
            checker.check(property)


def required_reason(property: Property) -> str:
    """What is wrong when a property has no value."""
    if property.embed is None:
        return "a value is required"
    return (
        f"a value is required; loads and inserts make it from `{property.embed.source}` where that"
        " has a text: give the text, or the vector"
    )


def end_reason(node: str) -> str:
    """What is wrong when an edge has no end; `node` is the type of the nodes there."""
    return f"an edge needs the id of a {node}"


def misfit(value: object, type: ValueType) -> tuple[str, str] | None:
    """The rule that one plain value breaks, and why, in the words of whole columns."""
    try:
        coerce(value, type.as_nullable(True))
        return None
    except ValueFault as fault:
        reason = f"{fault.message}; {fault.hint}" if fault.hint else fault.message
    if type.is_float and type.is_scalar and _is_odd(value) and value is not None:
        return "finite", f"{value} is not a finite number"
    if (type.is_list or type.is_vector) and isinstance(value, list | tuple):
        # Do all elements fit but those that are null or not finite?
        instead = [0.0] if type.is_vector else []
        fitting = [each for item in value for each in (instead if _is_odd(item) else [item])]
        try:
            coerce(fitting, type)
        except ValueFault:
            return "type", reason
        return "vector" if type.is_vector else "list", _name_bad_number(list(value))
    return "type", reason


def _is_odd(item: object) -> bool:
    return item is None or (isinstance(item, float) and not np.isfinite(item))


def is_proper(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Tell which values of a scalar column are finite, and in the calendar; null for null."""
    if pa.types.is_floating(column.type):
        return pc.is_finite(column)
    if pa.types.is_date32(column.type):
        return _between(column.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    if pa.types.is_timestamp(column.type):
        last = (_LAST_DAY + 1) * _DAY_MS - 1
        return _between(column.cast(pa.int64()), _FIRST_DAY * _DAY_MS, last)
    return pc.is_valid(column)


def _is_finite(vectors: pa.Array) -> bool:
    """True when all numbers in vectors are finite, and none is missing; nulls are no vectors."""
    numbers = vectors.drop_null().flatten() if vectors.null_count else vectors.flatten()
    return not numbers.null_count and bool(np.isfinite(as_numpy(numbers)).all())


def _between(numbers: pa.ChunkedArray, first: int, last: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))


class _Checker:
    """Checks rows of one type, property by property."""

    def __init__(
        self,
        type: NodeType | EdgeType,
        rows: pa.Table,
        violations: Violations,
        unfit: Mapping[str, pa.Array],
        external_blobs: Sequence[str],
    ) -> None:
        self.type = type
        self.rows = rows
        self.ids = rows["id"]
        self.unfit = unfit
        self.violations = violations
        self.external_blobs = tuple(external_blobs)

    def require(self, column: str, name: str, rule: str, reason: str) -> None:
        """Refuse rows without a value."""
        values = self.rows[column]
        if not values.null_count:
            return
        missing = pc.is_null(values)
        if column in self.unfit:
            missing = pc.and_(missing, pc.invert(self.unfit[column]))
        self.violations.add_rows(
            self.type.name, self.ids, name, values, missing, rule, lambda _: reason
        )

    def check(self, property: Property) -> None:
        column = self.rows[property.name]
        if not property.type.nullable:
            self.require(property.name, property.name, "required", required_reason(property))
        if len(column) == column.null_count:
            return
        self.check_kind(property, column)
        for range in self.type.ranges:
            if range.property == property.name:
                self.check_range(property, column, range.low, range.high)
        for check in self.type.checks:
            if check.property == property.name:
                self.check_pattern(property, column, check.pattern)

    def check_kind(self, property: Property, column: pa.ChunkedArray) -> None:
        type = property.type
        if type.values is not None:
            allowed = type.values
            known = pc.is_in(column, value_set=pa.array(allowed, pa.utf8()))
            self.refuse(
                property,
                pc.and_(pc.is_valid(column), pc.invert(known)),
                "enum",
                lambda v: (
                    f"{show(v)} is not one of {', '.join(allowed[:20])}"
                    + (f"; {hint}" if (hint := did_you_mean(v, allowed)) else "")
                ),
            )
        elif type.is_vector:
            self.check_vectors(property, column)
        elif type.is_list:
            self.check_lists(property, column)
        elif type.is_blob:
            self.check_blobs(property, column)
        elif type.is_float:
            self.refuse(
                property,
                pc.invert(is_proper(column)),
                "finite",
                lambda v: f"{v} is not a finite number",
            )
        elif type.scalar in (Scalar.DATE, Scalar.DATETIME):
            self.check_calendar(property, column)

    def check_pattern(self, property: Property, column: pa.ChunkedArray, pattern: str) -> None:
        broken = pc.invert(pc.match_substring_regex(column, pattern))
        self.refuse(
            property, broken, "check", lambda v: f"{show(v)} does not match {show(pattern)}"
        )

    def check_range(
        self,
        property: Property,
        column: pa.ChunkedArray,
        low: int | float | None,
        high: int | float | None,
    ) -> None:
        broken = None
        for bound, compare in ((low, pc.less), (high, pc.greater)):
            if bound is None:
                continue
            outside = compare(*_as_comparable(column, bound))
            broken = outside if broken is None else pc.or_(broken, outside)
        if broken is not None:
            span = f"{'' if low is None else low}..{'' if high is None else high}"
            self.refuse(property, broken, "range", lambda v: f"{show(v)} is outside of {span}")

    def check_vectors(self, property: Property, column: pa.ChunkedArray) -> None:
        if all(_is_finite(chunk) for chunk in column.chunks):
            return
        vectors = column.combine_chunks()
        valid = vectors.is_valid()
        numbers = vectors.drop_null().flatten()
        size = property.type.dimension
        # A null inside of a vector is NaN here.
        finite = np.isfinite(numbers.to_numpy(zero_copy_only=False)).reshape(-1, size).all(axis=1)
        broken = np.zeros(len(vectors), bool)
        broken[np.flatnonzero(valid.to_numpy(zero_copy_only=False))] = ~finite
        self.refuse(property, pa.array(broken), "vector", _name_bad_number)

    def check_lists(self, property: Property, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        items, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
        bad = pc.is_null(items)
        if pa.types.is_floating(items.type):
            bad = pc.or_(bad, pc.fill_null(pc.invert(pc.is_finite(items)), True))
        if not pc.any(bad).as_py():
            return
        broken = np.zeros(len(lists), bool)
        broken[np.unique(parents.filter(bad).to_numpy())] = True
        self.refuse(property, pa.array(broken), "list", _name_bad_number)

    def check_calendar(self, property: Property, column: pa.ChunkedArray) -> None:
        # Python has no name for such a day: the number is shown.
        number = pa.int32() if property.type.scalar is Scalar.DATE else pa.int64()
        self.refuse(
            property,
            pc.invert(is_proper(column)),
            "calendar",
            lambda v: f"day or time number {v} is not in the years 1 to 9999",
            values=column.cast(number),
        )

    def check_blobs(self, property: Property, column: pa.ChunkedArray) -> None:
        blobs = column.combine_chunks()
        filled = pc.is_valid(blobs)
        data, uri, position, size = (
            pc.struct_field(blobs, name) for name in ("data", "uri", "position", "size")
        )
        is_data, is_uri = pc.is_valid(data), pc.is_valid(uri)
        self.refuse(
            property,
            pc.and_(filled, pc.equal(is_data, is_uri)),
            "blob",
            lambda _: "give either bytes or the URI of a file",
            values=pc.binary_length(data),
        )
        ranged = pc.or_(pc.is_valid(position), pc.is_valid(size))
        whole = pc.and_(pc.is_valid(position), pc.fill_null(pc.greater(size, 0), False))
        self.refuse(
            property,
            pc.and_(filled, pc.and_(ranged, pc.invert(pc.and_(is_uri, whole)))),
            "blob",
            lambda _: "a part of a file has a URI, a position and a size above 0; bytes have none",
            values=size,
        )
        allowed = pc.invert(is_uri)
        for prefix in self.external_blobs:
            allowed = pc.or_(allowed, pc.fill_null(pc.starts_with(uri, prefix), False))
        # What leads out of the place that is allowed once it is resolved.
        astray = pc.fill_null(pc.match_substring_regex(uri, _ASTRAY), False)
        self.refuse(
            property,
            pc.and_(filled, pc.or_(pc.invert(allowed), astray)),
            "blob",
            lambda v: (
                f"{show(v)} is outside of the graph; give the bytes as `base64:…`, or allow its"
                " place with OMNIGRAPH_EXTERNAL_BLOBS"
            ),
            values=uri,
        )

    def refuse(
        self,
        property: Property,
        broken: pa.Array | pa.ChunkedArray,
        rule: str,
        message: Callable[[Any], str],
        values: pa.Array | pa.ChunkedArray | None = None,
    ) -> None:
        column = self.rows[property.name] if values is None else values
        self.violations.add_rows(
            self.type.name, self.ids, property.name, column, broken, rule, message
        )


def _as_comparable(column: pa.ChunkedArray, bound: int | float) -> tuple[Any, Any]:
    """A column and a bound in a type that holds both."""
    if isinstance(bound, float) or pa.types.is_floating(column.type):
        return column.cast(pa.float64(), safe=False), pa.scalar(float(bound), pa.float64())
    if pa.types.is_uint64(column.type):
        if bound < 0:
            return column.cast(pa.decimal128(20)), pa.scalar(bound, pa.decimal128(20))
        return column, pa.scalar(bound, pa.uint64())
    return column.cast(pa.int64()), pa.scalar(bound, pa.int64())


def _name_bad_number(numbers: list[Any]) -> str:
    for place, number in enumerate(numbers):
        if _is_odd(number):
            what = "null" if number is None else f"{number}, which is not a finite number"
            return f"element {place} is {what}"
    return "it has an element that is no number"
