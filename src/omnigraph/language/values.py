"""Typed values: checking values from JSON, Python or a literal against a `ValueType`.

The same rules hold for query parameters, `@default` values and the values of mutations: nothing
is rounded, cut or silently turned into null. The one exception is documented: a DateTime holds
milliseconds, so finer digits of a time are dropped.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import re
from typing import Any

from omnigraph.diagnostics import did_you_mean
from omnigraph.language.types import INTEGER_BOUNDS, Scalar, ValueType

#: A checked value: str, bool, int, float, date, datetime (UTC), bytes, list of these, or None.
Value = Any

# `re` compiles them when they are first needed, and keeps them.
_INTEGER_TEXT = r"-?[0-9]{1,20}"
_DATE_TEXT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATETIME_TEXT = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    r"(Z|z|[+-][0-9]{2}:?[0-9]{2})?"
)
#: The largest number that rounds to a finite F32. The largest F32 itself is a bit less, but its
#: shortest text, 3.4028235e38, is more.
_F32_MAX = 3.4028235677973362e38
_SHOWN = 60


class ValueFault(Exception):
    """A value does not fit a type. `hint` says what would."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def coerce(value: object, type: ValueType) -> Value:
    """Check a plain value against a type and give it in canonical form.

    Args:
        value: A value from JSON or Python. NumPy scalars and arrays are taken as plain values.
        type: What it has to be.

    Raises:
        ValueFault: The value does not fit.
    """
    if value is None:
        if type.nullable:
            return None
        raise ValueFault(f"null is not {type.noun}", f"only `{type}?` can be null")
    value = _plain(value)
    if type.is_vector:
        return _vector(value, type)
    if type.is_list:
        if not isinstance(value, list | tuple):
            raise _misfit(value, type, f"give a list, such as [{_EXAMPLES[type.scalar]}]")
        element = type.element
        return [_element(v, element, i) for i, v in enumerate(value)]
    if type.values is not None:
        if isinstance(value, str) and value in type.values:
            return value
        hint = did_you_mean(value, type.values) if isinstance(value, str) else None
        raise _misfit(value, type, hint or f"allowed are {', '.join(type.values[:20])}")
    return _SCALARS[type.scalar](value, type)


def _plain(value: object) -> object:
    """Return the plain value of a NumPy scalar or array."""
    if hasattr(value, "tolist") and not isinstance(value, memoryview):
        return value.tolist()
    return value


def _element(value: object, element: ValueType, index: int) -> Value:
    if value is None:
        raise ValueFault(f"element {index} is null", "a list cannot hold null")
    try:
        return coerce(value, element)
    except ValueFault as fault:
        raise ValueFault(f"element {index}: {fault.message}", fault.hint) from None


def _vector(value: object, type: ValueType) -> list[float]:
    if not isinstance(value, list | tuple):
        raise _misfit(value, type, f"give a list of {type.dimension} numbers")
    if len(value) != type.dimension:
        raise ValueFault(
            f"the vector has {len(value)} numbers,"
            f" {type.as_nullable(False)} needs {type.dimension}",
            "use the embedding model that the property was made for",
        )
    numbers: list[float] = []
    for index, item in enumerate(map(_plain, value)):
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise ValueFault(f"element {index}: {show(item)} is not a number")
        try:
            number = float(item)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or abs(number) > _F32_MAX:
            raise ValueFault(f"element {index}: {show(item)} is not a finite 32-bit number")
        numbers.append(number)
    return numbers


def _string(value: object, type: ValueType) -> str:
    if not isinstance(value, str):
        raise _misfit(value, type, "give text in quotes")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueFault(
                "the text is not valid Unicode", "it has half a surrogate pair"
            ) from None
    return value


def _bool(value: object, type: ValueType) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, type, "give true or false")
    return value


def _integer(value: object, type: ValueType) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        hint = None
        if isinstance(value, float):
            hint = "give a whole number; large ones may be written as text"
        raise _misfit(value, type, hint)
    if isinstance(value, str):
        # JSON readers in many languages lose precision above 2^53: text is the safe way.
        if not re.fullmatch(_INTEGER_TEXT, value):
            raise _misfit(value, type, "give a whole number")
        value = int(value)
    low, high = INTEGER_BOUNDS[type.scalar]
    if not low <= value <= high:
        raise ValueFault(
            f"{show(value)} is out of range for {type.scalar}", f"it holds {low} to {high}"
        )
    return value


