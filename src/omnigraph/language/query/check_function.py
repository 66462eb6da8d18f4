"""Checking function calls: aggregates, text filters, rankings and their fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.diagnostics import did_you_mean
from omnigraph.language.query import expressions as expr
from omnigraph.language.query.expressions import Checked
from omnigraph.language.query.operand_types import (
    UNSIGNED,
    condition_type,
    is_given,
    may_be_null,
    name_given,
    name_type,
    shown,
)
from omnigraph.language.query.tree import BareNode, CallNode, Expression, PropertyNode
from omnigraph.language.schema.catalog import ENDS
from omnigraph.language.types import F64, I64, U64
from omnigraph.language.values import ValueFault, coerce

if TYPE_CHECKING:
    from omnigraph.language.query.check_expression import ExpressionChecker

AGGREGATES = ("count", "sum", "avg", "min", "max")
TEXT_MATCHES = ("search", "match_text", "fuzzy")
RANKS = ("bm25", "nearest")
FUNCTIONS = (*AGGREGATES, *TEXT_MATCHES, *RANKS, "rrf", "now", "date", "datetime")


class FunctionChecker:
    """Checks the calls in the expressions of one place."""

    __slots__ = ("expressions", "report")

    def __init__(self, expressions: ExpressionChecker) -> None:
        self.expressions = expressions
        self.report = expressions.report

    def call(self, node: CallNode) -> Checked | None:
        name = node.function.text
        if node.distinct and name != "count":
            self.report.error(
                "OG-QC-130",
                f"`distinct` is not possible in `{name}`",
                node.span,
                "only `count(distinct …)` takes it",
            )
            return None
        if name == "now":
            return expr.Now() if self.arity(node, 0, 0, "now()") else None
        if name in AGGREGATES:
            return self.aggregate(node)
        if name in TEXT_MATCHES:
            return self.text_match(node)
        if name in RANKS:
            return self.rank(node)
        if name == "rrf":
            return self.fusion(node)
        self.report.error(
            "OG-QC-126",
            f"unknown function `{name}`",
            node.function.span,
            did_you_mean(name, FUNCTIONS) or f"functions are {', '.join(FUNCTIONS)}",
        )
        return None

    def arity(self, node: CallNode, least: int, most: int, form: str) -> bool:
        count = len(node.arguments)
        if least <= count <= most:
            return True
        wanted = str(least) if least == most else f"{least} or {most}"
        noun = "argument" if most == 1 else "arguments"
        self.report.error(
            "OG-QC-127",
            f"`{node.function.text}` takes {wanted} {noun}, not {count}",
            node.span,
            f"write `{form}`",
        )
        return False

    def aggregate(self, node: CallNode) -> Checked | None:
        name = node.function.text
        if self.expressions.place not in ("return", "order"):
            self.report.error(
                "OG-QC-129",
                f"`{name}` stands in `return` and `order` only",
                node.span,
                "filter rows in `match`, aggregate them in `return`",
            )
            return None
        if not self.arity(node, 1, 1, f"{name}($x)" if name == "count" else f"{name}($x.property)"):
            return None
        argument = self.expressions.check(node.arguments[0])
        if argument is None:
            return None
        if any(
            isinstance(part, expr.Aggregate | expr.Rank | expr.Fusion)
            for part in expr.walk(argument)
        ):
            self.report.error(
                "OG-QC-129", f"`{name}` cannot hold another aggregate or ranking", node.span
            )
            return None
        if name == "count":
            return expr.Aggregate(name, argument, node.distinct, I64)
        type = argument.type
        numeric = name in ("sum", "avg")
        fits = type is not None and type.is_scalar and not isinstance(argument, expr.Entity)
        if not fits or (numeric and type is not None and not type.is_number):
            what = "numbers" if numeric else "numbers, texts, dates and booleans"
            self.report.error(
                "OG-QC-128",
                f"`{name}` takes {what}, this is {name_type(argument)}",
                node.arguments[0].span,
            )
            return None
        assert type is not None
        if name == "avg":
            type = F64
        elif name == "sum":
            type = F64 if type.is_float else U64 if type.scalar in UNSIGNED else I64
        return expr.Aggregate(name, argument, False, type.as_nullable())

    def text_match(self, node: CallNode) -> Checked | None:
        name = node.function.text
        if self.expressions.place != "filter":
            self.report.error(
                "OG-QC-132",
                f"`{name}` is a filter and stands in `match` only",
                node.span,
                "return or order by `bm25( … )` for a score"
                if self.expressions.place in ("return", "order")
                else "a mutation compares properties: use `contains` or `starts_with`",
            )
            return None
        form = f'{name}($x.property, "words"{", 1" if name == "fuzzy" else ""})'
        if not self.arity(node, 2, 3 if name == "fuzzy" else 2, form):
            return None
        target = self.searched(node, "text")
        query = self.search_text(node)
        edits: Checked | None = None
        if len(node.arguments) == 3:
            edits = self.small_integer(node.arguments[2], "the edit distance", 0, 2)
            if edits is None:
                return None
        if target is None or query is None:
            return None
        return expr.TextMatch(name, target, query, edits, condition_type(target, query))

    def rank(self, node: CallNode) -> expr.Rank | None:
        name = node.function.text
        if self.expressions.place not in ("return", "order"):
            self.report.error(
                "OG-QC-131",
                f"`{name}` is a number to return or order by, not a filter",
                node.span,
                f"write `order {{ {name}( … ){' desc' if name == 'bm25' else ''} }}` and a `limit`",
            )
            return None
        example = "$vector" if name == "nearest" else '"words"'
        most = 3 if name == "nearest" else 2
        if not self.arity(node, 2, most, f"{name}($x.property, {example})"):
            return None
        exact = len(node.arguments) == 3
        if exact and not _is_exact(node.arguments[2]):
            self.report.error(
                "OG-QC-128",
                "the third argument of `nearest` can only be `exact`",
                node.arguments[2].span,
                "write `nearest($x.property, $vector, exact)` to compare all vectors, or leave it"
                " out",
            )
            return None
        target = self.searched(node, "text" if name == "bm25" else "vector")
        query = self.search_text(node) if name == "bm25" else self.search_vector(node, target)
        if target is None or query is None:
            return None
        return expr.Rank(name, target, query, F64.as_nullable(may_be_null(target, query)), exact)

    def fusion(self, node: CallNode) -> Checked | None:
        if self.expressions.place not in ("return", "order"):
            self.report.error(
                "OG-QC-131",
                "`rrf` is a number to return or order by, not a filter",
                node.span,
                "write `order { rrf( … ) desc }` and a `limit`",
            )
            return None
        if not self.arity(node, 2, 3, "rrf(nearest( … ), bm25( … ), 60)"):
            return None
        ranks: list[expr.Rank] = []
        for argument in node.arguments[:2]:
            if not isinstance(argument, CallNode) or argument.function.text not in RANKS:
                self.report.error(
                    "OG-QC-128", "`rrf` fuses two of `nearest( … )` and `bm25( … )`", argument.span
                )
                continue
            checked = self.rank(argument)
            if checked is not None:
                ranks.append(checked)
        k: Checked | None = expr.Constant(60, I64)
        if len(node.arguments) == 3:
            k = self.small_integer(node.arguments[2], "`k`", 1, 1_000_000)
        if len(ranks) < 2 or k is None:
            return None
        # What is not ranked has 0; only what is not there at all has no score.
        missing = any(self.may_be_missing(rank.property.variable) for rank in ranks)
        return expr.Fusion(ranks[0], ranks[1], k, F64.as_nullable(missing))

    def may_be_missing(self, variable: str) -> bool:
        """True for a variable of an optional match."""
        scope = self.expressions.scope
        bound = None if scope is None else scope.find(variable)
        return bound is not None and bound.nullable

    def searched(self, node: CallNode, wanted: str) -> expr.PropertyOf | None:
        """The first argument of a search function: a property to look into."""
        argument = node.arguments[0]
        name = node.function.text
        if not isinstance(argument, PropertyNode):
            self.report.error(
                "OG-QC-128",
                f"the first argument of `{name}` is a property of a bound variable",
                argument.span,
                f"write `{name}($x.property, …)`",
            )
            return None
        checked = self.expressions.property(argument)
        if not isinstance(checked, expr.PropertyOf) or checked.type is None:
            return None
        type = checked.type
        if wanted == "vector":
            if not type.is_vector:
                self.report.error(
                    "OG-QC-128",
                    f"`{name}` compares vectors, `{checked.property}` is {shown(type)}",
                    argument.span,
                    "use `bm25` for texts" if type.is_text else None,
                )
                return None
        elif not type.is_text or type.is_enum or checked.property in ("id", *ENDS):
            what = "an id" if type.is_text and not type.is_enum else shown(type)
            hint = "use `nearest` for vectors" if type.is_vector else "compare it with `=`"
            self.report.error(
                "OG-QC-128",
                f"`{name}` looks into a String property, `{checked.property}` is {what}",
                argument.span,
                "test for an element with `contains`" if type.is_list else hint,
            )
            return None
        return checked

    def search_text(self, node: CallNode) -> Checked | None:
        argument = node.arguments[1]
        checked = self.expressions.check(argument)
        if checked is None:
            return None
        if not is_given(checked) or checked.type is None or not checked.type.is_text:
            self.report.error(
                "OG-QC-128",
                f"`{node.function.text}` looks for a text, this is {name_given(checked)}",
                argument.span,
                "give a String parameter or a text",
            )
            return None
        return checked

    def search_vector(self, node: CallNode, target: expr.PropertyOf | None) -> Checked | None:
        argument = node.arguments[1]
        checked = self.expressions.check(argument)
        if checked is None or target is None or target.type is None:
            return None
        wanted = target.type.as_nullable(False)
        type = checked.type
        if isinstance(checked, expr.Constant) and isinstance(checked.value, list):
            try:
                return expr.Constant(coerce(checked.value, wanted), wanted)
            except ValueFault as fault:
                self.report.error("OG-QC-128", fault.message, argument.span, fault.hint)
                return None
        if is_given(checked) and type is not None and type.is_text and not type.is_enum:
            return checked
        if not is_given(checked) or type is None or type.as_nullable(False) != wanted:
            self.report.error(
                "OG-QC-128",
                f"`{target.property}` is {shown(wanted)}, this is {name_given(checked)}",
                argument.span,
                f"give a {wanted} parameter, or a text to be embedded",
            )
            return None
        return checked

    def small_integer(self, node: Expression, what: str, low: int, high: int) -> Checked | None:
        checked = self.expressions.check(node)
        if checked is None:
            return None
        fits = is_given(checked) and checked.type is not None and checked.type.is_integer
        if fits and isinstance(checked, expr.Constant):
            fits = low <= checked.value <= high
        if not fits:
            self.report.error(
                "OG-QC-128", f"{what} is a whole number from {low} to {high}", node.span
            )
            return None
        return checked


def _is_exact(node: Expression) -> bool:
    return isinstance(node, BareNode) and node.name == "exact"
