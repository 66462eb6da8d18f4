"""Tokens → syntax tree, for schemas.

A hand-written recursive descent that goes on after a mistake: a broken property costs its line, a
broken header costs its declaration, and nothing is reported twice. It looks at each token a fixed
number of times, so it is linear in the length of the text.
"""

from __future__ import annotations

from omnigraph.diagnostics import Span, near_names
from omnigraph.language.query.expression_parser import parse_expression
from omnigraph.language.schema.tree import (
    BackfillNode,
    BodyNode,
    Declaration,
    EdgeNode,
    InterfaceNode,
    Member,
    NodeNode,
    PropertyNode,
    SchemaNode,
)
from omnigraph.language.stream import Abandoned, TokenStream
from omnigraph.language.syntax import AnnotationNode, NameNode, parse_annotation, parse_type
from omnigraph.language.tokens import END, NAME, Token

KEYWORDS = ("node", "edge", "interface")

#: Annotations that are constraints of the type when they have parentheses.
CONSTRAINTS = frozenset({"key", "unique", "index", "range", "check"})

_FOREIGN_KEYWORDS = {
    "type": "node", "class": "node", "table": "node", "vertex": "node", "entity": "node",
    "struct": "node", "record": "node", "model": "node", "create": "node",
    "relation": "edge", "relationship": "edge", "rel": "edge", "link": "edge",
    "trait": "interface", "abstract": "interface", "mixin": "interface", "protocol": "interface",
}  # fmt: skip
_WHAT_A_SCHEMA_IS = "a schema is a list of such declarations, like `node Person { name: String }`"


def parse_schema(stream: TokenStream) -> SchemaNode:
    """Parse a whole schema; what is wrong is recorded in the stream's report."""
    declarations: list[Declaration] = []
    complete = True
    while not stream.at(END):
        first = stream.current
        try:
            declarations.append(_declaration(stream))
        except Abandoned:
            complete = False
            if stream.current is first:
                stream.advance()
            while not stream.at(END) and not _starts_declaration(stream):
                stream.advance()
    return SchemaNode(declarations, complete)


def _starts_declaration(stream: TokenStream) -> bool:
    """True at a line that starts a declaration; a property may be called `node`, too."""
    return (
        stream.at_word(*KEYWORDS) and stream.starts_line() and stream.peek().kind not in (":", END)
    )


def _declaration(stream: TokenStream) -> Declaration:
    token = stream.current
    keyword = _keyword(stream)
    if keyword == "node":
        return _node(stream, token)
    if keyword == "edge":
        return _edge(stream, token)
    return _interface(stream, token)


def _keyword(stream: TokenStream) -> str:
    token = stream.current
    if token.kind == NAME and token.text in KEYWORDS:
        stream.advance()
        return token.text
    expected = "`node`, `edge` or `interface`"
    if token.kind != NAME:
        hint = "it closes nothing; remove it" if token.kind == "}" else _WHAT_A_SCHEMA_IS
        raise stream.unexpected(expected, hint)
    near = near_names(token.text, KEYWORDS)
    meant = _FOREIGN_KEYWORDS.get(token.text.lower()) or (near[0] if near else None)
    hint = f"did you mean `{meant}`?" if meant else _WHAT_A_SCHEMA_IS
    gone_on = stream.unexpected(expected, hint)
    if meant is None or stream.peek().kind != NAME:
        raise gone_on
    # The keyword is the only thing wrong: go on, so that the type is known to what follows.
    stream.advance()
    return meant


def _type_name(stream: TokenStream, what: str, hint: str | None = None) -> NameNode:
    if _starts_declaration(stream) and stream.peek().kind == NAME:
        raise _missing(stream, what, hint)
    token = _expect(stream, NAME, what, hint)
    return NameNode(token.text, (token.start, token.end))


def _expect(stream: TokenStream, kind: str, what: str, hint: str | None) -> Token:
    if stream.at(kind):
        return stream.advance()
    raise _missing(stream, what, hint)


