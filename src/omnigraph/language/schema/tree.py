"""The syntax tree of a schema: what the text says, with the place of every part.

Nothing is checked here. The tree keeps properties and constraints of a body in one list, in the
order written, so that the formatter can print them back in that order.
"""

from __future__ import annotations

from msgspec import Struct

from omnigraph.diagnostics import Span
from omnigraph.language.query.tree import Expression
from omnigraph.language.syntax import AnnotationNode, NameNode, TypeNode


class BackfillNode(AnnotationNode):
    """`@backfill(expression)`: an annotation whose argument is an expression of queries."""

    expression: Expression


class PropertyNode(Struct):
    """`name: Type @annotation …`."""

    name: NameNode
    type: TypeNode
    annotations: list[AnnotationNode]
    span: Span


#: An annotation in a body is a constraint of the type, such as `@unique(a, b)`.
Member = PropertyNode | AnnotationNode


class BodyNode(Struct):
    """`{ … }`. `complete` is False when a member could not be read."""

    members: list[Member]
    open: Span
    close: Span
    complete: bool


class InterfaceNode(Struct):
    """`interface Name { … }`. Annotations are read here only to be refused with a good message."""

    name: NameNode
    annotations: list[AnnotationNode]
    body: BodyNode
    span: Span


class NodeNode(Struct):
    """`node Name @annotation … implements A, B { … }`."""

    name: NameNode
    annotations: list[AnnotationNode]
    implements: list[NameNode]
    body: BodyNode
    span: Span


class EdgeNode(Struct):
    """`edge Name: Source -> Target @annotation … [{ … }]`."""

    name: NameNode
    source: NameNode
    target: NameNode
    annotations: list[AnnotationNode]
    body: BodyNode | None
    span: Span


Declaration = InterfaceNode | NodeNode | EdgeNode


class SchemaNode(Struct):
    """A whole schema. `complete` is False when a declaration could not be read."""

    declarations: list[Declaration]
    complete: bool
