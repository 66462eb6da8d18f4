"""`.gq` tokens → tree. Recovers after an error, so that one run reports every mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from omnigraph.diagnostics import did_you_mean
from omnigraph.language.query import tree
from omnigraph.language.query.expression_parser import (
    COMPARISONS,
    OPERATOR_WORDS,
    parse_expression,
)
from omnigraph.language.query.tree import Expression
from omnigraph.language.stream import Abandoned, TokenStream
from omnigraph.language.syntax import (
    AnnotationNode,
    LiteralNode,
    NameNode,
    parse_annotation,
    parse_type,
)
from omnigraph.language.tokens import END, INTEGER, NAME, VARIABLE, Token

_Node = TypeVar("_Node")
_TOP = frozenset({"query"})
_MUTATIONS = ("insert", "update", "delete")
_A_MUTATION = "`insert`, `update` or `delete`"
_READ_OR_WRITE = "a query either reads or writes: make two queries"
_SECTIONS = frozenset({"match", "return", "order", "limit", "query", *_MUTATIONS})
_ANNOTATIONS = ("description", "instruction")
_NESTED = ("not", "optional")
_CONSTANTS = ("true", "false", "null")
#: Words that do not begin a clause, and what to write instead.
_NO_CLAUSES = {
    "where": "a filter stands in `match` without a word before it",
    "filter": "a filter stands in `match` without a word before it",
    "and": "all clauses have to hold anyway: leave `and` away",
    "or": "write the alternatives as one clause: `… or …`",
    "optional": "write `optional { … }`",
}
#: Operators of other languages, and what to write instead.
_FOREIGN_OPERATORS = {
    "like": "use `starts_with` or `contains`",
    "ilike": "use `starts_with` or `contains`",
    "matches": "use `starts_with` or `contains`, or a search function",
    "between": "write two comparisons: `… >= 1 and … <= 3`",
    "eq": "write `=`",
    "has": "use `contains`",
    "includes": "use `contains`",
    "xor": "write it with `and`, `or` and `not ( … )`",
}


def parse_queries(stream: TokenStream) -> tree.FileNode:
    """Parse a whole text; errors are in the stream's report.

    A query whose head or frame is wrong is left out; one with a wrong clause is marked broken.
    """
    queries: list[tree.QueryNode] = []
    while not stream.at(END):
        try:
            if not stream.at_word("query"):
                hint = stream.misspelt(["query"])
                if stream.at_word("match", *_MUTATIONS):
                    hint = "put it into a query: `query name() { … }`"
                elif stream.at("}"):
                    hint = "there is one `}` too many"
                raise stream.unexpected("`query`", hint)
            queries.append(_QueryParser(stream).query())
        except Abandoned:
            if stream.at_word("query") and not stream.starts_line():
                stream.advance()
            stream.skip_to_word(_TOP)
    return tree.FileNode(tuple(queries))


class _QueryParser:
    """One query: knows its parameters, because they decide what `$a in $b` means."""

    __slots__ = ("broken", "parameters", "stream")

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.parameters: set[str] = set()
        self.broken = False

    def query(self) -> tree.QueryNode:
        stream = self.stream
        start = stream.expect_word("query").start
        name = self.name("the name of the query")
        stream.expect(
            "(", None, "a query has parentheses even without parameters: `query q() { … }`"
        )
        parameters = self.parameter_list()
        annotations: list[AnnotationNode] = []
        while stream.at("@"):
            annotation = parse_annotation(stream)
            if annotation.name not in _ANNOTATIONS:
                stream.report.error(
                    "OG-SY-003",
                    f"a query cannot have the annotation `@{annotation.name}`",
                    annotation.name_span,
                    did_you_mean(annotation.name, _ANNOTATIONS)
                    or "queries take @description and @instruction",
                )
                continue
            annotations.append(annotation)
        open = stream.expect("{").start
        body = self.body()
        close = self.close_block()
        return tree.QueryNode(
            name,
            parameters,
            tuple(annotations),
            body,
            tree.BlockSpan(open, close),
            self.broken,
            (start, close + 1),
        )

    def parameter_list(self) -> tuple[tree.ParameterNode, ...]:
        stream = self.stream
        parameters: list[tree.ParameterNode] = []
        while not stream.at(")"):
            if stream.at(NAME) and stream.peek().kind == ":":
                raise stream.unexpected("a parameter", f"write `${stream.current.text}: …`")
            variable = self.variable("a parameter, such as `$name: String`")
            stream.expect(":", None, f"give its type: `${variable.name}: String`")
            type = parse_type(stream)
            parameters.append(tree.ParameterNode(variable, type, (variable.span[0], type.span[1])))
            self.parameters.add(variable.name)
            if not stream.accept(","):
                break
        stream.expect(")", "`,` or `)`")
        return tuple(parameters)

    def body(self) -> tree.ReadNode | tuple[tree.Mutation, ...]:
        stream = self.stream
        if stream.at_word("match"):
            return self.read()
        if stream.at_word(*_MUTATIONS):
            return self.mutations()
        if stream.at_word("return"):
            raise stream.unexpected("`match`", "a read starts with `match { … }`")
        raise stream.unexpected(
            "`match`, `insert`, `update` or `delete`",
            stream.misspelt(["match", *_MUTATIONS])
            or "a query reads with `match { … } return { … }`, or it writes",
        )

    # --- reads ---

    def read(self) -> tree.ReadNode:
        stream = self.stream
        start = stream.advance().start
        open = stream.expect("{").start
        clauses = self.clauses("match")
        match_block = tree.BlockSpan(open, self.close_block())
        if not stream.at_word("return"):
            self.stop_at_next_query()
            hint: str | None = (
                stream.misspelt(["return"]) or "a read says what it returns: `return { … }`"
            )
            raise stream.unexpected("`return`", hint)
        stream.advance()
        distinct = stream.accept_word("distinct") is not None
        open = stream.expect("{", None, "write `return { … }`").start
        projections = self.projections()
        return_block = tree.BlockSpan(open, self.close_block())
        orderings: tuple[tree.OrderingNode, ...] = ()
        order_block: tree.BlockSpan | None = None
        if stream.accept_word("order"):
            hint = "write `order { … }`, without `by`" if stream.at_word("by") else None
            open = stream.expect("{", None, hint).start
            orderings = self.orderings()
            order_block = tree.BlockSpan(open, self.close_block())
        limit = offset = None
        if stream.accept_word("limit"):
            limit = self.row_count("limit")
            if stream.accept_word("offset"):
                offset = self.row_count("offset")
        elif stream.at_word("offset"):
            raise stream.unexpected("`limit` before `offset`", "write `limit 10 offset 20`")
        if stream.at_word(*_MUTATIONS):
            raise stream.unexpected("`}`", _READ_OR_WRITE)
        self.stop_at_next_query()
        if stream.at(NAME):
            hint = stream.misspelt(["order", "limit", "offset"])
            if stream.at_word("order", "limit"):
                hint = "the order of the parts is match, return, order, limit, offset"
            raise stream.unexpected("`}`", hint)
        return tree.ReadNode(
            clauses,
            match_block,
            distinct,
            projections,
            return_block,
            orderings,
            order_block,
            limit,
            offset,
            (start, stream.previous.end),
        )

    def items(self, add: Callable[[list[_Node]], None], missing: str) -> tuple[_Node, ...]:
        """The items of a block; after one that cannot be parsed it goes on with the next.

        Args:
            add: Parses one item and adds it to those before.
            missing: What is expected where there is no item at all.
        """
        stream = self.stream
        items: list[_Node] = []
        failed = False
        while not stream.at("}"):
            self.stop_at_next_query()
            mark = stream.mark
            try:
                add(items)
            except Abandoned:
                failed = self.broken = True
                stream.recover(mark, _TOP)
        if not items and not failed:
            raise stream.unexpected(missing)
        return tuple(items)

    def clauses(self, word: str) -> tuple[tree.Clause, ...]:
        def add(clauses: list[tree.Clause]) -> None:
            clauses.append(self.clause())

        with self.stream.nested():
            return self.items(add, f"at least one clause in `{word}`")

    def clause(self) -> tree.Clause:
        stream = self.stream
        token = stream.current
        if token.kind == ",":
            raise stream.unexpected(
                "a clause", "clauses are separated by space or new lines, not commas"
            )
        if token.kind == VARIABLE:
            after = stream.peek()
            if after.kind == ":":
                return self.binding()
            if self.at_traversal():
                return self.traversal()
            self.refuse_foreign_edge()
        elif token.kind == NAME:
            if token.text in _NESTED and stream.peek().kind == "{":
                stream.advance()
                open = stream.advance().start
                clauses = self.clauses(token.text)
                close = self.close_block()
                return tree.NestedNode(
                    token.text, clauses, tree.BlockSpan(open, close), (token.start, close + 1)
                )
            if token.text in _SECTIONS and stream.peek().kind in ("{", NAME):
                raise stream.unexpected("a clause or `}`", "is a `}` missing above?")
            if stream.peek().kind == ":":
                raise stream.unexpected(
                    "a clause", f"variables start with `$`: write `${token.text}: …`"
                )
            if token.text in _NO_CLAUSES and stream.peek().kind in (NAME, VARIABLE, "("):
                raise stream.unexpected("a clause", _NO_CLAUSES[token.text])
            if (
                token.text not in ("not", *_CONSTANTS)
                and stream.peek().kind in (NAME, VARIABLE)
                and stream.peek().text not in OPERATOR_WORDS
            ):
                raise stream.unexpected("a clause", "variables start with `$`")
        start = token.start
        condition = parse_expression(stream)
        self.check_end_of_filter()
        return tree.FilterNode(condition, (start, stream.previous.end))

    def refuse_foreign_edge(self) -> None:
        """Refuse edges written as in other languages, or with a part missing."""
        stream = self.stream
        first, second, third = stream.peek(1), stream.peek(2), stream.peek(3)
        # With a parameter it is arithmetic: `$n - -1 < …`.
        minus = first.kind == "-" and stream.current.value not in self.parameters
        hint = None
        if (
            first.kind == "->"
            or (minus and second.kind in ("[", "-"))
            or (minus and second.kind == NAME and third.kind in ("-", "->"))
        ):
            hint = "write an edge as `$a knows $b`"
        elif first.kind == "<" and second.kind == NAME and third.kind == VARIABLE:
            hint = f"write `<{second.text}>` for either direction"
        elif (
            first.kind == VARIABLE
            and second.kind == NAME
            and second.text not in OPERATOR_WORDS
            and third.kind == VARIABLE
            and not self.is_parameter(stream.current)
        ):
            hint = f"a bound edge has a colon: `{first.text}:{second.text}`"
        if hint is not None:
            raise stream.unexpected("a clause", hint)

    def check_end_of_filter(self) -> None:
        """After a filter the next clause begins; another word is a mistake in the filter."""
        stream = self.stream
        token, after = stream.current, stream.peek()
        if stream.starts_line():
            return
        if stream.after_hole():
            # What could not be read, and is reported, may have been an operator.
            raise Abandoned
        if token.kind != NAME or after.kind == "(" or token.text in _CONSTANTS:
            return
        if token.text in _NESTED and after.kind == "{":
            return
        hint = _FOREIGN_OPERATORS.get(token.text.lower()) or stream.misspelt(list(OPERATOR_WORDS))
        if token.text == "not" and after.text in OPERATOR_WORDS:
            hint = f"write `not ($x.property {after.text} …)`"
        raise stream.unexpected("an operator or the next clause", hint)

    def at_traversal(self) -> bool:
        """Decide what follows the variable at the cursor: an edge, or the rest of a filter."""
        stream = self.stream
        first, second, third = stream.peek(1), stream.peek(2), stream.peek(3)
        if self.is_parameter(stream.current):
            # As the end of an edge it is a mistake to be explained; alone it may be a condition.
            plain = first.kind == NAME and first.text not in OPERATOR_WORDS
            return plain and second.kind == VARIABLE and third.kind != "."
        if first.kind == VARIABLE:
            return second.kind == ":"
        if first.kind == "<":
            return second.kind == NAME and third.kind == ">"
        if first.kind != NAME:
            return False
        if first.text not in OPERATOR_WORDS:
            return True
        # An edge may be called Contains or In: between two variables it is the edge.
        return second.kind == "{" or (second.kind == VARIABLE and third.kind != ".")

    def is_parameter(self, token: Token) -> bool:
        return token.kind == VARIABLE and token.value in self.parameters

    def binding(self) -> tree.BindingNode:
        stream = self.stream
        variable = self.variable("a variable")
        stream.expect(":")
        type = self.name("the name of a type")
        fields: tuple[tree.FieldNode, ...] = ()
        if stream.accept("{"):
            fields = self.fields()
            stream.expect("}", "`,` or `}`")
        return tree.BindingNode(variable, type, fields, (variable.span[0], stream.previous.end))

    def traversal(self) -> tree.TraversalNode:
        stream = self.stream
        source = self.variable("a variable")
        variable: tree.VariableNode | None = None
        if stream.at(VARIABLE):
            variable = self.variable("an edge variable")
            stream.expect(":")
        undirected = stream.accept("<") is not None
        edge = self.name("the name of an edge")
        if undirected:
            stream.expect(">", None, f"write `<{edge.text}>` for either direction")
        low, high = 1, 1
        bounds = None
        if stream.at("{"):
            start = stream.advance().start
            low, high = self.hop_bounds()
            bounds = (start, stream.previous.end)
        target = self.other_end(source, edge)
        return tree.TraversalNode(
            source, target, edge, variable, undirected, low, high, bounds,
            (source.span[0], target.span[1]),
        )  # fmt: skip

    def other_end(self, source: tree.VariableNode, edge: NameNode) -> tree.VariableNode:
        stream = self.stream
        hint = f"write `${source.name} {edge.text} $other`"
        if stream.at("*") or stream.at("+"):
            hint = f"write `{edge.text}{{1,}}` for any number of hops"
        elif stream.at(NAME) and not stream.starts_line():
            name = stream.current.text
            hint = f"variables start with `$`: write `${name[0].lower()}{name[1:]}`"
        elif stream.at(VARIABLE) and stream.starts_line() and self.begins_clause():
            raise stream.fail(
                "OG-SY-001",
                f"expected the variable at the other end of `{edge.text}`, found the next line",
                edge.span,
                hint,
            )
        return self.variable("the variable at the other end", hint)

    def begins_clause(self) -> bool:
        """True when the variable at the cursor is the first word of a clause of its own."""
        first, second = self.stream.peek(1), self.stream.peek(2)
        if first.kind in (".", ":", "<") or first.kind in COMPARISONS:
            return True
        return first.kind == NAME and first.text not in _NESTED and second.kind in (VARIABLE, "{")

    def hop_bounds(self) -> tuple[int, int]:
        stream = self.stream
        first = stream.expect(INTEGER, "the smallest number of hops", "write `{1,3}` or `{1,}`")
        low = first.value
        if not stream.at(","):
            raise stream.unexpected("`,`", f"write `{{{low},{low}}}` for exactly {low}")
        stream.advance()
        high = None
        if stream.at(INTEGER):
            high = stream.advance().value
        stream.expect("}")
        return low, high  # type: ignore[return-value]

    def fields(self) -> tuple[tree.FieldNode, ...]:
        stream = self.stream
        fields: list[tree.FieldNode] = []
        while not stream.at("}"):
            if stream.at_word(*_MUTATIONS) and stream.peek().kind == NAME:
                raise stream.unexpected("`,` or `}`", "is a `}` missing above?")
            name = self.name("the name of a property")
            if stream.at("="):
                raise stream.unexpected("`:`", f"write `{name.text}: …`")
            stream.expect(":")
            value = parse_expression(stream)
            fields.append(tree.FieldNode(name, value, (name.span[0], value.span[1])))
            # In a mutation's block a new line separates as well as a comma does.
            if not stream.accept(",") and not (stream.at(NAME) and stream.starts_line()):
                break
        return tuple(fields)

    def projections(self) -> tuple[tree.ProjectionNode, ...]:
        stream = self.stream

        def add(projections: list[tree.ProjectionNode]) -> None:
            start = stream.current.start
            expression = parse_expression(stream, column=True)
            alias = self.name("a name after `as`") if stream.accept_word("as") else None
            span = (start, stream.previous.end)
            projections.append(tree.ProjectionNode(expression, alias, span))
            self.separator("`,` or `}`" if alias else "`as`, `,` or `}`", ["as"])

        return self.items(add, "something to return")

    def orderings(self) -> tuple[tree.OrderingNode, ...]:
        stream = self.stream

        def add(orderings: list[tree.OrderingNode]) -> None:
            start = stream.current.start
            expression = parse_expression(stream)
            direction = stream.accept_word("desc") or stream.accept_word("asc")
            descending = None if direction is None else direction.text == "desc"
            span = (start, stream.previous.end)
            orderings.append(tree.OrderingNode(expression, descending, span))
            self.separator("`asc`, `desc`, `,` or `}`", ["asc", "desc"])

        return self.items(add, "something to order by")

    def separator(self, expected: str, words: list[str]) -> None:
        """Items of a block are separated by commas or new lines."""
        stream = self.stream
        if stream.accept(",") or stream.at("}") or stream.at(END) or stream.starts_line():
            return
        hint = stream.misspelt(words)
        if stream.at(NAME):
            hint = {"descending": "write `desc`", "ascending": "write `asc`"}.get(
                stream.current.text.lower(), hint
            )
        raise stream.unexpected(expected, hint)

    def row_count(self, word: str) -> LiteralNode | tree.VariableNode:
        stream = self.stream
        token = stream.current
        if token.kind == INTEGER:
            stream.advance()
            return LiteralNode(token.value, (token.start, token.end))
        if token.kind == VARIABLE:
            return self.variable("a parameter")
        raise stream.unexpected(f"a whole number or a parameter after `{word}`")

    # --- mutations ---

    def mutations(self) -> tuple[tree.Mutation, ...]:
        def add(mutations: list[tree.Mutation]) -> None:
            mutations.append(self.mutation())

        return self.items(add, _A_MUTATION)

    def mutation(self) -> tree.Mutation:
        stream = self.stream
        if stream.at_word("match", "return"):
            raise stream.unexpected("`}`", _READ_OR_WRITE)
        if not stream.at_word(*_MUTATIONS):
            raise stream.unexpected(_A_MUTATION, stream.misspelt(list(_MUTATIONS)))
        word = stream.advance()
        if stream.at_word("into", "from") and stream.peek().kind == NAME:
            hint = f"write `{word.text} {stream.peek().text} …`, without `{stream.current.text}`"
            raise stream.unexpected("the name of a type", hint)
        type = self.name("the name of a type")
        if word.text == "insert":
            fields, block = self.field_block()
            return tree.InsertNode(type, fields, block, (word.start, stream.previous.end))
        if word.text == "update":
            if not stream.at_word("set"):
                hint = stream.misspelt(["set"]) or f"write `update {type.text} set {{ … }} where …`"
                raise stream.unexpected("`set`", hint)
            stream.advance()
            fields, block = self.field_block()
            condition = self.where("update", type.text)
            return tree.UpdateNode(
                type, fields, block, condition, (word.start, stream.previous.end)
            )
        condition = self.where("delete", type.text)
        return tree.DeleteNode(type, condition, (word.start, stream.previous.end))

    def field_block(self) -> tuple[tuple[tree.FieldNode, ...], tree.BlockSpan]:
        stream = self.stream
        open = stream.expect("{").start
        fields = self.fields()
        close = stream.expect("}", "`,` or `}`").start
        return fields, tree.BlockSpan(open, close)

    def where(self, word: str, type: str) -> Expression:
        stream = self.stream
        if not stream.at_word("where"):
            hint = stream.misspelt(["where"]) or (
                f"say which rows: `{word} {type} … where …`; every row is `where id is not null`"
            )
            raise stream.unexpected("`where`", hint)
        stream.advance()
        return parse_expression(stream)

    # --- parts ---

    def name(self, what: str) -> NameNode:
        token = self.stream.expect(NAME, what)
        return NameNode(token.text, (token.start, token.end))

    def variable(self, what: str, hint: str | None = None) -> tree.VariableNode:
        stream = self.stream
        if stream.at(NAME) and hint is None:
            hint = f"variables start with `$`: write `${stream.current.text}`"
        token = stream.expect(VARIABLE, what, hint)
        return tree.VariableNode(str(token.value), (token.start, token.end))

    def close_block(self) -> int:
        stream = self.stream
        if not stream.at("}"):
            self.stop_at_next_query()
        return stream.expect("}").start

    def stop_at_next_query(self) -> None:
        """Inside a block, the head of the next query or the end means that a `}` is missing."""
        stream = self.stream
        after = stream.peek()
        if (
            stream.at(END)
            or (
                stream.at_word("query")
                and stream.starts_line()
                and after.kind == NAME
                # A column may be called `query`, too: `order { query desc }`.
                and after.text not in ("as", "asc", "desc", *OPERATOR_WORDS)
                and "\n" not in stream.report.text[stream.current.end : after.start]
            )
        ):
            if self.broken:
                # The brace may well be part of what could not be parsed.
                raise Abandoned
            raise stream.unexpected("`}`", stream.unclosed())
