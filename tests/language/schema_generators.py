"""Random well-formed schemas, as a model and as text with comments and odd spacing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from omnigraph.language import Scalar, ValueType
from omnigraph.language.schema.index_options import possible_kinds
from omnigraph.language.types import INTEGER_BOUNDS
from tests.language.generators import (
    NEWLINE,
    Source,
    join,
    literal,
    number,
    plain_value,
    quoted,
    sources,
    text,
)

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
#: Texts that parse; what they name is looked at only for a graph that exists.
_BACKFILLS = (
    ["null"], ["now", "(", ")"], ["name"], ["age", "-", "1"],
    ["-", "age", "*", "(", "2", "+", "b", ")"],
    ["not", "(", "name", "is", "null", ")"], ["[", "age", ",", "2", "]"],
    ["name", "=", '"x"', "or", "b", "and", "true"], ["-", "(", "-", "3", ")"],
    ["1", "-", "(", "b", "-", "2", ")"],
)  # fmt: skip
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
    backfill: list[str] | None = None
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


def is_plain_string(type: ValueType) -> bool:
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
                if source.chance(5) and not prop.type.is_blob:
                    prop.backfill = source.pick(_BACKFILLS)
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
            kind = source.pick(possible_kinds(prop.type))
            options = [",", "kind", "=", f'"{kind}"'] if source.chance(50) else []
            if prop.type.is_vector and source.chance(30):
                options += [",", "partitions", "=", source.pick(["1", "256"])]
            declared.groups.append(Group("index", [prop], options))
        if prop.type.is_number and source.chance(20):
            declared.groups.append(Group("range", [prop], [",", *_bounds(source, prop.type)]))
        if is_plain_string(prop.type) and source.chance(20):
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
    texts = [p for p in declared.members() if is_plain_string(p.type)]
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
        for position, group in enumerate(declared.groups):
            if at.get(position, len(declared.properties)) == index:
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
    if prop.backfill:
        annotations.append(["backfill", "(", *prop.backfill, ")"])
    for annotation in source.shuffled(annotations) if source.chance(30) else annotations:
        tokens += ["@", *annotation]
    return tokens


@st.composite
def schema_models(draw: st.DrawFn) -> tuple[SchemaModel, Source]:
    source = draw(sources())
    return schema_model(source), source
