"""Random well-formed schemas and well-typed queries, as text with comments and odd spacing.

Everything is drawn from a `Source`, which has one primitive: an integer between two bounds. It
stands on Hypothesis (which then can shrink what fails) or on `random.Random` (which is fast).
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from omnigraph.diagnostics import Report
from omnigraph.language import Catalog, CompiledQuery, EdgeType, NodeType, Scalar, ValueType
from omnigraph.language.tokens import tokenize
from omnigraph.language.types import INTEGER_BOUNDS

T = TypeVar("T")


class Source:
    """Where choices come from. Zero and the first element are the simplest ones."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def pick(self, items: Sequence[T]) -> T:
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent

    def some(self, items: Iterable[T], percent: int = 50) -> list[T]:
        return [item for item in items if self.chance(percent)]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(len(left))]


def from_random(rng: random.Random) -> Source:
    return Source(rng.randint)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    return Source(lambda low, high: draw(st.integers(low, high)))


SOAK_SECONDS = float(os.environ.get("OMNIGRAPH_SOAK_SECONDS") or 60)


def run_many(
    name: str,
    check: Callable[[int, random.Random], None],
    *,
    count: int | None = None,
    share: int = 1,
) -> int:
    """Call a check with numbered random generators; what it raises names the seed.

    Args:
        name: Tests of different names see different inputs.
        check: Takes the number and the generator of one input.
        count: How many inputs; if None, as many as a `share`-th of the soak time allows, and other
            ones in every run.
        share: How many tests share the soak time.
    """
    base = zlib.crc32(name.encode())
    if count is None:
        base ^= time.time_ns() & 0xFFFFFFFF
    until = time.monotonic() + SOAK_SECONDS / share
    number = 0
    while number < count if count is not None else time.monotonic() < until:
        seed = base * 1_000_003 + number
        try:
            check(number, random.Random(seed))
        except BaseException as error:
            error.add_note(f"{name}: number {number}, random.Random({seed})")
            raise
        number += 1
    print(f"{name}: {number} inputs")
    return number


def comments(text: str) -> Counter[str]:
    """The comments of a text, whatever the spaces in them."""
    return Counter(" ".join(c.text.split()) for c in tokenize(Report(text))[1])


def without_places(query: CompiledQuery) -> CompiledQuery:
    """What a query means, wherever it stands."""
    parameters = tuple(replace(p, span=(0, 0)) for p in query.parameters)
    return replace(query, source="", span=(0, 0), parameters=parameters)


# --- text from tokens ----------------------------------------------------------------------------

#: In a list of tokens: here the text needs a line break.
NEWLINE = "\n"

_GAPS = (" ", " ", " ", " ", " ", "\n", "\n  ", "\t", "  ", "\r\n", " \n\n\n ", "\f", "\ufeff ")
_COMMENTS = (
    "// plain\n", "//\n", "// with \"quotes\" and { braces\n", "// ünï ☃ 🎉\n", "/* block */",
    "/**/", "/* two\n   lines */", "/* // */", "/* a *\n\n * b\n */", "/* } ) ] */", "// /* \n",
    "/* tab\there */", "///  three  \t \r\n",
)  # fmt: skip
_WORDLIKE = re.compile(r"[A-Za-z0-9_]")
_TIGHT_PAIRS = {"->", "..", "!=", "<=", ">=", "//", "/*"}


def join(source: Source, tokens: Sequence[str], noise: int = 12) -> str:
    """Write tokens with spaces, line breaks and comments between them."""
    parts: list[str] = []
    before = ""
    broken, signed = True, False
    for token in tokens:
        if token == NEWLINE:
            parts.append("\n")
            broken = True
            continue
        gap = ""
        if source.chance(noise):
            gap = source.pick(_GAPS)
            while source.chance(35):
                gap += source.pick(_COMMENTS) + source.pick(_GAPS)
        elif signed or (not broken and (_needs_gap(before, token) or source.chance(60))):
            gap = " "
        # A minus that starts a line and touches what follows starts a new clause.
        signed = token == "-" and (broken or "\n" in gap)
        parts.append(gap)
        parts.append(token)
        before, broken = token, False
    tail = source.pick(("", "\n", "  ", "\n// the end", "\n/* the end */\n\n"))
    return "".join(parts) + tail


