"""Random typed expressions, and random tables for them, with values where mistakes are likely."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.compute.evaluate import Bindings, Columns
from omnigraph.language.query.expressions import (
    Arithmetic,
    Checked,
    Column,
    Compare,
    Constant,
    Entity,
    IsNull,
    ListOf,
    Logic,
    Negate,
    Not,
    Now,
    Parameter,
    PropertyOf,
)
from omnigraph.language.query.operand_types import arithmetic_type, literal_type
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import F64, FLOATS, I64, INTEGER_BOUNDS, U64, Scalar, ValueType
from tests.compute.reference import single

NOW = dt.datetime(2026, 7, 1, 12, 30, 0, 123_000, dt.UTC)
GIVEN = Bindings({}, NOW)

_EDGES = [
    *range(-2, 4), -(1 << 31), (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) - 1,
    1 << 53, (1 << 53) + 1, -(1 << 53) - 1, -(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 1,
]  # fmt: skip
_FLOATS = [
    0.0, -0.0, 0.1, -0.1, 0.5, 1.0, 1.5, -2.0, 3.0, 2.0**31, 2.0**53, -(2.0**63), 2.0**64, 1e-7,
    5e-324, 1e300, -1.7976931348623157e308,
]  # fmt: skip
#: Texts that break careless quoting, patterns and orders.
TEXTS = [
    "", "a", "A", "ab", "b", "aab", "a'b", "''", "'", "\\", "\\'", "a\\nb", "a\nb", "%", "a%", "a_",
    "_", "`", '"', "é", "e\u0301", "😀", "\uffff", "\U0010ffff", "a\U0010ffff", "\x00", "--",
    "null",
]  # fmt: skip
ENUM = ("a", "ab", "b", "a_")
POOLS: dict[Scalar, list[Any]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: [True, False],
    Scalar.F64: _FLOATS,
    Scalar.F32: [*sorted({single(f) for f in _FLOATS if abs(f) < 1e38}), -0.0],
    Scalar.DATE: [
        dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 7, 1),
        dt.date(9999, 12, 31),
    ],
    Scalar.DATETIME: [
        dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC),
        dt.datetime(2026, 7, 1, 12, 30, tzinfo=dt.UTC),
        NOW,
        dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, dt.UTC),
    ],
    **{s: [e for e in _EDGES if low <= e <= high] for s, (low, high) in INTEGER_BOUNDS.items()},
}  # fmt: skip
NUMBERS = (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64)

#: One column of each type and one of lists of it; a second one for what compares columns.
COLUMNS: dict[str, ValueType] = {
    **{s.lower(): ValueType(s, nullable=True) for s in POOLS},
    **{f"{s.lower()}s": ValueType(s, nullable=True, is_list=True) for s in POOLS},
    "string2": ValueType(Scalar.STRING, nullable=True),
    "i64b": ValueType(Scalar.I64, nullable=True),
    "u64b": ValueType(Scalar.U64, nullable=True),
    "strings2": ValueType(Scalar.STRING, nullable=True, is_list=True),
    "kind": ValueType(Scalar.STRING, nullable=True, values=ENUM),
}


def pool(type: ValueType) -> list[Any]:
    return list(type.values) if type.values is not None else POOLS[type.scalar]


def table(choose: Callable[[list[Any]], Any], rows: int) -> dict[str, list[Any]]:
    """Columns of values that are chosen from the pools, a fifth of them null."""

    def one(type: ValueType) -> Any:
        if choose([True, False, False, False, False]):
            return None
        if not type.is_list:
            return choose(pool(type))
        return [choose(pool(type)) for _ in range(choose([0, 1, 1, 2, 3]))]

    return {name: [one(type) for _ in range(rows)] for name, type in COLUMNS.items()}


def arrow(data: dict[str, list[Any]]) -> pa.Table:
    return pa.table({n: pa.array(v, arrow_type(COLUMNS[n])) for n, v in data.items()})


def columns_of(data: pa.Table) -> Columns:
    def column(named: Column | PropertyOf | Entity) -> pa.ChunkedArray:
        assert isinstance(named, Column)
        return data[named.name]

    return column


def name_of(named: Column | PropertyOf | Entity) -> str | None:
    assert isinstance(named, Column)
    return named.name


class Drawn:
    """Draws one expression and the parameters that it uses.

    With `against_values`, comparisons are of a column with a value, as indexes serve them.
    """

    def __init__(self, draw: Any, *, against_values: bool = False) -> None:
        self.draw = draw
        self.against_values = against_values
        self.parameters: dict[str, Any] = {}

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def condition(self, depth: int) -> Checked:
        kind = self.choose(["leaf", "leaf", "and", "or", "not"] if depth else ["leaf"])
        if kind == "leaf":
            return self.leaf()
        if kind == "not":
            return Not(self.condition(depth - 1))
        items = [self.condition(depth - 1) for _ in range(self.choose([2, 2, 3]))]
        return Logic(kind, tuple(items))

    def leaf(self) -> Checked:
        kind = self.choose(["compare"] * 5 + ["in", "in", "has", "text", "lists", "null", "bool"])
        scalar = self.choose(POOLS)
        match kind:
            case "compare":
                return self.comparison(scalar)
            case "in":
                one, other = self.sides()
                return Compare("in", self.operand(scalar, only=one), self.lists(scalar, only=other))
            case "has":
                one, other = self.sides()
                members = self.lists(scalar, only=one)
                return Compare("contains", members, self.operand(scalar, only=other))
            case "text":
                operator = self.choose(["contains", "starts_with"])
                one, other = self.sides()
                text = self.operand(Scalar.STRING, only=one)
                return Compare(operator, text, self.operand(Scalar.STRING, only=other))
            case "lists":
                left, right = self.lists(scalar, same=True), self.lists(scalar, same=True)
                return Compare(self.choose(["=", "!="]), left, right)
            case "null":
                item = self.lists(scalar) if self.choose([True, False]) else self.operand(scalar)
                return IsNull(item, self.choose([True, False]))
            case _:
                return self.operand(Scalar.BOOL)

    def comparison(self, scalar: Scalar) -> Checked:
        ordered = ["=", "!="] if scalar is Scalar.BOOL else ["=", "!=", "<", "<=", ">", ">="]
        one, other = self.sides()
        left, right = self.operand(scalar, only=one), self.operand(scalar, only=other)
        return Compare(self.choose(ordered), left, right)

    def sides(self) -> Any:
        """What may stand on the two sides of a comparison."""
        if not self.against_values:
            return "", ""
        return self.choose([("column", "value"), ("column", "value"), ("value", "column")])

    def operand(self, scalar: Scalar, depth: int = 1, only: str = "") -> Checked:
        """A single value that compares with the scalar type: any number for a number."""
        numeric = scalar in NUMBERS
        if numeric:
            scalar = self.choose(NUMBERS)
        kinds = ["column"] * 3 + ["constant", "parameter"]
        if numeric and depth:
            kinds += ["arithmetic", "negate"]
        if scalar is Scalar.DATETIME:
            kinds += ["now"]
        if only == "column":
            kinds = ["column"]
        elif only == "value":
            kinds = [k for k in kinds if k in ("constant", "parameter", "now")]
        match self.choose(kinds):
            case "column":
                return self.column(lambda t: t.is_scalar and t.scalar is scalar)
            case "constant":
                value = self.choose(POOLS[scalar])
                return Constant(value, literal_type(value))
            case "parameter":
                nullable = ValueType(scalar, nullable=True)
                return self.parameter(self.choose([*POOLS[scalar], None]), nullable)
            case "now":
                return Now()
            case "negate":
                item = self.operand(scalar, depth - 1)
                assert item.type is not None
                return Negate(item, (F64 if item.type.is_float else I64).as_nullable())
            case _:
                operator = self.choose("+-*/")
                left, right = self.operand(scalar, depth - 1), self.operand(scalar, depth - 1)
                assert left.type is not None and right.type is not None
                type = arithmetic_type(operator, left.type, right.type)
                return Arithmetic(operator, left, right, type)

    def lists(self, scalar: Scalar, *, same: bool = False, only: str = "") -> Checked:
        if scalar in NUMBERS:
            scalar = self.choose(NUMBERS)
        kinds = ["column", "column", "constant", "parameter", "written"]
        if only:
            kinds = ["column"] if only == "column" else ["constant", "parameter"]
        match self.choose(kinds):
            case "column":
                return self.column(lambda t: t.is_list and t.scalar is scalar)
            case "constant":
                return self.constant_list(scalar)
            case "parameter":
                type = ValueType(scalar, nullable=True, is_list=True)
                value = None if self.choose([True] + [False] * 5) else self.members(scalar)
                return self.parameter(value, type)
            case _ if same:
                made = [self.column(lambda t: t.is_scalar and t.scalar is scalar)] * 2
                return ListOf(tuple(made), ValueType(scalar, is_list=True))
            case _:
                items = tuple(self.operand(scalar, 0) for _ in range(self.choose([1, 2])))
                assert items[0].type is not None
                return ListOf(items, ValueType(items[0].type.scalar, is_list=True))

    def constant_list(self, scalar: Scalar) -> Checked:
        values = self.members(scalar)
        if scalar in FLOATS:
            # A literal list of floats may hold integers.
            return Constant([*values, 1], ValueType(Scalar.F64, is_list=True))
        if scalar in INTEGER_BOUNDS:
            type = U64 if any(v > INTEGER_BOUNDS[Scalar.I64][1] for v in values) else I64
            return Constant(values, ValueType(type.scalar, is_list=True))
        return Constant(values, ValueType(scalar, is_list=True))

    def members(self, scalar: Scalar) -> list[Any]:
        return [self.choose(POOLS[scalar]) for _ in range(self.choose([0, 1, 2, 4]))]

    def column(self, fits: Callable[[ValueType], bool]) -> Checked:
        name = self.choose([n for n, type in COLUMNS.items() if fits(type)])
        return Column(name, COLUMNS[name])

    def parameter(self, value: Any, type: ValueType) -> Checked:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return Parameter(name, type)


@st.composite
def conditions(draw: Any, *, against_values: bool = False) -> tuple[Checked, Bindings]:
    """A condition, and what it is given."""
    drawn = Drawn(draw, against_values=against_values)
    condition = drawn.condition(2)
    return condition, Bindings(drawn.parameters, NOW)


@st.composite
def values(draw: Any) -> tuple[Checked, Bindings]:
    """An expression of any type, and what it is given."""
    drawn = Drawn(draw)
    scalar = drawn.choose(POOLS)
    kind = drawn.choose(["operand", "operand", "list", "leaf"])
    if kind == "operand":
        made = drawn.operand(scalar, 2)
    elif kind == "list":
        made = drawn.lists(scalar, same=True)
    else:
        made = drawn.leaf()
    return made, Bindings(drawn.parameters, NOW)
