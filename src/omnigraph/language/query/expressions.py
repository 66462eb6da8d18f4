"""Checked expressions: what the planner and the executor see.

Every name is resolved and every node has a type (None only for a null literal). They are plain
frozen values without spans. `str(expression)` is the readable form that `explain` prints:
bound variables stand bare (`p.age`), parameters keep their `$`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.language.types import BOOL, DATETIME, F64, STRING, ValueType
from omnigraph.language.values import literal_text


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `type` is None for null."""

    value: Any
    type: ValueType | None

    def __str__(self) -> str:
        text = literal_text(self.value)
        return text if len(text) <= 60 else text[:59] + "…"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query."""

    name: str
    type: ValueType | None

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True, slots=True)
class Now:
    """`now()`: one moment for the whole request."""

    type: ValueType | None = DATETIME

    def __str__(self) -> str:
        return "now()"


@dataclass(frozen=True, slots=True)
class PropertyOf:
    """A property of a bound node or edge; also `id`, and `from` / `to` of an edge."""

    variable: str
    property: str
    type: ValueType | None

    def __str__(self) -> str:
        return f"{self.variable}.{self.property}"


@dataclass(frozen=True, slots=True)
class Entity:
    """A bound node or edge as a whole: as a value, its id."""

    variable: str
    kind: Literal["node", "edge"]
    types: tuple[str, ...]
    type: ValueType | None = STRING

    def __str__(self) -> str:
        return self.variable


@dataclass(frozen=True, slots=True)
class Column:
    """A property of the row that a mutation's predicate or `set` looks at."""

    name: str
    type: ValueType | None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list with computed elements."""

    items: tuple[Checked, ...]
    type: ValueType | None

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Compare:
    """`= != < <= > >= contains starts_with in`; null on either side never matches."""

    operator: str
    left: Checked
    right: Checked
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class Logic:
    """`and` / `or` over two or more items."""

    operator: str
    items: tuple[Checked, ...]
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f" {self.operator} ".join(_operand(i) for i in self.items)


@dataclass(frozen=True, slots=True)
class Not:
    """`not ( … )`, in three-valued logic."""

    item: Checked
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"not ({self.item})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """`is null` / `is not null`; on an entity: whether an optional variable found nothing."""

    item: Checked
    negated: bool
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        return f"{_operand(self.item)} is {'not ' if self.negated else ''}null"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+ - * /` on numbers; integers stay integers except under `/`, overflow is an error."""

    operator: str
    left: Checked
    right: Checked
    type: ValueType | None

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


@dataclass(frozen=True, slots=True)
class Negate:
    """Unary minus."""

    item: Checked
    type: ValueType | None

    def __str__(self) -> str:
        return f"-{_operand(self.item)}"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`count sum avg min max` over the rows of a group."""

    function: str
    argument: Checked
    distinct: bool
    type: ValueType | None

    def __str__(self) -> str:
        return f"{self.function}({'distinct ' if self.distinct else ''}{self.argument})"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`search`, `match_text` or `fuzzy`: a filter on a text property."""

    function: str
    property: PropertyOf
    query: Checked
    edits: Checked | None = None
    type: ValueType | None = BOOL

    def __str__(self) -> str:
        edits = f", {self.edits}" if self.edits is not None else ""
        return f"{self.function}({self.property}, {self.query}{edits})"


@dataclass(frozen=True, slots=True)
class Rank:
    """`bm25` (higher is better) or `nearest` (cosine distance, lower is better)."""

    function: str
    property: PropertyOf
    query: Checked
    type: ValueType | None = F64

    def __str__(self) -> str:
        return f"{self.function}({self.property}, {self.query})"


@dataclass(frozen=True, slots=True)
class Fusion:
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
