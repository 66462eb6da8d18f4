"""What the checker knows about types: of literals, of arithmetic, and what compares with what."""

from __future__ import annotations

import datetime as dt
from typing import Any

from omnigraph.language.query.expressions import Checked, Constant, Entity, ListOf, Parameter
from omnigraph.language.types import BOOL, DATE, DATETIME, F64, I64, STRING, U64, Scalar, ValueType
from omnigraph.language.values import quote

UNSIGNED = frozenset({Scalar.U32, Scalar.U64})
I64_MAX = (1 << 63) - 1
I64_MIN = -(1 << 63)


def literal_type(value: Any) -> ValueType | None:
    """The type of a literal by itself; None for null."""
    match value:
        case None:
            return None
        case bool():
            return BOOL
        case int():
            return U64 if value > I64_MAX else I64
        case float():
            return F64
        case dt.datetime():
            return DATETIME
        case dt.date():
            return DATE
        case _:
            return STRING


def comparable(a: ValueType, b: ValueType) -> bool:
    """True when two single values can be compared at all."""
    if not a.is_scalar or not b.is_scalar:
        return False
    return (a.is_number and b.is_number) or a.scalar is b.scalar


def assignable(source: ValueType, target: ValueType) -> bool:
    """True when values of a type may be stored in another; ranges are checked when they are."""
    if source.is_vector or target.is_vector:
        return source.dimension == target.dimension
    if source.is_list != target.is_list:
        return False
    a, b = source.element, target.element
    if a.is_integer:
        return b.is_number
    if a.is_float:
        return b.is_float
    if source.is_enum and target.is_enum:
        assert source.values is not None and target.values is not None
        return bool(set(source.values) & set(target.values))
    if target.is_blob:
        return a.scalar in (Scalar.BLOB, Scalar.STRING)
    return a.scalar is b.scalar


def is_bool(type: ValueType) -> bool:
    """True for one Bool."""
    return type.is_scalar and type.scalar is Scalar.BOOL


def is_given(checked: Checked) -> bool:
    """True for values known before the query runs."""
    return isinstance(checked, Constant | Parameter)


def is_empty(checked: Checked) -> bool:
    """True for the empty list literal."""
    return isinstance(checked, Constant) and checked.value == []


def empty_like(checked: Checked, other: Checked) -> Checked:
    """The empty list literal as a list of what another list holds; anything else as it is."""
    if is_empty(checked) and other.type is not None and other.type.is_list:
        return Constant([], other.type.as_nullable(False))
    return checked


def arithmetic_type(operator: str, a: ValueType, b: ValueType) -> ValueType:
    """The type of an arithmetic operation on two numbers."""
    nullable = a.nullable or b.nullable
    if operator == "/" or a.is_float or b.is_float:
        type = F64
    elif operator != "-" and a.scalar in UNSIGNED and b.scalar in UNSIGNED:
        type = U64
    else:
        type = I64
    # Dividing by zero gives null rather than an infinity that no filter expects.
    return type.as_nullable(nullable or operator == "/")


def condition_type(*operands: Checked) -> ValueType:
    """The type of a condition: it is null, which is unknown, where one of its operands is null."""
    return BOOL.as_nullable(may_be_null(*operands))


def may_be_null(*operands: Checked) -> bool:
    """True when a value that is computed from these may be null, because one of them may be."""
    return any(map(_may_be_null, operands))


def _may_be_null(operand: Checked) -> bool:
    if isinstance(operand, ListOf):
        # `in` is unknown when an element is.
        return may_be_null(*operand.items)
    return operand.type is None or operand.type.nullable


def cast_hint(left: Checked, right: Checked) -> str | None:
    """Say how to write a literal so that two values compare, if that is what is wrong."""
    for value, other in ((left, right), (right, left)):
        if not isinstance(value, Constant) or other.type is None:
            continue
        if other.type.is_text and isinstance(value.value, bool | int | float):
            return f'text stands in double quotes: "{value}"'
        if not isinstance(value.value, str):
            continue
        if other.type.scalar is Scalar.DATE:
            return f"write `date({quote(value.value)})`"
        if other.type.scalar is Scalar.DATETIME:
            return f"write `datetime({quote(value.value)})`"
        if other.type.is_number or is_bool(other.type):
            return f"write {value.value} without quotes"
    scalars = {e.type.scalar for e in (left, right) if e.type is not None}
    if scalars == {Scalar.DATE, Scalar.DATETIME}:
        return "compare a Date with a Date and a DateTime with a DateTime"
    return None


def shown(type: ValueType) -> str:
    """A type in a message, without its `?`."""
    return str(type.as_nullable(False))


def listing(owner: str, columns: Any) -> str:
    """Say which columns there are, the first of them if there are many."""
    names = list(columns)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{owner} has {', '.join(names[:12])}{more}"


def name_given(checked: Checked) -> str:
    """Name what an expression is where a value that is part of the query is needed."""
    return name_type(checked) if is_given(checked) else "computed for each row"


def name_type(checked: Checked) -> str:
    """Name what an expression is, in a message."""
    if isinstance(checked, Entity):
        names = checked.types[0] if len(checked.types) == 1 else " or ".join(checked.types)
        return f"a {names} {checked.kind}"
    return shown(checked.type) if checked.type is not None else "null"
