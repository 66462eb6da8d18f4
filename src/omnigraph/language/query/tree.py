"""The tree of a `.gq` text, as written: every node knows its span, nothing is resolved yet."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.diagnostics import Span
from omnigraph.language.syntax import AnnotationNode, LiteralNode, NameNode, TypeNode

# --- expressions -------------------------------------------------------------------------------


class VariableNode(Struct):
    """`$x`: a bound variable or a parameter."""

    name: str
    span: Span


class PropertyNode(Struct):
    """`$x.name`."""

    variable: VariableNode
    property: NameNode
    span: Span


class BareNode(Struct):
    """A bare name: a property in a mutation, an alias in `order`."""

    name: str
    span: Span


class ListNode(Struct):
    """A list with at least one element that is not a literal."""

    items: tuple[Expression, ...]
    span: Span


class BinaryNode(Struct):
    """A comparison or an arithmetic operation."""

    operator: str
    left: Expression
    right: Expression
    span: Span


class LogicNode(Struct):
    """`a and b and …` or `a or b or …`, flat."""

    operator: str
    items: tuple[Expression, ...]
    span: Span


class NotNode(Struct):
    """`not ( … )`."""

    item: Expression
    span: Span


class IsNullNode(Struct):
    """`x is null` or `x is not null`."""

    item: Expression
    negated: bool
    span: Span


class NegateNode(Struct):
    """`-x` on something that is not a literal."""

    item: Expression
    span: Span


class CallNode(Struct):
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


class FieldNode(Struct):
    """`name: value` in a binding, an insert or an update."""

    name: NameNode
    value: Expression
    span: Span


class BlockSpan(Struct):
    """Offsets of the two braces of a block."""

    open: int
    close: int


class BindingNode(Struct):
    """`$x: Type { name: value }`."""

    variable: VariableNode
    type: NameNode
    fields: tuple[FieldNode, ...]
    span: Span


class TraversalNode(Struct):
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


class FilterNode(Struct):
    """A boolean expression."""

    condition: Expression
    span: Span


class NestedNode(Struct):
    """`not { … }` or `optional { … }`."""

    word: str
    clauses: tuple[Clause, ...]
    block: BlockSpan
    span: Span


Clause = BindingNode | TraversalNode | FilterNode | NestedNode


class ProjectionNode(Struct):
    """An expression to return, with the name after `as`."""

    expression: Expression
    alias: NameNode | None
    span: Span


class OrderingNode(Struct):
    """An expression to order by; `descending` is None without a direction."""

    expression: Expression
    descending: bool | None
    span: Span


class ReadNode(Struct):
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


class InsertNode(Struct):
    """`insert Type { … }`."""

    type: NameNode
    fields: tuple[FieldNode, ...]
    block: BlockSpan
    span: Span


class UpdateNode(Struct):
    """`update Type set { … } where …`."""

    type: NameNode
    fields: tuple[FieldNode, ...]
    block: BlockSpan
    condition: Expression
    span: Span


class DeleteNode(Struct):
    """`delete Type where …`."""

    type: NameNode
    condition: Expression
    span: Span


Mutation = InsertNode | UpdateNode | DeleteNode

# --- files -------------------------------------------------------------------------------------


class ParameterNode(Struct):
    """`$name: type` in a query's head."""

    variable: VariableNode
    type: TypeNode
    span: Span


class QueryNode(Struct):
    """One query: a read or a sequence of mutations. `broken` when parts could not be parsed."""

    name: NameNode
    parameters: tuple[ParameterNode, ...]
    annotations: tuple[AnnotationNode, ...]
    body: ReadNode | tuple[Mutation, ...]
    block: BlockSpan
    broken: bool
    span: Span


class FileNode(Struct):
    """All queries of a text that could be parsed."""

    queries: tuple[QueryNode, ...]
