"""Schema text → schema text in the one canonical style.

Two spaces of indent, one member per line, one blank line between declarations. Comments, the
order of things and the spelling of literals stay; the text has to parse, but may break rules.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType

from omnigraph.diagnostics import Report, Span, TooManyErrors
from omnigraph.errors import SchemaError
from omnigraph.language.layout import Layout
from omnigraph.language.query.formatter import expression_text
from omnigraph.language.schema.catalog import ENDS_AS_COLUMNS
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.tree import (
    BackfillNode,
    Declaration,
    EdgeNode,
    NodeNode,
    PropertyNode,
    SchemaNode,
)
from omnigraph.language.stream import TokenStream
from omnigraph.language.syntax import AnnotationNode
from omnigraph.language.tokens import Token, tokenize

_TIGHT_BEFORE = frozenset({",", ")", "]", ":", "?", "..", "=", "(", "-"})
_TIGHT_AFTER = frozenset({"(", "[", "@", "..", "=", "-"})
_CLOSING = frozenset({")", "]"})


def format_schema(text: str, path: str | None = None) -> str:
    """Write a schema in canonical style.

    Args:
        text: The schema.
        path: What messages call the text, usually the name of its file.

    Raises:
        SchemaError: The text does not parse.
    """
    report = Report(text, path)
    schema: SchemaNode | None = None
    try:
        stream = TokenStream(report)
        schema = parse_schema(stream)
    except TooManyErrors:
        pass
    if schema is None or report.has_errors:
        raise SchemaError(report.diagnostics)
    return _Formatter(text, stream).run(schema)


class _Formatter:
    def __init__(self, text: str, stream: TokenStream) -> None:
        # The stream gives tokens one by one only; cutting the text again costs little.
        self._tokens = tokenize(Report(text))[0]
        self._starts = [t.start for t in self._tokens]
        self._out = Layout(text, stream.comments)

    def run(self, schema: SchemaNode) -> str:
        for declaration in schema.declarations:
            self._declaration(declaration)
        return self._out.finish()

    def _declaration(self, node: Declaration) -> None:
        head = self._head(node)
        start, end = node.span
        body = node.body
        if body is None or not (
            body.members or self._out.has_comments(body.open[1], body.close[0])
        ):
            if body is not None and not isinstance(node, EdgeNode):
                head += " {}"
            self._out.item((start, end), head, 0, apart=True, opens=False)
            return
        self._out.item((start, body.open[1]), f"{head} {{", 0, apart=True)
        ends = ENDS_AS_COLUMNS if isinstance(node, EdgeNode) else {}
        for member in body.members:
            self._out.item(member.span, self._member(member, ends), 1)
        self._out.close(body.close[0], "}", 0)

    def _head(self, node: Declaration) -> str:
        annotations = node.annotations
        if isinstance(node, EdgeNode):
            head = f"edge {node.name.text}: {node.source.text} -> {node.target.text}"
            annotations = sorted(annotations, key=lambda a: a.name != "card")
        elif isinstance(node, NodeNode):
            head = f"node {node.name.text}"
        else:
            head = f"interface {node.name.text}"
        head += self._annotations(annotations)
        if isinstance(node, NodeNode) and node.implements:
            head += f" implements {', '.join(name.text for name in node.implements)}"
        return head

    def _member(self, member: PropertyNode | AnnotationNode, ends: Mapping[str, str]) -> str:
        if isinstance(member, AnnotationNode):
            return self._source(member.span, ends)
        type = self._source(member.type.span)
        return f"{member.name.text}: {type}{self._annotations(member.annotations)}"

    def _annotations(self, annotations: list[AnnotationNode]) -> str:
        return "".join(f" {self._annotation(a)}" for a in annotations)

    def _annotation(self, annotation: AnnotationNode) -> str:
        if isinstance(annotation, BackfillNode):
            return f"@{annotation.name}({expression_text(annotation.expression)})"
        return self._source(annotation.span)

    def _source(self, span: Span, spellings: Mapping[str, str] = MappingProxyType({})) -> str:
        """Write the tokens of a place with canonical spaces, and some names as they should be."""
        parts: list[str] = []
        before = ""
        at = bisect_left(self._starts, span[0])
        while (token := self._tokens[at]).start < span[1]:
            at += 1
            if _is_needless(token, self._tokens[at]):
                continue
            tight = token.kind in _TIGHT_BEFORE or before in _TIGHT_AFTER
            if parts and (before == "," or not tight):
                parts.append(" ")
            parts.append(spellings.get(token.text, token.text))
            before = token.kind
        return "".join(parts)


def _is_needless(token: Token, after: Token) -> bool:
    return token.kind == "," and after.kind in _CLOSING
