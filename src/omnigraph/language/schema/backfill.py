"""Checking `@backfill`: the values that rows of the graph get for a new or tightened property.

The expression sees the row as it is before the change, under the names that its properties have
after it; what is dropped has its old name. What comes out names the columns of the accepted table.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from omnigraph.diagnostics import Report
from omnigraph.language.query.check_expression import ExpressionChecker
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
)
from omnigraph.language.query.operand_types import assignable, name_type
from omnigraph.language.query.tree import (
    BareNode,
    BinaryNode,
    CallNode,
    Expression,
    IsNullNode,
    ListNode,
    LogicNode,
    NegateNode,
    NotNode,
    PropertyNode,
    VariableNode,
)
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property, frozen
from omnigraph.language.schema.draft import Backfill
from omnigraph.language.values import ValueFault, coerce


def check_backfill(
    report: Report,
    backfill: Backfill,
    property: Property,
    owner: str,
    accepted: Catalog,
    row: NodeType | EdgeType,
    came_from: Mapping[str, str],
) -> Checked | None:
    """Check a backfill.

    Args:
        report: Where errors go.
        backfill: What the text says.
        property: The property whose values it gives.
        owner: The name of its type.
        accepted: The schema that the graph has.
        row: The type whose rows it sees, as it is there.
        came_from: For each property of the desired type that was there before: its name then.

    Returns:
        The expression, or None after an error.
    """
    if _refuse_variables(report, backfill.expression):
        return None
    names = _visible(row, came_from)
    if _refuse_old_names(report, backfill.expression, names):
        return None
    properties = [replace(row.properties[old], name=new) for new, old in names.items()]
    seen = replace(row, name=owner, properties=frozen(properties))
    checker = ExpressionChecker(report, accepted, {}, place="set", used=set(), row=seen)
    value = checker.check(backfill.expression)
    if value is None:
        return None
    fitting = _fit(report, value, property, backfill)
    return None if fitting is None else _renamed(fitting, names)


def _visible(row: NodeType | EdgeType, came_from: Mapping[str, str]) -> dict[str, str]:
    """The names that an expression can use, with those that the table has."""
    kept = {old: new for new, old in came_from.items()}
    names = {kept[old]: old for old in row.properties if old in kept}
    for old in row.properties:
        if old not in kept:
            names.setdefault(old, old)
    return names


def _refuse_variables(report: Report, node: Expression) -> bool:
    for part in _parts(node):
        if isinstance(part, VariableNode | PropertyNode):
            name = part.name if isinstance(part, VariableNode) else part.property.text
            report.error(
                "OG-SC-168",
                "a backfill sees only the row, and has no variables and parameters",
                part.span,
                f"write the property alone: `{name}`",
            )
            return True
    return False


def _refuse_old_names(report: Report, node: Expression, names: Mapping[str, str]) -> bool:
    """Refuse names that properties had before: another one may have such a name now."""
    renamed = {old: new for new, old in names.items() if old not in names}
    for part in _parts(node):
        if isinstance(part, BareNode) and part.name in renamed:
            name = renamed[part.name]
            report.error(
                "OG-QC-103",
                f"`{part.name}` is called `{name}` in this schema",
                part.span,
                f"a backfill uses the new names: `{name}`",
            )
            return True
    return False


def _parts(node: Expression) -> list[Expression]:
    """An expression and all its parts."""
    every: list[Expression] = [node]
    for part in every:
        match part:
            case BinaryNode():
                every += [part.left, part.right]
            case LogicNode() | ListNode():
                every += part.items
            case NotNode() | IsNullNode() | NegateNode():
                every.append(part.item)
            case CallNode():
                every += part.arguments
    return every


def _fit(report: Report, value: Checked, property: Property, backfill: Backfill) -> Checked | None:
    type, span = property.type, backfill.expression.span
    if isinstance(value, Constant):
        if value.value is None and property.has_default:
            return value
        try:
            return Constant(coerce(value.value, type), type)
        except ValueFault as fault:
            message = f"the backfill does not fit `{property.name}`: {fault.message}"
            report.error("OG-SC-167", message, span, fault.hint)
            return None
    if value.type is None or not assignable(value.type, type):
        report.error(
            "OG-SC-167",
            f"`{property.name}` is {type.as_nullable(False).noun}, but the backfill is"
            f" {name_type(value)}",
            span,
        )
        return None
    return value


def _renamed(expression: Checked, names: Mapping[str, str]) -> Checked:
    """The expression with the names that columns have in the accepted table."""

    def each(items: tuple[Checked, ...]) -> tuple[Checked, ...]:
        return tuple(_renamed(item, names) for item in items)

    match expression:
        case Column(name):
            return replace(expression, name=names.get(name, name))
        case Compare(_, left, right) | Arithmetic(_, left, right):
            return replace(expression, left=_renamed(left, names), right=_renamed(right, names))
        case Logic() | ListOf():
            return replace(expression, items=each(expression.items))
        case Not(item) | IsNull(item) | Negate(item):
            return replace(expression, item=_renamed(item, names))
        case _:
            return expression