def _needs_gap(before: str, after: str) -> bool:
    if not before:
        return False
    last, first = before[-1], after[0]
    if last.isascii() and first.isascii() and _WORDLIKE.match(last) and _WORDLIKE.match(first):
        return True
    return last + first in _TIGHT_PAIRS or (last.isdigit() and first == ".") or last + first == "<-"


# --- values --------------------------------------------------------------------------------------

_TEXTS = (
    "a", "", "Ann", "ünï ☃", 'say "hi"', "back\\slash", "line\nbreak", "tab\t", "🎉", "// no",
    "/* no */", "\x7f\x00\x1b", "\u2028\u2029", "{}", "2026-01-31", "null", "'", "x" * 90, "ÅÅ",
)  # fmt: skip


def text(source: Source, *, empty: bool = True) -> str:
    return source.pick(_TEXTS if empty else [t for t in _TEXTS if t])


def quoted(source: Source, value: str) -> str:
    """Write a string literal, with more or less escapes."""
    written = json.dumps(value, ensure_ascii=source.chance(30))
    return written.replace("/", "\\/") if source.chance(10) else written


_DATES = (dt.date(2026, 1, 31), dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31))
_DATETIMES = (
    "2026-01-31T12:00:00Z", "2026-01-31 12:00Z", "2026-01-31T12:00:00.123456789+02:00",
    "1969-12-31T23:59:59.999-0530", "9999-12-31t23:59:59z", "0001-01-01T00:00:00Z",
)  # fmt: skip


def plain_value(source: Source, type: ValueType) -> Any:
    """A JSON value of a type, never null."""
    if type.is_vector:
        assert type.dimension is not None
        first = source.pick((0.0, 1.5, -2, 1e-3))
        return [first] * type.dimension
    if type.is_list:
        return [plain_value(source, type.element) for _ in range(source.integer(0, 3))]
    if type.values is not None:
        return source.pick(type.values)
    match type.scalar:
        case Scalar.STRING:
            return text(source)
        case Scalar.BLOB:
            return source.pick(("base64:", "base64:AAEC", "s3://bucket/key"))
        case Scalar.BOOL:
            return source.chance(50)
        case Scalar.DATE:
            return source.pick(_DATES).isoformat()
        case Scalar.DATETIME:
            return source.pick(_DATETIMES)
        case Scalar.F32 | Scalar.F64:
            return source.pick((0, 1.5, -0.0, -7, 1e-7, 1e20, 3.0, 123456.789))
        case _:
            low, high = INTEGER_BOUNDS[type.scalar]
            values = [v for v in (0, 1, 42, -1, low, high) if low <= v <= high]
            return source.pick(values)


def json_value(source: Source, type: ValueType) -> Any:
    """Like `plain_value`, and null or integers as text where that is allowed, too."""
    if type.nullable and source.chance(30):
        return None
    value = plain_value(source, type)
    if type.is_integer and source.chance(30):
        return str(value)
    return value


def literal(source: Source, type: ValueType) -> list[str]:
    """The tokens of a literal of a type, never null."""
    return _literal_of(source, type, plain_value(source, type))


def _literal_of(source: Source, type: ValueType, value: Any) -> list[str]:
    if isinstance(value, list):
        tokens = ["["]
        for item in value:
            tokens += [*_literal_of(source, type.element, item), ","]
        if value and not source.chance(10):
            tokens.pop()
        return [*tokens, "]"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, int | float):
        return number(source, value)
    if type.scalar is Scalar.DATE:
        return ["date", "(", quoted(source, value), ")"]
    if type.scalar is Scalar.DATETIME:
        return ["datetime", "(", quoted(source, value), ")"]
    return [quoted(source, value)]


def number(source: Source, value: int | float) -> list[str]:
    sign = ["-"] if value < 0 or str(value).startswith("-") else []
    digits = str(abs(value))
    if isinstance(value, float) and source.chance(20):
        digits = digits.upper()
    elif isinstance(value, int) and source.chance(5):
        digits = "00" + digits if len(digits) < 10 else digits
    return [*sign, digits]


