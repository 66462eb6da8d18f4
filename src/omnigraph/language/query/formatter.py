"""Text → canonical `.gq` text: one style, comments kept, nothing changed in meaning.

Clauses stand one a line. A `return`, `order`, `insert` or `set` block that fits on a line of
80 characters stands on one line; otherwise it has an item a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from omnigraph.diagnostics import Report, Span, TooManyErrors
from omnigraph.errors import QueryError
from omnigraph.language.layout import Layout
from omnigraph.language.query import tree
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.tree import Expression
from omnigraph.language.stream import TokenStream
from omnigraph.language.syntax import LiteralNode, annotation_text
from omnigraph.language.values import literal_text

_WIDTH = 80
#: A filter that starts like this would be read as an edge between two variables, or as a word
#: that belongs to what follows.
_LOOKS_DIFFERENT = re.compile(
    r"\$\w+(?:$| (?:contains|starts_with|in|and|or) \$\w+(?![\w.])| - (?:[-\[]|[A-Za-z_]\w* -))"
    r"|(?:true|false|null)$"
    r"|(?:match|return|order|limit|query|insert|update|delete) [a-z]"
)


def format_queries(text: str, path: str | None = None) -> str:
    """Return a `.gq` text in canonical style.

    Args:
        text: One or more queries. They must parse; names and types are not checked.
        path: Name of the text in messages.

    Raises:
        QueryError: The text does not parse.
    """
    report = Report(text, path)
    file = tree.FileNode(())
    try:
        stream = TokenStream(report)
        file = parse_queries(stream)
    except TooManyErrors:
        pass
    if report.has_errors:
        raise QueryError(report.diagnostics)
    out = Layout(text, stream.comments)
    for query in file.queries:
        _query(out, query)
    return out.finish()


def _query(out: Layout, node: tree.QueryNode) -> None:
    parameters = ", ".join(f"${p.variable.name}: {p.type.type}" for p in node.parameters)
    head = f"query {node.name.text}({parameters})"
    notes = [annotation_text(a) for a in node.annotations]
    line = " ".join([head, *notes, "{"])
    if notes and len(line) > _WIDTH:
        line = "\n".join([head, *(f"  {n}" for n in notes), "{"])
    out.item((node.span[0], node.block.open + 1), line, 0, apart=True)
    if isinstance(node.body, tree.ReadNode):
        _read(out, node.body)
    else:
        for statement in node.body:
            _mutation(out, statement)
    out.close(node.block.close, "}", 0)


def _read(out: Layout, node: tree.ReadNode) -> None:
    _clauses(out, "match", node.clauses, node.match_block, (node.span[0], 0), 1)
    word = "return distinct" if node.distinct else "return"
    projections = [
        (p.span, expression_text(p.expression) + (f" as {p.alias.text}" if p.alias else ""))
        for p in node.projections
    ]
    _block(out, word, projections, node.return_block)
    if node.order_block is not None:
        orderings = [
            (o.span, expression_text(o.expression) + _direction(o, node)) for o in node.orderings
        ]
        _block(out, "order", orderings, node.order_block)
    if node.limit is not None:
        line = f"limit {expression_text(node.limit)}"
        if node.offset is not None:
            line += f" offset {expression_text(node.offset)}"
        out.item((node.limit.span[0], node.span[1]), line, 1)


def _direction(ordering: tree.OrderingNode, node: tree.ReadNode) -> str:
    """The direction, when it is not the one that the expression has without."""
    if ordering.descending is not False:
        return " desc" if ordering.descending else ""
    expression = ordering.expression
    if isinstance(expression, tree.BareNode):
        named = {p.alias.text: p.expression for p in node.projections if p.alias}
        expression = named.get(expression.name, expression)
    is_score = isinstance(expression, tree.CallNode) and expression.function.text in ("bm25", "rrf")
    return " asc" if is_score else ""


def _clauses(
    out: Layout,
    word: str,
    clauses: Sequence[tree.Clause],
    block: tree.BlockSpan,
    span: Span,
    indent: int,
) -> None:
    out.item((span[0], block.open + 1), f"{word} {{", indent)
    for clause in clauses:
        if isinstance(clause, tree.NestedNode):
            _clauses(out, clause.word, clause.clauses, clause.block, clause.span, indent + 1)
        else:
            out.item(clause.span, _clause_text(clause), indent + 1)
    out.close(block.close, "}", indent)


def _clause_text(clause: tree.BindingNode | tree.TraversalNode | tree.FilterNode) -> str:
    match clause:
        case tree.BindingNode():
            text = f"${clause.variable.name}: {clause.type.text}"
            if clause.fields:
                text += f" {{ {', '.join(_field_text(f) for f in clause.fields)} }}"
            return text
        case tree.TraversalNode():
            edge = f"<{clause.edge.text}>" if clause.undirected else clause.edge.text
            if clause.variable is not None:
                edge = f"${clause.variable.name}:{edge}"
            if clause.bounds is not None:
                edge += f"{{{clause.low},{'' if clause.high is None else clause.high}}}"
            return f"${clause.source.name} {edge} ${clause.target.name}"
        case tree.FilterNode():
            text = expression_text(clause.condition)
            # Without parentheses the clause before would run on into this one, or this one into
            # the next.
            runs_on = text.startswith("-") or isinstance(_last(clause.condition), tree.BareNode)
            return f"({text})" if runs_on or _LOOKS_DIFFERENT.match(text) else text


def _mutation(out: Layout, node: tree.Mutation) -> None:
    match node:
        case tree.InsertNode():
            _fields(out, f"insert {node.type.text}", node.fields, node.block, "", node.span)
        case tree.UpdateNode():
            where = f" where {expression_text(node.condition)}"
            _fields(out, f"update {node.type.text} set", node.fields, node.block, where, node.span)
        case tree.DeleteNode():
            condition = expression_text(node.condition)
            out.item(node.span, f"delete {node.type.text} where {condition}", 1)


def _field_text(field: tree.FieldNode) -> str:
    return f"{field.name.text}: {expression_text(field.value)}"


def _fields(
    out: Layout,
    head: str,
    fields: Sequence[tree.FieldNode],
    block: tree.BlockSpan,
    tail: str,
    span: Span,
) -> None:
    _block(out, head, [(f.span, _field_text(f)) for f in fields], block, tail, span)


def _block(
    out: Layout,
    head: str,
    items: Sequence[tuple[Span, str]],
    block: tree.BlockSpan,
    tail: str = "",
    span: Span | None = None,
) -> None:
    """Print a block of items with commas, on one line if it fits and has no comments inside."""
    whole = span or (block.open, block.close + 1)
    texts = [text for _, text in items]
    line = f"{head} {{ {', '.join(texts)} }}{tail}" if texts else f"{head} {{}}{tail}"
    fits = len(line) + 2 <= _WIDTH or not texts
    if fits and not out.has_comments(block.open, block.close):
        out.item(whole, line, 1)
        return
    out.item((whole[0], block.open + 1), f"{head} {{", 1)
    for number, (place, text) in enumerate(items, 1):
        out.item(place, text + ("," if number < len(items) else ""), 2)
    out.close(block.close, "}" + tail, 1, end=whole[1])


def _last(node: Expression) -> Expression:
    """The part of an expression that is written last."""
    while True:
        match node:
            case tree.BinaryNode():
                node = node.right
            case tree.LogicNode():
                node = node.items[-1]
            case tree.NegateNode():
                node = node.item
            case _:
                return node


_OR, _AND, _COMPARE, _ADD, _MULTIPLY, _ATOM = 1, 2, 3, 4, 5, 7
_ARITHMETIC = {"+": _ADD, "-": _ADD, "*": _MULTIPLY, "/": _MULTIPLY}


def expression_text(node: Expression) -> str:
    """Write an expression with no more parentheses than it needs."""
    match node:
        case LiteralNode():
            return literal_text(node.value)
        case tree.VariableNode():
            return f"${node.name}"
        case tree.PropertyNode():
            return f"${node.variable.name}.{node.property.text}"
        case tree.BareNode():
            return node.name
        case tree.ListNode():
            return f"[{', '.join(expression_text(i) for i in node.items)}]"
        case tree.BinaryNode():
            tightness = _ARITHMETIC.get(node.operator, _COMPARE)
            # Operators of one level group to the left; comparisons do not chain at all.
            left = _inside(node.left, tightness if tightness > _COMPARE else _ADD)
            right = _inside(node.right, tightness + 1)
            return f"{left} {node.operator} {right}"
        case tree.LogicNode():
            tightness = _AND if node.operator == "and" else _OR
            return f" {node.operator} ".join(_inside(i, tightness + 1) for i in node.items)
        case tree.NotNode():
            return f"not ({expression_text(node.item)})"
        case tree.IsNullNode():
            return f"{_inside(node.item, _ADD)} is {'not ' if node.negated else ''}null"
        case tree.NegateNode():
            # A sign before a bare number would be part of the number.
            if isinstance(node.item, LiteralNode):
                return f"-({expression_text(node.item)})"
            return f"-{_inside(node.item, _ATOM)}"
        case tree.CallNode():
            arguments = ", ".join(expression_text(a) for a in node.arguments)
            return f"{node.function.text}({'distinct ' if node.distinct else ''}{arguments})"


def _tightness(node: Expression) -> int:
    match node:
        case tree.LogicNode():
            return _AND if node.operator == "and" else _OR
        case tree.BinaryNode():
            return _ARITHMETIC.get(node.operator, _COMPARE)
        case tree.IsNullNode():
            return _COMPARE
        case tree.NegateNode():
            return _MULTIPLY + 1
        case _:
            return _ATOM


def _inside(node: Expression, least: int) -> str:
    text = expression_text(node)
    return text if _tightness(node) >= least else f"({text})"