def _missing(stream: TokenStream, what: str, hint: str | None) -> Abandoned:
    """Record that something is missing: where the line ends rather than where the next begins."""
    if not stream.starts_line():
        return stream.unexpected(what, hint)
    last = stream.previous
    return stream.fail(
        "OG-SY-001", f"expected {what} after `{last.text}`", (last.start, last.end), hint
    )


def _interface(stream: TokenStream, first: Token) -> InterfaceNode:
    name = _type_name(stream, "the name of the interface", "write `interface Name { … }`")
    annotations = _annotations(stream)
    hint = None
    if stream.at_word("implements", "extends") or stream.at(":"):
        hint = "an interface has no parents; a node type may implement several interfaces"
    body = _body(stream, name, hint)
    return InterfaceNode(name, annotations, body, (first.start, body.close[1]))


def _node(stream: TokenStream, first: Token) -> NodeNode:
    name = _type_name(stream, "the name of the node type", "write `node Name { … }`")
    annotations = _annotations(stream)
    implements: list[NameNode] = []
    hint = f"write `node {name.text} {{}}` for a type without properties"
    if stream.accept_word("implements"):
        implements.append(_type_name(stream, "the name of an interface"))
        while stream.accept(","):
            implements.append(_type_name(stream, "the name of an interface"))
        annotations += _annotations(stream)
        if stream.at(NAME) and not stream.starts_line():
            hint = "separate interfaces with commas"
    elif stream.at(":") or stream.at_word("extends", "is", "with"):
        hint = f"write `node {name.text} implements Name {{ … }}`"
    elif near := stream.misspelt(["implements"]):
        hint = near
    body = _body(stream, name, hint)
    return NodeNode(name, annotations, implements, body, (first.start, body.close[1]))


def _edge(stream: TokenStream, first: Token) -> EdgeNode:
    form = "write `edge Name: Source -> Target`"
    name = _type_name(stream, "the name of the edge type", form)
    form = f"write `edge {name.text}: Source -> Target`"
    _expect(stream, ":", "`:`", form)
    source = _type_name(stream, "the node type where the edge starts", form)
    hint = f"write `edge {name.text}: {source.text} -> Target`"
    if stream.at("<"):
        hint = "an edge is written from its source: `Source -> Target`"
    _expect(stream, "->", "`->`", hint)
    target = _type_name(stream, "the node type where the edge ends", hint)
    annotations = _annotations(stream)
    body = _body(stream, name, None) if stream.at("{") else None
    end = body.close[1] if body else stream.previous.end
    # Declarations without a body may share a line.
    is_followed = stream.at_word(*KEYWORDS) and stream.peek().kind == NAME
    if body is None and not (stream.at(END) or stream.starts_line() or is_followed):
        raise stream.unexpected("`{`, an annotation, a declaration or a new line")
    return EdgeNode(name, source, target, annotations, body, (first.start, end))


def _annotations(stream: TokenStream) -> list[AnnotationNode]:
    annotations: list[AnnotationNode] = []
    while stream.at("@"):
        annotations.append(_annotation(stream))
    return annotations


def _annotation(stream: TokenStream) -> AnnotationNode:
    name = stream.peek()
    if name.kind != NAME or name.text != "backfill" or stream.peek(2).kind != "(":
        return parse_annotation(stream)
    start = stream.advance().start
    stream.advance()
    stream.advance()
    with stream.nested():
        expression = parse_expression(stream)
    end = stream.expect(")").end
    return BackfillNode(
        name.text, (), (), True, (start, end), (start, name.end), expression=expression
    )


def _body(stream: TokenStream, owner: NameNode, hint: str | None) -> BodyNode:
    opening = _expect(stream, "{", "`{`", hint)
    open_span: Span = (opening.start, opening.end)
    members: list[Member] = []
    complete = True
    while not stream.at("}"):
        if stream.at(END) or (_starts_declaration(stream) and stream.peek().kind == NAME):
            stream.report.error(
                "OG-SY-004",
                f"the body of `{owner.text}` is never closed",
                open_span,
                f"close it with `}}` before line {stream.report.position(stream.current.start)[0]}"
                if not stream.at(END)
                else "close it with `}` at the end of the text",
            )
            here = stream.previous.end
            return BodyNode(members, open_span, (here, here), complete=False)
        first = stream.current
        try:
            member = _member(stream, members)
            if member is not None:
                members.append(member)
            stream.accept(",")
        except Abandoned:
            complete = False
            _skip_member(stream, first)
    closing = stream.advance()
    return BodyNode(members, open_span, (closing.start, closing.end), complete)


