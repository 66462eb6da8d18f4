"""The logical plan: what a query means, before anybody decides how to run it.

A read is a graph pattern and what is done with its matches. The pattern says which nodes and
hops there are, not in which order to find them: that is the planner's work. Meaning is fixed
here: a pattern's nodes, hops and `filters` hold together; then each `optional` pattern extends
the matches it can; then matches that an `absent` pattern finds are dropped; then
`late_filters`, which look at optional variables, are applied.

`plan.text()` returns the form that `explain` prints.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from omnigraph.language.query.expressions import Checked, Constant, Parameter
from omnigraph.language.schema.catalog import Catalog

Direction = Literal["out", "in", "both"]


class NodePattern(Struct, frozen=True):
    """A node to be found: its variable and the node types it may have.

    `declared` is the type as written (an interface, perhaps) or, if the variable has no binding,
    as inferred from its edges.
    """

    variable: str
    declared: str
    types: tuple[str, ...]

    def __str__(self) -> str:
        implied = f" ({', '.join(self.types)})" if self.types != (self.declared,) else ""
        return f"node {self.variable}: {self.declared}{implied}"


class Hop(Struct, frozen=True):
    """An edge, or a walk of `low` to `high` edges, between two variables.

    Attributes:
        source: Variable on the left, None for `$_`.
        target: Variable on the right, None for `$_`.
        direction: `out` follows the edge from its source to its target, `in` against it.
        high: None is unbounded.
        variable: The bound edge: one match per edge instead of one per pair of ends.
    """

    source: str | None
    target: str | None
    edge: str
    direction: Direction
    low: int = 1
    high: int | None = 1
    variable: str | None = None

    def __str__(self) -> str:
        name = f"{self.variable}: {self.edge}" if self.variable else self.edge
        if (self.low, self.high) != (1, 1):
            name += f" {{{self.low},{'' if self.high is None else self.high}}}"
        left = "<-" if self.direction == "in" else "-"
        right = "->" if self.direction == "out" else "-"
        return f"hop {self.source or '_'} {left}[{name}]{right} {self.target or '_'}"


class Pattern(Struct, frozen=True):
    """What has to be there together. Nested patterns see the variables of the outer one."""

    nodes: tuple[NodePattern, ...]
    hops: tuple[Hop, ...]
    filters: tuple[Checked, ...]
    optional: tuple[Pattern, ...] = ()
    absent: tuple[Pattern, ...] = ()
    late_filters: tuple[Checked, ...] = ()

    def lines(self) -> list[str]:
        """The pattern as indented text."""
        lines = [str(n) for n in self.nodes] + [str(h) for h in self.hops]
        lines += [f"where {f}" for f in self.filters]
        for word, patterns in (("optional", self.optional), ("not", self.absent)):
            for pattern in patterns:
                lines.append(word)
                lines += [f"  {line}" for line in pattern.lines()]
        lines += [f"where {f}" for f in self.late_filters]
        return lines


class Output(Struct, frozen=True):
    """One column of the answer."""

    name: str
    expression: Checked

    def __str__(self) -> str:
        text = str(self.expression)
        return text if text == self.name else f"{text} as {self.name}"


class Ordering(Struct, frozen=True):
    """One key of the order. `output` is set when it is a column of the answer."""

    expression: Checked
    descending: bool
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.output or self.expression} {'desc' if self.descending else 'asc'}"


class ReadPlan(Struct, frozen=True):
    """Match, group, order, cut and return.

    Attributes:
        keys: Names of the outputs to group by, when `grouped`.
        grouped: True when an output aggregates; without keys there is exactly one group.
    """

    pattern: Pattern
    outputs: tuple[Output, ...]
    grouped: bool
    keys: tuple[str, ...]
    distinct: bool
    order: tuple[Ordering, ...]
    limit: Constant | Parameter | None
    offset: Constant | Parameter | None

    def text(self) -> str:
        """The plan as indented text, the last step first."""
        steps: list[str] = ["return " + ", ".join(map(str, self.outputs))]
        if self.limit is not None:
            steps.append(f"limit {self.limit}" + (f" offset {self.offset}" if self.offset else ""))
        if self.order:
            steps.append("order " + ", ".join(map(str, self.order)))
        if self.distinct:
            steps.append("distinct")
        if self.grouped:
            steps.append("group " + (f"by {', '.join(self.keys)}" if self.keys else "all rows"))
        lines = ["  " * depth + step for depth, step in enumerate(steps)]
        indent = "  " * len(steps)
        lines.append(f"{indent}match")
        lines += [f"{indent}  {line}" for line in self.pattern.lines()]
        return "\n".join(lines)


class Assignment(Struct, frozen=True):
    """A property (or an edge's `from` / `to`) and its new value."""

    property: str
    value: Checked

    def __str__(self) -> str:
        return f"{self.property}: {self.value}"


class Insert(Struct, frozen=True):
    """A new node or edge; with a key, an upsert."""

    type: str
    kind: Literal["node", "edge"]
    values: tuple[Assignment, ...]

    def lines(self) -> list[str]:
        """The statement as indented text."""
        return [f"insert {self.kind} {self.type}", *(f"  {v}" for v in self.values)]

    def touched(self, catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The types it reads (an edge looks up its ends) and the types it may change."""
        edge = catalog.edges.get(self.type)
        return (edge.source, edge.target) if edge else (), (self.type,)


class Update(Struct, frozen=True):
    """New values for the rows that a predicate matches."""

    type: str
    kind: Literal["node", "edge"]
    values: tuple[Assignment, ...]
    condition: Checked

    def lines(self) -> list[str]:
        """The statement as indented text."""
        head = f"update {self.kind} {self.type} where {self.condition}"
        return [head, *(f"  {v}" for v in self.values)]

    def touched(self, catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The types it reads (new ends of an edge are looked up) and the types it may change."""
        edge = catalog.edges.get(self.type)
        assigned = {value.property for value in self.values}
        ends = {"from": edge.source, "to": edge.target} if edge else {}
        looked_up = (type for end, type in ends.items() if end in assigned)
        return (self.type, *looked_up), (self.type,)


class Delete(Struct, frozen=True):
    """Deletes the rows that a predicate matches, and the edges of `cascades` at deleted nodes."""

    type: str
    kind: Literal["node", "edge"]
    condition: Checked
    cascades: tuple[str, ...]

    def lines(self) -> list[str]:
        """The statement as indented text."""
        lines = [f"delete {self.kind} {self.type} where {self.condition}"]
        if self.cascades:
            lines.append(f"  cascade to {', '.join(self.cascades)}")
        return lines

    def touched(self, catalog: Catalog) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The types it reads and the types it may change."""
        return (self.type,), (self.type, *self.cascades)


Statement = Insert | Update | Delete


class WritePlan(Struct, frozen=True):
    """Statements that end in one commit."""

    statements: tuple[Statement, ...]

    def text(self) -> str:
        """The plan as indented text, in the order of execution."""
        return "\n".join(line for s in self.statements for line in s.lines())
