"""Checking whole queries: heads, what is returned, grouped and ordered, and what is read."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.diagnostics import Report, did_you_mean
from omnigraph.language.query import expressions as expr
from omnigraph.language.query import tree
from omnigraph.language.query.check_expression import ExpressionChecker
from omnigraph.language.query.check_pattern import PatternChecker
from omnigraph.language.query.compiled import CompiledQuery, QueryParameter, ResultField
from omnigraph.language.query.expressions import Checked
from omnigraph.language.query.plan import Ordering, Output, Pattern, ReadPlan, WritePlan
from omnigraph.language.query.scope import Scope
from omnigraph.language.schema.catalog import Catalog
from omnigraph.language.syntax import AnnotationNode, LiteralNode
from omnigraph.language.types import I64, INTEGER_BOUNDS, STRING, Scalar, ValueType


def check_file(file: tree.FileNode, report: Report, catalog: Catalog) -> dict[str, CompiledQuery]:
    """Check every query of a text; those with errors are left out of the result."""
    compiled: dict[str, CompiledQuery] = {}
    first: dict[str, tree.QueryNode] = {}
    for node in file.queries:
        earlier = first.setdefault(node.name.text, node)
        if earlier is not node:
            line, _ = report.position(earlier.span[0])
            report.error(
                "OG-QC-113",
                f"there is a query `{node.name.text}` already, in line {line}",
                node.name.span,
                "give every query of a file its own name",
            )
        query = _QueryChecker(node, report, catalog).query()
        if query is not None:
            compiled.setdefault(query.name, query)
    return compiled


class _QueryChecker:
    """One query."""

    __slots__ = ("catalog", "node", "parameters", "report", "used")

    def __init__(self, node: tree.QueryNode, report: Report, catalog: Catalog) -> None:
        self.node = node
        self.report = report
        self.catalog = catalog
        self.parameters: dict[str, ValueType | None] = {}
        self.used: set[str] = set()

    def query(self) -> CompiledQuery | None:
        node = self.node
        errors_before = self.report.error_count
        found_before = self.report.count
        parameters = self.head()
        notes = {a.name: self.note(a) for a in node.annotations}
        plan: ReadPlan | WritePlan | None
        if isinstance(node.body, tree.ReadNode):
            plan = self.read(node.body)
        else:
            # Imported here: most queries read.
            from omnigraph.language.query.check_mutation import MutationChecker

            checker = MutationChecker(self.report, self.catalog, self.parameters, self.used)
            plan = checker.statements(node.body, not node.parameters, node.name.span)
        if node.broken or self.report.error_count > errors_before or plan is None:
            # What looks odd about a query with errors is often their consequence.
            self.report.drop_warnings(found_before)
            return None
        self.warn_unused()
        reads, writes = _touched(plan, self.catalog)
        return CompiledQuery(
            node.name.text,
            notes.get("description"),
            notes.get("instruction"),
            parameters,
            plan,
            _fields(plan),
            reads,
            writes,
            self.report.text[node.span[0] : node.span[1]],
            node.span,
        )

    def head(self) -> tuple[QueryParameter, ...]:
        declared: list[QueryParameter] = []
        for parameter in self.node.parameters:
            name, type = parameter.variable.name, parameter.type.type
            if name == "_":
                self.report.error(
                    "OG-QC-107", "a parameter needs a name, not `$_`", parameter.variable.span
                )
            if name in self.parameters:
                self.report.error(
                    "OG-QC-114",
                    f"the parameter `${name}` is declared twice",
                    parameter.variable.span,
                )
                continue
            self.parameters[name] = type
            if type is not None:
                declared.append(QueryParameter(name, type, parameter.span))
        return tuple(declared)

    def note(self, annotation: AnnotationNode) -> str | None:
        arguments = annotation.arguments
        first = next(a for a in self.node.annotations if a.name == annotation.name)
        if first is not annotation:
            self.report.error("OG-SY-003", f"duplicate `@{annotation.name}`", annotation.span)
        if len(arguments) == 1 and isinstance(arguments[0], LiteralNode) and not annotation.options:
            value = arguments[0].value
            if isinstance(value, str):
                return value
        self.report.error(
            "OG-SY-003",
            f"`@{annotation.name}` takes one text",
            annotation.span,
            f'write `@{annotation.name}("…")`',
        )
        return None

    def warn_unused(self) -> None:
        for parameter in self.node.parameters:
            if parameter.variable.name not in self.used:
                self.report.warning(
                    "OG-LT-106",
                    f"the parameter `${parameter.variable.name}` is never used",
                    parameter.span,
                    "use it or remove it",
                )
            type = parameter.type.type
            if type is not None and type.is_vector:
                name = parameter.variable.name
                self.report.warning(
                    "OG-LT-103",
                    f"`${name}` is a vector, which people and agents cannot type",
                    parameter.span,
                    f"take `${name}: String`: `nearest` embeds a text by itself",
                )

    # --- reads ---

    def read(self, node: tree.ReadNode) -> ReadPlan:
        scope = Scope()
        patterns = PatternChecker(
            self.report, self.catalog, self.parameters, self.used, self.node.broken
        )
        pattern = patterns.pattern(node.clauses, scope)
        written = self.outputs(node.projections, scope)
        outputs = tuple(output for _, output in written)
        grouped = any(_aggregates(o.expression) for o in outputs)
        keys = tuple(o.name for o in outputs if not _aggregates(o.expression)) if grouped else ()
        if grouped:
            self.check_groups(written)
        limit = self.row_count(node.limit, "limit", scope)
        offset = self.row_count(node.offset, "offset", scope)
        order = self.orderings(node, scope, outputs, grouped)
        return ReadPlan(pattern, outputs, grouped, keys, node.distinct, order, limit, offset)

    def expressions(self, scope: Scope, place: str) -> ExpressionChecker:
        return ExpressionChecker(
            self.report,
            self.catalog,
            self.parameters,
            place="return" if place == "return" else "order",
            used=self.used,
            scope=scope,
            lenient=self.node.broken,
        )

    def outputs(
        self, nodes: tuple[tree.ProjectionNode, ...], scope: Scope
    ) -> list[tuple[tree.ProjectionNode, Output]]:
        checker = self.expressions(scope, "return")
        outputs: list[tuple[tree.ProjectionNode, Output]] = []
        seen: set[str] = set()
        for node in nodes:
            checked = checker.check(node.expression)
            if checked is None:
                continue
            name = node.alias.text if node.alias is not None else str(checked)
            if name in seen:
                self.report.error(
                    "OG-QC-134",
                    f"two columns are called `{name}`",
                    node.alias.span if node.alias is not None else node.span,
                    "name one of them with `as`",
                )
                continue
            seen.add(name)
            outputs.append((node, Output(name, checked)))
        return outputs

    def check_groups(self, written: list[tuple[tree.ProjectionNode, Output]]) -> None:
        keys: dict[str, list[Checked]] = {}
        for _, output in written:
            if not _aggregates(output.expression):
                keys.setdefault(str(output.expression), []).append(output.expression)
        for node, output in written:
            expression = output.expression
            if not _aggregates(expression):
                type = expression.type
                if type is not None and (type.is_vector or type.is_list):
                    self.report.error(
                        "OG-QC-139", f"cannot group by {type.as_nullable(False)}", node.span
                    )
                continue
            for part in _outside_aggregates(expression):
                loose = isinstance(part, expr.PropertyOf | expr.Entity | expr.Rank | expr.Fusion)
                if loose and part not in keys.get(str(part), ()):
                    self.report.error(
                        "OG-QC-138",
                        f"`{part}` stands beside an aggregate but is not grouped by",
                        node.span,
                        "return it as a column of its own, or put it into the aggregate",
                    )
                    break

    def row_count(
        self, node: LiteralNode | tree.VariableNode | None, word: str, scope: Scope
    ) -> expr.Constant | expr.Parameter | None:
        if node is None:
            return None
        if isinstance(node, LiteralNode):
            largest = INTEGER_BOUNDS[Scalar.I64][1]
            if node.value > largest:
                self.report.error(
                    "OG-QC-137",
                    f"`{word}` is at most {largest}",
                    node.span,
                    "leave it away for all rows",
                )
                return None
            return expr.Constant(node.value, I64)
        if node.name not in self.parameters:
            hint = did_you_mean(node.name, self.parameters, "$")
            if scope.find(node.name) is not None:
                hint = f"`{word}` takes a number or a parameter"
            self.report.error(
                "OG-QC-104",
                f"`${node.name}` is not a parameter",
                node.span,
                hint or f"declare it: `${node.name}: I32`",
            )
            return None
        self.used.add(node.name)
        type = self.parameters[node.name]
        if type is None:
            return None
        if not type.is_integer or type.nullable:
            self.report.error(
                "OG-QC-137",
                f"`{word}` needs a whole number, `${node.name}` is {type}",
                node.span,
                f"declare it as `${node.name}: I32`",
            )
            return None
        return expr.Parameter(node.name, type)

    def orderings(
        self, node: tree.ReadNode, scope: Scope, outputs: tuple[Output, ...], grouped: bool
    ) -> tuple[Ordering, ...]:
        checker = self.expressions(scope, "order")
        by_name = {o.name: o for o in outputs}
        by_text: dict[str, list[Output]] = {}
        for output in outputs:
            by_text.setdefault(str(output.expression), []).append(output)
        orderings: list[Ordering] = []
        for item in node.orderings:
            ordering = self.ordering(item, checker, by_name, by_text)
            if ordering is None:
                continue
            if not grouped and _aggregates(ordering.expression):
                self.report.error(
                    "OG-QC-129",
                    f"`{ordering.expression}` aggregates, but nothing that is returned does",
                    item.span,
                    "return an aggregate too; the other columns are then what it is grouped by",
                )
                continue
            if ordering.output is None and (grouped or node.distinct):
                what = "grouped" if grouped else "distinct"
                self.report.error(
                    "OG-QC-135",
                    f"`{ordering.expression}` is not a column of the {what} answer",
                    item.span,
                    "return it too, or order by a column",
                )
                continue
            self.check_orderable(item, ordering, node)
            orderings.append(ordering)
        return tuple(orderings)

    def ordering(
        self,
        node: tree.OrderingNode,
        checker: ExpressionChecker,
        by_name: dict[str, Output],
        by_text: dict[str, list[Output]],
    ) -> Ordering | None:
        expression = node.expression
        if isinstance(expression, tree.BareNode):
            output = by_name.get(expression.name)
            if output is None:
                if not self.node.broken:
                    self.report.error(
                        "OG-QC-136",
                        f"no column is called `{expression.name}`",
                        expression.span,
                        did_you_mean(expression.name, by_name)
                        or "order by a name given with `as`, or by `$x.property`",
                    )
                return None
            return Ordering(output.expression, _descending(node, output.expression), output.name)
        checked = checker.check(expression)
        if checked is None:
            return None
        alike = by_text.get(str(checked), ())
        same = next((o.name for o in alike if o.expression == checked), None)
        return Ordering(checked, _descending(node, checked), same)

    def check_orderable(
        self, item: tree.OrderingNode, ordering: Ordering, node: tree.ReadNode
    ) -> None:
        type = ordering.expression.type
        if type is not None and (type.is_vector or type.is_list):
            self.report.error("OG-QC-139", f"{type.as_nullable(False)} has no order", item.span)
            return
        for part in expr.walk(ordering.expression):
            if not isinstance(part, expr.Rank | expr.Fusion):
                continue
            function = part.function if isinstance(part, expr.Rank) else "rrf"
            if function != "bm25" and node.limit is None:
                self.report.error(
                    "OG-QC-133",
                    f"ordering by `{function}` needs a `limit`",
                    item.span,
                    "add `limit 10` after the order",
                )
            if part is ordering.expression and ordering.descending == (function == "nearest"):
                best = "asc" if function == "nearest" else "desc"
                self.report.warning(
                    "OG-LT-107",
                    f"this puts the worst matches by `{function}` first",
                    item.span,
                    f"write `{best}` to have the best first",
                )
            break


def _descending(node: tree.OrderingNode, expression: Checked) -> bool:
    """The direction of an order: without one, scores have the best first, and so the highest."""
    if node.descending is not None:
        return node.descending
    is_bm25 = isinstance(expression, expr.Rank) and expression.function == "bm25"
    return is_bm25 or isinstance(expression, expr.Fusion)


def _aggregates(expression: Checked) -> bool:
    return any(isinstance(part, expr.Aggregate) for part in expr.walk(expression))


def _outside_aggregates(expression: Checked) -> Iterator[Checked]:
    pending = [expression]
    while pending:
        current = pending.pop()
        if isinstance(current, expr.Aggregate):
            continue
        yield current
        if not isinstance(current, expr.Rank | expr.Fusion):
            pending.extend(reversed(expr.children(current)))


def _fields(plan: ReadPlan | WritePlan) -> tuple[ResultField, ...]:
    if isinstance(plan, WritePlan):
        return ()
    fields: list[ResultField] = []
    for output in plan.outputs:
        expression = output.expression
        entity = expression.types if isinstance(expression, expr.Entity) else ()
        fields.append(ResultField(output.name, expression.type or STRING.as_nullable(), entity))
    return tuple(fields)


def _touched(
    plan: ReadPlan | WritePlan, catalog: Catalog
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The types a plan reads and the types it may change."""
    if isinstance(plan, ReadPlan):
        return tuple(sorted(set(_pattern_types(plan.pattern)))), ()
    reads: set[str] = set()
    writes: set[str] = set()
    for statement in plan.statements:
        read, written = statement.touched(catalog)
        reads.update(read)
        writes.update(written)
    return tuple(sorted(reads)), tuple(sorted(writes))


def _pattern_types(pattern: Pattern) -> Iterator[str]:
    for node in pattern.nodes:
        yield from node.types
    for hop in pattern.hops:
        yield hop.edge
    for inner in (*pattern.optional, *pattern.absent):
        yield from _pattern_types(inner)
