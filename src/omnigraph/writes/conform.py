"""Giving rows the columns and types of their table, or saying exactly what does not fit.

Types are taken literally: a text is not a number, a time without a zone is not a DateTime, and a
number that does not fit is an error, also where null would be allowed. It is null in the rows that
are returned, so that everything else about them can be checked as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from omnigraph.compute.keys import PHYSICAL_ENDS, ids_of
from omnigraph.compute.ulids import mint_ulids
from omnigraph.diagnostics import did_you_mean
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import arrow_type, table_schema
from omnigraph.language.schema.catalog import Property
from omnigraph.language.types import INTEGER_BOUNDS, STRING, Scalar, ValueType
from omnigraph.language.values import show
from omnigraph.writes.rules.ids import check_each_id
from omnigraph.writes.rules.values import check_values, misfit
from omnigraph.writes.rules.violations import Violations

_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class Conformed(NamedTuple):
    """Rows with the columns of their table.

    Attributes:
        table: The rows; a value that does not fit is null.
        unfit: By column, in which rows a value does not fit.
        whole: Columns that do not fit as a whole, or that are missing.
        has_ids: The rows came with ids, and not all were generated here.
    """

    table: pa.Table
    unfit: Mapping[str, pa.Array]
    whole: frozenset[str]
    has_ids: bool


class Misfit(NamedTuple):
    """A value that does not fit: which row, the value, the rule that it breaks, and why."""

    place: int
    value: object
    rule: str
    reason: str


def conform(type: NodeType | EdgeType, rows: pa.Table, violations: Violations) -> Conformed:
    """Give rows the columns of their table.

    An edge's ends may be called `from` and `to`. Omitted ids are generated: from the key, or
    new ones. Omitted properties get their default, or null.

    Args:
        type: What the rows are.
        rows: The rows.
        violations: Where goes what does not fit.
    """
    rows = _with_physical_ends(type, rows)
    schema = table_schema(type)
    rows = _known_columns(type, rows, schema, violations)
    columns: dict[str, pa.Array] = {}
    misfits: dict[str, list[Misfit]] = {}
    whole: set[str] = set()
    for field in schema:
        property = type.properties.get(field.name)
        if field.name in rows.column_names:
            value_type = property.type if property is not None else STRING
            column, wrong, why = fit_column(value_type, rows[field.name])
            if why is not None:
                violations.add(type.name, None, _shown_name(type, field.name), None, "type", why)
                whole.add(field.name)
            elif wrong:
                misfits[field.name] = wrong
            columns[field.name] = column
        elif field.name != "id":
            columns[field.name] = _left_out(type, field, property, rows.num_rows, violations, whole)
    has_ids = "id" in columns
    if not has_ids:
        columns["id"] = ids_of(type, columns) if type.key else mint_ulids(rows.num_rows)
    elif type.key and columns["id"].null_count:
        columns["id"] = pc.coalesce(columns["id"], ids_of(type, columns))
    if not has_ids and not type.key:
        violations.minted.append(columns["id"])
    unfit = {name: pa.repeat(pa.scalar(True), rows.num_rows) for name in whole}
    for name, wrong in misfits.items():
        shown = _shown_name(type, name)
        for place, value, rule, reason in wrong:
            id = columns["id"][place].as_py()
            violations.add(type.name, id, shown, value, rule, reason, place)
        unfit[name] = _mask([one.place for one in wrong], rows.num_rows)
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    return Conformed(table, unfit, frozenset(whole), has_ids)


def check_rows(
    type: NodeType | EdgeType,
    rows: Conformed,
    violations: Violations,
    *,
    external_blobs: Sequence[str] = (),
) -> None:
    """Check everything about rows that needs nothing but each row.

    Args:
        type: What the rows are.
        rows: The rows, with the columns of their table.
        violations: Where violations go.
        external_blobs: What the URI of a blob outside of the graph may start with.
    """
    check_values(type, rows.table, violations, unfit=rows.unfit, external_blobs=external_blobs)
    if rows.has_ids:
        check_each_id(type, rows.table, violations, rows.unfit.get("id"))


def _shown_name(type: NodeType | EdgeType, column: str) -> str:
    """What users call a column."""
    names = {end: name for name, end in PHYSICAL_ENDS.items()}
    return names.get(column, column) if isinstance(type, EdgeType) else column


def _mask(places: list[int], count: int) -> pa.Array:
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return pa.array(mask)


def _with_physical_ends(type: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    if not isinstance(type, EdgeType):
        return rows
    return rows.rename_columns([PHYSICAL_ENDS.get(name, name) for name in rows.column_names])


def _known_columns(
    type: NodeType | EdgeType, rows: pa.Table, schema: pa.Schema, violations: Violations
) -> pa.Table:
    """The columns that the table has, each once; notes the others."""
    known: dict[str, int] = {}
    for place, name in enumerate(rows.column_names):
        if name in known:
            violations.add(type.name, None, name, None, "column", "duplicate column")
        elif name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"it has {', '.join(schema.names)}"
            reason = f"{type.name} has no such column; {hint}"
            violations.add(type.name, None, name, None, "column", reason)
        else:
            known[name] = place
    if len(known) == rows.num_columns:
        return rows
    # A table without columns would forget how many rows it has.
    return rows.select(list(known.values())) if known else pa.table({"id": pa.nulls(rows.num_rows)})


def _left_out(
    type: NodeType | EdgeType,
    field: pa.Field,
    property: Property | None,
    count: int,
    violations: Violations,
    whole: set[str],
) -> pa.Array:
    if property is not None and property.has_default:
        return pa.array([property.default] * count, field.type)
    if field.nullable:
        return pa.nulls(count, field.type)
    text = "the column is required"
    if property is not None and property.embed is not None:
        text += f"; only loads and inserts make it from `{property.embed.source}`: give it"
    violations.add(type.name, None, _shown_name(type, field.name), None, "column", text)
    whole.add(field.name)
    return pa.nulls(count, field.type)


def fit_column(
    value_type: ValueType, column: pa.Array | pa.ChunkedArray
) -> tuple[pa.Array, list[Misfit], str | None]:
    """Convert a column to the Arrow type of a property.

    Args:
        value_type: What the values are.
        column: The values.

    Returns:
        The column, with null for what does not fit; each value that does not; and why the column
        does not fit as a whole, if so.
    """
    array = _one_array(column)
    target = arrow_type(value_type)
    why = _unfit(value_type, array.type)
    if why is not None:
        return pa.nulls(len(array), target), [], f"the column is {array.type}: {why}"
    try:
        array.validate(full=True)
        return _cast(array, target), [], None
    except _FAILURES:
        pass
    noun = value_type.as_nullable(False).noun
    wrong = []
    for place, value in _failing(array, target):
        value = int(value) if isinstance(value, Decimal) else value
        rule, reason = misfit(value, value_type) or ("type", f"{_shown(value)} is not {noun}")
        wrong.append(Misfit(place, value, rule, reason))
    fitting = np.ones(len(array), np.bool_)
    fitting[[one.place for one in wrong]] = False
    # In the places of the others there is null.
    at = pa.array(np.cumsum(fitting) - 1, mask=~fitting)
    return _cast(array.filter(pa.array(fitting)), target).take(at), wrong, None


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        # More text than one Arrow array of the plain kind holds.
        array = pa.concat_arrays([chunk.cast(_large(chunk.type)) for chunk in array.chunks])
    return array


def _unfit(type: ValueType, column_type: pa.DataType) -> str | None:
    """Say why a column cannot hold values of a type, if so."""
    if pt.is_dictionary(column_type):
        column_type = column_type.value_type
    if pt.is_null(column_type) or column_type == arrow_type(type):
        return None
    noun = type.as_nullable(False).noun
    if type.is_vector or type.is_list:
        if not (
            pt.is_list(column_type)
            or pt.is_large_list(column_type)
            or pt.is_fixed_size_list(column_type)
        ):
            return f"{noun} needs lists"
        return _unfit(type.element, column_type.value_type)
    if type.is_blob:
        fits = (
            pt.is_binary(column_type)
            or pt.is_large_binary(column_type)
            or column_type == arrow_type(type)
        )
        return None if fits else f"{noun} needs bytes, or the struct that the table has"
    if type.scalar is Scalar.DATETIME:
        if not pt.is_timestamp(column_type):
            return f"{noun} needs times"
        return (
            None if column_type.tz is not None else "the times have no zone; give them one, as UTC"
        )
    tests = {
        Scalar.STRING: lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t),
        Scalar.BOOL: pt.is_boolean,
        Scalar.DATE: pt.is_date,
    }
    # Systems without unsigned integers, as Spark, have decimals without digits after the point.
    whole = type.scalar in INTEGER_BOUNDS and pt.is_decimal(column_type) and column_type.scale == 0
    number = lambda t: whole or pt.is_integer(t) or pt.is_floating(t)  # noqa: E731
    return None if tests.get(type.scalar, number)(column_type) else f"{noun} does not fit"


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_timestamp(target) and pt.is_timestamp(array.type):
        # A DateTime holds milliseconds; finer digits are dropped.
        return pc.floor_temporal(array, unit="millisecond").cast(target)
    if pt.is_struct(target) and not pt.is_struct(array.type) and not pt.is_null(array.type):
        return blobs_of(array.cast(pa.large_binary()))
    return array.cast(target)


def blobs_of(data: pa.Array) -> pa.Array:
    """Bytes in the form that blobs are written in."""
    form = arrow_type(ValueType(Scalar.BLOB))
    others = [pa.nulls(len(data), form.field(n).type) for n in range(1, form.num_fields)]
    return pa.StructArray.from_arrays([data, *others], fields=list(form), mask=data.is_null())


def _large(type: pa.DataType) -> pa.DataType:
    if pt.is_string(type):
        return pa.large_string()
    return pa.large_binary() if pt.is_binary(type) else type


def _failing(array: pa.Array, target: pa.DataType, start: int = 0) -> Iterator[tuple[int, object]]:
    """The places and values that do not fit, searched by halving."""
    try:
        array.validate(full=True)
        _cast(array, target)
    except _FAILURES:
        if len(array) == 1:
            yield start, _as_python(array)
            return
        half = len(array) // 2
        yield from _failing(array[:half], target, start)
        yield from _failing(array[half:], target, start + half)


def _as_python(array: pa.Array) -> object:
    """The only value of an array; None when Python has no such value."""
    try:
        return array[0].as_py()
    except (ValueError, OverflowError, KeyError):
        # A day or a zone that Python does not know; pytz calls the latter a missing key.
        return None


def _shown(value: object) -> str:
    # Null fits any column, so this is text that is not UTF-8, or a time far off the calendar.
    if value is None:
        return "a value that cannot be shown"
    return show(value)
