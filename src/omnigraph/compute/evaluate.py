"""The value of a checked expression, computed on whole columns.

This is what an expression means, wherever it stands: null is unknown (three-valued logic, and
only true matches), numbers compare by their value, and a result that does not fit into its type
is a fault. No path loops over rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.compute import comparison, texts
from omnigraph.compute.arrays import FALSE, as_arrow, filled, one_array, scalar
from omnigraph.compute.datum import ComputeFault, Datum, broadcast
from omnigraph.compute.numbers import arithmetic, fit, negate
from omnigraph.language.query import expressions as expr
from omnigraph.language.query.expressions import Checked
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import FLOATS, Scalar, ValueType
from omnigraph.language.values import Value

__all__ = ["Bindings", "Columns", "ComputeFault", "evaluate", "fit", "matches", "value"]

#: Gives the column that a name stands for.
Columns = Callable[[expr.Column | expr.PropertyOf | expr.Entity], pa.Array | pa.ChunkedArray]


class Bindings(Struct, frozen=True):
    """The values that expressions of one request refer to.

    Args:
        parameters: Values by name, as `bind_parameters` returns them.
        now: The moment of the request in UTC, to the millisecond.
    """

    parameters: Mapping[str, Value]
    now: dt.datetime


def evaluate(expression: Checked, columns: Columns, rows: int, bindings: Bindings) -> pa.Array:
    """Compute an expression for each row.

    Args:
        expression: Any expression but aggregates and search functions.
        columns: Gives the columns that the expression names, all of `rows` length. An entity's
            column holds ids.
        rows: The number of rows.
        bindings: Parameters and time.

    Returns:
        A column of `rows` values in the Arrow type of the expression; texts of a column with
        offsets of 64 bits, which may be too many for another one, keep these.

    Raises:
        ComputeFault: A result does not fit into its type.
    """
    return broadcast(_Evaluation(columns, bindings).datum(expression), rows)


def matches(
    expression: Checked, columns: Columns, rows: int, bindings: Bindings
) -> pa.BooleanArray:
    """Say for which rows a condition is true; what is unknown is not true.

    Args:
        expression: A condition.
        columns: Gives the columns that the expression names.
        rows: The number of rows.
        bindings: Parameters and time.

    Returns:
        `rows` times true or false, never null.

    Raises:
        ComputeFault: A result does not fit into its type.
    """
    truth = _Evaluation(columns, bindings).datum(expression)
    if isinstance(truth, pa.Scalar):
        return broadcast(pc.fill_null(truth, FALSE), rows)
    return broadcast(filled(truth, False), rows)


def value(expression: Checked, bindings: Bindings) -> Value:
    """Compute an expression that names no columns.

    Args:
        expression: The expression.
        bindings: Parameters and time.

    Returns:
        Its plain value.

    Raises:
        ComputeFault: A result does not fit into its type.
    """
    match expression:
        case expr.Constant():
            return _canonical(expression.value, expression.type)
        case expr.Parameter():
            return _canonical(bindings.parameters[expression.name], expression.type)
        case expr.Now():
            return bindings.now
        case _:
            plain = _Evaluation(_no_columns, bindings).datum(expression).as_py()
            if isinstance(expression, expr.ListOf) and isinstance(plain[0], dt.datetime):
                # Arrow has its own object for UTC.
                return [moment.replace(tzinfo=dt.UTC) for moment in plain]
            return plain


def _no_columns(named: expr.Column | expr.PropertyOf | expr.Entity) -> pa.Array:
    raise TypeError(f"`{named}` has no single value")


class _Evaluation(Struct, frozen=True):
    """Computes parts of an expression: one scalar for all rows as long as no column takes part."""

    columns: Columns
    bindings: Bindings

    def datum(self, expression: Checked) -> Datum:
        match expression:
            case expr.Constant() | expr.Parameter() | expr.Now():
                return _scalar(value(expression, self.bindings), expression.type)
            case expr.Column() | expr.PropertyOf() | expr.Entity():
                return self.column(expression)
            case expr.ListOf():
                return self.list(expression)
            case expr.Compare():
                return self.compare(expression)
            case expr.Logic():
                kernel = pc.and_kleene if expression.operator == "and" else pc.or_kleene
                return reduce(kernel, map(self.datum, expression.items))
            case expr.Not():
                return pc.invert(self.datum(expression.item))
            case expr.IsNull():
                item = self.datum(expression.item)
                return pc.is_valid(item) if expression.negated else pc.is_null(item)
            case expr.Arithmetic(operator, left, right, type):
                assert type is not None
                return arithmetic(operator, self.datum(left), self.datum(right), type)
            case expr.Negate(item, type):
                assert type is not None
                return negate(self.datum(item), type)
            case _:
                kind = expression.__class__.__name__
                raise TypeError(f"{kind} is not computed row by row: `{expression}`")

    def column(self, named: expr.Column | expr.PropertyOf | expr.Entity) -> pa.Array:
        array = one_array(self.columns(named))
        if named.type is None:
            return array
        type = arrow_type(named.type)
        if array.type == type or _are_large_texts(array.type):
            return array
        return array.cast(type)

    def compare(self, expression: expr.Compare) -> Datum:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator == "in":
            return self.membership(left, right)
        if operator == "contains" and left.type is not None and left.type.is_list:
            return self.membership(right, left)
        if operator == "contains":
            return texts.contains(self.datum(left), self.datum(right))
        if operator == "starts_with":
            return texts.starts_with(self.datum(left), self.datum(right))
        return comparison.compare(operator, self.datum(left), self.datum(right))

    def membership(self, item: Checked, members: Checked) -> Datum:
        one = self.datum(item)
        if not isinstance(members, expr.ListOf):
            return comparison.is_in(one, self.datum(members))
        # Each element compares by its own type, and an unknown one leaves the answer unknown.
        equal = (comparison.compare("=", one, self.datum(m)) for m in members.items)
        return reduce(pc.or_kleene, equal)

    def list(self, expression: expr.ListOf) -> Datum:
        assert expression.type is not None
        element = expression.type.element
        items = [fit(self.datum(i), element) for i in expression.items]
        for index, item in enumerate(items):
            _refuse_null(item, index)
        sizes = [len(i) for i in items if not isinstance(i, pa.Scalar)]
        rows = sizes[0] if sizes else 1
        # The columns one after another, taken row by row.
        order = np.arange(rows * len(items)).reshape(len(items), rows).T.ravel()
        flat = pa.concat_arrays([broadcast(i, rows) for i in items]).take(as_arrow(order))
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(items))
        lists = pa.ListArray.from_arrays(as_arrow(offsets), flat)
        return lists if sizes else lists[0]


def _are_large_texts(type: pa.DataType) -> bool:
    """True for texts, and lists of texts, that do not fit into a column of the usual type."""
    return bool(pa.types.is_large_string(type.value_type if pa.types.is_list(type) else type))


def _refuse_null(item: Datum, index: int) -> None:
    row: int | None = None
    if isinstance(item, pa.Scalar):
        if item.is_valid:
            return
    else:
        if item.null_count == 0:
            return
        row = pc.index(pc.is_null(item), True).as_py()
    raise ComputeFault(f"element {index} is null, and a list cannot hold null", row)


def _scalar(value: Value, type: ValueType | None) -> pa.Scalar:
    if type is None:
        return pa.nulls(1)[0]
    if type.is_blob and value is not None:
        value = {"uri": value} if isinstance(value, str) else {"data": value}
    return scalar(value, arrow_type(type))


def _canonical(value: Value, type: ValueType | None) -> Value:
    """Convert numbers to their type: `[1, 2.5]` is a list of floats, 0.1 may be F32."""
    if type is None or type.scalar not in FLOATS or value is None:
        return value
    number = float if type.scalar is Scalar.F64 else _single
    return [number(v) for v in value] if isinstance(value, list) else number(value)


def _single(value: float) -> float:
    return float(np.float32(value))
