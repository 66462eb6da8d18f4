"""What mutation programs mean: tables are lists of rows, and everything goes row by row.

It is slow and short, and shares nothing with the engine but the language. Schemas, expressions
and statements are plain values here; `mutation_programs` makes them up and writes them as text.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

#: A row by the names of its columns: `id`, `from` and `to` of edges, and the properties.
Row = dict[str, Any]
Tables = dict[str, list[Row]]
#: Rule, type, id, property and value, as plain as JSON has it.
Violation = tuple[str, str, str | None, str, Any]

INTEGERS = {
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "U64": (0, 2**64 - 1),
}
NUMBERS = (*INTEGERS, "F64")
#: What ids of rows that are not committed start with: the engine makes up its own.
NEW = "new "


# --- schemas ---


@dataclass(frozen=True)
class Property:
    """A property of a type.

    Args:
        name: Its name.
        type: As schemas write it, without `?`; an enum is a String with `allowed` values.
        pool: Values to draw from that keep the rules.
        wrong: Values that break one.
        nullable: May be null.
        default: What inserts write that leave it out.
        allowed: The values of an enum.
        serial: A number that no two rows share, by which rows without a key are known.
        ordered: Comparing it with `<` gives the same in every run.
    """

    name: str
    type: str
    pool: tuple[Any, ...] = ()
    wrong: tuple[Any, ...] = ()
    nullable: bool = False
    default: Any = None
    allowed: tuple[str, ...] | None = None
    serial: bool = False
    ordered: bool = True

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS


@dataclass(frozen=True)
class Type:
    """A node type, or with `ends` an edge type; `key` is in its canonical order."""

    name: str
    properties: tuple[Property, ...]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[str, str] | None = None
    card: tuple[int, int | None] = (0, None)

    @property
    def is_edge(self) -> bool:
        return self.ends is not None

    def property(self, name: str) -> Property:
        return next(p for p in self.properties if p.name == name)


@dataclass(frozen=True)
class Schema:
    """The types of a graph."""

    name: str
    types: tuple[Type, ...]

    def type(self, name: str) -> Type:
        return next(t for t in self.types if t.name == name)

    @property
    def edges(self) -> list[Type]:
        return [t for t in self.types if t.is_edge]


# --- programs ---


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Value:
    """A value; with the type of a parameter it is given as one, and `others` would do as well."""

    value: Any
    parameter: str | None = None
    others: Sequence[Any] = ()


@dataclass(frozen=True)
class Listed:
    """A list in which not everything is a literal."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Operation:
    """A comparison or arithmetic."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Negative:
    item: Expression


@dataclass(frozen=True)
class Logic:
    operator: str
    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Not:
    item: Expression


@dataclass(frozen=True)
class IsNull:
    item: Expression
    negated: bool


Expression = Column | Value | Listed | Operation | Negative | Logic | Not | IsNull


@dataclass(frozen=True)
class Insert:
    type: str
    values: Mapping[str, Expression]


@dataclass(frozen=True)
class Update:
    type: str
    values: Mapping[str, Expression]
    where: Expression


@dataclass(frozen=True)
class Delete:
    type: str
    where: Expression


Statement = Insert | Update | Delete


# --- the values of expressions ---


class Fault(Exception):
    """A number does not fit into 64 bits."""


def evaluate(expression: Expression, row: Mapping[str, Any]) -> Any:
    """The value of an expression in one row; None is null, which is unknown where truth counts."""
    match expression:
        case Column(name):
            return row[name]
        case Value(value):
            return value
        case Listed(items):
            return [evaluate(item, row) for item in items]
        case Operation("in", item, members):
            return _is_member(evaluate(item, row), evaluate(members, row))
        case Operation(operator, left, right):
            return _operate(operator, evaluate(left, row), evaluate(right, row))
        case Negative(item):
            value = evaluate(item, row)
            return None if value is None else _fitting(-value)
        case Logic(operator, items):
            decisive = operator == "or"
            answers = [evaluate(item, row) for item in items]
            if decisive in answers:
                return decisive
            return None if None in answers else not decisive
        case Not(item):
            answer = evaluate(item, row)
            return None if answer is None else not answer
        case IsNull(item, negated):
            return (evaluate(item, row) is None) != negated
    raise AssertionError(expression)


def _is_member(item: Any, members: Any) -> bool | None:
    """Found is true; not found among nulls is unknown, as it is for a null."""
    if item is None or members is None:
        return None
    answers = [_operate("=", item, member) for member in members]
    if True in answers:
        return True
    return None if None in answers else False


def _operate(operator: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if operator == "contains" and isinstance(a, list):
        return _is_member(b, a)
    # A whole number and a float meet as floats, also where that rounds.
    if isinstance(a, float) or isinstance(b, float) or operator == "/":
        a, b = float(a), float(b)
    match operator:
        case "=":
            return a == b
        case "!=":
            return a != b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "contains":
            return b in a
        case "starts_with":
            return a.startswith(b)
        case "+":
            return _fitting(a + b)
        case "-":
            return _fitting(a - b)
        case "*":
            return _fitting(a * b)
        case "/":
            return a / b if b else None
    raise AssertionError(operator)


def _fitting(number: float) -> float:
    low, high = INTEGERS["I64"]
    if isinstance(number, int) and not low <= number <= high:
        raise Fault
    return number


# --- the effect of programs ---


@dataclass
class Entry:
    """A row, and what the program has done to it so far."""

    row: Row
    state: Literal["kept", "updated", "inserted"] = "kept"


@dataclass
class Outcome:
    """What a program does.

    Attributes:
        tables: The rows afterwards, if nothing is broken.
        counts: By type, of those that are touched, and by what happened to their rows.
        violations: Which rules would be broken.
        faults: Which updates gave values that do not fit. The engine need not go on after one.
    """

    tables: Tables
    counts: dict[str, Counter[str]]
    violations: list[Violation]
    faults: list[Violation]


class Model:
    """The rows of a graph."""

    def __init__(self, schema: Schema, tables: Tables | None = None) -> None:
        self.schema = schema
        self.tables: Tables = tables or {type.name: [] for type in schema.types}
        self._made = 0

    def copy(self) -> Model:
        return Model(self.schema, {name: [*rows] for name, rows in self.tables.items()})

    def ids(self, type: str) -> list[str]:
        return [row["id"] for row in self.tables[type]]

    def run(self, statements: Sequence[Statement]) -> Outcome:
        """Say what a program does; the model itself stays as it is."""
        work = {name: [Entry(dict(r)) for r in rows] for name, rows in self.tables.items()}
        violations: list[Violation] = []
        faults: list[Violation] = []
        for statement in statements:
            match statement:
                case Insert():
                    self._insert(statement, work[statement.type], violations)
                case Update():
                    self._update(statement, work[statement.type], faults)
                case Delete():
                    self._delete(statement, work)
        after = {name: [entry.row for entry in entries] for name, entries in work.items()}
        unfit = {violation[1:4] for violation in violations}
        violations += [v for v in broken(self.schema, after) if not _repeats(v, unfit)]
        return Outcome(after, self._counts(work), violations, faults)

    def _insert(self, statement: Insert, entries: list[Entry], violations: list[Violation]) -> None:
        type = self.schema.type(statement.type)
        row: Row = {"id": None} | (dict.fromkeys(("from", "to")) if type.is_edge else {})
        row |= {p.name: p.default for p in type.properties}
        row |= {name: evaluate(given, {}) for name, given in statement.values.items()}
        unfit = {p.name: row[p.name] for p in type.properties if not _fits(row[p.name], p)}
        row |= dict.fromkeys(unfit)
        for p in type.properties:
            if p.type == "F64" and row[p.name] is not None:
                row[p.name] = float(row[p.name])
        if type.key:
            parts = [row[name] for name in type.key]
            row["id"] = None if None in parts else key_text(parts)
            # The whole row is replaced; a row that this program has inserted stays, and is one
            # too many.
            entries[:] = [e for e in entries if e.row["id"] != row["id"] or e.state == "inserted"]
        else:
            self._made += 1
            row["id"] = f"{NEW}{self._made}"
        violations += [("type", type.name, row["id"], name, v) for name, v in unfit.items()]
        entries.append(Entry(row, "inserted"))

    def _update(self, statement: Update, entries: list[Entry], faults: list[Violation]) -> None:
        type = self.schema.type(statement.type)
        for entry in entries:
            before = entry.row
            if evaluate(statement.where, before) is not True:
                continue
            entry.row = dict(before)
            for name, expression in statement.values.items():
                property = None if name in ("from", "to") else type.property(name)
                try:
                    value = evaluate(expression, before)
                except Fault:
                    faults.append(("type", type.name, before["id"], name, None))
                    continue
                if property is not None and not _fits(value, property):
                    faults.append(("type", type.name, before["id"], name, value))
                    continue
                if property is not None and property.type == "F64" and value is not None:
                    value = float(value)
                entry.row[name] = value
            if entry.state == "kept":
                entry.state = "updated"

    def _delete(self, statement: Delete, work: dict[str, list[Entry]]) -> None:
        entries = work[statement.type]
        gone = [e.row["id"] for e in entries if evaluate(statement.where, e.row) is True]
        entries[:] = [e for e in entries if e.row["id"] not in gone]
        for edge in self.schema.edges:
            assert edge.ends is not None
            for end, node in zip(("from", "to"), edge.ends, strict=True):
                if node == statement.type:
                    work[edge.name][:] = [e for e in work[edge.name] if e.row[end] not in gone]

    def _counts(self, work: dict[str, list[Entry]]) -> dict[str, Counter[str]]:
        counts = {}
        for name, entries in work.items():
            before = set(self.ids(name))
            count: Counter[str] = Counter()
            for entry in entries:
                if entry.state == "inserted":
                    count["replaced" if entry.row["id"] in before else "inserted"] += 1
                elif entry.state == "updated":
                    count["updated"] += 1
            count["deleted"] = len(before - {entry.row["id"] for entry in entries})
            if count.total():
                counts[name] = count
        return counts


def _fits(value: Any, property: Property) -> bool:
    """False for a whole number that the property cannot hold."""
    if value is None or property.type not in INTEGERS:
        return True
    low, high = INTEGERS[property.type]
    return bool(low <= value <= high)


def _repeats(violation: Violation, unfit: set[tuple[str, str | None, str]]) -> bool:
    """A value that did not fit is not missing as well."""
    return violation[0] == "required" and violation[1:4] in unfit


# --- the schema's rules ---


def broken(schema: Schema, tables: Tables) -> Iterator[Violation]:
    """Every rule that the rows break."""
    for type in schema.types:
        rows = tables[type.name]
        for row in rows:
            yield from _broken_values(type, row)
        yield from _doubled_keys(type, rows)
        yield from _shared_uniques(type, rows)
    for edge in schema.edges:
        yield from _loose_ends(edge, tables)
        yield from _wrong_numbers(edge, tables)


def _broken_values(type: Type, row: Row) -> Iterator[Violation]:
    for p in type.properties:
        value = row[p.name]
        if value is None:
            if not p.nullable:
                yield ("required", type.name, row["id"], p.name, None)
            continue
        low, high = type.ranges.get(p.name, (None, None))
        rules = {
            "enum": p.allowed is None or value in p.allowed,
            "range": (low is None or value >= low) and (high is None or value <= high),
            "check": p.name not in type.checks or re.search(type.checks[p.name], value),
        }
        for rule, kept in rules.items():
            if not kept:
                yield (rule, type.name, row["id"], p.name, plain(value))


def _doubled_keys(type: Type, rows: list[Row]) -> Iterator[Violation]:
    for id, count in Counter(row["id"] for row in rows).items():
        for _ in range(count - 1 if id is not None else 0):
            yield ("repeated", type.name, id, ", ".join(type.key), id)


def _shared_uniques(type: Type, rows: list[Row]) -> Iterator[Violation]:
    """One violation for each group of values, whichever of its rows may keep them."""
    for group in type.uniques:
        holders: dict[tuple[Any, ...], set[str]] = {}
        for row in rows:
            values = tuple(row[name] for name in group)
            if None not in values:
                holders.setdefault(values, set()).add(row["id"])
        for values, ids in holders.items():
            if len(ids) > 1:
                value = [plain(v) for v in values] if len(values) > 1 else plain(values[0])
                yield ("unique", type.name, None, ", ".join(group), value)


def _loose_ends(edge: Type, tables: Tables) -> Iterator[Violation]:
    assert edge.ends is not None
    for end, node in zip(("from", "to"), edge.ends, strict=True):
        there = {row["id"] for row in tables[node]}
        for row in tables[edge.name]:
            if row[end] not in there:
                yield ("end", edge.name, row["id"], end, row[end])


def _wrong_numbers(edge: Type, tables: Tables) -> Iterator[Violation]:
    assert edge.ends is not None
    low, high = edge.card
    counts = Counter({row["id"]: 0 for row in tables[edge.ends[0]]})
    counts.update(row["from"] for row in tables[edge.name])
    for source, count in counts.items():
        if count < low or (high is not None and count > high):
            yield ("cardinality", edge.name, source, "from", count)


# --- texts ---


def key_text(values: Sequence[Any]) -> str:
    """The id of a key: its text, or a JSON array of the texts of its parts."""
    texts = [
        str(v).lower() if isinstance(v, bool) else v.isoformat() if _is_date(v) else str(v)
        for v in values
    ]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def plain(value: Any) -> Any:
    """A value as JSON has it; zero has one sign."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if _is_date(value) else value


def _is_date(value: Any) -> bool:
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