# --- schemas -------------------------------------------------------------------------------------

_PROPERTY_NAMES = (
    "name", "age", "title", "b", "camelCase", "x_1", "in", "is", "and", "or", "contains", "desc",
    "asc", "as", "order", "limit", "set", "where", "count", "date", "node", "edge", "distinct",
    "match", "query", "enum", "interface", "starts_with", "implements", "on", "key",
)  # fmt: skip
_TYPE_NAMES = (
    "Person", "Firm", "A", "Node", "Edge", "String", "Vector", "X_9", "Topic", "LongerTypeName",
)  # fmt: skip
_EDGE_NAMES = (
    "Knows", "Contains", "In", "Is", "And", "Not", "Optional", "WorksAt", "E", "StartsWith", "Or",
    "Match", "Return",
)  # fmt: skip
_INTERFACE_NAMES = ("Named", "Dated", "I", "Ranked")
_PATTERNS = ("^[a-z]+$", "@", "\\d{2,}", "a|b", "", "^\\p{L}", '"', "(?i)x", "\\.")
_UNKNOWN = ("owner", "since", "xyz", "ui_hint", "pii", "q")


@dataclass
class Prop:
    name: str
    type: ValueType
    flags: list[str] = field(default_factory=list)
    default: list[str] | None = None
    embed: Prop | None = None
    model: str | None = None
    notes: list[list[str]] = field(default_factory=list)
    rename_from: str | None = None
    enum_quoted: bool = False


@dataclass
class Group:
    """A constraint in a body: name, members, and what follows the members."""

    name: str
    members: list[Prop | str]
    rest: list[str] = field(default_factory=list)


@dataclass
class Declared:
    kind: str
    name: str
    properties: list[Prop] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    implements: list[Declared] = field(default_factory=list)
    ends: tuple[Declared, Declared] | None = None
    card: list[str] | None = None
    notes: list[list[str]] = field(default_factory=list)
    rename_from: str | None = None
    #: Positions in `properties` after which each group is written.
    layout: dict[int, int] = field(default_factory=dict)

    def members(self) -> list[Prop]:
        own = {p.name for p in self.properties}
        inherited = [p for i in self.implements for p in i.properties if p.name not in own]
        return self.properties + inherited


@dataclass
class SchemaModel:
    declarations: list[Declared]

    def tables(self) -> list[Declared]:
        return [d for d in self.declarations if d.kind != "interface"]

    def write(self, source: Source, noise: int = 12) -> str:
        tokens: list[str] = []
        for declared in self.declarations:
            tokens += _declaration(source, declared)
        return join(source, tokens, noise)


def value_type(source: Source, *, blob: bool = True) -> ValueType:
    nullable = source.chance(40)
    kind = source.integer(0, 9)
    if kind == 7:
        scalar = source.pick([s for s in Scalar if s is not Scalar.BLOB])
        return ValueType(scalar, nullable, is_list=True)
    if kind == 8:
        return ValueType(Scalar.F32, nullable, dimension=source.pick((1, 2, 3)))
    if kind == 9:
        pool = ("open", "closed", "two words", "ünï", "a", "null", "9", '"', "A_b")
        values = source.some(pool, 40) or ["open"]
        return ValueType(Scalar.STRING, nullable, values=tuple(sorted(values)))
    scalars = list(Scalar) if blob else [s for s in Scalar if s is not Scalar.BLOB]
    return ValueType(source.pick(scalars), nullable)


def _can_be_key(type: ValueType) -> bool:
    return type.is_scalar and not (type.is_blob or type.is_float or type.nullable)


def _can_be_unique(type: ValueType) -> bool:
    return type.is_scalar and not type.is_blob


def _string(type: ValueType) -> bool:
    return type.is_text and not type.is_enum


