"""The grammar both languages share: types, literals and annotations."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from omnigraph.diagnostics import Span, did_you_mean
from omnigraph.language.stream import Abandoned, TokenStream
from omnigraph.language.tokens import FLOAT, INTEGER, NAME, STRING
from omnigraph.language.types import DATE, DATETIME, MAX_DIMENSION, SCALAR_NAMES, Scalar, ValueType
from omnigraph.language.values import ValueFault, coerce, float_text, literal_text

_TYPE_NAMES = (*SCALAR_NAMES, "Vector", "enum")
_SCALARS = {s.value: s for s in Scalar}
#: What people write who come from other languages.
_FOREIGN_TYPES = {
    "int": "I64", "integer": "I64", "long": "I64", "bigint": "I64", "number": "F64", "i8": "I32",
    "i16": "I32", "float": "F64", "double": "F64", "str": "String", "text": "String",
    "varchar": "String", "boolean": "Bool", "timestamp": "DateTime", "time": "DateTime",
    "bytes": "Blob", "binary": "Blob", "uint": "U64", "json": "String", "uuid": "String",
}  # fmt: skip


class NameNode(Struct):
    """A name in the text."""

    text: str
    span: Span


class LiteralNode(Struct):
    """A literal: `value` is a checked value (see `language.values`)."""

    value: Any
    span: Span


class RangeNode(Struct):
    """`low..high`, either end open (None)."""

    low: int | float | None
    high: int | float | None
    span: Span


class TypeNode(Struct):
    """A written type; `type` is None when it was wrong (the error is recorded)."""

    type: ValueType | None
    span: Span


Argument = NameNode | LiteralNode | RangeNode


class AnnotationNode(Struct):
    """`@name` or `@name(argument, …, option=literal, …)`."""

    name: str
    arguments: tuple[Argument, ...]
    options: tuple[tuple[NameNode, LiteralNode], ...]
    parens: bool
    span: Span
    name_span: Span


def parse_type(stream: TokenStream) -> TypeNode:
    """Parse a type. An unknown name is reported, and the node has no type."""
    start = stream.current.start
    type = _bare_type(stream)
    if stream.accept("?") and type is not None:
        type = type.as_nullable()
    return TypeNode(type, (start, stream.previous.end))


def _bare_type(stream: TokenStream) -> ValueType | None:
    if stream.accept("["):
        element = stream.expect(NAME, "the type of the list's elements")
        scalar = _scalar(stream, element)
        if stream.at("?"):
            raise stream.unexpected("`]`", "elements cannot be null; write `?` after the `]`")
        stream.expect("]")
        if scalar is Scalar.BLOB:
            stream.report.error(
                "OG-TY-001",
                "a list cannot hold blobs",
                (element.start, element.end),
                "make a node type for the files and an edge to it",
            )
            return None
        return ValueType(scalar, is_list=True) if scalar else None
    token = stream.expect(NAME, "a type")
    if token.text == "enum" and stream.at("("):
        return _enum(stream)
    if token.text == "Vector" and stream.at("("):
        return _vector(stream)
    if token.text in ("Vector", "enum"):
        example = "Vector(384)" if token.text == "Vector" else "enum(open, closed)"
        raise stream.fail(
            "OG-SY-001",
            f"expected `(` after `{token.text}`",
            (token.start, token.end),
            f"write `{example}`",
        )
    scalar = _scalar(stream, token)
    return ValueType(scalar) if scalar else None


def _scalar(stream: TokenStream, token: Any) -> Scalar | None:
    scalar = _SCALARS.get(token.text)
    if scalar is None:
        foreign = _FOREIGN_TYPES.get(token.text.lower())
        hint = f"did you mean `{foreign}`?" if foreign else did_you_mean(token.text, _TYPE_NAMES)
        problem = f"unknown type `{token.text}`"
        if token.text in ("Vector", "enum"):
            problem = f"a list cannot hold {token.text} values"
            hint = "lists hold scalars, such as [String]"
        stream.report.error(
            "OG-TY-001",
            problem,
            (token.start, token.end),
            hint or f"types are {', '.join(_TYPE_NAMES)} and lists like [String]",
        )
        # Arguments of an unknown type, such as `VARCHAR(20)`, are part of the same mistake.
        if stream.at("("):
            stream.advance()
            stream.skip_balanced(")")
            stream.accept(")")
    return scalar


def _enum(stream: TokenStream) -> ValueType | None:
    stream.expect("(")
    values: dict[str, None] = {}
    good = True
    while not stream.at(")"):
        token = stream.current
        if token.kind == NAME:
            value = _hyphenated(stream).text
        elif token.kind == STRING:
            value = str(stream.advance().value)
        elif token.kind in (INTEGER, FLOAT):
            raise stream.unexpected("an enum value", f'quote it: "{token.text}"')
        else:
            raise stream.unexpected("an enum value", "write names or quoted texts, with commas")
        problem = "an enum value cannot be empty" if not value else None
        if value in values:
            problem = f"enum value `{value}` is listed twice"
        if problem:
            good = False
            stream.report.error("OG-TY-003", problem, (token.start, stream.previous.end))
        values[value] = None
        if not stream.accept(","):
            break
    hint = None
    if stream.at("-") or stream.at(NAME):
        hint = "quote what is no name, or names with single hyphens between them"
    close = stream.expect(")", "`,` or `)`", hint)
    if not values:
        stream.report.error(
            "OG-TY-003",
            "an enum needs at least one value",
            (close.start, close.end),
            "write `enum(open, closed)`",
        )
        good = False
    return ValueType(Scalar.STRING, values=tuple(sorted(values))) if good else None


def _hyphenated(stream: TokenStream) -> NameNode:
    """A name, or names and numbers with hyphens between them: `data-eng`, without a space."""
    first = last = stream.expect(NAME, "a name")
    text = first.text
    while (
        stream.at("-")
        and stream.current.start == last.end
        and stream.peek().kind in (NAME, INTEGER)
        and stream.peek().start == stream.current.end
    ):
        stream.advance()
        last = stream.advance()
        text += f"-{last.text}"
    return NameNode(text, (first.start, last.end))


def _vector(stream: TokenStream) -> ValueType | None:
    stream.expect("(")
    token = stream.expect(INTEGER, "the number of dimensions", "write `Vector(384)`")
    stream.expect(")")
    dimension = token.value
    assert isinstance(dimension, int)
    if not 1 <= dimension <= MAX_DIMENSION:
        stream.report.error(
            "OG-TY-002",
            f"a vector cannot have {token.text} dimensions",
            (token.start, token.end),
            f"1 to {MAX_DIMENSION} are possible",
        )
        return None
    return ValueType(Scalar.F32, dimension=dimension)


def at_literal(stream: TokenStream) -> bool:
    """True when a literal starts at the current token."""
    token = stream.current
    if token.kind in (STRING, INTEGER, FLOAT, "["):
        return True
    if token.kind == "-":
        return stream.peek().kind in (INTEGER, FLOAT)
    if token.kind == NAME:
        if token.text in ("date", "datetime"):
            return stream.peek().kind == "("
        return token.text in ("true", "false", "null")
    return False


def parse_literal(stream: TokenStream) -> LiteralNode:
    """Parse a literal: text, number, true, false, null, date("…"), datetime("…") or a list."""
    start = stream.current.start
    if not at_literal(stream):
        raise stream.unexpected("a literal", "text is written in double quotes")
    if stream.accept("["):
        values = []
        with stream.nested():
            while not stream.at("]"):
                values.append(parse_literal(stream).value)
                if not stream.accept(","):
                    break
        stream.expect("]", "`,` or `]`")
        return LiteralNode(values, (start, stream.previous.end))
    token = stream.advance()
    value: Any
    if token.kind == "-":
        number = stream.advance()
        assert isinstance(number.value, int | float)
        value = -number.value
    elif token.kind == NAME:
        if token.text in ("date", "datetime"):
            value = parse_moment(stream, token.text, start)
        else:
            value = {"true": True, "false": False, "null": None}[token.text]
    else:
        value = token.value
    return LiteralNode(value, (start, stream.previous.end))


def parse_moment(stream: TokenStream, word: str, start: int) -> Any:
    """Parse the `("…")` of a date or datetime literal, after its word."""
    stream.expect("(")
    text = stream.expect(
        STRING, f"the text of the {word}", 'write `date("2026-01-31")`' if word == "date" else None
    )
    stream.expect(")")
    try:
        return coerce(text.value, DATE if word == "date" else DATETIME)
    except ValueFault as fault:
        raise stream.fail(
            "OG-TY-004", fault.message, (start, stream.previous.end), fault.hint
        ) from None


def parse_annotation(stream: TokenStream) -> AnnotationNode:
    """Parse an annotation at the current `@`."""
    start = stream.expect("@").start
    name = stream.expect(NAME, "the name of the annotation")
    arguments: list[Argument] = []
    options: list[tuple[NameNode, LiteralNode]] = []
    parens = stream.accept("(") is not None
    if parens:
        while not stream.at(")"):
            if stream.at(NAME) and stream.peek().kind == "=":
                key = stream.advance()
                stream.advance()
                options.append((NameNode(key.text, (key.start, key.end)), parse_literal(stream)))
            else:
                arguments.append(_argument(stream))
            if not stream.accept(","):
                break
        stream.expect(")", "`,` or `)`")
    return AnnotationNode(
        name.text,
        tuple(arguments),
        tuple(options),
        parens,
        (start, stream.previous.end),
        (start, name.end),
    )


def _argument(stream: TokenStream) -> Argument:
    start = stream.current.start
    if stream.accept(".."):
        return _range(stream, None, start)
    if at_literal(stream):
        literal = parse_literal(stream)
        number = literal.value
        if stream.at("..") and isinstance(number, int | float) and not isinstance(number, bool):
            stream.advance()
            return _range(stream, number, start)
        return literal
    if not stream.at(NAME):
        raise stream.unexpected("an argument", "write names, literals or a range like 0..120")
    return _hyphenated(stream)


def _range(stream: TokenStream, low: int | float | None, start: int) -> RangeNode:
    high: int | float | None = None
    if stream.at("-") or stream.at(INTEGER) or stream.at(FLOAT):
        high = parse_literal(stream).value
    return RangeNode(low, high, (start, stream.previous.end))


def range_text(low: int | float | None, high: int | float | None) -> str:
    """Write a range as the schema language does."""

    def end(bound: int | float | None) -> str:
        if bound is None:
            return ""
        return float_text(bound) if isinstance(bound, float) else str(bound)

    return f"{end(low)}..{end(high)}"


def annotation_text(node: AnnotationNode) -> str:
    """Write an annotation in canonical style."""
    if not node.parens:
        return f"@{node.name}"
    parts = [_argument_text(a) for a in node.arguments]
    parts += [f"{key.text}={literal_text(value.value)}" for key, value in node.options]
    return f"@{node.name}({', '.join(parts)})"


def _argument_text(argument: Argument) -> str:
    if isinstance(argument, NameNode):
        return argument.text
    if isinstance(argument, RangeNode):
        return range_text(argument.low, argument.high)
    return literal_text(argument.value)


__all__ = [
    "Abandoned",
    "AnnotationNode",
    "Argument",
    "LiteralNode",
    "NameNode",
    "RangeNode",
    "TypeNode",
    "annotation_text",
    "at_literal",
    "parse_annotation",
    "parse_literal",
    "parse_moment",
    "parse_type",
    "range_text",
]
