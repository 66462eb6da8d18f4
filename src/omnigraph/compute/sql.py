"""SQL text for Lance's filters: names, literals and `in` lists.

Every text survives as it is, and every literal has the type of the column it is compared with:
Lance does not convert literals that lose something, it refuses the whole filter.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable

import pyarrow as pa

from omnigraph.language.types import INTEGER_BOUNDS, Scalar, ValueType
from omnigraph.language.values import Value, float_text

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_I64_MIN = INTEGER_BOUNDS[Scalar.I64][0]
_ARROW_NAMES = {
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
}


def quoted(name: str) -> str:
    """Write the name of a column; it keeps its case."""
    return f"`{name}`"


def literal(value: Value, type: ValueType) -> str:
    """Write a value to be compared with a column of a type.

    Args:
        value: A checked value, not null.
        type: The type of the column: String, an enum, Bool, an integer, F64, Date or DateTime.

    Raises:
        TypeError: There are no literals of the type.
        ValueError: The value is not one of the type.
    """
    if not type.is_scalar:
        raise TypeError(f"SQL has no literals of {type}")
    match type.scalar:
        case Scalar.STRING:
            return _text(value)
        case Scalar.BOOL:
            return "true" if value else "false"
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _integer(value, type)
        case Scalar.F64:
            return _float(value)
        case Scalar.DATE:
            return f"date '{value.isoformat()}'"
        case Scalar.DATETIME:
            return _datetime(value)
        case _:
            raise TypeError(f"SQL has no literals of {type}")


def element_literal(value: Value, type: ValueType) -> str:
    """Write a value to be looked for in a column of lists: functions need exactly its type."""
    if type.scalar in _ARROW_NAMES:
        return f"arrow_cast('{value}', '{_ARROW_NAMES[type.scalar]}')"
    if type.scalar is Scalar.DATETIME:
        # As an argument, a timestamp literal has nanoseconds: too few years.
        millis = (value - _EPOCH) // dt.timedelta(milliseconds=1)
        return f"arrow_cast({millis}, 'Timestamp(Millisecond, Some(\"UTC\"))')"
    return literal(value, type.element)


def is_in(
    column: str, values: pa.Array | pa.ChunkedArray | Iterable[Value], type: ValueType
) -> str:
    """Write that a column's value is one of several.

    Args:
        column: The name of the column.
        values: The values; nulls among them match nothing. None at all: no row matches.
        type: The type of the column, as for `literal`.

    Example:
        >>> is_in("id", ["ann", "o'neil"], STRING)
        "`id` in ('ann', 'o''neil')"
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    items = ", ".join([literal(v, type) for v in values if v is not None])
    return f"{quoted(column)} in ({items})" if items else "false"


def _text(value: str) -> str:
    # Nothing but the quote is special: a backslash stands for itself.
    return "'" + value.replace("'", "''") + "'"


def _integer(value: int, type: ValueType) -> str:
    low, high = INTEGER_BOUNDS[type.scalar]
    if not low <= value <= high:
        raise ValueError(f"{value} is out of range for {type.scalar}")
    if value == _I64_MIN:
        # The digits are read before the sign, and without it they are a float.
        return f"cast('{value}' as bigint)"
    return str(value)


def _float(value: float) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return float_text(number)


def _datetime(value: dt.datetime) -> str:
    text = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"timestamp '{text}Z'"
