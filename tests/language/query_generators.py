"""Random well-typed queries for a schema, as text with comments and odd spacing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnigraph.language import Catalog, EdgeType, NodeType, Scalar, ValueType
from tests.language.generators import NEWLINE, Source, join, literal, quoted, text
from tests.language.schema_generators import is_plain_string, type_tokens, value_type

#: A schema with something of everything, for tests that need a fixed one.
RICH_SCHEMA = """
interface Named { name: String @index  nick: String? }
interface Dated { created: DateTime?  day: Date? }

node Person implements Named, Dated {
  email: String @key
  age: I32?
  height: F32?
  score: F64
  big: U64?
  small: U32
  count: I64
  active: Bool
  tags: [String]?
  numbers: [I64]
  days: [Date]?
  status: enum(open, closed, "on hold")
  mood: enum(good, bad)? @default(good)
  bio: String? @description("free text")
  photo: Blob?
  face: Vector(3)? @embed("bio")
  in: String?
  date: Date @default(date("2026-01-01"))
  @range(age, 0..150)
}

node Company implements Named {
  vat: U64
  country: String
  founded: Date?
  logo: Blob
  profile: Vector(2)
  @key(country, vat)
}

node City { title: String  zip: I32? }

edge Knows: Person -> Person { since: Date?  weight: F64 @default(1.0) }
edge WorksAt: Person -> Company @card(0..3) { role: enum(boss, staff)?  from_day: Date  pay: I64? }
edge Contains: City -> City
edge In: Company -> City { note: String?  proof: Blob? }
edge Likes: Person -> City { stars: U32  vec: Vector(2)? }
"""

_COMPARE = ("=", "!=", "<", "<=", ">", ">=")
_OPERATORS = frozenset({"in", "is", "and", "or", "contains", "starts_with"})
_ALIASES = ("total", "n", "score", "in", "as_", "x", "desc", "order", "limit", "count", "Name")
_BARE_ALIASES = ("query", "in", "order", "desc", "count", "limit", "offset", "is", "match")


@dataclass
class Bound:
    """A variable in scope. An interface has several types."""

    name: str
    kind: str
    types: tuple[str, ...]
    columns: dict[str, ValueType]
    declared: str = ""


class QueryWriter:
    """Writes one query; parameters are declared as they are used."""

    def __init__(self, source: Source, catalog: Catalog, name: str) -> None:
        self.source = source
        self.catalog = catalog
        self.name = name
        self.parameters: dict[str, ValueType] = {}
        self.variables = 0
        #: Columns of the row that a mutation looks at; None in reads.
        self.row: dict[str, ValueType] | None = None

    # heads

    def query(self) -> list[str]:
        source = self.source
        body = self.mutation() if source.chance(30) else self.read()
        head = ["query", self.name, "("]
        if source.chance(5):
            self.parameters["unused"] = value_type(source)
        for name, type in self.parameters.items():
            head += [f"${name}", ":", *type_tokens(source, type), ","]
        if self.parameters and not source.chance(10):
            head.pop()
        head.append(")")
        for note in source.some(("description", "instruction"), 20):
            head += ["@", note, "(", quoted(source, text(source)), ")"]
        return [*head, "{", *body, "}", NEWLINE]

    def parameter(self, type: ValueType) -> str:
        known = [n for n, t in self.parameters.items() if t == type]
        if known and self.source.chance(50):
            return f"${self.source.pick(known)}"
        name = f"{self.source.pick(('p', 'arg_', 'X', 'in'))}{len(self.parameters)}"
        self.parameters[name] = type
        return f"${name}"

    def fresh(self) -> str:
        self.variables += 1
        return f"{self.source.pick(('v', 'node_', 'W'))}_{self.variables}"

    # reads

    def read(self) -> list[str]:
        source = self.source
        scope: list[Bound] = []
        tokens = ["match", "{", *self.block(scope, 0), "}"]
        outputs, grouped = self.outputs(scope)
        distinct = source.chance(20)
        tokens.append("return")
        if distinct:
            tokens.append("distinct")
        tokens += ["{", *outputs.tokens, "}"]
        order, needs_limit = self.order(scope, outputs, grouped or distinct)
        tokens += order
        if needs_limit or source.chance(40):
            tokens += ["limit", self.row_count()]
            if source.chance(40):
                tokens += ["offset", self.row_count()]
        return tokens

    def row_count(self) -> str:
        if self.source.chance(40):
            scalar = self.source.pick((Scalar.I32, Scalar.U64))
            return self.parameter(ValueType(scalar))
        return self.source.pick(("0", "1", "10", "9223372036854775807"))

    def block(self, scope: list[Bound], depth: int, outer: Sequence[Bound] = ()) -> list[str]:
        """Clauses of a block; what it binds is added to `scope`."""
        source = self.source
        clauses = [self.binding(scope) for _ in range(source.integer(0 if outer else 1, 2))]
        hops = source.integer(0, 3) if self.catalog.edges else 0
        clauses += [self.traversal(scope, outer) for _ in range(hops)]
        inner = [*outer, *scope]
        optional: list[Bound] = []
        if depth < 3 and inner:
            while source.chance(20 if depth == 0 else 30):
                word = source.pick(("not", "optional"))
                found: list[Bound] = []
                clauses.append([word, "{", *self.block(found, depth + 1, inner), "}"])
                if word == "optional":
                    optional += found
        scope += optional
        visible = [*outer, *scope]
        filters = source.integer(0, 3) if visible else 0
        clauses += [self.filter(visible) for _ in range(filters)]
        if not clauses:
            clauses.append(self.binding(scope))
        tokens: list[str] = []
        if source.chance(30):
            clauses = self.reordered(clauses)
        for clause in clauses:
            tokens += [*clause, *([NEWLINE] if source.chance(70) else [])]
        return tokens

    def reordered(self, clauses: list[list[str]]) -> list[list[str]]:
        """Other orders mean the same, but edges without a known end are read in theirs."""
        edges = iter([c for c in clauses if _is_traversal(c)])
        return [next(edges) if _is_traversal(c) else c for c in self.source.shuffled(clauses)]

    def binding(self, scope: list[Bound]) -> list[str]:
        source = self.source
        interfaces = [n for n, types in self.catalog.implementers.items() if types]
        if interfaces and source.chance(25):
            declared = source.pick(interfaces)
            types = self.catalog.implementers[declared]
            properties = self.catalog.interfaces[declared].properties.values()
            columns = {"id": ValueType(Scalar.STRING), **{p.name: p.type for p in properties}}
        else:
            declared = source.pick(list(self.catalog.nodes))
            types = (declared,)
            columns = dict(self.catalog.nodes[declared].columns)
        bound = Bound(self.fresh(), "node", types, columns, declared)
        scope.append(bound)
        tokens = [f"${bound.name}", ":", declared]
        if not source.chance(30):
            return tokens
        fields: list[str] = []
        fitting = [c for c, t in columns.items() if t.is_scalar and not t.is_blob]
        for name in source.some(fitting, 25):
            fields += [name, ":", *self.operand([], columns[name]), ","]
        if fields and not source.chance(10):
            fields.pop()
        return [*tokens, "{", *fields, "}"]

    def traversal(self, scope: list[Bound], outer: Sequence[Bound]) -> list[str]:
        source = self.source
        edge = source.pick(list(self.catalog.edges.values()))
        same = edge.source == edge.target
        wanted = [edge.source, edge.target]
        if source.chance(30):
            wanted.reverse()
        # Where both ends are open the edge is read forwards; so at least one has to be known.
        names = [self.end(t, edge, scope, outer) for t in wanted]
        if all(bound is None for _, bound in names) and wanted[0] != edge.source:
            names.reverse()
            wanted.reverse()
        tokens = [f"${names[0][0]}"]
        for (name, bound), type in zip(names, wanted, strict=True):
            if bound is None and name != "_" and not any(b.name == name for b in scope):
                columns = dict(self.catalog.nodes[type].columns)
                scope.append(Bound(name, "node", (type,), columns, type))
        with_variable = source.chance(30)
        if with_variable:
            variable = "_" if source.chance(15) else self.fresh()
            tokens += [f"${variable}", ":"]
            if variable != "_":
                scope.append(Bound(variable, "edge", (edge.name,), dict(edge.columns), edge.name))
        if same and source.chance(30):
            tokens += ["<", edge.query_name, ">"]
        else:
            tokens.append(edge.query_name)
        if not with_variable and source.chance(30):
            bounds = [("1", "1")]
            if same:
                bounds += [("1", ""), ("0", "3"), ("2", "5"), ("0", ""), ("3", "3")]
            low, high = source.pick(bounds)
            tokens += ["{", low, ",", *([high] if high else []), "}"]
        return [*tokens, f"${names[1][0]}"]

    def end(
        self, type: str, edge: EdgeType, scope: list[Bound], outer: Sequence[Bound]
    ) -> tuple[str, Bound | None]:
        """A variable for an end of an edge: known, new or `_`."""
        source = self.source
        if source.chance(10):
            return "_", None
        fitting = [b for b in (*outer, *scope) if b.kind == "node" and b.types == (type,)]
        both = {edge.source, edge.target}
        # An interface is narrowed by its edges; it is used only where it is clear to what.
        fitting += [
            b
            for b in scope
            if len(b.types) > 1 and type in b.types and len(both & set(b.types)) == 1
        ]
        if fitting and source.chance(70):
            bound = source.pick(fitting)
            if len(bound.types) > 1:
                bound.types = (type,)
                bound.columns = dict(self.catalog.nodes[type].columns)
            return bound.name, bound
        return self.fresh(), None

    def filter(self, visible: Sequence[Bound]) -> list[str]:
        tokens = self.condition(visible, 0)
        # A clause that starts with a sign would go on with the clause before; a variable alone,
        # or a constant, would run into the next one.
        if tokens[0] == "-" or (tokens[0][0] == "$" and tokens[1:2] != ["."]):
            return ["(", *tokens, ")"]
        if len(tokens) == 1:
            return ["(", *tokens, ")"]
        return tokens

    # expressions

    def columns(self, visible: Sequence[Bound]) -> list[tuple[list[str], ValueType]]:
        if self.row is not None:
            return [([n], t) for n, t in self.row.items()]
        return [([f"${b.name}", ".", n], t) for b in visible for n, t in b.columns.items()]

    def operand(self, visible: Sequence[Bound], type: ValueType) -> list[str]:
        """An expression of a type, or of one that can be compared with it."""
        source = self.source
        base = type.as_nullable(False)
        fitting = [tokens for tokens, t in self.columns(visible) if t.as_nullable(False) == base]
        kind = source.integer(0, 9)
        if base.is_number and kind > 7:
            return self.arithmetic(visible, 0)
        if fitting and kind > 4:
            return list(source.pick(fitting))
        if base.scalar is Scalar.DATETIME and base.is_scalar and kind == 4:
            return ["now", "(", ")"]
        if kind > 2:
            return [self.parameter(base.as_nullable(source.chance(20)))]
        return literal(source, base)

    def arithmetic(self, visible: Sequence[Bound], depth: int) -> list[str]:
        source = self.source
        numbers = [tokens for tokens, t in self.columns(visible) if t.is_number]
        kind = source.integer(0, 9)
        if depth < 3 and kind > 6:
            left = self.arithmetic(visible, depth + 1)
            right = self.arithmetic(visible, depth + 1)
            tokens = [*left, source.pick(("+", "-", "*", "/")), *right]
            return ["(", *tokens, ")"] if source.chance(40) else tokens
        if depth < 3 and kind == 6:
            return ["-", "(", *self.arithmetic(visible, depth + 1), ")"]
        if numbers and kind > 3:
            sign = ["-"] if source.chance(10) else []
            return [*sign, *source.pick(numbers)]
        type = ValueType(source.pick((Scalar.I64, Scalar.F64, Scalar.U32)))
        if kind > 2:
            return [self.parameter(type)]
        return literal(source, type)

    def condition(self, visible: Sequence[Bound], depth: int) -> list[str]:
        source = self.source
        kind = source.integer(0, 13)
        if depth < 3 and kind > 11:
            word = source.pick(("and", "or"))
            tokens = self.condition(visible, depth + 1)
            for _ in range(source.integer(1, 2)):
                tokens += [word, *self.condition(visible, depth + 1)]
            return ["(", *tokens, ")"] if source.chance(50) else tokens
        if depth < 3 and kind == 11:
            return ["not", "(", *self.condition(visible, depth + 1), ")"]
        if kind == 10:
            return ["(", *self.condition(visible, depth + 1), ")"]
        if kind == 9:
            return [
                *self.arithmetic(visible, 0),
                source.pick(_COMPARE),
                *self.arithmetic(visible, 0),
            ]
        if kind == 8:
            return self.entity_test(visible)
        if kind == 7 and self.row is None:
            return self.text_match(visible)
        return self.comparison(visible)

    def entity_test(self, visible: Sequence[Bound]) -> list[str]:
        source = self.source
        if self.row is not None or not visible:
            return self.comparison(visible)
        first = source.pick(visible)
        same = [
            b
            for b in visible
            if b.kind == first.kind
            and b.declared == first.declared
            and len(b.types) == len(first.types) == 1
            and b.types == first.types
        ]
        if same and source.chance(50):
            return [f"${first.name}", source.pick(("=", "!=")), f"${source.pick(same).name}"]
        return [f"${first.name}", "is", *(["not"] if source.chance(50) else []), "null"]

    def text_match(self, visible: Sequence[Bound]) -> list[str]:
        source = self.source
        texts = self.searchable(visible, lambda t: is_plain_string(t))
        if not texts:
            return self.comparison(visible)
        word = source.pick(("search", "match_text", "fuzzy"))
        tokens = [word, "(", *source.pick(texts)[0], ",", *self.given_text()]
        if word == "fuzzy" and source.chance(50):
            edits = [self.parameter(ValueType(Scalar.I32))] if source.chance(30) else ["2"]
            tokens += [",", *edits]
        return [*tokens, ")"]

    def given_text(self) -> list[str]:
        type = ValueType(Scalar.STRING)
        if self.source.chance(50):
            return [self.parameter(type)]
        return literal(self.source, type)

    def searchable(
        self, visible: Sequence[Bound], fits: Callable[[ValueType], bool]
    ) -> list[tuple[list[str], ValueType]]:
        return [
            (tokens, t)
            for tokens, t in self.columns(visible)
            if fits(t) and tokens[-1] not in ("id", "from", "to")
        ]

    def comparison(self, visible: Sequence[Bound]) -> list[str]:
        source = self.source
        columns = [(tokens, t) for tokens, t in self.columns(visible) if not t.is_blob]
        if not columns:
            return ["1", "<", "2"]
        left, type = source.pick(columns)
        left, base = list(left), type.as_nullable(False)
        if type.is_vector or source.chance(10):
            return [*left, "is", *(["not"] if source.chance(50) else []), "null"]
        if type.is_list:
            if source.chance(40):
                return [*left, source.pick(("=", "!=")), *self.list_of(visible, base.element)]
            return [*left, "contains", *self.operand(visible, base.element)]
        if base == ValueType(Scalar.BOOL) and source.chance(40):
            return left
        kind = source.integer(0, 5)
        if kind == 5:
            if base.values:
                return [*left, "in", *self.listed([literal(source, base) for _ in range(2)])]
            return [*left, "in", *self.list_of(visible, base)]
        if kind == 4 and base.is_text:
            word = source.pick(("contains", "starts_with"))
            return [*left, word, *self.operand(visible, ValueType(Scalar.STRING))]
        operators = ("=", "!=") if base.scalar is Scalar.BOOL else _COMPARE
        right = self.operand(visible, base)
        if source.chance(15):
            left, right = right, left
        return [*left, source.pick(operators), *right]

    def list_of(self, visible: Sequence[Bound], element: ValueType) -> list[str]:
        source = self.source
        if source.chance(30):
            return [self.parameter(ValueType(element.scalar, is_list=True))]
        items = [self.operand(visible, element) for _ in range(source.integer(1, 3))]
        return self.listed(items)

    def listed(self, items: list[list[str]]) -> list[str]:
        tokens = ["["]
        for item in items:
            tokens += [*item, ","]
        return [*tokens[: len(tokens) - (not self.source.chance(10))], "]"]

    # what a read returns

    def rank(self, visible: Sequence[Bound]) -> list[str] | None:
        source = self.source
        vectors = self.searchable(visible, lambda t: t.is_vector)
        texts = self.searchable(visible, lambda t: is_plain_string(t))
        if vectors and (not texts or source.chance(50)):
            tokens, type = source.pick(vectors)
            base = type.as_nullable(False)
            how = source.integer(0, 2)
            given = (
                self.given_text() if how == 0
                else [self.parameter(base)] if how == 1 else literal(source, base)
            )  # fmt: skip
            return ["nearest", "(", *tokens, ",", *given, ")"]
        if texts:
            return ["bm25", "(", *source.pick(texts)[0], ",", *self.given_text(), ")"]
        return None

    def ranking(self, visible: Sequence[Bound]) -> list[str] | None:
        first, second = self.rank(visible), self.rank(visible)
        if first is None or second is None or self.source.chance(60):
            return first
        k = [",", "60"] if self.source.chance(50) else []
        return ["rrf", "(", *first, ",", *second, *k, ")"]

    def aggregate(self, visible: Sequence[Bound]) -> list[str]:
        source = self.source
        word = source.pick(("count", "sum", "avg", "min", "max"))
        if word == "count":
            argument = [f"${source.pick(visible).name}"] if source.chance(60) else None
            if argument is None:
                argument = list(source.pick([c for c, t in self.columns(visible) if not t.is_blob]))
            return ["count", "(", *(["distinct"] if source.chance(40) else []), *argument, ")"]
        if word in ("sum", "avg"):
            return [word, "(", *self.arithmetic(visible, 1), ")"]
        scalar = [c for c, t in self.columns(visible) if t.is_scalar and not t.is_blob]
        return [word, "(", *source.pick(scalar), ")"]

    def outputs(self, scope: Sequence[Bound]) -> tuple[_Outputs, bool]:
        source = self.source
        grouped = source.chance(30)
        result = _Outputs()
        if not scope:
            # Nothing has a name: `match { $_ knows $_ }`.
            result.add(["1"], "one")
            return result, False
        for number in range(source.integer(1, 4)):
            tokens: list[str] | None
            kind = source.integer(0, 9)
            alias: str | None = f"{source.pick(_ALIASES)}{number}"
            if source.chance(20) and (bare := source.pick(_BARE_ALIASES)) not in result.names:
                alias = bare
            if grouped and (number == 0 or kind > 6):
                tokens = self.aggregate(scope)
                if source.chance(20):
                    word = source.pick(("+", "-", "*", "/"))
                    tokens = ["count", "(", f"${scope[0].name}", ")", word, *number_literal(source)]
            elif kind == 0:
                tokens = self.ranking(scope)
            elif kind == 1:
                tokens = self.arithmetic(scope, 0)
            elif kind == 2:
                tokens = [f"${source.pick(scope).name}"]
                alias = None if tokens[0][1:] not in result.names and source.chance(50) else alias
            elif kind == 3:
                tokens = source.pick((["now", "(", ")"], ["null"], ["true"], ['"t"'], ["-", "1"]))
            elif kind == 4 and not grouped:
                tokens = self.read_condition(scope)
            else:
                usable = [
                    c for c, t in self.columns(scope)
                    if not t.is_blob and not (grouped and not t.is_scalar)
                ]  # fmt: skip
                tokens = list(source.pick(usable))
                name = f"{tokens[0][1:]}.{tokens[2]}"
                alias = None if name not in result.names and source.chance(60) else alias
            if tokens is None:
                continue
            result.separate(source, tokens)
            result.add(tokens, alias)
        if not result.tokens:
            result.add([f"${scope[0].name}"], "only")
        return result, grouped

    def read_condition(self, scope: Sequence[Bound]) -> list[str]:
        """A condition as a value; it cannot have search functions."""
        return ["(", *self.comparison(scope), ")"]

    def order(
        self, scope: Sequence[Bound], outputs: _Outputs, only_outputs: bool
    ) -> tuple[list[str], bool]:
        source = self.source
        if not source.chance(50):
            return [], False
        tokens: list[str] = []
        needs_limit = False
        for _ in range(source.integer(1, 3)):
            item: list[str] | None = None
            kind = source.integer(0, 9)
            if kind < 5 and outputs.aliases:
                name = source.pick(outputs.aliases)
                written = outputs.written[name]
                item = [name]
            else:
                if only_outputs:
                    continue
                if kind == 9:
                    item = self.ranking(scope)
                elif kind == 8:
                    item = self.arithmetic(scope, 0)
                else:
                    sortable = [c for c, t in self.columns(scope) if t.is_scalar and not t.is_blob]
                    item = list(source.pick(sortable)) if sortable else None
                if item is None:
                    continue
                written = item
            if outputs.unordered(written, self.columns(scope)):
                continue
            needs_limit = needs_limit or bool({"nearest", "rrf"} & set(written))
            joins = item[0] in ("-", "(", "asc", "desc", *_OPERATORS)
            separator = [","] if joins or source.chance(70) else [NEWLINE]
            tokens += [*(separator if tokens else []), *item, *source.pick(([], ["asc"], ["desc"]))]
        return (["order", "{", *tokens, "}"], needs_limit) if tokens else ([], False)

    # mutations

    def mutation(self) -> list[str]:
        source = self.source
        tokens: list[str] = []
        deletes = source.chance(30)
        for _ in range(source.integer(1, 3)):
            table = source.pick(list(self.catalog.tables()))
            if deletes:
                tokens += ["delete", table.name, "where", *self.predicate(table)]
            elif source.chance(50):
                tokens += ["insert", table.name, "{", *self.values(table, insert=True), "}"]
            else:
                values = self.values(table, insert=False)
                if not values:
                    tokens += ["insert", table.name, "{", *self.values(table, insert=True), "}"]
                    continue
                tokens += ["update", table.name, "set", "{", *values, "}"]
                tokens += ["where", *self.predicate(table)]
            tokens += [NEWLINE] if source.chance(80) else []
        return tokens

    def predicate(self, table: NodeType | EdgeType) -> list[str]:
        self.row = dict(table.columns)
        tokens = self.condition((), 0)
        self.row = None
        return tokens

    def values(self, table: NodeType | EdgeType, *, insert: bool) -> list[str]:
        source = self.source
        fields: list[tuple[str, ValueType]] = []
        if isinstance(table, EdgeType) and (insert or source.chance(20)):
            fields += [
                (end, ValueType(Scalar.STRING))
                for end in ("from", "to")
                if insert or end not in table.key
            ]
        for prop in table.properties.values():
            needed = not (prop.type.nullable or prop.has_default or prop.embed)
            if (insert and needed) or (
                source.chance(30) and (insert or prop.name not in table.key)
            ):
                fields.append((prop.name, prop.type))
        tokens: list[str] = []
        for name, type in source.shuffled(fields):
            if tokens:
                newline = name not in _OPERATORS and source.chance(30)
                tokens += [NEWLINE] if newline else [","]
            tokens += [name, ":", *self.value(type, table, insert=insert)]
        return [*tokens, ","] if tokens and source.chance(10) else tokens

    def value(self, type: ValueType, table: NodeType | EdgeType, *, insert: bool) -> list[str]:
        source = self.source
        kind = source.integer(0, 9)
        if type.nullable and kind == 9:
            return ["null"]
        if type.scalar is Scalar.DATETIME and type.is_scalar and kind == 8:
            return ["now", "(", ")"]
        if not insert and kind in (6, 7):
            same = [p.name for p in table.properties.values() if p.type == type]
            if same and not type.is_blob:
                return [source.pick(same)]
            if type.is_float or (type.nullable and type.is_number):
                return ["1", source.pick(("+", "*", "-")), "2"]
        if type.is_list and kind == 5:
            element = type.element
            return self.listed([[self.parameter(element)], literal(source, element)])
        if kind > 2:
            return [self.parameter(type if source.chance(50) else type.as_nullable(False))]
        return literal(source, type.as_nullable(False))


class _Outputs:
    """Projections so far, and what their names mean."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.names: set[str] = set()
        self.aliases: list[str] = []
        self.written: dict[str, list[str]] = {}

    def separate(self, source: Source, after: list[str]) -> None:
        if self.tokens:
            comma = after[0] == "-" or source.chance(60)
            self.tokens += [","] if comma else [NEWLINE]

    def add(self, tokens: list[str], alias: str | None) -> None:
        self.tokens += tokens
        name = "".join(tokens)[1:]
        if alias is not None:
            self.tokens += ["as", alias]
            self.aliases.append(alias)
            self.written[alias] = tokens
            name = alias
        self.names.add(name)

    def unordered(self, written: list[str], columns: list[tuple[list[str], ValueType]]) -> bool:
        """True for a list or vector, which have no order."""
        return any(tokens == written and not t.is_scalar for tokens, t in columns)


def _is_traversal(clause: list[str]) -> bool:
    return clause[0][0] == "$" and clause[-1][0] == "$" and clause[1] not in (".", ":")


def number_literal(source: Source) -> list[str]:
    return literal(source, ValueType(Scalar.I64))


def query_tokens(source: Source, catalog: Catalog, name: str = "q") -> list[str]:
    """One well-typed query, as tokens."""
    return QueryWriter(source, catalog, name).query()


def query_text(source: Source, catalog: Catalog, *, most: int = 2, noise: int = 12) -> str:
    """A text of well-typed queries."""
    tokens: list[str] = []
    for number in range(source.integer(1, most)):
        tokens += query_tokens(source, catalog, source.pick(("q", "query", "Find_")) + str(number))
    return join(source, tokens, noise)
