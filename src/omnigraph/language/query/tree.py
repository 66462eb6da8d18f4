"""The tree of a `.gq` text, as written: every node knows its span, nothing is resolved yet."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.diagnostics import Span
from omnigraph.language.syntax import AnnotationNode, LiteralNode, NameNode, TypeNode

# --- expressions -------------------------------------------------------------------------------


@dataclass(slots=True)
class VariableNode:
    """`$x`: a bound variable or a parameter."""

    name: str
    span: Span


@dataclass(slots=True)
class PropertyNode:
    """`$x.name`."""

    variable: VariableNode
    property: NameNode
    span: Span


@dataclass(slots=True)
class BareNode:
    """A bare name: a property in a mutation, an alias in `order`."""

    name: str
    span: Span


@dataclass(slots=True)
class ListNode:
    """A list with at least one element that is not a literal."""

    items: tuple[Expression, ...]
    span: Span


@dataclass(slots=True)
class BinaryNode:
    """A comparison or an arithmetic operation."""

    operator: str
    left: Expression
    right: Expression
    span: Span


@dataclass(slots=True)
class LogicNode:
    """`a and b and …` or `a or b or …`, flat."""

    operator: str
    items: tuple[Expression, ...]
    span: Span


@dataclass(slots=True)
class NotNode:
    """`not ( … )`."""

    item: Expression
    span: Span


@dataclass(slots=True)
class IsNullNode:
    """`x is null` or `x is not null`."""

    item: Expression
    negated: bool
    span: Span


@dataclass(slots=True)
class NegateNode:
    """`-x` on something that is not a literal."""

    item: Expression
    span: Span


@dataclass(slots=True)
class CallNode:
    """A function with its arguments; `distinct` only in `count(distinct …)`."""

    function: NameNode
    arguments: tuple[Expression, ...]
    distinct: bool
    span: Span


Expression = (
    LiteralNode
    | VariableNode
    | PropertyNode
    | BareNode
    | ListNode
    | BinaryNode
    | LogicNode
    | NotNode
    | IsNullNode
    | NegateNode
    | CallNode
)

# --- reads -------------------------------------------------------------------------------------


@dataclass(slots=True)
class FieldNode:
    """`name: value` in a binding, an insert or an update."""

    name: NameNode
    value: Expression
    span: Span


@dataclass(slots=True)
class BlockSpan:
    """Offsets of the two braces of a block."""

    open: int
    close: int


@dataclass(slots=True)
class BindingNode:
    """`$x: Type { name: value }`."""

    variable: VariableNode
    type: NameNode
    fields: tuple[FieldNode, ...]
    span: Span


@dataclass(slots=True)
class TraversalNode:
    """`$a edge $b`, with an optional edge variable, either direction, and hop bounds."""

    source: VariableNode
    target: VariableNode
    edge: NameNode
    variable: VariableNode | None
    undirected: bool
    low: int
    high: int | None
    bounds: Span | None
    span: Span


@dataclass(slots=True)
class FilterNode:
    """A boolean expression."""

    condition: Expression
    span: Span


@dataclass(slots=True)
class NestedNode:
    """`not { … }` or `optional { … }`."""

    word: str
    clauses: tuple[Clause, ...]
    block: BlockSpan
    span: Span


Clause = BindingNode | TraversalNode | FilterNode | NestedNode


@dataclass(slots=True)
class ProjectionNode:
    """An expression to return, with the name after `as`."""

    expression: Expression
    alias: NameNode | None
    span: Span


@dataclass(slots=True)
class OrderingNode:
    """An expression to order by."""

    expression: Expression
    descending: bool
    span: Span


@dataclass(slots=True)
class ReadNode:
    """`match { … } return { … } order { … } limit n offset m`."""

    clauses: tuple[Clause, ...]
    match_block: BlockSpan
    distinct: bool
    projections: tuple[ProjectionNode, ...]
    return_block: BlockSpan
    orderings: tuple[OrderingNode, ...]
    order_block: BlockSpan | None
    limit: LiteralNode | VariableNode | None
    offset: LiteralNode | VariableNode | None
    span: Span


# --- mutations ---------------------------------------------------------------------------------


@dataclass(slots=True)
class InsertNode:
    """`insert Type { … }`."""

    type: NameNode
    fields: tuple[FieldNode, ...]
    block: BlockSpan
    span: Span


@dataclass(slots=True)
class UpdateNode:
    """`update Type set { … } where …`."""

    type: NameNode
    fields: tuple[FieldNode, ...]
    block: BlockSpan
    condition: Expression
    span: Span


@dataclass(slots=True)
class DeleteNode:
    """`delete Type where …`."""

    type: NameNode
    condition: Expression
    span: Span


Mutation = InsertNode | UpdateNode | DeleteNode

# --- files -------------------------------------------------------------------------------------


@dataclass(slots=True)
class ParameterNode:
    """`$name: type` in a query's head."""

    variable: VariableNode
    type: TypeNode
    span: Span


@dataclass(slots=True)
class QueryNode:
    """One query: a read or a sequence of mutations. `broken` when parts could not be parsed."""

    name: NameNode
    parameters: tuple[ParameterNode, ...]
    annotations: tuple[AnnotationNode, ...]
    body: ReadNode | tuple[Mutation, ...]
    block: BlockSpan
    broken: bool
    span: Span


@dataclass(slots=True)
class FileNode:
    """All queries of a text that could be parsed."""

    queries: tuple[QueryNode, ...]
