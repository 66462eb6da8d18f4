"""Random small graphs, and random reads of them, whose values are likely to meet.

Schemas have two to four node types (two of them share an interface), edges within a type and
between types, and properties of every scalar type. Queries come as text; those that the checker
refuses are drawn again. Calculations never overflow, so that it does not matter when they are done.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.errors import QueryError
from omnigraph.language import Catalog, CompiledQuery, compile_queries
from omnigraph.language.schema.arrow import table_schema
from omnigraph.language.schema.catalog import TableType
from omnigraph.language.types import Scalar, ValueType
from tests.language.generators import Source

TEXTS = ("", "a", "A", "ab", "b", "ba", "it's", "a%", "é", "😀")
POOLS: dict[Scalar, tuple[Any, ...]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: (True, False),
    Scalar.I32: (-2, -1, 0, 1, 2, 3, 7),
    Scalar.I64: (-2, 0, 1, 2, 3, 40),
    Scalar.U32: (0, 1, 2, 3),
    Scalar.U64: (0, 1, 2, 3, 40),
    Scalar.F32: (-1.5, 0.0, 0.5, 1.0, 2.0, 0.1),
    Scalar.F64: (-2.5, 0.0, 0.5, 1.0, 3.0, 0.1),
    Scalar.DATE: (dt.date(1969, 12, 31), dt.date(2000, 2, 29), dt.date(2024, 1, 1)),
    Scalar.DATETIME: (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC),
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, 12, 30, tzinfo=dt.UTC),
        dt.datetime(2999, 1, 1, tzinfo=dt.UTC),
    ),
}
#: Integers whose sums may not fit; they are compared and added up, but not calculated with.
HUGE = {
    "huge": (-(2**63), -1, 0, 2**53 + 1, 2**53, 2**63 - 1),
    "vast": (0, 1, 2**53, 2**63, 2**64 - 1),
}
_PROPERTIES = {
    "text": "String?", "word": "String?", "flag": "Bool?", "small": "I32?", "count": "I64?",
    "plus": "U32?", "more": "U64?", "half": "F32?", "score": "F64?", "day": "Date?",
    "at": "DateTime?", "kind": "enum(note, report, paper)?", "tags": "[String]?",
    "numbers": "[I64]?", "halves": "[F32]?", "days": "[Date]?", "huge": "I64?", "vast": "U64?",
}  # fmt: skip
_EDGE_PROPERTIES = ("small", "score", "day", "text", "flag", "at")
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


# --- graphs --------------------------------------------------------------------------------------


def random_schema(source: Source) -> str:
    """A schema: its first two node types implement an interface."""
    names = ["Ape", "Bee", "Cow", "Dog"][: source.integer(2, 4)]
    lines = ["interface Named { name: String?  rank: I32? }"]
    for number, name in enumerate(names):
        properties = [f"{p}: {t}" for p, t in _PROPERTIES.items() if source.chance(65)]
        keys = ("key: String @key", "key: I64 @key", "plain: String?")
        first = source.pick(keys)
        if source.chance(25):
            properties.append("@index(small)" if any(p[:6] == "small:" for p in properties) else "")
        head = f"node {name}" + (" implements Named" if number < 2 else "")
        lines.append(f"{head} {{\n  " + "\n  ".join([first, *properties]) + "\n}")
    ends = [(names[0], names[0]), (names[0], names[1]), (names[1], names[1])]
    ends.append((source.pick(names), source.pick(names)))
    for number, (start, end) in enumerate(ends[: source.integer(3, 4)]):
        properties = [f"{p}: {_PROPERTIES[p]}" for p in source.some(_EDGE_PROPERTIES)]
        lines.append(f"edge {'ETHS'[number]}dge: {start} -> {end} {{ {'  '.join(properties)} }}")
    return "\n".join(lines)


def random_rows(source: Source, catalog: Catalog) -> dict[str, pa.Table]:
    """Rows for every type: few nodes, parallel edges, loops and nodes without edges."""
    tables: dict[str, pa.Table] = {}
    ids: dict[str, list[str]] = {}
    for node in catalog.nodes.values():
        count = source.integer(0, 2) if source.chance(5) else source.integer(3, 8)
        # Nodes of different types have the same ids.
        keys = source.shuffled(range(10))[:count]
        rows = [_row(source, node) for _ in keys]
        for number, row in zip(keys, rows, strict=True):
            text = node.properties.get("key")
            if text is not None:
                row["key"] = number if text.type.is_integer else f"n{number}"
            row["id"] = (
                str(row["key"]) if text is not None else f"01HZZZZZZZZZZZZZZZZZZZZZ0{number}"
            )
        ids[node.name] = [row["id"] for row in rows]
        tables[node.name] = pa.Table.from_pylist(rows, table_schema(node))
    for edge in catalog.edges.values():
        starts, ends = ids[edge.source], ids[edge.target]
        count = source.integer(0, 14) if starts and ends else 0
        rows = [_row(source, edge) for _ in range(count)]
        for number, row in enumerate(rows):
            row |= {"src": source.pick(starts), "dst": source.pick(ends)}
            if source.chance(10):
                row["dst"] = row["src"] if edge.source == edge.target else row["dst"]
            row["id"] = f"01HZZZZZZZZZZZZZZZZZZZZZ{source.integer(1, 9)}{number:01X}"
        tables[edge.name] = pa.Table.from_pylist(rows, table_schema(edge))
    return tables


def _row(source: Source, table: TableType) -> dict[str, Any]:
    return {
        p.name: None if p.type.nullable and source.chance(25) else value(source, p.name, p.type)
        for p in table.stored_properties
    }


def value(source: Source, name: str, type: ValueType) -> Any:
    """A value that a property may have."""
    if type.is_list:
        return [value(source, name, type.element) for _ in range(source.integer(0, 3))]
    if type.values is not None:
        return source.pick(type.values)
    return source.pick(HUGE.get(name) or POOLS[type.scalar])


# --- queries -------------------------------------------------------------------------------------


@dataclass
class Program:
    """A query that compiles, with values for its parameters."""

    text: str
    params: dict[str, Any]
    query: CompiledQuery

    def __str__(self) -> str:
        return f"{self.text}\nwith {self.params}"


@dataclass
class Bound:
    """A variable in scope."""

    name: str
    kind: str
    types: tuple[str, ...]
    columns: dict[str, ValueType]


def random_program(source: Source, catalog: Catalog) -> Program:
    """A read of a graph."""
    while True:
        writer = _Writer(source, catalog)
        body = writer.read()
        head = ", ".join(f"${name}: {type}" for name, type in writer.types.items())
        text = f"query q({head}) {{\n{body}\n}}"
        try:
            query = compile_queries(text, catalog).queries["q"]
        except QueryError:
            continue
        return Program(text, writer.params, query)


@dataclass
class _Writer:
    """Writes one query; parameters are declared as they are used."""

    source: Source
    catalog: Catalog
    types: dict[str, ValueType] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    variables: int = 0

    # what is matched

    def read(self) -> str:
        source = self.source
        scope: list[Bound] = []
        clauses = self.block(scope, (), 0)
        if not scope:
            clauses.append(self.binding(scope))
        lines = ["match {", *(f"  {c}" for c in clauses), "}"]
        grouped = source.chance(30)
        distinct = source.chance(20)
        outputs = self.group_outputs(scope) if grouped else self.outputs(scope, distinct)
        returned = [f"{sql} as {name}" if name else sql for sql, name in outputs]
        lines.append(f"return {'distinct ' if distinct else ''}{{ {', '.join(returned)} }}")
        if source.chance(55):
            names = [name or text for text, name in outputs]
            keys = [
                self.order_key(scope, names, grouped or distinct)
                for _ in range(source.integer(1, 2))
            ]
            lines.append(f"order {{ {', '.join(keys)} }}")
        if source.chance(30):
            lines.append(f"limit {self.row_count((0, 1, 2, 5, 10, 100))}")
            if source.chance(40):
                lines[-1] += f" offset {self.row_count((0, 1, 3, 50))}"
        return "\n".join(lines)

    def row_count(self, numbers: Sequence[int]) -> str:
        number = self.source.pick(numbers)
        return (
            self.parameter(ValueType(Scalar.I32), number) if self.source.chance(30) else str(number)
        )

    def block(self, scope: list[Bound], outer: Sequence[Bound], depth: int) -> list[str]:
        """The clauses of a block; what it binds is added to `scope`."""
        source = self.source
        clauses: list[str] = []
        if not outer or source.chance(25):
            clauses.append(self.binding(scope))
        most = 3 if depth == 0 else 2
        hops = source.integer(0 if clauses else 1, most)
        clauses += [self.traversal(scope, outer) for _ in range(hops)]
        if depth == 0 and len(scope) < 3 and source.chance(10):
            clauses.append(self.binding(scope))
        own = len(scope)
        if depth < 2:
            while source.chance(25 if depth == 0 else 15):
                inner: list[Bound] = []
                word = source.pick(("not", "optional"))
                inside = self.block(inner, (*outer, *scope), depth + 1)
                clauses.append(f"{word} {{ {_lines(inside)} }}")
                scope += inner if word == "optional" else []
        visible = (*outer, *scope)
        least = 1 if depth and source.chance(40) else 0
        for _ in range(source.integer(least, max(least, source.integer(0, 2)))):
            late = source.chance(60) and scope[own:]
            clauses.append(self.filter(late or visible))
        return source.shuffled(clauses) if source.chance(30) else clauses

    def fresh(self) -> str:
        self.variables += 1
        return f"v{self.variables}"

    def binding(self, scope: list[Bound]) -> str:
        source = self.source
        if source.chance(20):
            declared, types = "Named", self.catalog.implementers["Named"]
            interface = self.catalog.interfaces["Named"]
            columns = {"id": ValueType(Scalar.STRING)}
            columns |= {p.name: p.type for p in interface.properties.values()}
        else:
            declared = source.pick(list(self.catalog.nodes))
            types, columns = (declared,), dict(self.catalog.nodes[declared].columns)
        bound = Bound(self.fresh(), "node", types, columns)
        scope.append(bound)
        text = f"${bound.name}: {declared}"
        if source.chance(20):
            name = source.pick([c for c, t in columns.items() if t.is_scalar])
            text += f" {{ {name}: {self.given(name, columns[name])} }}"
        return text

    def traversal(self, scope: list[Bound], outer: Sequence[Bound]) -> str:
        source = self.source
        visible = [b for b in (*outer, *scope) if b.kind == "node"]
        if visible and not source.chance(8):
            here = source.pick(visible)
            known = [
                e for e in self.catalog.edges.values() if {e.source, e.target} & set(here.types)
            ]
            if not known:
                return self.binding(scope)
            edge = source.pick(known)
            forwards = edge.source in here.types
            if forwards and edge.target in here.types and source.chance(50):
                forwards = False
        else:
            edge, forwards = source.pick(list(self.catalog.edges.values())), True
            here = None
        type = edge.target if forwards else edge.source
        start = here.name if here else self.other(edge.source, scope, visible)
        end = self.other(type, scope, visible)
        if not forwards:
            start, end = end, start
        same = edge.source == edge.target
        if not same and source.chance(30):
            start, end = end, start
        name = edge.query_name
        if same and source.chance(25):
            name = f"<{name}>"
        if source.chance(30):
            bound = Bound(self.fresh(), "edge", (edge.name,), dict(edge.columns))
            scope.append(bound)
            return f"${start} ${bound.name}:{name} ${end}"
        if same and source.chance(35):
            name += source.pick(
                ("{1,2}", "{2,2}", "{1,}", "{0,1}", "{2,4}", "{0,}", "{1,1}", "{3,}")
            )
        return f"${start} {name} ${end}"

    def other(self, type: str, scope: list[Bound], visible: Sequence[Bound]) -> str:
        """The other end of an edge: anybody, somebody known, or somebody new."""
        source = self.source
        if source.chance(15):
            return "_"
        known = [b for b in visible if type in b.types]
        if known and source.chance(30):
            return source.pick(known).name
        bound = Bound(self.fresh(), "node", (type,), dict(self.catalog.nodes[type].columns))
        scope.append(bound)
        return bound.name

    # conditions

    def filter(self, visible: Sequence[Bound]) -> str:
        return f"({self.condition(visible, 0)})"

    def condition(self, visible: Sequence[Bound], depth: int) -> str:
        source = self.source
        kind = source.integer(0, 19)
        if depth < 2 and kind > 15:
            word = source.pick((" or ", " or ", " and "))
            items = [self.condition(visible, depth + 1) for _ in range(source.integer(2, 3))]
            return word.join(f"({i})" for i in items)
        if depth < 2 and kind == 15:
            return f"not ({self.condition(visible, depth + 1)})"
        if kind == 14:
            return self.entities(visible)
        if kind in (12, 13):
            sides = [self.calculation(visible, 1) for _ in range(2)]
            return f"{sides[0]} {source.pick(_OPERATORS)} {sides[1]}"
        if kind in (9, 10, 11):
            return self.between(visible)
        return self.comparison(visible)

    def entities(self, visible: Sequence[Bound]) -> str:
        source = self.source
        first = source.pick(visible)
        same = [b for b in visible if b.kind == first.kind and set(b.types) & set(first.types)]
        if source.chance(70):
            return f"${first.name} {source.pick(('=', '!='))} ${source.pick(same).name}"
        return f"${first.name} is {source.pick(('', 'not '))}null"

    def between(self, visible: Sequence[Bound]) -> str:
        """A comparison of two properties, of two variables where there are two."""
        source = self.source
        one, other = source.pick(visible), source.pick(visible)
        pairs = [
            (a, b, t)
            for a, t in one.columns.items()
            for b, u in other.columns.items()
            if (t.is_number and u.is_number) or t.as_nullable() == u.as_nullable()
            if (one.name, a) != (other.name, b)
        ]
        if not pairs:
            return self.comparison(visible)
        a, b, type = source.pick(pairs)
        plain = type.is_list or type.scalar is Scalar.BOOL
        operator = source.pick(("=", "!=") if plain else _OPERATORS)
        if type.is_text and source.chance(20):
            operator = source.pick(("contains", "starts_with"))
        return f"${one.name}.{a} {operator} ${other.name}.{b}"

    def comparison(self, visible: Sequence[Bound]) -> str:
        source = self.source
        bound = source.pick(visible)
        name, type = source.pick(list(bound.columns.items()))
        left = f"${bound.name}.{name}"
        kind = source.integer(0, 9)
        if kind == 0:
            return f"{left} is {source.pick(('', 'not '))}null"
        if type.is_list:
            if kind < 6:
                return f"{left} contains {self.given(name, type.element)}"
            return f"{left} {source.pick(('=', '!='))} {self.given(name, type)}"
        if kind in (1, 2):
            return (
                f"{left} in {self.given(name, ValueType(type.scalar, is_list=True), type.values)}"
            )
        if type.is_text and kind in (3, 4):
            word = source.pick(("contains", "starts_with"))
            return f"{left} {word} {self.given('', ValueType(Scalar.STRING))}"
        if type.scalar is Scalar.BOOL and kind < 6:
            return left
        if type.scalar is Scalar.DATETIME and kind == 3:
            return f"{left} {source.pick(('<', '>'))} now()"
        operator = source.pick(("=", "!=") if type.scalar is Scalar.BOOL else _OPERATORS)
        return f"{left} {operator} {self.given(name, type)}"

    # values

    def given(self, name: str, type: ValueType, values: Sequence[str] | None = None) -> str:
        """A value for a property, as a literal or a parameter."""
        source = self.source
        if values is not None:
            return _shown(source.some(values) or [values[0]])
        if name == "id":
            made: Any = source.pick(("n1", "n2", "3", "4", "01HZZZZZZZZZZZZZZZZZZZZZ01"))
            made = [made] if type.is_list else made
        else:
            made = value(source, name, type)
        if not source.chance(35):
            return _shown(made)
        if source.chance(10):
            return self.parameter(type.as_nullable(), None)
        return self.parameter(type.as_nullable(False), made)

    def parameter(self, type: ValueType, given: Any) -> str:
        name = f"p{len(self.types)}"
        self.types[name] = type
        if given is not None or self.source.chance(50):
            self.params[name] = _json(given)
        return f"${name}"

    def calculation(self, visible: Sequence[Bound], depth: int) -> str:
        source = self.source
        numbers = self.properties(visible, lambda name, t: t.is_number and name not in HUGE)
        kind = source.integer(0, 9)
        if depth and kind > 4:
            sides = [self.calculation(visible, depth - 1) for _ in range(2)]
            return f"({sides[0]} {source.pick('+-*/')} {sides[1]})"
        if depth and kind == 4:
            return f"(-{self.calculation(visible, 0)})"
        if numbers and kind > 1:
            return source.pick(numbers)
        scalar = source.pick((Scalar.I32, Scalar.U64, Scalar.F64))
        shown = self.given("", ValueType(scalar))
        return f"({shown})" if shown.startswith("-") else shown

    def properties(
        self, visible: Sequence[Bound], fits: Callable[[str, ValueType], bool]
    ) -> list[str]:
        return [f"${b.name}.{n}" for b in visible for n, t in b.columns.items() if fits(n, t)]

    # what is returned

    def outputs(self, scope: Sequence[Bound], distinct: bool) -> list[tuple[str, str | None]]:
        source = self.source
        made: dict[str, str | None] = {}
        for number in range(source.integer(1, 4)):
            kind = source.integer(0, 9)
            alias: str | None = f"c{number}"
            if kind < 3:
                text = self.entity(scope, distinct)
            elif kind == 3:
                text = self.calculation(scope, 1)
            elif kind == 4:
                text = f"({self.condition(scope, 1)})"
            elif kind == 5 and source.chance(30):
                text = source.pick(("1", '"t"', "null", "true", "2.5"))
            else:
                text = source.pick(self.properties(scope, lambda _, t: True))
            if text[0] == "$" and source.chance(50):
                alias = None
            made.setdefault(text, alias)
        return list(made.items())

    def entity(self, scope: Sequence[Bound], grouped: bool) -> str:
        # As a value, a node is its id; whether two types' equal ids are one value is left open.
        fitting = [b for b in scope if len(b.types) == 1 or not grouped]
        return f"${self.source.pick(fitting).name}" if fitting else f"${scope[0].name}.id"

    def group_outputs(self, scope: Sequence[Bound]) -> list[tuple[str, str | None]]:
        source = self.source
        made: dict[str, str | None] = {}
        for number in range(source.pick((0, 0, 1, 1, 2))):
            keys = self.properties(scope, lambda _, t: t.is_scalar)
            text = source.pick(keys) if source.chance(70) else self.entity(scope, True)
            if source.chance(10):
                text = self.calculation(scope, 1)
            made[text] = f"k{number}"
        numbers = self.properties(scope, lambda n, t: t.is_number and n not in HUGE)
        keys = [k for k in made if k in numbers]
        for number in range(source.integer(1, 3)):
            text = self.aggregate(scope)
            if source.chance(10) and text.startswith(("count", "avg")):
                text = f"{text} {source.pick('+-*/')} {source.pick(['2', *keys])}"
            made[text] = f"a{number}"
        return list(made.items())

    def aggregate(self, scope: Sequence[Bound]) -> str:
        source = self.source
        word = source.pick(("count", "count", "count", "sum", "avg", "min", "max"))
        if word == "count":
            chosen = "distinct " if source.chance(40) else ""
            if source.chance(60):
                return f"count({chosen}${source.pick(scope).name})"
            return f"count({chosen}{source.pick(self.properties(scope, lambda _, t: True))})"
        if word in ("min", "max"):
            return f"{word}({source.pick(self.properties(scope, lambda _, t: t.is_scalar))})"
        if source.chance(20):
            return f"{word}({self.calculation(scope, 1)})"
        able = self.properties(scope, lambda n, t: t.is_number and (word == "sum" or n not in HUGE))
        return f"{word}({source.pick(able)})" if able else f"count(${scope[0].name})"

    def order_key(self, scope: Sequence[Bound], outputs: Sequence[str], only: bool) -> str:
        source = self.source
        if only or source.chance(50):
            key = source.pick(outputs)
        elif source.chance(80):
            key = source.pick(self.properties(scope, lambda _, t: t.is_scalar))
        else:
            key = self.calculation(scope, 1)
        return key + source.pick(("", " asc", " desc"))


def _lines(clauses: Sequence[str]) -> str:
    return "\n    ".join(clauses)


def _shown(value: Any) -> str:
    """A value as a literal."""
    match value:
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case bool():
            return "true" if value else "false"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case dt.datetime():
            return f'datetime("{value.isoformat()}")'
        case dt.date():
            return f'date("{value.isoformat()}")'
        case _:
            return str(value)


def _json(value: Any) -> Any:
    """A value as parameters are given."""
    if isinstance(value, list):
        return [_json(v) for v in value]
    return value.isoformat() if isinstance(value, dt.date) else value
