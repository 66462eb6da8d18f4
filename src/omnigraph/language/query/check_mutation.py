"""Checking mutations: statements, assigned values, and the rule that deletes stand alone."""

from __future__ import annotations

from typing import Literal

from omnigraph.diagnostics import Report, Span, did_you_mean, near_names
from omnigraph.language.query.check_expression import ExpressionChecker, Place
from omnigraph.language.query.expressions import Checked, Constant
from omnigraph.language.query.operand_types import assignable
from omnigraph.language.query.plan import Assignment, Delete, Insert, Statement, Update, WritePlan
from omnigraph.language.query.tree import (
    DeleteNode,
    Expression,
    FieldNode,
    InsertNode,
    Mutation,
    UpdateNode,
)
from omnigraph.language.schema.catalog import ENDS, Catalog, EdgeType, NodeType
from omnigraph.language.syntax import NameNode
from omnigraph.language.types import STRING, Scalar, ValueType
from omnigraph.language.values import ValueFault, coerce

_PHYSICAL_ENDS = {"src": "from", "dst": "to"}


class MutationChecker:
    """Checks the statements of one mutation query."""

    __slots__ = ("catalog", "parameters", "report", "used")

    def __init__(
        self,
        report: Report,
        catalog: Catalog,
        parameters: dict[str, ValueType | None],
        used: set[str],
    ) -> None:
        self.report = report
        self.catalog = catalog
        self.parameters = parameters
        self.used = used

    def statements(
        self, nodes: tuple[Mutation, ...], without_parameters: bool, head: Span
    ) -> WritePlan | None:
        """Check all statements of a query."""
        if not nodes:
            return None
        self.refuse_mixture(nodes)
        if without_parameters:
            self.report.warning(
                "OG-LT-102",
                "this mutation takes no parameters: it does the same every time",
                head,
                "take what changes from call to call as parameters",
            )
        checked = [self.statement(node) for node in nodes]
        good = [s for s in checked if s is not None]
        return WritePlan(tuple(good)) if len(good) == len(checked) else None

    def refuse_mixture(self, nodes: tuple[Mutation, ...]) -> None:
        """Rule D2: what a query writes and what it deletes must not depend on each other."""
        deletes = isinstance(nodes[0], DeleteNode)
        for node in nodes:
            if isinstance(node, DeleteNode) != deletes:
                start = node.span[0]
                self.report.error(
                    "OG-QC-155",
                    "one query cannot both delete and insert or update",
                    (start, start + len("insert")),
                    "split it into two queries; for one atomic step"
                    " run both on a branch and merge it",
                )
                return

    def statement(self, node: Mutation) -> Statement | None:
        table = self.table(node.type)
        if table is None:
            return None
        kind: Literal["node", "edge"] = "node" if isinstance(table, NodeType) else "edge"
        match node:
            case InsertNode():
                values = self.values(node.fields, table, "value")
                self.require_all(node, table)
                return Insert(table.name, kind, values)
            case UpdateNode():
                values = self.values(node.fields, table, "set")
                if not node.fields:
                    self.report.error(
                        "OG-QC-157",
                        "`set` changes nothing",
                        (node.block.open, node.block.close + 1),
                    )
                condition = self.predicate(node.condition, table)
                return Update(table.name, kind, values, condition) if condition else None
            case DeleteNode():
                condition = self.predicate(node.condition, table)
                cascades = self.catalog.incident_edges[table.name] if kind == "node" else ()
                return Delete(table.name, kind, condition, cascades) if condition else None

    def table(self, type: NameNode) -> NodeType | EdgeType | None:
        catalog = self.catalog
        table = catalog.table(type.text)
        if table is not None:
            return table
        if type.text in catalog.interfaces:
            names = ", ".join(catalog.implementers[type.text]) or "no type yet"
            self.report.error(
                "OG-QC-150",
                f"{type.text} is an interface; only node and edge types are written",
                type.span,
                f"name the type itself: {names}",
            )
            return None
        names_known = [*catalog.nodes, *catalog.edges]
        hint = did_you_mean(type.text, names_known)
        edge = catalog.edges_by_query_name.get(type.text)
        if edge is not None:
            hint = f"a mutation writes the edge type as the schema does: `{edge.name}`"
        shown = ", ".join(names_known[:12])
        hint = hint or (f"types are {shown}" if shown else "the schema has no types")
        self.report.error("OG-QC-101", f"unknown type `{type.text}`", type.span, hint)
        return None

    def predicate(self, node: Expression, table: NodeType | EdgeType) -> Checked | None:
        return self.expressions(table, "predicate").condition(node)

    def expressions(self, table: NodeType | EdgeType | None, place: Place) -> ExpressionChecker:
        return ExpressionChecker(
            self.report, self.catalog, self.parameters, place=place, used=self.used, row=table
        )

    # --- assigned values ---

    def values(
        self, fields: tuple[FieldNode, ...], table: NodeType | EdgeType, place: Place
    ) -> tuple[Assignment, ...]:
        # Only an update has a row whose properties its values may look at.
        checker = self.expressions(table if place == "set" else None, place)
        seen: set[str] = set()
        assigned: list[Assignment] = []
        for field in fields:
            name = field.name.text
            if name in seen:
                self.report.error("OG-QC-153", f"duplicate property `{name}`", field.name.span)
                continue
            seen.add(name)
            type = self.target_type(field, table, place)
            value = checker.check(field.value)
            if type is None or value is None:
                continue
            fitting = self.fit(value, type, field, table)
            if fitting is not None:
                assigned.append(Assignment(name, fitting))
        return tuple(assigned)

    def target_type(
        self, field: FieldNode, table: NodeType | EdgeType, place: Place
    ) -> ValueType | None:
        name = field.name.text
        if place == "set" and name in table.key:
            self.report.error(
                "OG-QC-152",
                f"`{name}` is part of the key of {table.name} and cannot change",
                field.name.span,
                "delete the row and insert another one",
            )
            return None
        if isinstance(table, EdgeType) and name in ENDS:
            return STRING
        property = table.properties.get(name)
        if property is not None:
            return property.type
        if name == "id":
            why = "it is made from the key" if table.key else "it is made for each new row"
            self.report.error("OG-QC-152", f"`id` cannot be set: {why}", field.name.span)
            return None
        known = [*(ENDS if isinstance(table, EdgeType) else ()), *table.properties]
        hint = (
            did_you_mean(name, known) or f"{table.name} has {', '.join(known) or 'no properties'}"
        )
        if isinstance(table, EdgeType) and name in _PHYSICAL_ENDS:
            hint = f"the ends of an edge are `from` and `to`: write `{_PHYSICAL_ENDS[name]}`"
        elif isinstance(table, NodeType) and name in ENDS:
            hint = f"{table.name} is a node type; only edges have ends"
        self.report.error(
            "OG-QC-103", f"unknown property `{name}` on {table.name}", field.name.span, hint
        )
        return None

    def require_all(self, node: InsertNode, table: NodeType | EdgeType) -> None:
        written = {field.name.text for field in node.fields}
        needed = list(ENDS) if isinstance(table, EdgeType) else []
        needed += [
            p.name
            for p in table.properties.values()
            if not (p.type.nullable or p.has_default or p.embed)
        ]
        # A misspelt name is reported already; what it stands for is not missing as well.
        meant: set[str] = set()
        for name in written - {*ENDS, *table.properties}:
            meant.update(near_names(name, needed))
            meant.add(_PHYSICAL_ENDS.get(name, name))
        missing = [f"`{name}`" for name in needed if name not in written | meant]
        if missing:
            self.report.error(
                "OG-QC-151",
                f"{table.name} needs {', '.join(missing)}",
                node.type.span,
                "give every property that has no `?` and no @default",
            )

    def fit(
        self, value: Checked, type: ValueType, field: FieldNode, table: NodeType | EdgeType
    ) -> Checked | None:
        """Check a value against the property it is assigned to; literals become typed values."""
        span = field.value.span
        owner = f"`{field.name.text}` of {table.name}"
        if isinstance(value, Constant):
            return self.fit_literal(value, type, owner, span)
        value_type = value.type
        if value_type is None or not assignable(value_type, type):
            shown = "null" if value_type is None else str(value_type.as_nullable(False))
            self.report.error(
                "OG-QC-154",
                f"{owner} is {type.as_nullable(False)}, this is {shown}",
                span,
                "the ends of an edge are node ids, which are texts"
                if field.name.text in ENDS and isinstance(table, EdgeType)
                else None,
            )
            return None
        if value_type.nullable and not type.nullable:
            self.report.error(
                "OG-QC-156",
                f"{owner} cannot be null, but this may be ({value_type})",
                span,
                f"declare it without the `?`: {value_type.as_nullable(False)}",
            )
            return None
        return value

    def fit_literal(
        self, value: Constant, type: ValueType, owner: str, span: Span
    ) -> Checked | None:
        if isinstance(value.value, str) and type.is_scalar:
            word = {Scalar.DATE: "date", Scalar.DATETIME: "datetime"}.get(type.scalar)
            if word is not None or type.is_integer:
                hint = (
                    f'write `{word}("{value.value}")`'
                    if word
                    else "write the number without quotes"
                )
                self.report.error(
                    "OG-QC-154", f"{owner} is {type.as_nullable(False)}, this is a text", span, hint
                )
                return None
        try:
            return Constant(coerce(value.value, type), type)
        except ValueFault as fault:
            self.report.error("OG-QC-154", f"{owner}: {fault.message}", span, fault.hint)
            return None
