"""What expressions mean, row by row in plain Python: slow, short and independent of Arrow."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

from omnigraph.compute.evaluate import Bindings
from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Column,
    Compare,
    Constant,
    IsNull,
    ListOf,
    Logic,
    Negate,
    Not,
    Now,
    Parameter,
    walk,
)
from omnigraph.language.types import FLOATS, INTEGER_BOUNDS, Scalar, ValueType


class Fault(Exception):
    """The row has no value."""


def single(number: float) -> float:
    """The nearest F32."""
    return ctypes.c_float(number).value


def compute(expression: Checked, row: Mapping[str, Any], given: Bindings) -> Any:
    """The value of an expression in one row; None is null."""
    match expression:
        case Constant(value, type):
            return _typed(value, type)
        case Parameter(name, type):
            return _typed(given.parameters[name], type)
        case Now():
            return given.now
        case Column(name):
            return row[name]
        case ListOf(items, type):
            assert type is not None
            values = [_fit(compute(i, row, given), type.element) for i in items]
            if None in values:
                raise Fault
            return values
        case Compare():
            return _compare(expression, row, given)
        case Logic(operator, items):
            deciding = operator == "or"
            values = [compute(i, row, given) for i in items]
            if deciding in values:
                return deciding
            return None if None in values else not deciding
        case Not(item):
            value = compute(item, row, given)
            return None if value is None else not value
        case IsNull(item, negated):
            return (compute(item, row, given) is None) is not negated
        case Arithmetic(operator, left, right, type):
            assert type is not None
            a = _fit(compute(left, row, given), type)
            b = _fit(compute(right, row, given), type)
            return _arithmetic(operator, a, b, type)
        case Negate(item, type):
            assert type is not None
            value = _fit(compute(item, row, given), type)
            return None if value is None else _fit(-value, type)
    raise AssertionError(expression)


def is_known(expression: Checked) -> bool:
    return not any(isinstance(e, Column) for e in walk(expression))


def _typed(value: Any, type: ValueType | None) -> Any:
    if type is None or type.scalar not in FLOATS or value is None:
        return value
    number = single if type.scalar is Scalar.F32 else float
    return [number(v) for v in value] if isinstance(value, list) else number(value)


def _fit(value: Any, type: ValueType) -> Any:
    if value is None or not type.is_number:
        return value
    if type.is_float:
        if type.scalar is Scalar.F32 and not math.isfinite(single(value)):
            raise Fault
        return float(value)
    low, high = INTEGER_BOUNDS[type.scalar]
    if value != math.floor(value) or not low <= value <= high:
        raise Fault
    return int(value)


def _arithmetic(operator: str, a: Any, b: Any, type: ValueType) -> Any:
    if a is None or b is None:
        return None
    if operator == "/":
        result = a / b if b else None
    else:
        result = a + b if operator == "+" else a - b if operator == "-" else a * b
    if isinstance(result, float) and not math.isfinite(result):
        raise Fault
    return _fit(result, type)


def _compare(expression: Compare, row: Mapping[str, Any], given: Bindings) -> Any:
    operator, left, right = expression.operator, expression.left, expression.right
    assert left.type is not None and right.type is not None
    if operator == "contains" and left.type.is_list:
        operator, left, right = "in", right, left
    if operator == "in" and isinstance(right, ListOf):
        return compute(Logic("or", tuple(Compare("=", left, i) for i in right.items)), row, given)
    a, b = compute(left, row, given), compute(right, row, given)
    if a is None or b is None:
        return None
    if operator == "contains":
        return b in a
    if operator == "starts_with":
        return a.startswith(b)
    assert left.type is not None and right.type is not None
    narrow = _narrow(left, right) or _narrow(right, left)
    if operator == "in":
        return any(_holds("=", a, v, narrow) for v in b)
    if left.type.is_list:
        same = len(a) == len(b) and all(
            _holds("=", x, y, narrow) for x, y in zip(a, b, strict=True)
        )
        return same is (operator == "=")
    return _holds(operator, a, b, narrow)


def _narrow(one: Checked, other: Checked) -> bool:
    """True when a column of F32 compares with floats that are known."""
    assert one.type is not None and other.type is not None
    floats = one.type.scalar is Scalar.F32 and other.type.scalar is Scalar.F64
    return floats and not is_known(one) and is_known(other)


def _holds(operator: str, a: Any, b: Any, narrow: bool) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        a, b = (single(a), single(b)) if narrow else (float(a), float(b))
    elif isinstance(a, str):
        a, b = a.encode(), b.encode()
    match operator:
        case "=":
            return bool(a == b)
        case "!=":
            return bool(a != b)
        case "<":
            return bool(a < b)
        case "<=":
            return bool(a <= b)
        case ">":
            return bool(a > b)
        case _:
            return bool(a >= b)