def _float(value: object, type: ValueType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _misfit(value, type, "give a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueFault(f"{show(value)} is not a finite number")
    if type.scalar is Scalar.F32 and abs(number) > _F32_MAX:
        raise ValueFault(f"{show(value)} is out of range for F32", "use F64 for large numbers")
    return number


def _date(value: object, type: ValueType) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    if isinstance(value, str) and re.fullmatch(_DATE_TEXT, value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise ValueFault(f"{show(value)} is not a day of the calendar") from None
    raise _misfit(value, type, "give a date as YYYY-MM-DD")


def _datetime(value: object, type: ValueType) -> dt.datetime:
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise ValueFault("the time has no zone", "pass a datetime with tzinfo, such as UTC")
        return _in_utc(value)
    parts = re.fullmatch(_DATETIME_TEXT, value) if isinstance(value, str) else None
    if parts is None:
        raise _misfit(value, type, "give a time as YYYY-MM-DDTHH:MM:SSZ")
    if parts[3] is None:
        raise ValueFault(f"{show(value)} has no zone", "end it in Z (UTC) or an offset like +02:00")
    zone = "+00:00" if parts[3] in "Zz" else parts[3]
    day, clock = parts[1], parts[2]
    if "." in clock:
        whole, digits = clock.split(".")
        clock = f"{whole}.{digits[:3].ljust(3, '0')}"
    try:
        return _in_utc(dt.datetime.fromisoformat(f"{day}T{clock}{zone}"))
    except (ValueError, OverflowError):
        raise ValueFault(f"{show(value)} is not a time of the calendar") from None


def _in_utc(value: dt.datetime) -> dt.datetime:
    try:
        value = value.astimezone(dt.UTC)
    except OverflowError:
        raise ValueFault(f"{value.isoformat()} is out of range for DateTime") from None
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _blob(value: object, type: ValueType) -> bytes | str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise _misfit(value, type, "give base64:… text, or bytes")
    if value.startswith("base64:"):
        try:
            return base64.b64decode(value[7:], validate=True)
        except (binascii.Error, ValueError):
            raise ValueFault("the text after base64: is not base64") from None
    return _string(value, type)


_SCALARS = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _bool,
    Scalar.I32: _integer,
    Scalar.I64: _integer,
    Scalar.U32: _integer,
    Scalar.U64: _integer,
    Scalar.F32: _float,
    Scalar.F64: _float,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
}
_EXAMPLES = {
    Scalar.STRING: '"a", "b"',
    Scalar.BLOB: '"base64:…"',
    Scalar.BOOL: "true, false",
    Scalar.I32: "1, 2",
    Scalar.I64: "1, 2",
    Scalar.U32: "1, 2",
    Scalar.U64: "1, 2",
    Scalar.F32: "1.5, 2.5",
    Scalar.F64: "1.5, 2.5",
    Scalar.DATE: '"2026-01-31"',
    Scalar.DATETIME: '"2026-01-31T12:00:00Z"',
}


def to_json(value: Value) -> Any:
    """Return a checked value as plain JSON; `coerce` with the same type reads it back."""
    if isinstance(value, dt.datetime):
        return datetime_text(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, list):
        return [to_json(v) for v in value]
    return value


def literal_text(value: Value) -> str:
    """Write a checked value as both languages write literals."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dt.datetime):
        return f"datetime({quote(datetime_text(value))})"
    if isinstance(value, dt.date):
        return f"date({quote(value.isoformat())})"
    if isinstance(value, list):
        return f"[{', '.join(literal_text(v) for v in value)}]"
    return quote(to_json(value))


def float_text(value: float) -> str:
    """Write a float so that it reads back as the same float, and as a float."""
    text = repr(value)
    if "e" in text or "." in text:
        return text
    return text + ".0"


def datetime_text(value: dt.datetime) -> str:
    """Write a UTC time in ISO form, with milliseconds only where there are some."""
    spec = "milliseconds" if value.microsecond else "seconds"
    return value.replace(tzinfo=None).isoformat(timespec=spec) + "Z"


def quote(text: str) -> str:
    """Write text as a string literal of both languages."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def show(value: object) -> str:
    """Show a value in a message, cut when long."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > 256:
        return "the number"
    if isinstance(value, dt.date) and (
        not isinstance(value, dt.datetime) or (value.tzinfo is not None and not value.utcoffset())
    ):
        return literal_text(value)
    try:
        text = quote(value) if isinstance(value, str) and value.isprintable() else repr(value)
    except (ValueError, RecursionError):
        # A number with very many digits, or lists in lists in lists.
        return f"the {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _misfit(value: object, type: ValueType, hint: str | None = None) -> ValueFault:
    return ValueFault(f"{show(value)} is not {type.as_nullable(False).noun}", hint)
