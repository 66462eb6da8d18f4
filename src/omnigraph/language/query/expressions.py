"""Checked expressions: what the planner and the executor see.

Every name is resolved and every node has a type (None only for a null literal). They are plain
frozen values without spans. `str(expression)` is the readable form that `explain` prints:
bound variables stand bare (`p.age`), parameters keep their `$`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from omnigraph.language.types import BOOL, DATETIME, F64, STRING, ValueType
from omnigraph.language.values import literal_text


class Constant(Struct, frozen=True):
    """A literal. `type` is None for null."""

    value: Any
    type: ValueType | None

    def __str__(self) -> str:
        text = literal_text(self.value)
        return text if len(text) <= 60 else text[:59] + "…"


class Parameter(Struct, frozen=True):
    """A parameter of the query."""

    name: str
    type: ValueType | None

    def __str__(self) -> str:
        return f"${self.name}"


class Now(Struct, frozen=True):
    """`now()`: one moment for the whole request."""

    type: ValueType | None = DATETIME

    def __str__(self) -> str:
        return "now()"


class PropertyOf(Struct, frozen=True):
    """A property of a bound node or edge; also `id`, and `from` / `to` of an edge."""

    variable: str
    property: str
    type: ValueType | None

    def __str__(self) -> str:
        return f"{self.variable}.{self.property}"


class Entity(Struct, frozen=True):
    """A bound node or edge as a whole: as a value, its id."""

    variable: str
    kind: Literal["node", "edge"]
    types: tuple[str, ...]
    type: ValueType | None = STRING

    def __str__(self) -> str:
        return self.variable


class Column(Struct, frozen=True):
    """A property of the row that a mutation's predicate or `set` looks at."""

    name: str
    type: ValueType | None

    def __str__(self) -> str:
        return self.name


class ListOf(Struct, frozen=True):
    """A list with computed elements."""

    items: tuple[Checked, ...]
    type: ValueType | None

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


class Compare(Struct, frozen=True):
    """`= != < <= > >= contains starts_with in`; null on either side never matches."""

    operator: str
    left: Checked
    right: Checked
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


class Logic(Struct, frozen=True):
    """`and` / `or` over two or more items."""

    operator: str
    items: tuple[Checked, ...]
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f" {self.operator} ".join(_operand(i) for i in self.items)


class Not(Struct, frozen=True):
    """`not ( … )`, in three-valued logic."""

    item: Checked
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"not ({self.item})"


class IsNull(Struct, frozen=True):
    """`is null` / `is not null`; on an entity: whether an optional variable found nothing."""

    item: Checked
    negated: bool
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"{_operand(self.item)} is {'not ' if self.negated else ''}null"


class Arithmetic(Struct, frozen=True):
    """`+ - * /` on numbers; integers stay integers except under `/`, overflow is an error."""

    operator: str
    left: Checked
    right: Checked
    type: ValueType | None

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


class Negate(Struct, frozen=True):
    """Unary minus."""

    item: Checked
    type: ValueType | None

    def __str__(self) -> str:
        return f"-{_operand(self.item)}"


class Aggregate(Struct, frozen=True):
    """`count sum avg min max` over the rows of a group."""

    function: str
    argument: Checked
    distinct: bool
    type: ValueType | None

    def __str__(self) -> str:
        return f"{self.function}({'distinct ' if self.distinct else ''}{self.argument})"


class TextMatch(Struct, frozen=True):
    """`search`, `match_text` or `fuzzy`: a filter on a text property."""

    function: str
    property: PropertyOf
    query: Checked
    edits: Checked | None = None
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        edits = f", {self.edits}" if self.edits is not None else ""
        return f"{self.function}({self.property}, {self.query}{edits})"


class Rank(Struct, frozen=True):
    """`bm25` (higher is better) or `nearest` (cosine distance, lower is better).

    Attributes:
        exact: All vectors are compared, whatever indexes there are.
    """

    function: str
    property: PropertyOf
    query: Checked
    type: ValueType | None = F64
    exact: bool = False

    def __str__(self) -> str:
        return f"{self.function}({self.property}, {self.query}{', exact' if self.exact else ''})"


class Fusion(Struct, frozen=True):
    """`rrf(a, b, k)`: reciprocal rank fusion of two rankings (higher is better)."""

    first: Rank
    second: Rank
    k: Checked
    type: ValueType | None = F64

    def __str__(self) -> str:
        return f"rrf({self.first}, {self.second}, {self.k})"


Checked = (
    Constant
    | Parameter
    | Now
    | PropertyOf
    | Entity
    | Column
    | ListOf
    | Compare
    | Logic
    | Not
    | IsNull
    | Arithmetic
    | Negate
    | Aggregate
    | TextMatch
    | Rank
    | Fusion
)


def children(expression: Checked) -> tuple[Checked, ...]:
    """The direct parts of an expression."""
    match expression:
        case Compare() | Arithmetic():
            return (expression.left, expression.right)
        case Logic() | ListOf():
            return expression.items
        case Not() | IsNull() | Negate():
            return (expression.item,)
        case Aggregate():
            return (expression.argument,)
        case TextMatch():
            edits = () if expression.edits is None else (expression.edits,)
            return (expression.property, expression.query, *edits)
        case Rank():
            return (expression.property, expression.query)
        case Fusion():
            return (expression.first, expression.second, expression.k)
        case _:
            return ()


def walk(expression: Checked) -> Iterator[Checked]:
    """The expression and all its parts, outermost first."""
    pending = [expression]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children(current)))


def variables(expression: Checked) -> frozenset[str]:
    """The bound variables that an expression looks at."""
    return frozenset(e.variable for e in walk(expression) if isinstance(e, PropertyOf | Entity))


_ATOMS = (
    Constant, Parameter, Now, PropertyOf, Entity, Column, ListOf, Aggregate, TextMatch, Rank,
    Fusion, Not,
)  # fmt: skip


def _operand(expression: Checked) -> str:
    text = str(expression)
    return text if isinstance(expression, _ATOMS) else f"({text})"
