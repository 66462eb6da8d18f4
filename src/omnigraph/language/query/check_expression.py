"""Type checking of expressions: tree → checked expression, or recorded errors and None."""

from __future__ import annotations

from typing import Any, Literal

from omnigraph.diagnostics import Report, Span, did_you_mean
from omnigraph.language.query import expressions as expr
from omnigraph.language.query import tree
from omnigraph.language.query.check_function import FunctionChecker
from omnigraph.language.query.expressions import Checked
from omnigraph.language.query.operand_types import (
    I64_MIN,
    arithmetic_type,
    cast_hint,
    comparable,
    condition_type,
    empty_like,
    is_bool,
    is_empty,
    listing,
    literal_type,
    name_type,
    shown,
)
from omnigraph.language.query.scope import Scope
from omnigraph.language.query.tree import Expression
from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.language.syntax import LiteralNode
from omnigraph.language.types import F64, I64, STRING, U64, ValueType
from omnigraph.language.values import show

#: Where an expression stands decides what may be in it.
Place = Literal["filter", "return", "order", "predicate", "value", "set"]


class ExpressionChecker:
    """Checks the expressions of one query at one place.

    Args:
        report: Where errors go.
        catalog: The schema.
        parameters: Declared parameters; a type of None means that the declaration is wrong.
        scope: Bound variables, for reads.
        row: The type whose properties bare names mean, for mutations.
        place: Where the expression stands.
        lenient: Do not report unknown variables: part of the query could not be parsed.
        used: Collects the parameters that were mentioned.
    """

    __slots__ = ("catalog", "lenient", "parameters", "place", "report", "row", "scope", "used")

    def __init__(
        self,
        report: Report,
        catalog: Catalog,
        parameters: dict[str, ValueType | None],
        *,
        place: Place,
        used: set[str],
        scope: Scope | None = None,
        row: NodeType | EdgeType | None = None,
        lenient: bool = False,
    ) -> None:
        self.report = report
        self.catalog = catalog
        self.parameters = parameters
        self.place = place
        self.used = used
        self.scope = scope
        self.row = row
        self.lenient = lenient

    def condition(self, node: Expression) -> Checked | None:
        """Check an expression that has to be true or false."""
        checked = self.check(node)
        if checked is None:
            return None
        if isinstance(checked, expr.Entity) or checked.type is None or not is_bool(checked.type):
            self.error(
                "OG-QC-121",
                f"a condition is true or false, this is {name_type(checked)}",
                node.span,
                "compare it with something: `… = …`",
            )
            return None
        return checked

    def check(self, node: Expression) -> Checked | None:
        """Check any expression."""
        match node:
            case LiteralNode():
                return self.literal(node)
            case tree.PropertyNode():
                return self.property(node)
            case tree.VariableNode():
                return self.variable(node)
            case tree.BinaryNode():
                if node.operator in "+-*/":
                    return self.arithmetic(node)
                return self.comparison(node)
            case tree.LogicNode():
                items = [self.condition(item) for item in node.items]
                good = [item for item in items if item is not None]
                if len(good) < len(items):
                    return None
                return expr.Logic(node.operator, tuple(good), condition_type(*good))
            case tree.NotNode():
                inner = self.condition(node.item)
                return expr.Not(inner, condition_type(inner)) if inner is not None else None
            case tree.IsNullNode():
                item = self.check(node.item)
                return expr.IsNull(item, node.negated) if item is not None else None
            case tree.NegateNode():
                return self.negate(node)
            case tree.BareNode():
                return self.bare(node)
            case tree.ListNode():
                return self.list(node)
            case tree.CallNode():
                return FunctionChecker(self).call(node)

    # --- names ---

    def variable(self, node: tree.VariableNode) -> Checked | None:
        if node.name in self.parameters:
            self.used.add(node.name)
            type = self.parameters[node.name]
            if type is None:
                return None
            if type.is_blob and self.place not in ("value", "set"):
                self.refuse_blob(
                    f"${node.name}", node.span, "a blob can only be assigned to a property"
                )
                return None
            return expr.Parameter(node.name, type)
        if node.name == "_":
            self.error(
                "OG-QC-107",
                "`$_` stands for anything and has no value",
                node.span,
                "give the variable a name",
            )
            return None
        variable = self.scope.find(node.name) if self.scope is not None else None
        if variable is None:
            self.unknown_variable(node)
            return None
        if variable.kind == "broken":
            return None
        return expr.Entity(
            variable.name, variable.kind, variable.types, STRING.as_nullable(variable.nullable)
        )

    def unknown_variable(self, node: tree.VariableNode) -> None:
        if self.lenient:
            return
        if self.scope is not None and self.scope.is_hidden(node.name):
            self.error(
                "OG-QC-115",
                f"`${node.name}` is bound only inside a `not` block",
                node.span,
                "what must not be there has no value; bind it outside, or use `optional`",
            )
            return
        known = [*(self.scope.names() if self.scope else ()), *self.parameters]
        where = "a parameter" if self.scope is None else "a parameter nor bound in `match`"
        self.error(
            "OG-QC-104",
            f"`${node.name}` is {'not' if self.scope is None else 'neither'} {where}",
            node.span,
            did_you_mean(node.name, known, "$") or self.declare_hint(node.name),
        )

    def declare_hint(self, name: str) -> str:
        bind = f"bind it in `match`: `${name}: Type`; or " if self.scope is not None else ""
        return f"{bind}declare it in the query's head: `${name}: String`"

    def property(self, node: tree.PropertyNode) -> Checked | None:
        name = node.variable.name
        if name in self.parameters:
            self.used.add(name)
            self.error(
                "OG-QC-104",
                f"`${name}` is a parameter and has no properties",
                node.span,
                f"write `${name}`",
            )
            return None
        if self.scope is None:
            hint = f"write the property alone: `{node.property.text}`"
            if self.row is None:
                hint = f"take the value as a parameter: `${node.property.text}`"
            self.error(
                "OG-QC-104",
                f"`${name}` is not a parameter, and a mutation binds no variables",
                node.span,
                hint,
            )
            return None
        entity = self.variable(node.variable)
        if not isinstance(entity, expr.Entity):
            return None
        assert self.scope is not None
        variable = self.scope.find(name)
        assert variable is not None
        columns = variable.columns(self.catalog)
        type = columns.get(node.property.text)
        if type is None:
            owner = variable.types[0] if len(variable.types) == 1 else variable.declared
            self.error(
                "OG-QC-103",
                f"unknown property `{node.property.text}` on {owner}",
                node.property.span,
                did_you_mean(node.property.text, columns) or listing(owner, columns),
            )
            return None
        if type.is_blob:
            self.refuse_blob(node.property.text, node.span)
            return None
        return expr.PropertyOf(
            name, node.property.text, type.as_nullable(type.nullable or variable.nullable)
        )

    def bare(self, node: tree.BareNode) -> Checked | None:
        if self.row is None:
            hint = f"variables start with `$`: `${node.name}`; text stands in double quotes"
            if self.place == "value":
                hint = f'text stands in double quotes: "{node.name}"'
            elif self.place == "order":
                hint = "the name of a column stands alone; in a calculation write `$x.property`"
            elif node.name in self.catalog.nodes or node.name in self.catalog.interfaces:
                hint = f"{node.name} is a type: bind a variable to it with `$x: {node.name}`"
            self.error("OG-QC-136", f"`{node.name}` means nothing here", node.span, hint)
            return None
        columns = self.row.columns
        type = columns.get(node.name)
        if type is None:
            self.error(
                "OG-QC-103",
                f"unknown property `{node.name}` on {self.row.name}",
                node.span,
                did_you_mean(node.name, columns) or listing(self.row.name, columns),
            )
            return None
        if type.is_blob:
            self.refuse_blob(node.name, node.span)
            return None
        return expr.Column(node.name, type)

    def refuse_blob(
        self, name: str, span: Span, hint: str = "return the id and read the blob by it"
    ) -> None:
        self.error("OG-QC-125", f"`{name}` is a Blob, and blobs are not query values", span, hint)

    # --- literals ---

    def literal(self, node: LiteralNode) -> Checked | None:
        value = node.value
        if isinstance(value, list):
            return self.literal_list(value, node.span)
        type = literal_type(value)
        if isinstance(value, int) and not isinstance(value, bool) and value < I64_MIN:
            self.error("OG-LX-005", f"`{value}` does not fit into 64 bits", node.span)
            return None
        return expr.Constant(value, type)

    def literal_list(self, values: list[Any], span: Span) -> Checked | None:
        type: ValueType | None = None
        for value in values:
            if value is None or isinstance(value, list):
                what = "null" if value is None else "another list"
                self.error("OG-QC-120", f"a list cannot hold {what}", span)
                return None
            element = literal_type(value)
            assert element is not None
            if type is None or type == element:
                type = element
            elif type.is_number and element.is_number:
                type = F64 if type.is_float or element.is_float else U64
                if type == U64 and any(isinstance(v, int) and v < 0 for v in values):
                    self.error("OG-QC-120", "no integer type holds all numbers of the list", span)
                    return None
            else:
                self.error(
                    "OG-QC-120",
                    f"the list mixes {type} and {element}",
                    span,
                    "all elements of a list have one type",
                )
                return None
        return expr.Constant(values, ValueType((type or STRING).scalar, is_list=True))

    def list(self, node: tree.ListNode) -> Checked | None:
        items = [self.check(item) for item in node.items]
        good = [item for item in items if item is not None]
        if len(good) < len(items):
            return None
        element: ValueType | None = None
        for item, written in zip(good, node.items, strict=True):
            type = item.type
            if type is None or not type.is_scalar or isinstance(item, expr.Entity):
                self.error("OG-QC-120", f"a list cannot hold {name_type(item)}", written.span)
                return None
            if element is not None and not comparable(element, type):
                self.error(
                    "OG-QC-120",
                    f"the list mixes {element} and {type}",
                    node.span,
                    "all elements of a list have one type",
                )
                return None
            element = element or type
        assert element is not None
        return expr.ListOf(tuple(good), ValueType(element.scalar, is_list=True))

    # --- operators ---

    def comparison(self, node: tree.BinaryNode, *, in_braces: bool = False) -> Checked | None:
        """Check a comparison; in the braces of a binding, a list is one that contains a value."""
        left, right = self.check(node.left), self.check(node.right)
        if left is None or right is None:
            return None
        operator = node.operator
        for side in (left, right):
            if isinstance(side, expr.Constant) and side.value is None:
                test = "is not null" if operator == "!=" else "is null"
                other = node.right if side is left else node.left
                shown = "…"
                if isinstance(other, tree.PropertyNode):
                    shown = f"${other.variable.name}.{other.property.text}"
                elif isinstance(other, tree.BareNode):
                    shown = other.name
                self.error(
                    "OG-QC-123",
                    f"nothing is `{operator}` null",
                    node.span,
                    f"write `{shown} {test}`",
                )
                return None
        if isinstance(left, expr.Entity) or isinstance(right, expr.Entity):
            return self.same_entity(node, left, right)
        types = left.type, right.type
        if in_braces and types[0] and types[0].is_list and not (types[1] and types[1].is_list):
            operator = "contains"
        if operator == "in":
            fits = self.fits_in(node, left, right)
        elif operator == "contains":
            fits = self.fits_contains(node, left, right)
        elif operator == "starts_with":
            fits = self.fits_prefix(node, left, right)
        else:
            left, right = empty_like(left, right), empty_like(right, left)
            fits = self.fits_comparison(node, left, right)
        return expr.Compare(operator, left, right, condition_type(left, right)) if fits else None

    def same_entity(self, node: tree.BinaryNode, left: Checked, right: Checked) -> Checked | None:
        if not isinstance(left, expr.Entity) or not isinstance(right, expr.Entity):
            entity, span = (
                (left, node.left.span)
                if isinstance(left, expr.Entity)
                else (right, node.right.span)
            )
            self.error(
                "OG-QC-120",
                f"`${entity}` is {name_type(entity)}, not a value",
                span,
                f"compare a property of it, such as `${entity}.id`",
            )
            return None
        if node.operator not in ("=", "!="):
            self.error(
                "OG-QC-120",
                f"nodes and edges are compared with `=` and `!=`, not with `{node.operator}`",
                node.span,
                "compare properties",
            )
            return None
        if left.kind != right.kind or not set(left.types) & set(right.types):
            self.error(
                "OG-QC-120",
                f"`${left}` is {name_type(left)} and `${right}` is {name_type(right)}:"
                " they are never the same",
                node.span,
            )
            return None
        return expr.Compare(node.operator, left, right, condition_type(left, right))

    def fits_comparison(self, node: tree.BinaryNode, left: Checked, right: Checked) -> bool:
        a, b = left.type, right.type
        assert a is not None and b is not None
        if a.is_vector or b.is_vector:
            return self.mismatch(
                node, "vectors are not compared", "order by `nearest( … )` instead"
            )
        if a.is_list or b.is_list:
            if not (a.is_list and b.is_list and comparable(a.element, b.element)):
                hint = "test membership with `contains` or `in`"
                return self.mismatch(node, f"cannot compare {shown(a)} with {shown(b)}", hint)
            if node.operator not in ("=", "!="):
                return self.mismatch(
                    node, f"lists have no order for `{node.operator}`", "use `=` or `!=`"
                )
            return True
        if not comparable(a, b):
            return self.mismatch(
                node, f"cannot compare {shown(a)} with {shown(b)}", cast_hint(left, right)
            )
        if is_bool(a) and node.operator not in ("=", "!="):
            return self.mismatch(
                node, f"Bool has no order for `{node.operator}`", "use `=` or `!=`"
            )
        return self.known_enum_values(node, left, right)

    def fits_in(self, node: tree.BinaryNode, left: Checked, right: Checked) -> bool:
        a, b = left.type, right.type
        assert a is not None and b is not None
        if not b.is_list:
            return self.mismatch(
                node, f"`in` needs a list on its right, this is {shown(b)}", "write `in [a, b]`"
            )
        if not a.is_scalar or not (comparable(a, b.element) or is_empty(right)):
            return self.mismatch(
                node, f"{shown(a)} cannot be in {shown(b)}", cast_hint(left, right)
            )
        return self.known_enum_values(node, left, right)

    def fits_contains(self, node: tree.BinaryNode, left: Checked, right: Checked) -> bool:
        a, b = left.type, right.type
        assert a is not None and b is not None
        if a.is_list:
            if not b.is_scalar or not comparable(a.element, b):
                return self.mismatch(node, f"{shown(a)} cannot contain {shown(b)}")
            return True
        if a.is_text and b.is_text:
            return True
        return self.mismatch(
            node,
            f"{shown(a)} `contains` {shown(b)} makes no sense",
            "`contains` looks into a list or a text",
        )

    def fits_prefix(self, node: tree.BinaryNode, left: Checked, right: Checked) -> bool:
        a, b = left.type, right.type
        assert a is not None and b is not None
        if a.is_text and b.is_text:
            return True
        return self.mismatch(node, f"`starts_with` compares texts, not {shown(a)} and {shown(b)}")

    def known_enum_values(self, node: tree.BinaryNode, left: Checked, right: Checked) -> bool:
        """A literal that no value of the enum can equal is a mistake."""
        for side, other, span in ((left, right, node.right.span), (right, left, node.left.span)):
            values = side.type.values if side.type is not None else None
            if values is None or not isinstance(other, expr.Constant):
                continue
            literals = other.value if isinstance(other.value, list) else [other.value]
            for value in literals:
                if value not in values:
                    self.error(
                        "OG-QC-124",
                        f"{show(value)} is not a value of {side.type}",
                        span,
                        did_you_mean(value, values) if isinstance(value, str) else None,
                    )
                    return False
        return True

    def mismatch(self, node: tree.BinaryNode, message: str, hint: str | None = None) -> bool:
        self.error("OG-QC-120", message, node.span, hint)
        return False

    def arithmetic(self, node: tree.BinaryNode) -> Checked | None:
        left, right = self.check(node.left), self.check(node.right)
        if left is None or right is None:
            return None
        for side, span in ((left, node.left.span), (right, node.right.span)):
            if side.type is None or not side.type.is_number or isinstance(side, expr.Entity):
                self.error(
                    "OG-QC-122",
                    f"`{node.operator}` needs numbers, this is {name_type(side)}",
                    span,
                )
                return None
        assert left.type is not None and right.type is not None
        type = arithmetic_type(node.operator, left.type, right.type)
        return expr.Arithmetic(node.operator, left, right, type)

    def negate(self, node: tree.NegateNode) -> Checked | None:
        item = self.check(node.item)
        if item is None:
            return None
        if item.type is None or not item.type.is_number or isinstance(item, expr.Entity):
            self.error("OG-QC-122", f"`-` needs a number, this is {name_type(item)}", node.span)
            return None
        type = F64 if item.type.is_float else I64
        return expr.Negate(item, type.as_nullable(item.type.nullable))

    # --- messages ---

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.report.error(code, message, span, hint)
