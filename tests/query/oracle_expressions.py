"""Checked expressions as DuckDB SQL, with every conversion written out.

DuckDB's own conversions are never relied on: both sides of a comparison or calculation are cast
to the type that the query language computes in.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from omnigraph.language.query.expressions import (
    Aggregate,
    Arithmetic,
    Checked,
    Compare,
    Constant,
    Entity,
    IsNull,
    ListOf,
    Logic,
    Negate,
    Not,
    Now,
    Parameter,
    PropertyOf,
    walk,
)
from omnigraph.language.types import FLOATS, INTEGER_BOUNDS, Scalar, ValueType

#: Per variable the SQL of its row, a struct that is null when an optional variable found nothing.
Columns = dict[str, str]

_TYPES = {
    Scalar.STRING: "VARCHAR",
    Scalar.BOOL: "BOOLEAN",
    Scalar.I32: "INTEGER",
    Scalar.I64: "BIGINT",
    Scalar.U32: "UINTEGER",
    Scalar.U64: "UBIGINT",
    Scalar.F32: "FLOAT",
    Scalar.F64: "DOUBLE",
    Scalar.DATE: "DATE",
    Scalar.DATETIME: "TIMESTAMP",
}


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


class Expressions:
    """Writes the expressions of one request."""

    def __init__(self, parameters: Mapping[str, Any], now: dt.datetime) -> None:
        self.parameters = parameters
        self.now = now

    def output(self, expression: Checked, columns: Columns, grouped: bool) -> str:
        """What is returned; in a group, the keys beside aggregates are the same in all rows."""
        if grouped and any(isinstance(e, Aggregate) for e in walk(expression)):
            return _Grouped(self.parameters, self.now).sql(expression, columns)
        return self.sql(expression, columns)

    def sql(self, expression: Checked, columns: Columns) -> str:
        """An expression of one row."""
        match expression:
            case Constant(value, type):
                return constant(value, type)
            case Parameter(name, type):
                return constant(self.parameters[name], type)
            case Now(type):
                return constant(self.now, type)
            case PropertyOf(variable, property):
                return f"{columns[variable]}[{literal(property)}]"
            case Entity(variable):
                return f"{columns[variable]}['id']"
            case ListOf(items, type):
                assert type is not None
                shown = ", ".join(cast(self.sql(i, columns), type.element) for i in items)
                return f"[{shown}]"
            case Compare():
                return self.compare(expression, columns)
            case Logic(operator, items):
                return f" {operator.upper()} ".join(f"({self.sql(i, columns)})" for i in items)
            case Not(item):
                return f"NOT ({self.sql(item, columns)})"
            case IsNull(item, negated):
                return f"({self.sql(item, columns)}) IS {'NOT ' if negated else ''}NULL"
            case Arithmetic(operator, left, right, type):
                assert type is not None
                a, b = (cast(self.sql(e, columns), type) for e in (left, right))
                return f"({a} / nullif({b}, 0))" if operator == "/" else f"({a} {operator} {b})"
            case Negate(item, type):
                assert type is not None
                return f"(-{cast(self.sql(item, columns), type)})"
        raise AssertionError(expression)

    def compare(self, compared: Compare, columns: Columns) -> str:
        operator, left, right = compared.operator, compared.left, compared.right
        if isinstance(left, Entity) and isinstance(right, Entity):
            a, b = columns[left.variable], columns[right.variable]
            same = f"({a}['#type'] = {b}['#type'] AND {a}['id'] = {b}['id'])"
            return same if operator == "=" else f"(NOT {same})"
        assert left.type is not None and right.type is not None
        if operator == "contains" and left.type.is_list:
            operator, left, right = "in", right, left
        if operator == "in" and isinstance(right, ListOf):
            return self.sql(
                Logic("or", tuple(Compare("=", left, item) for item in right.items)), columns
            )
        a, b = self.sql(left, columns), self.sql(right, columns)
        if operator == "contains":
            return f"contains({a}, {b})"
        if operator == "starts_with":
            return f"starts_with({a}, {b})"
        type = common_type(left, right)
        if operator == "in":
            equal = f"CAST({a} AS {type}) = e"
            found = f"len(list_filter(CAST({b} AS {type}[]), lambda e: {equal})) > 0"
            return f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL ELSE {found} END"
        if right.type is not None and right.type.is_list:
            type += "[]"
        return f"CAST({a} AS {type}) {operator} CAST({b} AS {type})"

    def aggregate(self, made: Aggregate, columns: Columns) -> str:
        argument = made.argument
        sql = self.sql(argument, columns)
        if made.function == "count":
            if isinstance(argument, Entity):
                # Nodes of two types can have the same id.
                row = columns[argument.variable]
                sql = f"{row}['#type'] || ' ' || {row}['id']"
            return f"count({'DISTINCT ' if made.distinct else ''}{sql})"
        if made.function in ("min", "max"):
            return f"{made.function}({sql})"
        assert argument.type is not None and made.type is not None
        total = f"sum(CAST({sql} AS {'DOUBLE' if argument.type.is_float else 'HUGEINT'}))"
        if made.function == "sum":
            return cast(total, made.type)
        return f"(CAST({total} AS DOUBLE) / count({sql}))"


class _Grouped(Expressions):
    """Expressions over a group."""

    def sql(self, expression: Checked, columns: Columns) -> str:
        if isinstance(expression, Aggregate):
            return Expressions(self.parameters, self.now).aggregate(expression, columns)
        text = super().sql(expression, columns)
        return f"first({text})" if isinstance(expression, PropertyOf | Entity) else text


def cast(sql: str, type: ValueType) -> str:
    """A value in a type of the query language."""
    return f"CAST({sql} AS {_TYPES[type.scalar]}{'[]' if type.is_list else ''})"


def constant(value: Any, type: ValueType | None) -> str:
    """A value of a type."""
    if type is None or value is None:
        return "NULL" if type is None else cast("NULL", type)
    if isinstance(value, list):
        return cast(f"[{', '.join(constant(v, type.element) for v in value)}]", type)
    if isinstance(value, dt.datetime):
        value = value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ")
    return cast(literal(str(value)), type)


def common_type(left: Checked, right: Checked) -> str:
    """The type that two values, or the elements of lists, are compared in."""
    assert left.type is not None and right.type is not None
    scalars = {left.type.scalar, right.type.scalar}
    if scalars & FLOATS:
        return "FLOAT" if _is_narrow(left, right) or _is_narrow(right, left) else "DOUBLE"
    if scalars <= INTEGER_BOUNDS.keys():
        return "HUGEINT"
    return _TYPES[left.type.scalar]


def _is_narrow(one: Checked, other: Checked) -> bool:
    """True when a column of F32 compares with floats that are known before."""
    assert one.type is not None and other.type is not None
    floats = one.type.scalar is Scalar.F32 and other.type.scalar is Scalar.F64
    return floats and not _is_known(one) and _is_known(other)


def _is_known(expression: Checked) -> bool:
    return not any(isinstance(e, PropertyOf | Entity) for e in walk(expression))
