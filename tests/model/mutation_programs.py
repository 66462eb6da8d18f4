"""Random mutation programs: four schemas, statements that fit the rows there are, and their text.

Values come from small pools, so that keys meet, predicates match and rules are broken now and
then. A program depends on a seed and the model's rows, never on ids that the engine has made up.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import is_dataclass, replace
from random import Random
from typing import Any, TypeVar

from .mutation_model import (
    INTEGERS,
    Column,
    Delete,
    Expression,
    Insert,
    IsNull,
    Listed,
    Logic,
    Model,
    Negative,
    Not,
    Operation,
    Property,
    Schema,
    Statement,
    Type,
    Update,
    Value,
    evaluate,
    key_text,
    plain,
)

T = TypeVar("T")

#: Above it, different integers are the same float.
EXACT = 2**53
TEXTS = ("a", "b", "ab", "it's", 'q"q', "b\\s", "é", "")
KEYS = ("a", "b", "c", "it's", 'q"\\', "é😀", "", "new\nline", "7")
DAYS = (dt.date(2024, 2, 29), dt.date(2026, 1, 31), dt.date(1969, 12, 31))
TIMES = (
    dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC),
)
SERIAL = Property("serial", "I64", serial=True)
AGE = Property("age", "I32", (-1, 0, 1, 2, 30), (2**31 - 1,), nullable=True)

KEYED = Schema(
    "keyed",
    (
        Type(
            "Person",
            (
                Property("name", "String", KEYS),
                AGE,
                Property("nick", "String", TEXTS, nullable=True),
                Property("ok", "Bool", (True, False), nullable=True),
            ),
            key=("name",),
        ),
        Type(
            "Shelf",
            (
                Property("number", "I64", (0, 1, -7, EXACT, EXACT + 1)),
                Property("label", "String", TEXTS),
                Property("size", "F64", (0.0, -0.0, 0.5, 1.0, -2.5), nullable=True),
            ),
            key=("number",),
        ),
        Type(
            "Knows",
            (SERIAL, Property("since", "Date", DAYS, nullable=True)),
            ends=("Person", "Person"),
        ),
        Type(
            "Owns",
            (SERIAL, Property("note", "String", TEXTS, nullable=True)),
            ends=("Person", "Shelf"),
        ),
        Type("Beside", (SERIAL,), ends=("Shelf", "Shelf")),
    ),
)

KEYLESS = Schema(
    "keyless",
    (
        Type(
            "Note",
            (
                SERIAL,
                Property("text", "String", TEXTS, nullable=True),
                Property("stars", "I64", (-1, 0, 1, 2, 5), nullable=True),
                Property("tags", "[String]", ([], ["a"], ["b", "a"], ["é", ""]), nullable=True),
                Property("at", "DateTime", TIMES, nullable=True),
            ),
        ),
        Type(
            "Folder",
            (
                SERIAL,
                Property("title", "String", TEXTS),
                Property("depth", "U64", (0, 1, 2, 2**64 - 1), nullable=True),
                Property("limit", "I64", (-1, 0, 1, 2, 2**53 + 1), nullable=True),
                Property("open", "Bool", (True, False), nullable=True),
            ),
        ),
        Type(
            "Links",
            (
                SERIAL,
                Property("weight", "F64", (0.0, -0.0, 0.5, 1.0, -2.5), nullable=True),
                Property("day", "Date", DAYS, nullable=True),
                Property("until", "Date", DAYS, nullable=True),
            ),
            ends=("Note", "Note"),
        ),
        Type(
            "Holds",
            (SERIAL, Property("rank", "I32", (0, 1, 2), (2**31 - 1,), nullable=True)),
            ends=("Folder", "Note"),
        ),
    ),
)

COMPOSITE = Schema(
    "composite",
    (
        Type(
            "Seat",
            (
                Property("row", "String", ("a", "b", 'q"q', "b\\", "")),
                Property("number", "I64", (0, 1, -7, EXACT + 1)),
                Property("price", "F64", (0.0, 0.5, 2.5), nullable=True),
            ),
            key=("row", "number"),
        ),
        Type(
            "Slot",
            (
                Property("day", "Date", DAYS[:2]),
                Property("open", "Bool", (True, False)),
                Property("code", "String", ("x", "y", "\t")),
                Property("places", "I32", (0, 1, 2), (2**31 - 1,), nullable=True),
            ),
            key=("day", "open", "code"),
        ),
        Type(
            "Next",
            (Property("steps", "I64", (0, 1, 2), nullable=True),),
            key=("from", "to"),
            ends=("Seat", "Seat"),
            card=(0, 3),
        ),
        Type(
            "Booked",
            (SERIAL, Property("note", "String", TEXTS, nullable=True)),
            ends=("Seat", "Slot"),
        ),
        Type(
            "Turns",
            (
                Property("turn", "I32", (0, 1, 2)),
                Property("weight", "F64", (0.5, 1.0), nullable=True),
            ),
            key=("from", "turn"),
            ends=("Slot", "Seat"),
        ),
    ),
)

CODES = ("AA1", "BB2", "CC33")
CONSTRAINED = Schema(
    "constrained",
    (
        Type(
            "Team",
            (
                Property("name", "String", ("red", "blue", "green", "it's")),
                Property("motto", "String", ("x", "y"), nullable=True),
            ),
            key=("name",),
        ),
        Type(
            "Member",
            (
                Property("tag", "String", ("a", "b", "c", "d", "e", "f")),
                Property("email", "String", ("1@x", "2@x", "3@x"), nullable=True),
                Property(
                    "grade",
                    "String",
                    ("good", "fair", "poor"),
                    ("bad",),
                    nullable=True,
                    allowed=("good", "fair", "poor"),
                ),
                Property("level", "I64", (0, 1, 2, 5), (-1, 6), default=1),
                Property("score", "F64", (-3.0, 0.5, 1.5), (1.75,), nullable=True),
                Property("code", "String", CODES, ("nope",), nullable=True),
                Property("room", "String", ("r1", "r2"), nullable=True),
                Property("desk", "I32", (1, 2), (2**31 - 1,), nullable=True),
                Property("active", "Bool", (True, False), default=True),
            ),
            key=("tag",),
            uniques=(("desk", "room"), ("email",)),
            ranges={"level": (0, 5), "score": (None, 1.5)},
            checks={"code": "^[A-Z]{2}[0-9]+$"},
        ),
        Type(
            "Has",
            (SERIAL, Property("slot", "I32", (0, 1, 9), (-1, 10), nullable=True)),
            uniques=(("from", "slot"),),
            ranges={"slot": (0, 9)},
            ends=("Team", "Member"),
            card=(1, 2),
        ),
        Type(
            "Likes",
            (
                SERIAL,
                Property("why", "String", CODES, ("",), nullable=True),
                Property("weight", "F64", (0.0, -0.0, 0.5), nullable=True),
            ),
            uniques=(("from", "weight"), ("to", "why")),
            checks={"why": "[A-C]"},
            ends=("Member", "Member"),
            card=(0, 2),
        ),
    ),
)

SCHEMAS = (KEYED, KEYLESS, COMPOSITE, CONSTRAINED)


class Program:
    """The statements of one query, with its text and the values of its parameters.

    A query may run several times in one commit, with other values: `rounds` has the statements of
    each time, which differ in nothing but that.
    """

    def __init__(self, rounds: Sequence[Sequence[Statement]]) -> None:
        self.rounds = rounds
        self.statements = [statement for statements in rounds for statement in statements]
        writers = [_Writer() for _ in rounds]
        texts = [
            [writer.statement(s) for s in statements]
            for writer, statements in zip(writers, rounds, strict=True)
        ]
        assert all(lines == texts[0] for lines in texts)
        head = ", ".join(f"${name}: {type}" for name, type in writers[0].types.items())
        self.text = "\n".join([f"query q({head}) {{", *texts[0], "}"])
        given = [writer.parameters for writer in writers]
        self.parameters = given if len(rounds) > 1 else given[0]

    def __len__(self) -> int:
        return len(self.rounds[0])

    def __repr__(self) -> str:
        return f"{self.text} {self.parameters or ''}"

    def keeping(self, places: Collection[int]) -> Program:
        """The program without some of its statements."""
        return Program([[s for n, s in enumerate(r) if n in places] for r in self.rounds])


def make_program(seed: int, kind: str, model: Model, serials: Iterator[int]) -> Program:
    """Make up a program that fits the model's rows.

    Args:
        seed: Decides what it is.
        kind: `seed` (many inserts), `insert`, `change` (inserts and updates) or `delete`.
        model: What the graph holds.
        serials: Numbers for rows without a key.
    """
    author = _Author(Random(seed), model, serials, kind)
    # Many deletes would leave nothing for the next program.
    sizes = {"seed": (12,), "delete": (1, 2, 2, 3, 4)}
    size = author.one_of(sizes.get(kind, (1, 2, 3, 4, 4, 5, 5, 6, 6)))
    statements: list[Statement] = []
    for _ in range(size):
        more = author.statements(size - len(statements))
        # Left to chance, most programs would break some rule.
        if author.careful and model.run([*statements, *more]).violations:
            continue
        statements += more
        author.remember(more)
    statements = statements or author.statements(1)
    return Program([statements, author.again(statements)] if author.several else [statements])


class _Author:
    """Makes up the statements of one program."""

    def __init__(self, random: Random, model: Model, serials: Iterator[int], kind: str) -> None:
        self._random = random
        self._model = model
        self._schema = model.schema
        self._serials = serials
        self._kind = kind
        #: Whether every statement is to keep the rules.
        self.careful = kind == "seed" or self.one_in(2)
        #: Whether the program is to run twice, with other values.
        self.several = kind != "seed" and self.one_in(8)
        #: What the program is about: statements on one type meet more often.
        self._types: Sequence[Type] = self._schema.types
        if kind != "seed" and self.one_in(2):
            self._types = (self.one_of(self._types),)
        #: By type, ids of rows that this program inserts.
        self._inserted: dict[str, list[str]] = {t.name: [] for t in model.schema.types}

    def one_of(self, items: Sequence[T]) -> T:
        return self._random.choice(items)

    def one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    # --- statements ---

    def statements(self, room: int) -> list[Statement]:
        """The next statement, or several that belong together."""
        if room <= 0:
            return []
        if self._kind == "delete":
            return [self.delete()]
        if self._kind == "change" and not self.one_in(3):
            return [self.update()]
        return self.insert(room)

    def again(self, statements: list[Statement]) -> list[Statement]:
        """The same statements with other values of their parameters."""
        return [self._again(statement) for statement in statements]

    def _again(self, part: Any) -> Any:
        match part:
            case Value():
                other = part.parameter is not None and part.others
                return replace(part, value=self.one_of(part.others)) if other else part
            case tuple():
                return tuple(self._again(item) for item in part)
            case dict():
                return {
                    name: self._serial() if name == SERIAL.name else self._again(item)
                    for name, item in part.items()
                }
            case _ if is_dataclass(part):
                return part.__class__(**{n: self._again(item) for n, item in vars(part).items()})
        return part

    def _serial(self) -> Value:
        return Value(next(self._serials), "I64" if self.several else None)

    def remember(self, statements: list[Statement]) -> None:
        """Let what follows know of the rows that statements insert."""
        for statement in statements:
            key = self._schema.type(statement.type).key
            if isinstance(statement, Insert) and key:
                self._inserted[statement.type].append(self._key(statement))

    def _key(self, statement: Insert) -> str:
        key = self._schema.type(statement.type).key
        return key_text([evaluate(statement.values[name], {}) for name in key])

    def insert(self, room: int) -> list[Statement]:
        """Insert a row, and the edges that its node has to have."""
        type = self.one_of(self._types)
        ends = type.ends or ()
        # An edge between nothing is refused; that is worth a try, but not many.
        if not all(self._nodes(end) for end in ends) and not self.one_in(5):
            type = self._schema.type(self.one_of(ends))
        node = self._row(type)
        found: list[Statement] = [node]
        for edge in self._schema.edges:
            if edge.ends is None or edge.ends[0] != type.name or not edge.card[0]:
                continue
            if len(found) < room and self._nodes(edge.ends[1]) and not self.one_in(8):
                found.append(self._row(edge, source=self._key(node)))
        return found

    def update(self) -> Update:
        type = self.one_of(self._types)
        free = [p for p in type.properties if not p.serial and p.name not in type.key]
        free += [e for e in self._ends(type) if e.name not in type.key]
        names = self._random.sample(free, min(len(free), self.one_of((1, 1, 2, 3))))
        return Update(
            type.name, {p.name: self._new_value(p, type) for p in names}, self.condition(type)
        )

    def delete(self) -> Delete:
        type = self.one_of(self._types)
        return Delete(type.name, self.condition(type))

    def _row(self, type: Type, source: str | None = None) -> Insert:
        values: dict[str, Expression] = {}
        for end in self._ends(type):
            id = source if source is not None and end.name == "from" else self._some(end)
            values[end.name] = self._given(id, end)
        for p in type.properties:
            if p.serial:
                values[p.name] = self._serial()
            elif p.name in type.key or not (p.nullable or p.default is not None):
                values[p.name] = self._given(self._some(p), p)
            elif not self.one_in(3):
                values[p.name] = self._given(self._some(p, null=True), p)
        return Insert(type.name, values)

    # --- values ---

    def _nodes(self, type: str) -> list[str]:
        """The ids of nodes, those of this program included."""
        return [*self._model.ids(type), *self._inserted[type]]

    def _ends(self, type: Type) -> list[Property]:
        if type.ends is None:
            return []
        return [
            Property(
                name,
                "String",
                tuple(self._nodes(node)) or ("nobody",),
                ("nobody",),
                ordered=bool(self._schema.type(node).key),
            )
            for name, node in zip(("from", "to"), type.ends, strict=True)
        ]

    def _columns(self, type: Type) -> list[Property]:
        """What predicates may look at."""
        ids = (*self._model.ids(type.name), *self._inserted[type.name], "nobody")
        id = Property("id", "String", ids, ordered=bool(type.key))
        rows = self._model.tables[type.name]
        properties = [
            Property(
                p.name,
                p.type,
                p.pool or tuple(row[p.name] for row in rows) or (0,),
                p.wrong,
                p.nullable,
                allowed=p.allowed,
            )
            for p in type.properties
        ]
        return [*properties, *self._ends(type), id]

    def _some(self, p: Property, *, null: bool = False) -> Any:
        """A value of a property, which seldom breaks a rule."""
        if null and p.nullable and self.one_in(5):
            return None
        if p.wrong and not self.careful and self.one_in(10):
            return self.one_of(p.wrong)
        return self.one_of(p.pool)

    def _given(self, value: Any, p: Property) -> Value:
        """A value for a property: as a literal or as a parameter."""
        wrong_word = p.allowed is not None and value is not None and value not in p.allowed
        if not wrong_word and not self.one_in(2 if self.several else 5):
            return Value(value)
        type = p.type
        if type == "I32" and value is not None and self.one_in(4):
            # A wider type is taken as long as the value fits.
            return Value(value if self.careful or self.one_in(2) else 2**40, "I64")
        if type == "F64" and value == 1.0 and self.one_in(2):
            return Value(1, "I64")
        optional = value is None or (p.nullable and self.one_in(2))
        return Value(value, type + ("?" if optional else ""), p.pool)

    def _new_value(self, p: Property, type: Type) -> Expression:
        """What an update sets: a value, or something that is computed from the row."""
        if not self.one_in(3):
            return self._given(self._some(p, null=True), p)
        columns = [c for c in self._columns(type) if p.nullable or not c.nullable]
        if p.is_number and p.type != "U64":
            floats = p.type == "F64"
            numbers = [
                c
                for c in columns
                if c.type != "U64" and (c.is_number if floats else c.type in INTEGERS)
            ]
            if numbers:
                return self._number(numbers, fractions=floats and p.nullable, whole=not floats)
        if p.type == "Bool" and self.one_in(2):
            if p.nullable:
                return self._term(type)
            return IsNull(Column(self.one_of(self._columns(type)).name), self.one_in(2))
        same = [c for c in columns if c.type == p.type and c.ordered]
        return Column(self.one_of(same).name) if same else Value(self._some(p))

    def _number(
        self, numbers: list[Property], *, fractions: bool = True, whole: bool = False
    ) -> Expression:
        """Arithmetic that stays far from the bounds of 64 bits, but not from those of 32."""
        column = Column(self.one_of(numbers).name)
        small = Value(self.one_of((1, 2, -1, 0) if whole else (1, 2, -1, 0, 0.5)))
        forms: list[Expression] = [
            Operation("+", column, small),
            Operation("-", small, column),
            Operation("*", column, small),
            Operation("-", column, Column(self.one_of(numbers).name)),
            Negative(column),
            column,
        ]
        if fractions:
            forms.append(Operation("/", column, small))
            forms.append(Operation("/", column, Column(self.one_of(numbers).name)))
        return self.one_of(forms)

    # --- predicates ---

    def condition(self, type: Type, depth: int = 2) -> Expression:
        kinds = ("term", "term", "term", "key", "id", "not", "and", "or")
        kind = self.one_of(kinds if depth else kinds[:4])
        if kind == "key" and type.key:
            return self._by_key(type)
        if kind == "id":
            return self._equal(self._columns(type)[-1])
        if kind == "not":
            return Not(self.condition(type, depth - 1))
        if kind in ("and", "or"):
            count = 2 + self.one_in(3)
            return Logic(kind, tuple(self.condition(type, depth - 1) for _ in range(count)))
        return self._term(type)

    def _by_key(self, type: Type) -> Expression:
        """Fix the whole key, often that of a row there is, and sometimes ask for more."""
        rows = self._model.tables[type.name]
        row = self.one_of(rows) if rows and not self.one_in(4) else None
        parts = [
            self._equal(p, among=None if row is None else row[p.name])
            for p in self._columns(type)
            if p.name in type.key
        ]
        if self.one_in(3):
            parts.append(self._term(type))
        if len(parts) == 1:
            return parts[0]
        self._random.shuffle(parts)
        return Logic("and", tuple(parts))

    def _equal(self, p: Property, among: Any = None) -> Expression:
        """Compare with one value or with several."""
        value = self.one_of(p.pool) if among is None else among
        if p.type == "I64" and self.one_in(2 if value >= EXACT else 6):
            # Floats compare with integers too.
            value = float(value) + self.one_of((0.0, 0.0, 0.5))
        column = Column(p.name)
        if p.type != "Bool" and self.one_in(2):
            others = [self.one_of(p.pool) for _ in range(self.one_of((0, 1, 2)))]
            return Operation("in", column, self._list(p, [value, *others]))
        sides = (column, self._known(value, p))
        return Operation("=", *(sides if not self.one_in(4) else sides[::-1]))

    def _list(self, p: Property, values: list[Any]) -> Expression:
        form = self.one_of(("literal", "parameter", "mixed"))
        floats = any(isinstance(v, float) for v in values)
        if floats:
            values = [float(v) for v in values]
        type = "F64" if floats else "U64" if p.type == "U64" else p.type
        if form == "parameter":
            return Value(values, f"[{'I64' if type == 'I32' else type}]")
        if form == "mixed":
            items: list[Expression] = [Value(v) for v in values]
            items[0] = self._known(values[0], p, always=True)
            return Listed(tuple(items))
        return Value(values)

    def _known(self, value: Any, p: Property, *, always: bool = False) -> Value:
        """A value to compare with; a parameter may be null, a literal may not."""
        if not always and not self.one_in(2 if self.several else 4):
            return Value(value)
        if self.one_in(6):
            return Value(None, ("F64" if isinstance(value, float) else p.type) + "?")
        if isinstance(value, float):
            return Value(value, "F64")
        return Value(value, "I64" if p.type == "I32" else p.type, p.pool)

    def _term(self, type: Type) -> Expression:
        columns = self._columns(type)
        p = self.one_of(columns)
        column = Column(p.name)
        if self.one_in(5):
            return IsNull(column, self.one_in(2))
        if p.type == "Bool":
            return self._about_bool(p, type)
        if p.type == "[String]":
            return self._about_texts(p, columns)
        if not p.ordered or self.one_in(5):
            return self._equal(p)
        if p.type == "String" and self.one_in(3):
            other: Expression = self._known(self.one_of(("a", "b", "q", "", "é", "1")), _PLAIN)
            texts = [c for c in columns if c.type == "String" and c.ordered]
            if self.one_in(3):
                other = Column(self.one_of(texts).name)
            return Operation(self.one_of(("contains", "starts_with")), column, other)
        return self._compared(p, columns)

    def _compared(self, p: Property, columns: list[Property]) -> Expression:
        operator = self.one_of(("=", "!=", "<", "<=", ">", ">="))
        numbers = [c for c in columns if c.is_number and c.type != "U64"]
        left: Expression = Column(p.name)
        if p.is_number and p.type != "U64" and self.one_in(3):
            left = self._number(numbers)
        same = [
            c for c in columns if c.ordered and (c.type == p.type or (c.is_number and p.is_number))
        ]
        right: Expression
        if self.one_in(3):
            right = Column(self.one_of(same).name)
        elif p.is_number and self.one_in(4):
            right = self._known(self.one_of((0.5, 1.0, -2.5, float(EXACT))), Property("", "F64"))
        elif p.is_number and numbers and self.one_in(5):
            right = self._number(numbers)
        else:
            right = self._known(self.one_of(p.pool), p)
        return Operation(operator, left, right)

    def _about_bool(self, p: Property, type: Type) -> Expression:
        column = Column(p.name)
        form = self.one_of(("bare", "=", "!=", "other"))
        if form == "bare":
            return column
        if form == "other":
            numbers = [c for c in self._columns(type) if c.is_number and c.ordered]
            if numbers:
                inner = Operation(">", Column(self.one_of(numbers).name), Value(1))
                return Operation(self.one_of(("=", "!=")), column, inner)
            form = "="
        return Operation(form, column, self._known(self.one_of((True, False)), p))

    def _about_texts(self, p: Property, columns: list[Property]) -> Expression:
        column = Column(p.name)
        form = self.one_of(("contains", "in", "=", "!="))
        if form in ("=", "!="):
            return Operation(form, column, Value(self.one_of(p.pool[1:])))
        texts = [c for c in columns if c.type == "String"]
        item: Expression = self._known(self.one_of(("a", "b", "é", "", "x")), _PLAIN)
        if self.one_in(3):
            item = Column(self.one_of(texts).name)
        return (
            Operation("contains", column, item)
            if form == "contains"
            else Operation("in", item, column)
        )


_PLAIN = Property("", "String", ordered=True)


# --- texts ---


class _Writer:
    """Writes statements, and gathers the parameters that they need."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.parameters: dict[str, Any] = {}

    def statement(self, statement: Statement) -> str:
        match statement:
            case Insert(type, values):
                return f"  insert {type} {{ {self._fields(values)} }}"
            case Update(type, values, where):
                fields = self._fields(values)
                return f"  update {type} set {{ {fields} }} where {self._expression(where)}"
            case Delete(type, where):
                return f"  delete {type} where {self._expression(where)}"

    def _fields(self, values: Any) -> str:
        return ", ".join(f"{name}: {self._expression(v)}" for name, v in values.items())

    def _expression(self, expression: Expression) -> str:
        match expression:
            case Column(name):
                return name
            case Value(value, None):
                return literal(value)
            case Value(value, parameter):
                name = f"p{len(self.types)}"
                assert parameter is not None
                self.types[name] = parameter
                if value is not None:
                    self.parameters[name] = _as_json(value)
                return f"${name}"
            case Listed(items):
                return f"[{', '.join(map(self._expression, items))}]"
            case Operation(operator, left, right):
                return f"{self._operand(left)} {operator} {self._operand(right)}"
            case Negative(item):
                return f"-{self._operand(item)}"
            case Logic(operator, items):
                return f" {operator} ".join(map(self._operand, items))
            case Not(item):
                return f"not ({self._expression(item)})"
            case IsNull(item, negated):
                return f"{self._operand(item)} is {'not ' if negated else ''}null"

    def _operand(self, expression: Expression) -> str:
        text = self._expression(expression)
        simple = isinstance(expression, Column | Value | Listed | Not)
        return text if simple else f"({text})"


