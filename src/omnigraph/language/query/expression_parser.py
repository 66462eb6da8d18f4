"""Parsing expressions: precedence climbing, so that nesting costs little stack.

From loose to tight: `or`, `and`, comparisons (which do not chain), `+ -`, `* /`, unary minus.
The height of the tree is bounded (nesting by the stream, operators here), so that everything
that walks it later may recurse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.language.query import tree
from omnigraph.language.query.tree import Expression
from omnigraph.language.stream import TokenStream
from omnigraph.language.syntax import LiteralNode, NameNode, parse_moment
from omnigraph.language.tokens import FLOAT, INTEGER, NAME, STRING, VARIABLE

#: Arithmetic operators in one expression.
MAX_OPERATORS = 100

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
WORD_COMPARISONS = frozenset({"contains", "starts_with", "in"})
#: Words that may follow an operand. An edge may still have such a name.
OPERATOR_WORDS = frozenset({*WORD_COMPARISONS, "is", "and", "or"})

_OR, _AND, _COMPARE, _ADD, _MULTIPLY = 1, 2, 3, 4, 5
_ARITHMETIC = {"+": _ADD, "-": _ADD, "*": _MULTIPLY, "/": _MULTIPLY}
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse_expression(stream: TokenStream, *, column: bool = False) -> Expression:
    """Parse one expression at the current token; a `column` may be followed by `as` and a name."""
    return _ExpressionParser(stream, column).parse(_OR)


class _ExpressionParser:
    """State of one expression: the stream, how many operators were seen, and open brackets."""

    __slots__ = ("brackets", "column", "operators", "stream")

    def __init__(self, stream: TokenStream, column: bool) -> None:
        self.stream = stream
        self.column = column
        self.operators = 0
        self.brackets = 0

    def parse(self, loosest: int) -> Expression:
        stream = self.stream
        left = self.operand()
        while True:
            token = stream.current
            kind = token.kind
            if kind in _ARITHMETIC:
                tightness = _ARITHMETIC[kind]
                if tightness < loosest or self.starts_next_item():
                    return left
                stream.advance()
                self.count_operator()
                right = self.parse(tightness + 1)
                left = tree.BinaryNode(kind, left, right, (left.span[0], right.span[1]))
            elif kind in COMPARISONS or (kind == NAME and token.text in WORD_COMPARISONS):
                if loosest > _COMPARE:
                    return left
                left = self.comparison(left)
            elif kind == NAME and token.text == "is":
                if loosest > _COMPARE:
                    return left
                left = self.is_null(left)
            elif kind == NAME and token.text in ("and", "or"):
                tightness = _AND if token.text == "and" else _OR
                if tightness < loosest:
                    return left
                left = self.logic(left, token.text, tightness)
            else:
                return left

    def starts_next_item(self) -> bool:
        """True at a minus that begins the next clause or column: new lines separate those.

        It stands first on its line and touches what it negates, outside of brackets.
        """
        stream = self.stream
        return (
            stream.at("-")
            and not self.brackets
            and stream.peek().start == stream.current.end
            and stream.starts_line()
        )

    @contextmanager
    def bracket(self) -> Iterator[None]:
        """Consume an opening bracket, and count it while its inside is parsed."""
        with self.stream.nested():
            self.stream.advance()
            self.brackets += 1
            try:
                yield
            finally:
                self.brackets -= 1

    def comparison(self, left: Expression) -> Expression:
        stream = self.stream
        operator = stream.advance().text
        if operator == "=" and stream.at("="):
            raise stream.unexpected("a value", "write one `=` to compare")
        if operator == "<" and stream.at(">"):
            raise stream.unexpected("a value", "write `!=` for unequal")
        right = self.parse(_ADD)
        token = stream.current
        if token.kind in COMPARISONS or stream.at_word("is", *WORD_COMPARISONS):
            raise stream.unexpected(
                "the end of the comparison",
                "comparisons do not chain: join two with `and`, or use parentheses",
            )
        return tree.BinaryNode(operator, left, right, (left.span[0], right.span[1]))

    def is_null(self, left: Expression) -> Expression:
        stream = self.stream
        stream.advance()
        negated = stream.accept_word("not") is not None
        if not stream.accept_word("null"):
            raise stream.unexpected(
                "`null` or `not null`", "only null is tested with `is`; compare with `=`"
            )
        return tree.IsNullNode(left, negated, (left.span[0], stream.previous.end))

    def logic(self, left: Expression, word: str, tightness: int) -> Expression:
        stream = self.stream
        items = [left]
        while stream.accept_word(word):
            items.append(self.parse(tightness + 1))
        return tree.LogicNode(word, tuple(items), (left.span[0], items[-1].span[1]))

    def operand(self) -> Expression:
        stream = self.stream
        token = stream.current
        kind = token.kind
        if kind == VARIABLE:
            stream.advance()
            variable = tree.VariableNode(str(token.value), (token.start, token.end))
            if not stream.accept("."):
                return variable
            name = stream.expect(NAME, "the name of a property")
            return tree.PropertyNode(
                variable, NameNode(name.text, (name.start, name.end)), (token.start, name.end)
            )
        if kind in (STRING, INTEGER, FLOAT):
            stream.advance()
            return LiteralNode(token.value, (token.start, token.end))
        if kind == NAME:
            return self.word()
        if kind == "-":
            return self.negative()
        if kind == "(":
            with self.bracket():
                inner = self.parse(_OR)
                hint = "write `$x: Type` without parentheses" if stream.at(":") else None
                stream.expect(")", None, hint)
            return inner
        if kind == "[":
            return self.list()
        hint = "name what to return: `$x`, `$x.property`" if kind == "*" else None
        raise stream.unexpected("an expression", hint)

    def negative(self) -> Expression:
        stream = self.stream
        start = stream.advance().start
        token = stream.current
        if token.kind in (INTEGER, FLOAT):
            stream.advance()
            assert isinstance(token.value, int | float)
            return LiteralNode(-token.value, (start, token.end))
        self.count_operator()
        with stream.nested():
            item = self.operand()
        return tree.NegateNode(item, (start, item.span[1]))

    def list(self) -> Expression:
        stream = self.stream
        start = stream.current.start
        items: list[Expression] = []
        with self.bracket():
            while not stream.at("]"):
                items.append(self.parse(_OR))
                if not stream.accept(","):
                    break
            end = stream.expect("]", "`,` or `]`").end
        if all(isinstance(item, LiteralNode) for item in items):
            return LiteralNode([i.value for i in items if isinstance(i, LiteralNode)], (start, end))
        return tree.ListNode(tuple(items), (start, end))

    def word(self) -> Expression:
        stream = self.stream
        token = stream.current
        if token.text in _CONSTANTS:
            stream.advance()
            return LiteralNode(_CONSTANTS[token.text], (token.start, token.end))
        if token.text == "not":
            return self.negation()
        if self.column and token.text == "as" and stream.peek().kind == NAME:
            raise stream.unexpected("an expression before `as`")
        stream.advance()
        if stream.at("."):
            raise stream.fail(
                "OG-SY-001",
                f"expected an expression, found `{token.text}.`",
                (token.start, token.end),
                f"variables start with `$`: write `${token.text}.…`",
            )
        if not stream.at("("):
            return tree.BareNode(token.text, (token.start, token.end))
        if token.text in ("date", "datetime"):
            value = parse_moment(stream, token.text, token.start)
            return LiteralNode(value, (token.start, stream.previous.end))
        return self.call(NameNode(token.text, (token.start, token.end)))

    def negation(self) -> Expression:
        stream = self.stream
        start = stream.advance().start
        if not stream.at("("):
            hint = "write `not ( … )`"
            if stream.at_word(*WORD_COMPARISONS):
                hint = f"write `not ($x.property {stream.current.text} …)`"
            raise stream.unexpected("`(` after `not`", hint)
        with self.bracket():
            inner = self.parse(_OR)
            end = stream.expect(")").end
        return tree.NotNode(inner, (start, end))

    def call(self, function: NameNode) -> Expression:
        stream = self.stream
        arguments: list[Expression] = []
        with self.bracket():
            if stream.at("*"):
                raise stream.unexpected(
                    "an argument", "count a variable instead: `count($x)` counts its rows"
                )
            distinct = stream.at_word("distinct") and stream.peek().kind != ")"
            if distinct:
                stream.advance()
            while not stream.at(")"):
                arguments.append(self.parse(_OR))
                if not stream.accept(","):
                    break
            end = stream.expect(")", "`,` or `)`").end
        return tree.CallNode(function, tuple(arguments), distinct, (function.span[0], end))

    def count_operator(self) -> None:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            token = self.stream.previous
            raise self.stream.fail(
                "OG-SY-002",
                f"more than {MAX_OPERATORS} arithmetic operators in one expression",
                (token.start, token.end),
                "split the expression",
            )