def schema_model(source: Source, *, size: int = 4, renames: bool = True) -> SchemaModel:
    """A random schema that compiles without errors."""
    interfaces = [
        _interface(source, name, number)
        for number, name in enumerate(_names(source, _INTERFACE_NAMES, source.integer(0, 2)))
    ]
    node_names = _names(source, _TYPE_NAMES, source.integer(1, size))
    nodes = [_node(source, name, interfaces) for name in node_names]
    taken = {d.name for d in (*interfaces, *nodes)}
    edge_names = [n for n in _EDGE_NAMES if n not in taken]
    edges = [_edge(source, n, nodes) for n in _names(source, edge_names, source.integer(0, size))]
    every = [*interfaces, *nodes, *edges]
    if renames:
        for declared in every:
            if declared.kind != "interface" and source.chance(5):
                declared.rename_from = "Old" + declared.name
            for prop in declared.properties:
                if source.chance(3):
                    prop.rename_from = "old_" + prop.name
    return SchemaModel(source.shuffled(every) if source.chance(50) else every)


def _names(source: Source, pool: Sequence[str], count: int) -> list[str]:
    return source.shuffled(pool)[:count]


def _interface(source: Source, name: str, number: int) -> Declared:
    declared = Declared("interface", name)
    # Interfaces have different names for their properties, so that a node can implement any.
    names = [f"{n}_{number}" for n in _names(source, _PROPERTY_NAMES, source.integer(0, 3))]
    declared.properties = [_property(source, n) for n in names]
    _embeds(source, declared)
    key_given = False
    for prop in declared.properties:
        if number == 0 and not key_given and _can_be_key(prop.type) and source.chance(15):
            prop.flags.append("key")
            prop.default = None
            key_given = True
        if _can_be_unique(prop.type) and source.chance(15):
            prop.flags.append("unique")
        if not prop.type.is_blob and source.chance(15):
            prop.flags.append("index")
    return declared


def _node(source: Source, name: str, interfaces: list[Declared]) -> Declared:
    declared = Declared("node", name)
    declared.implements = source.shuffled(source.some(interfaces))
    names = _names(source, (*_PROPERTY_NAMES, "from", "to"), source.integer(0, 5))
    declared.properties = [_property(source, n) for n in names]
    for interface in declared.implements:
        for theirs in interface.properties:
            if source.chance(15):
                again = Prop(theirs.name, theirs.type, notes=_notes(source))
                declared.properties.append(again)
    _finish(source, declared)
    return declared


def _edge(source: Source, name: str, nodes: list[Declared]) -> Declared:
    declared = Declared("edge", name, ends=(source.pick(nodes), source.pick(nodes)))
    names = _names(source, _PROPERTY_NAMES, source.pick((0, 0, 1, 2, 3)))
    declared.properties = [_property(source, n) for n in names]
    if source.chance(30):
        low = source.integer(0, 2)
        high = source.pick(([], [str(max(low, 1))], [str(low + 5)]))
        declared.card = ["card", "(", str(low), "..", *high, ")"]
    _finish(source, declared)
    return declared


def _finish(source: Source, declared: Declared) -> None:
    """Add what every table can have: descriptions, embeds, flags and constraints."""
    declared.notes = _notes(source)
    _embeds(source, declared)
    members = declared.members()
    ends: list[Prop | str] = ["from", "to"] if declared.kind == "edge" else []
    has_key = any("key" in p.flags for i in declared.implements for p in i.properties)
    uniques: set[frozenset[str]] = set()
    indexes: set[str] = set()

    def name_of(member: Prop | str) -> str:
        return member if isinstance(member, str) else member.name

    if not has_key and source.chance(40):
        fitting: list[Prop | str] = [
            p for p in members if _can_be_key(p.type) and not _default_of(declared, p)
        ]
        group = source.shuffled(source.some([*ends, *fitting]))
        own = group[0] if len(group) == 1 else None
        if isinstance(own, Prop) and own in declared.properties and source.chance(60):
            own.flags.append("key")
        elif group:
            declared.groups.append(Group("key", group))
    for prop in declared.properties:
        if _can_be_unique(prop.type) and source.chance(10):
            prop.flags.append("unique")
            uniques.add(frozenset({prop.name}))
        if not prop.type.is_blob and source.chance(10):
            prop.flags.append("index")
            indexes.add(prop.name)
    while source.chance(20):
        fitting = [p for p in members if _can_be_unique(p.type)]
        group = source.shuffled(source.some([*ends, *fitting]))
        key = frozenset(name_of(m) for m in group)
        if group and key not in uniques:
            uniques.add(key)
            declared.groups.append(Group("unique", group))
    for prop in members:
        if not prop.type.is_blob and prop.name not in indexes and source.chance(10):
            options = [",", "kind", "=", '"btree"'] if source.chance(50) else []
            if options and source.chance(30):
                options += [",", "lists", "=", *literal(source, ValueType(Scalar.I32))]
            declared.groups.append(Group("index", [prop], options))
        if prop.type.is_number and source.chance(20):
            declared.groups.append(Group("range", [prop], [",", *_bounds(source, prop.type)]))
        if _string(prop.type) and source.chance(20):
            pattern = source.pick(_PATTERNS)
            declared.groups.append(Group("check", [prop], [",", quoted(source, pattern)]))
    declared.groups = source.shuffled(declared.groups)
    declared.layout = {
        n: source.integer(0, len(declared.properties)) if source.chance(30) else 10_000
        for n in range(len(declared.groups))
    }