def _member(stream: TokenStream, before: list[Member]) -> Member | None:
    if stream.at("@"):
        return _constraint(stream, before)
    if not stream.at(NAME):
        hint = None
        if stream.at("{"):
            hint = "the body has one `{`; remove this one"
        raise stream.unexpected("a property, a constraint or `}`", hint)
    name = stream.advance()
    form = f"write `{name.text}: Type`"
    if stream.at("?"):
        form = f"write `{name.text}: Type?`: the `?` stands behind the type"
    stream.expect(":", f"`:` after `{name.text}`", form)
    if _ends_member(stream):
        colon = stream.previous
        raise stream.fail(
            "OG-SY-001",
            f"expected the type of `{name.text}` behind the `:`",
            (colon.start, colon.end),
            f"write a type, such as `{name.text}: String`",
        )
    type = parse_type(stream)
    annotations: list[AnnotationNode] = []
    while stream.at("@") and not _at_constraint(stream):
        annotations.append(_annotation(stream))
    return PropertyNode(
        NameNode(name.text, (name.start, name.end)),
        type,
        annotations,
        (name.start, stream.previous.end),
    )


def _ends_member(stream: TokenStream) -> bool:
    """True where the next member or the end of the body stands already."""
    if stream.at("}") or stream.at("@") or stream.at(END):
        return True
    after = stream.peek(2) if stream.peek().kind == "?" else stream.peek()
    return stream.at(NAME) and stream.starts_line() and after.kind == ":"


def _at_constraint(stream: TokenStream) -> bool:
    name, after = stream.peek(), stream.peek(2)
    return name.kind == NAME and name.text in CONSTRAINTS and after.kind == "("


def _constraint(stream: TokenStream, before: list[Member]) -> AnnotationNode | None:
    node = _annotation(stream)
    if node.name in CONSTRAINTS and node.parens:
        return node
    if node.name in CONSTRAINTS:
        example = {"range": "age, 0..120", "check": 'name, "^[A-Z]"'}.get(node.name, "name")
        last = before[-1] if before else None
        if isinstance(last, PropertyNode) and node.name not in ("range", "check"):
            example = last.name.text
        hint = f"write `@{node.name}({example})`"
        if node.name not in ("range", "check"):
            hint += f", or `@{node.name}` behind a property, without a comma"
        message = f"`@{node.name}` does not say which property it is about"
    else:
        message = f"`@{node.name}` stands behind no property"
        hint = "write it behind the type of its property, or before the `{` for the whole type"
    stream.report.error("OG-SC-156", message, node.span, hint)
    return None


def _skip_member(stream: TokenStream, first: Token) -> None:
    """Skip what is left of a broken member that began at `first`."""
    depth = _open_brackets(stream, first)
    moved = stream.current is not first
    while not stream.at(END):
        kind = stream.current.kind
        if moved:
            begins_line = stream.starts_line()
            if kind == "}" or (begins_line and _starts_declaration(stream)):
                return
            begins_member = kind == "@" or (kind == NAME and stream.peek().kind == ":")
            if begins_line and (depth == 0 or begins_member):
                return
            if depth == 0 and kind == NAME and begins_member:
                return
            if depth == 0 and kind == ",":
                stream.advance()
                return
        moved = True
        if kind == "{":
            stream.advance()
            stream.skip_balanced("}")
        elif kind in ("(", "["):
            depth += 1
        elif kind in (")", "]"):
            depth = max(0, depth - 1)
        stream.advance()


def _open_brackets(stream: TokenStream, first: Token) -> int:
    """Count the brackets opened and not closed between `first` and the current token."""
    depth = 0
    back = -1
    while (token := stream.peek(back)).start >= first.start and token is not stream.current:
        depth += (token.kind in ("(", "[")) - (token.kind in (")", "]"))
        if token is first:
            break
        back -= 1
    return max(0, depth)
