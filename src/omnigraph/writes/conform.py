"""Giving rows the columns and types of their table, or saying exactly what does not fit.

Types are taken literally: a text is not a number, a time without a zone is not a DateTime, and a
number that does not fit is an error, also where null would be allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

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
from omnigraph.writes.validate.violations import MOST_SHOWN, Violations

_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


def conform(
    type: NodeType | EdgeType, rows: pa.Table, found: Violations, *, every: bool = False
) -> pa.Table | None:
    """Give rows the columns of their table.

    An edge's ends may be called `from` and `to`. Ids that are left out are made: from the key, or
    new ones. Properties that are left out get their default, or null.

    Args:
        type: What the rows are.
        rows: The rows.
        found: Where goes what does not fit.
        every: Look for every value that does not fit, and not only for the first ones.

    Returns:
        The rows; None when something does not fit.
    """
    before = found.total
    rows = _with_physical_ends(type, rows)
    schema = table_schema(type)
    if _refuse_columns(type, rows, schema, found):
        return None
    ids = rows["id"].combine_chunks() if "id" in rows.column_names else None
    columns: dict[str, pa.Array] = {}
    for field in schema:
        property = type.properties.get(field.name)
        if field.name == "id" and ids is None:
            continue
        if field.name in rows.column_names:
            value_type = property.type if property is not None else STRING
            given = rows[field.name]
            column = fit_column(type.name, field.name, value_type, given, ids, found, every=every)
        else:
            column = _left_out(type, field, property, rows.num_rows, found)
        if column is not None:
            columns[field.name] = column
    if found.total > before:
        return None
    if ids is None:
        columns["id"] = ids_of(type, columns) if type.key else mint_ulids(rows.num_rows)
    elif type.key and columns["id"].null_count:
        columns["id"] = pc.coalesce(columns["id"], ids_of(type, columns))
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _with_physical_ends(type: NodeType | EdgeType, rows: pa.Table) -> pa.Table:
    if not isinstance(type, EdgeType):
        return rows
    return rows.rename_columns([PHYSICAL_ENDS.get(name, name) for name in rows.column_names])


def _refuse_columns(
    type: NodeType | EdgeType, rows: pa.Table, schema: pa.Schema, found: Violations
) -> bool:
    """Note columns that the table does not have; true when one is there twice."""
    seen: set[str] = set()
    for name in rows.column_names:
        if name in seen:
            found.add(type.name, None, name, None, "column", "the column is there twice")
        elif name not in schema.names:
            hint = did_you_mean(name, schema.names) or f"it has {', '.join(schema.names)}"
            text = f"{type.name} has no such column; {hint}"
            found.add(type.name, None, name, None, "column", text)
        seen.add(name)
    return len(seen) < len(rows.column_names)


def _left_out(
    type: NodeType | EdgeType,
    field: pa.Field,
    property: Property | None,
    count: int,
    found: Violations,
) -> pa.Array | None:
    if property is not None and property.has_default:
        return pa.array([property.default] * count, field.type)
    if field.nullable:
        return pa.nulls(count, field.type)
    text = "the column is required"
    if property is not None and property.embed is not None:
        text += f"; only loads make it from `{property.embed.source}`: give it"
    found.add(type.name, None, field.name, None, "column", text)
    return None


def fit_column(
    type: str,
    name: str,
    value_type: ValueType,
    column: pa.Array | pa.ChunkedArray,
    ids: pa.Array | None,
    found: Violations,
    *,
    every: bool = False,
) -> pa.Array | None:
    """Give a column the Arrow type of a property.

    Args:
        type: Name of the type.
        name: Name of the property.
        value_type: What its values are.
        column: The values.
        ids: The rows' ids, for messages.
        found: Where goes what does not fit.
        every: Look for every value that does not fit, and not only for the first ones.

    Returns:
        The column; None when something does not fit.
    """
    array = _one_array(column)
    why = _unfit(value_type, array.type)
    if why is not None:
        found.add(type, None, name, None, "type", f"the column is {array.type}: {why}")
        return None
    target = arrow_type(value_type)
    try:
        array.validate(full=True)
        return _cast(array, target)
    except _FAILURES:
        pass
    for place, value in _failing(array, target):
        id = _as_python(ids[place : place + 1]) if ids is not None else None
        text = f"{_shown(value)} is not {value_type.as_nullable(False).noun}"
        found.add(type, None if id is None else str(id), name, value, "type", text, place)
        if not every and found.total > MOST_SHOWN:
            break
    return None


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        # More text than one Arrow array of the plain kind holds.
        array = pa.concat_arrays([chunk.cast(_large(chunk.type)) for chunk in array.chunks])
    return array


def _unfit(type: ValueType, given: pa.DataType) -> str | None:
    """Say why a column cannot hold values of a type, if so."""
    if pt.is_dictionary(given):
        given = given.value_type
    if pt.is_null(given) or given == arrow_type(type):
        return None
    noun = type.as_nullable(False).noun
    if type.is_vector or type.is_list:
        if not (pt.is_list(given) or pt.is_large_list(given) or pt.is_fixed_size_list(given)):
            return f"{noun} needs lists"
        return _unfit(type.element, given.value_type)
    if type.is_blob:
        fits = pt.is_binary(given) or pt.is_large_binary(given) or given == arrow_type(type)
        return None if fits else f"{noun} needs bytes, or the struct that the table has"
    if type.scalar is Scalar.DATETIME:
        if not pt.is_timestamp(given):
            return f"{noun} needs times"
        return None if given.tz is not None else "the times have no zone; give them one, as UTC"
    tests = {
        Scalar.STRING: lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t),
        Scalar.BOOL: pt.is_boolean,
        Scalar.DATE: pt.is_date,
    }
    # Systems without unsigned integers, as Spark, have decimals without digits after the point.
    whole = type.scalar in INTEGER_BOUNDS and pt.is_decimal(given) and given.scale == 0
    number = lambda t: whole or pt.is_integer(t) or pt.is_floating(t)  # noqa: E731
    return None if tests.get(type.scalar, number)(given) else f"{noun} does not fit"


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
    """The places and values that do not fit, found by halving."""
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
    return show(int(value) if isinstance(value, Decimal) else value)
