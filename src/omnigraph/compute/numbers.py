"""Arithmetic on columns, checked: what does not fit into its type is a fault, never another number.

Integers stay exact. Floats round as IEEE doubles do and never become infinite; dividing by zero
gives null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import scalar
from omnigraph.compute.datum import ComputeFault, Datum, at_row, first_row
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import ValueType
from omnigraph.language.values import show

_EXACT = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_ROUNDED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def fit(values: Datum, type: ValueType) -> Datum:
    """Convert values to another type.

    Numbers become floats by rounding; everything else keeps its value.

    Args:
        values: A column or one value.
        type: The wanted type.

    Raises:
        ComputeFault: A value does not fit into the type.
    """
    target = arrow_type(type)
    if values.type == target:
        return values
    if pa.types.is_floating(target):
        wide = values.cast(target, safe=False)
        _finite(wide, type, lambda row: show(at_row(values, row)))
        return wide
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        row = first_row(lambda part: _raises(part.cast, target), values)
        raise _misfit(show(at_row(values, row)), type, row) from None


def arithmetic(operator: str, left: Datum, right: Datum, type: ValueType) -> Datum:
    """Compute `+ - * /` in the type of the result.

    Raises:
        ComputeFault: An operand or a result does not fit into the type.
    """
    left, right = fit(left, type), fit(right, type)
    if type.is_integer:
        kernel = _EXACT[operator]
        try:
            return kernel(left, right)
        except pa.ArrowInvalid:
            row = first_row(lambda a, b: _raises(kernel, a, b), left, right)
            raise _misfit(_operation(operator, left, right, row), type, row) from None
    if operator == "/":
        # Null for a zero on the right: it is neither an infinity nor an error.
        nothing = scalar(None, right.type)
        right = pc.if_else(pc.equal(right, 0.0), nothing, right)
        result = pc.divide(left, right)
    else:
        result = _ROUNDED[operator](left, right)
    _finite(result, type, lambda row: _operation(operator, left, right, row))
    return result


def negate(item: Datum, type: ValueType) -> Datum:
    """Compute unary minus in the type of the result.

    Raises:
        ComputeFault: The operand or the result does not fit into the type.
    """
    item = fit(item, type)
    try:
        return pc.negate_checked(item)
    except pa.ArrowInvalid:
        row = first_row(lambda part: _raises(pc.negate_checked, part), item)
        raise _misfit(f"-({show(at_row(item, row))})", type, row) from None


def _finite(result: Datum, type: ValueType, shown: Callable[[int | None], str]) -> None:
    """Refuse infinities; null is fine."""
    one = isinstance(result, pa.Scalar)
    finite = pc.fill_null(pc.is_finite(result), True)
    if finite.as_py() if one else pc.all(finite, min_count=0).as_py():
        return
    row = None if one else pc.index(finite, False).as_py()
    raise _misfit(shown(row), type, row)


def _operation(operator: str, left: Datum, right: Datum, row: int | None) -> str:
    return f"{show(at_row(left, row))} {operator} {show(at_row(right, row))}"


def _misfit(what: str, type: ValueType, row: int | None) -> ComputeFault:
    return ComputeFault(f"{what} does not fit into {type.as_nullable(False)}", row)


def _raises(compute: Callable[..., Any], *data: Datum) -> bool:
    try:
        compute(*data)
    except pa.ArrowInvalid:
        return True
    return False
