"""The part of a condition that Lance can filter by, as SQL.

The rows for which the SQL is true contain all rows for which the condition is true, and are the
same rows when the answer is exact. Only what certainly means the same there is pushed: a column
against a value that is known before the scan. `not` moves inwards to the comparisons, so that
only `true` has to agree, never `false` or unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec import Struct

from omnigraph.compute.comparison import FLIPPED
from omnigraph.compute.evaluate import Bindings, value
from omnigraph.compute.sql import element_literal, is_in, literal, quoted
from omnigraph.language.query import expressions as expr
from omnigraph.language.query.expressions import Checked
from omnigraph.language.types import INTEGER_BOUNDS, Scalar, ValueType
from omnigraph.language.values import Value

#: Gives the physical name of a column, or None when it is not one of the scanned table.
Names = Callable[[expr.Column | expr.PropertyOf | expr.Entity], str | None]

# Lance's SQL parser gives up on deep nesting and overflows its stack on very many terms.
_DEPTH = 16
_TERMS = 500

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_KNOWN = (
    expr.Constant, expr.Parameter, expr.Now, expr.ListOf, expr.Compare, expr.Logic, expr.Not,
    expr.IsNull, expr.Arithmetic, expr.Negate,
)  # fmt: skip
#: Below it, the integers that become a float of this size are exactly these floats.
_EXACT_FLOAT = float(1 << 53)
_NARROW = frozenset({Scalar.I32, Scalar.U32})


class Pushed(Struct, frozen=True):
    """A filter for Lance.

    Args:
        sql: True for all rows for which the condition is true.
        exact: True for no other rows: the condition need not be tested again.
    """

    sql: str
    exact: bool


_ALWAYS = Pushed("true", exact=True)
_NEVER = Pushed("false", exact=True)


def push_down(expression: Checked, bindings: Bindings, name: Names) -> Pushed | None:
    """Write as much of a condition as possible as a filter for Lance.

    Args:
        expression: A condition.
        bindings: Parameters and time.
        name: Gives the physical names of columns.

    Returns:
        The filter, or None when no part of the condition can be pushed.

    Raises:
        ComputeFault: A value that the condition compares with does not fit into its type.
    """
    return _Push(bindings, name).condition(expression, negated=False, depth=0)


class _Push(Struct):
    bindings: Bindings
    name: Names
    terms: int = 0

    def condition(self, expression: Checked, *, negated: bool, depth: int) -> Pushed | None:
        if isinstance(expression, expr.Not):
            return self.condition(expression.item, negated=not negated, depth=depth)
        if _is_known(expression):
            return _ALWAYS if value(expression, self.bindings) is (not negated) else _NEVER
        if isinstance(expression, expr.Logic):
            return self.logic(expression, negated=negated, depth=depth)
        if isinstance(expression, expr.Compare) and (any_of := _unlisted(expression)) is not None:
            return self.logic(any_of, negated=negated, depth=depth)
        self.terms += 1
        if self.terms > _TERMS or depth > _DEPTH:
            return None
        sql = self.term(expression, negated=negated)
        return Pushed(sql, exact=True) if sql is not None else None

    def logic(self, expression: expr.Logic, *, negated: bool, depth: int) -> Pushed | None:
        both = (expression.operator == "and") is not negated
        items = [
            self.condition(i, negated=negated, depth=depth + 1)
            for i in _joined(expression, expression.operator)
        ]
        return _all_of(items) if both else _any_of(items)

    def term(self, expression: Checked, *, negated: bool) -> str | None:
        match expression:
            case expr.Compare():
                return self.compare(expression, negated=negated)
            case expr.IsNull(item, is_not) if (column := self.column(item)) is not None:
                return _is_null(column) if is_not is negated else _is_not_null(column)
            case expr.Column() | expr.PropertyOf() if (
                column := self.column(expression)
            ) is not None:
                return f"{quoted(column)} = {'false' if negated else 'true'}"
            case _:
                return None

    def compare(self, expression: expr.Compare, *, negated: bool) -> str | None:
        operator, left, right = expression.operator, expression.left, expression.right
        if operator == "in":
            return self.membership(left, right, negated=negated)
        if operator == "contains" and left.type is not None and left.type.is_list:
            return self.membership(right, left, negated=negated)
        if operator in FLIPPED and _is_known(left):
            operator, left, right = FLIPPED[operator], right, left
        column = self.column(left)
        if column is None or left.type is None or not _is_known(right):
            return None
        other = value(right, self.bindings)
        if other is None:
            return "false"
        if operator in FLIPPED:
            operator = _NEGATED[operator] if negated else operator
            return _compare(column, operator, other, left.type)
        call = f"{operator}({quoted(column)}, {literal(other, left.type.element)})"
        return f"not {call}" if negated else call

    def membership(self, item: Checked, members: Checked, *, negated: bool) -> str | None:
        """Write that a column is in a known list, or a known value in a column of lists."""
        looked, known = (item, members) if _is_known(members) else (members, item)
        column = self.column(looked)
        if column is None or looked.type is None or not _is_known(known):
            return None
        known_value = value(known, self.bindings)
        if known_value is None:
            return "false"
        if looked is members:
            return _has(column, known_value, looked.type, negated=negated)
        return _one_of(column, known_value, looked.type, negated=negated)

    def column(self, expression: Checked) -> str | None:
        if isinstance(expression, expr.Column | expr.PropertyOf | expr.Entity):
            return self.name(expression)
        return None


# --- whole conditions ---


def _is_known(expression: Checked) -> bool:
    """True for what has one value for the whole request."""
    return all(isinstance(part, _KNOWN) for part in expr.walk(expression))


def _joined(expression: expr.Logic, operator: str) -> Iterable[Checked]:
    """Return the items of `and` in `and`, `or` in `or`, without the inner ones' nesting."""
    for item in expression.items:
        if isinstance(item, expr.Logic) and item.operator == operator:
            yield from _joined(item, operator)
        else:
            yield item