def _default_of(declared: Declared, prop: Prop) -> bool:
    """True when the property has a default of its own or from an interface."""
    same = [p for i in declared.implements for p in i.properties if p.name == prop.name]
    return any(p.default is not None for p in (prop, *same))


def _bounds(source: Source, type: ValueType) -> list[str]:
    if type.is_float:
        low, high = source.pick(((0, 1), (-1.5, 1.5), (-0.0, 0), (1e-7, 1e20), (-5, -2.5)))
    else:
        least, most = INTEGER_BOUNDS[type.scalar]
        low, high = source.pick(((0, 120), (least, most), (0, 0), (7, most)))
    which = source.integer(0, 2)
    return [
        *(number(source, low) if which != 1 else []),
        "..",
        *(number(source, high) if which != 2 else []),
    ]


def _property(source: Source, name: str) -> Prop:
    prop = Prop(name, value_type(source), notes=_notes(source), enum_quoted=source.chance(30))
    type = prop.type
    if not (type.is_blob or type.is_vector) and source.chance(15):
        if type.nullable and source.chance(30):
            prop.default = ["null"]
        elif type.is_enum and source.chance(50):
            plain = [v for v in type.values or () if re.fullmatch("[a-mo-zA-Z][A-Za-z_]*", v)]
            prop.default = [source.pick(plain)] if plain else literal(source, type)
        else:
            prop.default = _default_literal(source, type)
    return prop


def _default_literal(source: Source, type: ValueType) -> list[str]:
    if type.is_scalar and type.scalar in (Scalar.DATE, Scalar.DATETIME) and source.chance(30):
        return [quoted(source, plain_value(source, type))]
    return literal(source, type)


def _embeds(source: Source, declared: Declared) -> None:
    texts = [p for p in declared.members() if _string(p.type)]
    for prop in declared.properties:
        if prop.type.is_vector and texts and source.chance(40):
            prop.embed = source.pick(texts)
            prop.model = source.pick((None, "minilm", 'odd "model"'))


def _notes(source: Source) -> list[list[str]]:
    """Descriptions and annotations without a meaning."""
    notes = [
        [name, "(", quoted(source, text(source, empty=False)), ")"]
        for name in source.some(("description", "instruction"), 8)
    ]
    unknown = _names(source, _UNKNOWN, source.integer(1, 2)) if source.chance(8) else []
    return [*notes, *([name, *_unknown_arguments(source)] for name in unknown)]


def _unknown_arguments(source: Source) -> list[str]:
    if source.chance(30):
        return []
    tokens: list[str] = []
    for _ in range(source.integer(0, 3)):
        kind = source.integer(0, 4)
        if kind == 0:
            tokens += [source.pick(("bare", "date", "node", "Enum")), ","]
        elif kind == 1:
            tokens += [*_bounds(source, ValueType(source.pick((Scalar.F64, Scalar.I64)))), ","]
        elif kind == 2:
            tokens += [source.pick(("null", "true", '"x"', "[]", "-1")), ","]
        elif kind == 3:
            tokens += ["[", "1", ",", "[", '"a"', ",", "null", "]", "]", ","]
        else:
            tokens += [*literal(source, value_type(source)), ","]
    for name in source.some(("model", "as", "x1"), 20):
        tokens += [name, "=", *literal(source, value_type(source)), ","]
    return ["(", *tokens[:-1], ")"]


