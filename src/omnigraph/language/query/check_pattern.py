"""Checking the clauses of `match`: binds variables, resolves edges and their directions.

The order of clauses does not matter. Bindings come first; then edges, starting from ends whose
type is known, so that one known end decides the direction and the type of the other; then
`optional` blocks, `not` blocks and filters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from omnigraph.diagnostics import Report, did_you_mean
from omnigraph.language.query import tree
from omnigraph.language.query.check_expression import ExpressionChecker
from omnigraph.language.query.expression_parser import OPERATOR_WORDS
from omnigraph.language.query.expressions import Checked, variables
from omnigraph.language.query.plan import Direction, Hop, NodePattern, Pattern
from omnigraph.language.query.scope import Scope, Variable
from omnigraph.language.schema.catalog import Catalog, EdgeType
from omnigraph.language.types import ValueType


class _Pending(Struct):
    """A traversal whose edge is known and whose direction is not decided yet."""

    node: tree.TraversalNode
    edge: EdgeType
    done: bool = False


class PatternChecker:
    """Checks the patterns of one query."""

    __slots__ = ("catalog", "lenient", "parameters", "report", "used")

    def __init__(
        self,
        report: Report,
        catalog: Catalog,
        parameters: dict[str, ValueType | None],
        used: set[str],
        lenient: bool,
    ) -> None:
        self.report = report
        self.catalog = catalog
        self.parameters = parameters
        self.used = used
        self.lenient = lenient

    def pattern(self, clauses: Sequence[tree.Clause], scope: Scope, word: str = "match") -> Pattern:
        """Check one block; its variables are added to `scope`."""
        errors_before = self.report.error_count
        for clause in clauses:
            if isinstance(clause, tree.BindingNode):
                self.bind(clause, scope)
        hops = self.traversals([c for c in clauses if isinstance(c, tree.TraversalNode)], scope)
        nodes = tuple(
            NodePattern(v.name, v.declared, v.types)
            for v in scope.variables.values()
            if v.kind == "node"
        )
        required = set(scope.variables)
        optional = self.nested(clauses, scope, "optional")
        absent = self.nested(clauses, scope, "not")
        filters, late = self.filters(clauses, scope, required)
        if self.report.error_count == errors_before:
            self.warn_unconnected(nodes, hops, filters, scope, word)
        return Pattern(nodes, hops, filters, optional, absent, late)

    # --- bindings ---

    def bind(self, clause: tree.BindingNode, scope: Scope) -> None:
        name, type = clause.variable.name, clause.type.text
        if name == "_":
            self.report.error(
                "OG-QC-107",
                "`$_` stands for anything and cannot be bound to a type",
                clause.variable.span,
                "give the variable a name",
            )
            return
        if not self.is_free(clause.variable, scope):
            return
        kind_types = self.node_types(type, clause)
        if kind_types is None:
            scope.variables[name] = Variable(name, "broken", type, (), clause.variable.span)
        else:
            scope.variables[name] = Variable(name, "node", type, kind_types, clause.variable.span)

    def is_free(self, variable: tree.VariableNode, scope: Scope) -> bool:
        if variable.name in self.parameters:
            self.report.error(
                "OG-QC-106",
                f"`${variable.name}` is a parameter and cannot be bound",
                variable.span,
                "choose another name for the variable",
            )
            return False
        earlier = scope.find(variable.name)
        if earlier is not None:
            line, _ = self.report.position(earlier.span[0])
            self.report.error(
                "OG-QC-105",
                f"`${variable.name}` is bound already, in line {line}",
                variable.span,
                "add conditions as filters, such as "
                f"`${variable.name}.property = …`, or choose another name",
            )
            return False
        return True

    def node_types(self, type: str, clause: tree.BindingNode) -> tuple[str, ...] | None:
        catalog = self.catalog
        if type in catalog.nodes:
            return (type,)
        if type in catalog.interfaces:
            implementers = catalog.implementers[type]
            if implementers:
                return implementers
            self.report.error(
                "OG-QC-101",
                f"no node type implements the interface {type}",
                clause.type.span,
                f"a node type that does says `implements {type}` in the schema",
            )
            return None
        edge = catalog.edges.get(type) or catalog.edges_by_query_name.get(type)
        if edge is not None:
            self.report.error(
                "OG-QC-112",
                f"{edge.name} is an edge type; only nodes are bound with `:`",
                clause.type.span,
                f"bind an edge between its ends: `$a ${clause.variable.name}:{edge.query_name} $b`",
            )
            return None
        names = [*catalog.nodes, *catalog.interfaces]
        self.report.error(
            "OG-QC-101",
            f"unknown node type `{type}`",
            clause.type.span,
            did_you_mean(type, names) or _known("node types", names),
        )
        return None

    # --- traversals ---

    def traversals(self, nodes: list[tree.TraversalNode], scope: Scope) -> tuple[Hop, ...]:
        pending: list[_Pending] = []
        touching: dict[str, list[_Pending]] = {}
        for node in nodes:
            edge = self.edge_type(node)
            if node.variable is not None:
                self.bind_edge(node.variable, edge, scope)
            if edge is None:
                continue
            item = _Pending(node, edge)
            pending.append(item)
            for end in (node.source, node.target):
                touching.setdefault(end.name, []).append(item)
        hops: dict[int, Hop] = {}
        known = deque(p for p in pending if self.knows_an_end(p.node, scope))
        rest = deque(pending)
        # Edges that fit both ways wait: what other edges say about their ends may decide.
        doubtful: deque[_Pending] = deque()
        unknown: deque[_Pending] = deque()
        while queue := known or rest or doubtful or unknown:
            item = queue.popleft()
            if item.done:
                continue
            if (queue is known or queue is rest) and self.fits_both_ways(item, scope):
                (doubtful if self.knows_an_end(item.node, scope) else unknown).append(item)
                continue
            item.done = True
            before = [(e.name, self.known_types(e, scope)) for e in _ends(item.node)]
            hop = self.resolve(item, scope)
            if hop is not None:
                hops[id(item.node)] = hop
            for end, (name, types) in zip(_ends(item.node), before, strict=True):
                if self.known_types(end, scope) != types:
                    known.extend(touching[name])
        # Ends of edges that could not be resolved are known, but not what they are.
        for node in nodes:
            for end in _ends(node):
                if end.name not in self.parameters and scope.find(end.name) is None:
                    scope.variables[end.name] = Variable(end.name, "broken", "", (), end.span)
        return tuple(hops[id(n)] for n in nodes if id(n) in hops)

    def knows_an_end(self, node: tree.TraversalNode, scope: Scope) -> bool:
        return any(scope.find(end.name) is not None for end in _ends(node))

    def known_types(self, end: tree.VariableNode, scope: Scope) -> tuple[str, ...] | None:
        variable = scope.find(end.name)
        return variable.types if variable is not None and variable.kind == "node" else None

    def fits_both_ways(self, item: _Pending, scope: Scope) -> bool:
        edge = item.edge
        if item.node.undirected or edge.source == edge.target:
            return False
        left, right = (self.known_types(e, scope) for e in (item.node.source, item.node.target))
        return all(
            types is None or (edge.source in types and edge.target in types)
            for types in (left, right)
        )

    def edge_type(self, node: tree.TraversalNode) -> EdgeType | None:
        catalog, name = self.catalog, node.edge.text
        edge = catalog.edges_by_query_name.get(name)
        if edge is not None:
            return edge
        if name in catalog.edges:
            lower = catalog.edges[name].query_name
            hint: str | None = f"a query writes edges with a small first letter: `{lower}`"
        elif name in OPERATOR_WORDS:
            hint = (
                f"`{name}` compares values, and `${node.source.name}` is none: write"
                f" `${node.source.name}.property {name} …`"
            )
        elif name in catalog.nodes:
            hint = f"{name} is a node type; put an edge between the two variables"
        else:
            names = list(catalog.edges_by_query_name)
            hint = did_you_mean(name, names) or _known("edges", names)
        self.report.error("OG-QC-102", f"unknown edge `{name}`", node.edge.span, hint)
        return None

    def bind_edge(self, variable: tree.VariableNode, edge: EdgeType | None, scope: Scope) -> None:
        if variable.name == "_" or not self.is_free(variable, scope):
            return
        name = edge.name if edge is not None else ""
        kind: Literal["edge", "broken"] = "edge" if edge is not None else "broken"
        scope.variables[variable.name] = Variable(variable.name, kind, name, (name,), variable.span)

    def resolve(self, item: _Pending, scope: Scope) -> Hop | None:
        node, edge = item.node, item.edge
        good = self.check_bounds(node, edge)
        ends: list[tuple[str, ...] | None] = []
        for end in (node.source, node.target):
            known, types = self.end_types(end, scope)
            good = good and known
            ends.append(types)
        if not good:
            return None
        direction = self.direction(node, edge, ends[0], ends[1])
        if direction is None:
            return None
        left, right = edge.source, edge.target
        if direction == "in":
            left, right = right, left
        self.settle(node.source, left, scope)
        self.settle(node.target, right, scope)
        if node.high is None:
            self.report.warning(
                "OG-LT-105",
                f"`{node.edge.text}` is followed without an upper bound",
                node.bounds or node.span,
                "on a large graph this may reach every node; give a bound such as {1,6}",
            )
        return Hop(
            None if node.source.name == "_" else node.source.name,
            None if node.target.name == "_" else node.target.name,
            edge.name,
            direction,
            node.low,
            node.high,
            node.variable.name if node.variable and node.variable.name != "_" else None,
        )

    def check_bounds(self, node: tree.TraversalNode, edge: EdgeType) -> bool:
        low, high, span = node.low, node.high, node.bounds or node.span
        if node.undirected and edge.source != edge.target:
            self.report.error(
                "OG-QC-110",
                f"`<{node.edge.text}>` goes both ways, but {edge.name} joins"
                f" {edge.source} to {edge.target}",
                node.edge.span,
                f"write `{node.edge.text}`; only an edge between equal types goes both ways",
            )
            return False
        if node.bounds is None:
            return True
        if node.variable is not None:
            self.report.error(
                "OG-QC-111",
                f"the bound edge `${node.variable.name}` is one hop",
                span,
                "leave the bounds or the edge variable away",
            )
            return False
        if high is not None and (high < low or high == 0):
            hint = (
                f"did you mean `{{{high},{low}}}`?" if 0 < high < low else "write `{1,3}` or `{1,}`"
            )
            shown = f"{{{low},{high}}}"
            self.report.error("OG-QC-109", f"no walk has {shown} hops", span, hint)
            return False
        if edge.source != edge.target and (low, high) != (1, 1):
            self.report.error(
                "OG-QC-109",
                f"{edge.name} joins {edge.source} to {edge.target}: it is followed exactly once",
                span,
                "leave the bounds away",
            )
            return False
        return True

    def end_types(
        self, end: tree.VariableNode, scope: Scope
    ) -> tuple[bool, tuple[str, ...] | None]:
        """Whether an end can be used, and its node types if they are known."""
        if end.name == "_":
            return True, None
        if end.name in self.parameters:
            self.used.add(end.name)
            self.report.error(
                "OG-QC-106",
                f"`${end.name}` is a parameter, not a node",
                end.span,
                f"bind a variable and compare: `$other: Type {{ property: ${end.name} }}`",
            )
            return False, None
        variable = scope.find(end.name)
        if variable is None or variable.kind == "broken":
            return True, None
        if variable.kind == "edge":
            self.report.error(
                "OG-QC-108", f"`${end.name}` is an edge; an edge joins nodes", end.span
            )
            return False, None
        return True, variable.types

    def direction(
        self,
        node: tree.TraversalNode,
        edge: EdgeType,
        left: tuple[str, ...] | None,
        right: tuple[str, ...] | None,
    ) -> Direction | None:
        def fits(types: tuple[str, ...] | None, wanted: str) -> bool:
            return types is None or wanted in types

        if fits(left, edge.source) and fits(right, edge.target):
            return "both" if node.undirected else "out"
        if not node.undirected and fits(left, edge.target) and fits(right, edge.source):
            return "in"
        wrong, types = node.source, left
        if fits(left, edge.source) or fits(left, edge.target):
            wrong, types = node.target, right
        shown = f"`${wrong.name}` is a {' or '.join(types or ())}"
        self.report.error(
            "OG-QC-108",
            f"{shown}, but {edge.name} joins {edge.source} to {edge.target}",
            wrong.span,
            self.edge_hint(left, right),
        )
        return None

    def edge_hint(self, left: tuple[str, ...] | None, right: tuple[str, ...] | None) -> str | None:
        if left is None or right is None:
            return None
        pairs = {(a, b) for a in left for b in right} | {(b, a) for a in left for b in right}
        names = [e.query_name for e in self.catalog.edges.values() if (e.source, e.target) in pairs]
        if not names:
            return f"no edge joins {' or '.join(left)} and {' or '.join(right)}"
        return f"edges between them: {', '.join(names[:6])}"

    def settle(self, end: tree.VariableNode, type: str, scope: Scope) -> None:
        """An end now has exactly this type: bind it, or narrow an interface to it."""
        if end.name == "_":
            return
        variable = scope.find(end.name)
        if variable is None:
            scope.variables[end.name] = Variable(end.name, "node", type, (type,), end.span)
        elif variable.kind == "node" and scope.variables.get(end.name) is variable:
            variable.types = (type,)

    # --- nested blocks and filters ---

    def nested(
        self, clauses: Iterable[tree.Clause], scope: Scope, word: str
    ) -> tuple[Pattern, ...]:
        patterns: list[Pattern] = []
        for clause in clauses:
            if not isinstance(clause, tree.NestedNode) or clause.word != word:
                continue
            inner = Scope(scope)
            patterns.append(self.pattern(clause.clauses, inner, word))
            for variable in inner.variables.values():
                if word == "not":
                    scope.hidden.add(variable.name)
                else:
                    variable.nullable = True
                    scope.variables[variable.name] = variable
        return tuple(patterns)

    def filters(
        self, clauses: Iterable[tree.Clause], scope: Scope, required: set[str]
    ) -> tuple[tuple[Checked, ...], tuple[Checked, ...]]:
        checker = ExpressionChecker(
            self.report,
            self.catalog,
            self.parameters,
            place="filter",
            used=self.used,
            scope=scope,
            lenient=self.lenient,
        )
        conditions: list[Checked | None] = []
        for clause in clauses:
            if isinstance(clause, tree.FilterNode):
                conditions.append(checker.condition(clause.condition))
            elif isinstance(clause, tree.BindingNode) and clause.variable.name in required:
                for field in clause.fields:
                    left = tree.PropertyNode(clause.variable, field.name, field.name.span)
                    equal = tree.BinaryNode("=", left, field.value, field.span)
                    conditions.append(checker.comparison(equal, in_braces=True))
        late_names = set(scope.variables) - required
        filters: list[Checked] = []
        late: list[Checked] = []
        for condition in conditions:
            if condition is not None:
                (late if variables(condition) & late_names else filters).append(condition)
        return tuple(filters), tuple(late)

    def warn_unconnected(
        self,
        nodes: tuple[NodePattern, ...],
        hops: tuple[Hop, ...],
        filters: tuple[Checked, ...],
        scope: Scope,
        word: str,
    ) -> None:
        """Warn when parts of a block have nothing to do with each other."""
        bound = [n.variable for n in nodes] + [h.variable for h in hops if h.variable is not None]
        if not bound or self.lenient:
            return
        group: dict[str, str] = {}

        def find(name: str) -> str:
            while group.setdefault(name, name) != name:
                group[name] = group[group[name]]
                name = group[name]
            return name

        def join(names: Iterable[str]) -> None:
            # Everything that the outer blocks bind counts as one.
            roots = [find(n if n in scope.variables else "") for n in names]
            for root in roots[1:]:
                group[find(root)] = find(roots[0])

        for hop in hops:
            join(n for n in (hop.source, hop.target, hop.variable) if n is not None)
        for condition in filters:
            join(variables(condition))
        if word == "match":
            anchor, rest = bound[0], bound[1:]
        else:
            anchor, rest = "", bound
        for name in rest:
            if find(name) == find(anchor):
                continue
            variable = scope.variables[name]
            if word == "match":
                message = f"`${name}` is not connected with `${anchor}`"
                hint = "every combination of both is a match; add an edge or a comparison"
            else:
                message = f"`${name}` has nothing to do with what is outside of `{word}`"
                hint = f"the `{word}` block is the same for every match; use an outer variable"
            self.report.warning("OG-LT-104", message, variable.span, hint)
            join((anchor, name) if word == "match" else (name, ""))


def _ends(node: tree.TraversalNode) -> list[tree.VariableNode]:
    return [end for end in (node.source, node.target) if end.name != "_"]


def _known(what: str, names: list[str]) -> str:
    if not names:
        return f"the schema has no {what}"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{what} are {', '.join(names[:12])}{more}"