def literal(value: Any) -> str:
    """A value as the language writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dt.datetime):
        return f'datetime("{plain(value)}")'
    if isinstance(value, dt.date):
        return f'date("{plain(value)}")'
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _as_json(value: Any) -> Any:
    """A value as JSON gives it to a parameter: integers that it may round are texts."""
    if isinstance(value, list):
        return [_as_json(v) for v in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT:
        return str(value)
    return value if isinstance(value, float) else plain(value)


def schema_text(schema: Schema) -> str:
    """A schema as the language writes it."""
    return "\n".join(_type_text(type) for type in schema.types)


def _type_text(type: Type) -> str:
    lines = []
    for p in type.properties:
        base = p.type if p.allowed is None else f"enum({', '.join(p.allowed)})"
        default = "" if p.default is None else f" @default({literal(p.default)})"
        lines.append(f"{p.name}: {base}{'?' if p.nullable else ''}{default}")
    # The order of a key is that of the properties, however it is written.
    groups = [("key", type.key[::-1])] if type.key else []
    groups += [("unique", group) for group in type.uniques]
    lines += [f"@{word}({', '.join(names)})" for word, names in groups]
    for name, (low, high) in type.ranges.items():
        bounds = f"{'' if low is None else low}..{'' if high is None else high}"
        lines.append(f"@range({name}, {bounds})")
    lines += [f"@check({name}, {literal(pattern)})" for name, pattern in type.checks.items()]
    body = "{ " + "  ".join(lines) + " }"
    if type.ends is None:
        return f"node {type.name} {body}"
    low, high = type.card
    card = f" @card({low}..{'' if high is None else high})"
    return f"edge {type.name}: {type.ends[0]} -> {type.ends[1]}{card} {body}"