def type_tokens(source: Source, type: ValueType, *, force_quotes: bool = False) -> list[str]:
    if type.is_vector:
        tokens = ["Vector", "(", str(type.dimension), ")"]
    elif type.values is not None:
        tokens = ["enum", "("]
        for value in source.shuffled(type.values):
            plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value) and not force_quotes
            tokens += [value if plain else quoted(source, value), ","]
        tokens = [*tokens[: len(tokens) - (not source.chance(10))], ")"]
    elif type.is_list:
        tokens = ["[", type.scalar.value, "]"]
    else:
        tokens = [type.scalar.value]
    return [*tokens, "?"] if type.nullable else tokens


def _declaration(source: Source, declared: Declared) -> list[str]:
    tokens = [declared.kind, declared.name]
    if declared.ends:
        tokens += [":", declared.ends[0].name, "->", declared.ends[1].name]
    annotations = [*declared.notes]
    if declared.card:
        annotations.insert(0, declared.card)
    if declared.rename_from:
        annotations.append(["rename_from", "(", quoted(source, declared.rename_from), ")"])
    behind = source.integer(0, len(annotations)) if source.chance(10) else 0
    for annotation in annotations[behind:]:
        tokens += ["@", *annotation]
    if declared.implements:
        tokens.append("implements")
        for interface in declared.implements:
            tokens += [interface.name, ","]
        tokens.pop()
        for annotation in annotations[:behind]:
            tokens += ["@", *annotation]
    else:
        for annotation in annotations[:behind]:
            tokens += ["@", *annotation]
    if declared.kind == "edge" and not declared.properties and not declared.groups:
        if source.chance(70):
            return [*tokens, NEWLINE]
        return [*tokens, "{", "}"]
    tokens += ["{", *_separator(source, first=True)]
    at = {n: min(p, len(declared.properties)) for n, p in declared.layout.items()}
    for index in range(len(declared.properties) + 1):
        for number, group in enumerate(declared.groups):
            if at.get(number, len(declared.properties)) == index:
                tokens += [*_group(group), *_separator(source)]
        if index < len(declared.properties):
            tokens += [*_property_tokens(source, declared.properties[index]), *_separator(source)]
    return [*tokens, "}", NEWLINE] if source.chance(80) else [*tokens, "}"]


def _separator(source: Source, first: bool = False) -> list[str]:
    kind = source.integer(0, 9)
    if kind < 6 or (first and kind == 9):
        return [NEWLINE]
    if kind < 8 or first:
        return []
    return [","] if kind == 8 else [",", NEWLINE]


def _group(group: Group) -> list[str]:
    tokens = ["@", group.name, "("]
    for member in group.members:
        tokens += [member if isinstance(member, str) else member.name, ","]
    return [*tokens[:-1], *group.rest, ")"]


def _property_tokens(source: Source, prop: Prop) -> list[str]:
    tokens = [prop.name, ":", *type_tokens(source, prop.type, force_quotes=prop.enum_quoted)]
    annotations = [[flag] for flag in prop.flags] + prop.notes
    if prop.default is not None:
        annotations.append(["default", "(", *prop.default, ")"])
    if prop.embed is not None:
        model = [",", "model", "=", quoted(source, prop.model)] if prop.model else []
        annotations.append(["embed", "(", quoted(source, prop.embed.name), *model, ")"])
    if prop.rename_from:
        annotations.append(["rename_from", "(", quoted(source, prop.rename_from), ")"])
    for annotation in source.shuffled(annotations) if source.chance(30) else annotations:
        tokens += ["@", *annotation]
    return tokens


@st.composite
def schema_models(draw: st.DrawFn) -> tuple[SchemaModel, Source]:
    source = draw(sources())
    return schema_model(source), source


# --- queries -------------------------------------------------------------------------------------

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
        texts = self.searchable(visible, lambda t: _string(t))
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
        texts = self.searchable(visible, lambda t: _string(t))
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