def _unlisted(expression: expr.Compare) -> expr.Logic | None:
    """Turn membership in a written list into comparisons; None when it is something else."""
    item, members = expression.left, expression.right
    if expression.operator == "contains":
        item, members = members, item
    if expression.operator not in ("in", "contains") or not isinstance(members, expr.ListOf):
        return None
    return expr.Logic("or", tuple(expr.Compare("=", item, m) for m in members.items))


def _all_of(items: list[Pushed | None]) -> Pushed | None:
    pushed = [i for i in items if i is not None]
    if _NEVER in pushed:
        return _NEVER
    filters = [i for i in pushed if i != _ALWAYS]
    exact = len(pushed) == len(items) and all(i.exact for i in filters)
    if not filters:
        return _ALWAYS if exact else None
    return Pushed(_join(filters, "and"), exact)


def _any_of(items: list[Pushed | None]) -> Pushed | None:
    if _ALWAYS in items:
        return _ALWAYS
    filters = []
    for item in items:
        if item is None:
            return None
        if item != _NEVER:
            filters.append(item)
    if not filters:
        return _NEVER
    # Lance takes `x not in (a) or x not in (b)` for true, also where x is null.
    excluding = sum("not (" in i.sql and " in (" in i.sql for i in filters)
    return Pushed(_join(filters, "or"), excluding < 2 and all(i.exact for i in filters))


def _join(filters: list[Pushed], operator: str) -> str:
    if len(filters) == 1:
        return filters[0].sql
    return f" {operator} ".join(f"({i.sql})" for i in filters)


# --- one column and one value ---


def _is_null(column: str) -> str:
    return f"{quoted(column)} is null"


def _is_not_null(column: str) -> str:
    return f"{quoted(column)} is not null"


def _compare(column: str, operator: str, other: Value, type: ValueType) -> str | None:
    if not type.is_scalar or type.scalar is Scalar.F32:
        return None
    if type.is_integer:
        bound = _integer_bound(operator, other, type)
        if bound is None:
            return None
        operator, other = bound
        low, high = INTEGER_BOUNDS[type.scalar]
        if not low <= other <= high:
            return _beyond(column, operator, above=other > high)
    return f"{quoted(column)} {operator} {literal(other, type.element)}"


def _integer_bound(operator: str, other: Value, type: ValueType) -> tuple[str, int] | None:
    """Turn a comparison of integers with a float into one with an integer.

    None when the float is so large that different integers become the same float.
    """
    if isinstance(other, int):
        return operator, other
    if type.scalar not in _NARROW and abs(other) >= _EXACT_FLOAT:
        return None
    if other.is_integer():
        return operator, int(other)
    if operator in ("<", ">="):
        return operator, math.ceil(other)
    if operator in ("<=", ">"):
        return operator, math.floor(other)
    # No integer equals a fraction, as none equals what is out of range.
    return operator, INTEGER_BOUNDS[type.scalar][1] + 1


def _beyond(column: str, operator: str, *, above: bool) -> str:
    """Compare with a number that is above, or below, all numbers of the column."""
    true = operator == "!=" or operator in (("<", "<=") if above else (">", ">="))
    return _is_not_null(column) if true else "false"


def _one_of(column: str, members: list[Value], type: ValueType, *, negated: bool) -> str | None:
    if not type.is_scalar or type.scalar is Scalar.F32:
        return None
    if type.is_integer:
        bounds = [_integer_bound("=", m, type) for m in members]
        low, high = INTEGER_BOUNDS[type.scalar]
        if None in bounds:
            return None
        members = [b[1] for b in bounds if b is not None and low <= b[1] <= high]
    if not members:
        return _is_not_null(column) if negated else "false"
    sql = is_in(column, members, type.element)
    return f"not ({sql})" if negated else sql


def _has(column: str, item: Value, type: ValueType, *, negated: bool) -> str | None:
    """Write that a column of lists has an element."""
    if type.scalar is Scalar.F32 or (type.scalar is Scalar.F64 and item == 0):
        # Lance tells 0.0 from -0.0 in lists.
        return None
    if type.element.is_integer:
        bound = _integer_bound("=", item, type.element)
        if bound is None:
            return None
        low, high = INTEGER_BOUNDS[type.scalar]
        item = bound[1]
        if not low <= item <= high:
            return _is_not_null(column) if negated else "false"
    call = f"array_has({quoted(column)}, {element_literal(item, type)})"
    return f"not {call}" if negated else call
