"""The catalog: a schema after compilation, with identities.

It is what every other part of Omnigraph works with. It is immutable, has a canonical JSON form
that is stored with the graph, and two hashes: `shape_hash` covers everything a schema text says
and nothing else (two texts that mean the same have the same shape, in whatever order they
declare things); `identity_hash` covers the stable ids as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct, field

from omnigraph.diagnostics import with_hint
from omnigraph.errors import NotFound
from omnigraph.language.types import STRING, ValueType
from omnigraph.language.values import Value, coerce, to_json

if TYPE_CHECKING:
    from omnigraph.language.query.expressions import Checked

#: Version of the compiled JSON form.
FORMAT = 1

#: What an edge calls its two ends in schemas, queries and mutations.
ENDS = ("from", "to")
#: The ends as the columns of a table are called, which a schema may say, too.
ENDS_AS_COLUMNS = {"src": "from", "dst": "to"}


class Annotation(Struct, frozen=True):
    """An annotation without a meaning of its own, kept for whoever reads the catalog.

    Arguments and options are plain JSON values, in the order written.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


class Embed(Struct, frozen=True):
    """`@embed("source", model="…")`: the vector is made from a text property."""

    source: str
    model: str | None = None


class Property(Struct, frozen=True):
    """A property of a node type, an edge type or an interface.

    Attributes:
        id: Stable identity within the graph (0 on interfaces, which have no table).
        interface: The interface it came from, or None when the type declares it itself.
        has_default: Tells a default of null from no default.
    """

    name: str
    type: ValueType
    id: int = 0
    interface: str | None = None
    description: str | None = None
    instruction: str | None = None
    embed: Embed | None = None
    has_default: bool = False
    default: Value = None
    annotations: tuple[Annotation, ...] = ()


class Index(Struct, frozen=True):
    """`@index(property, kind="…")`. Options are the named arguments, in the order of names."""

    property: str
    options: tuple[tuple[str, Any], ...] = ()


class Range(Struct, frozen=True):
    """`@range(property, low..high)`, both ends inclusive; None is open."""

    property: str
    low: int | float | None
    high: int | float | None


class Check(Struct, frozen=True):
    """`@check(property, "pattern")`: the RE2 pattern must match somewhere in the text."""

    property: str
    pattern: str


class Cardinality(Struct, frozen=True):
    """`@card(low..high)`: how many edges of this type leave each source node."""

    low: int = 0
    high: int | None = None


class Interface(Struct, frozen=True):
    """A set of properties that node types can share."""

    name: str
    properties: Mapping[str, Property]


class TableType(Struct, frozen=True, dict=True):
    """What node types and edge types have in common: each is one table.

    Attributes:
        id: Stable identity of the type; a rename keeps it.
        incarnation: Identity of this lifetime of the type's table.
        properties: By name, in the order declared (inherited ones last).
        key: Names of the key's properties in stable order (edges: ends first), or empty.
        uniques: Groups of properties (edges: also `from` and `to`) that no two rows share.
    """

    name: str
    id: int
    incarnation: int
    properties: Mapping[str, Property]
    key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[Index, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()

    @property
    def kind(self) -> Literal["node", "edge"]:
        """What its rows are."""
        return "edge" if isinstance(self, EdgeType) else "node"

    @property
    def table_key(self) -> str:
        """Name of the table in the manifest."""
        return f"{self.kind}:{self.name}"

    @cached_property
    def stored_properties(self) -> tuple[Property, ...]:
        """The properties in the order of their ids, which is the order of the table's columns."""
        return tuple(sorted(self.properties.values(), key=lambda p: p.id))

    @property
    def columns(self) -> Mapping[str, ValueType]:
        """What a query can read from a row: `id`, the properties, and an edge's ends."""
        return self._columns

    @cached_property
    def _columns(self) -> Mapping[str, ValueType]:
        ends = dict.fromkeys(ENDS, STRING) if isinstance(self, EdgeType) else {}
        own = {p.name: p.type for p in self.properties.values()}
        return MappingProxyType({"id": STRING, **ends, **own})


class NodeType(TableType, frozen=True):
    """A node type."""

    implements: tuple[str, ...] = ()


class EdgeType(TableType, frozen=True):
    """An edge type, from one node type to one node type."""

    source: str = ""
    target: str = ""
    cardinality: Cardinality = field(default_factory=Cardinality)

    @property
    def query_name(self) -> str:
        """How a query writes the edge: with a lower-case first letter."""
        return self.name[0].lower() + self.name[1:]


class Catalog(Struct, frozen=True, dict=True):
    """A compiled schema. Mappings are by name, in the order declared.

    Attributes:
        next_id: The number that the next new type or property gets.
        backfills: By the ids of properties: how the rows that a graph has now get their values. As
            instructions for one change they are no part of what is stored, nor of the hashes.
    """

    interfaces: Mapping[str, Interface]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    next_id: int
    backfills: Mapping[int, Checked] = field(default_factory=dict)

    @cached_property
    def edges_by_query_name(self) -> Mapping[str, EdgeType]:
        """Edge types by the name that queries use."""
        return {e.query_name: e for e in self.edges.values()}

    @cached_property
    def implementers(self) -> Mapping[str, tuple[str, ...]]:
        """For each interface the node types that implement it."""
        return {
            name: tuple(n.name for n in self.nodes.values() if name in n.implements)
            for name in self.interfaces
        }

    @cached_property
    def incident_edges(self) -> Mapping[str, tuple[str, ...]]:
        """For each node type the edge types that start or end there."""
        by_node: dict[str, list[str]] = {name: [] for name in self.nodes}
        for edge in self.edges.values():
            for end in {edge.source, edge.target}:
                by_node[end].append(edge.name)
        return {name: tuple(edges) for name, edges in by_node.items()}

    def tables(self) -> Iterator[NodeType | EdgeType]:
        """All node types, then all edge types."""
        yield from self.nodes.values()
        yield from self.edges.values()

    def table(self, name: str) -> NodeType | EdgeType | None:
        """Find a node or edge type by its name."""
        return self.nodes.get(name) or self.edges.get(name)

    def type(self, name: str) -> NodeType | EdgeType:
        """A node or edge type by its name.

        Raises:
            NotFound: There is none.
        """
        table = self.table(name)
        if table is None:
            known = [each.name for each in self.tables()]
            raise NotFound(with_hint(f"the graph has no type `{name}`", name, known))
        return table

    @cached_property
    def shape_hash(self) -> str:
        """SHA-256 over what the schema says, in hex; ids and the order of things do not count."""
        return _digest(_shape(self.to_dict()))

    @cached_property
    def identity_hash(self) -> str:
        """SHA-256 over the schema with its stable ids, in hex."""
        return _digest(_normal(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Return the canonical compiled form as plain JSON values."""
        return {
            "format": FORMAT,
            "next_id": self.next_id,
            "interfaces": [
                {"name": i.name, "properties": _properties_out(i.properties)}
                for i in self.interfaces.values()
            ],
            "nodes": [
                {**_table_out(n), "implements": list(n.implements)} for n in self.nodes.values()
            ],
            "edges": [
                {
                    **_table_out(e),
                    "source": e.source,
                    "target": e.target,
                    "cardinality": {"low": e.cardinality.low, "high": e.cardinality.high},
                }
                for e in self.edges.values()
            ],
        }

    def to_json(self) -> str:
        """Return the canonical compiled form as text: sorted keys, no needless space."""
        return _canonical(self.to_dict())

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Catalog:
        """Read a catalog back from its compiled form."""
        if data.get("format") != FORMAT:
            raise ValueError(f"compiled schema of unknown format {data.get('format')!r}")
        interfaces = [
            Interface(i["name"], _properties_in(i["properties"])) for i in data["interfaces"]
        ]
        nodes = [NodeType(**_table_in(n), implements=tuple(n["implements"])) for n in data["nodes"]]
        edges = [
            EdgeType(
                **_table_in(e),
                source=e["source"],
                target=e["target"],
                cardinality=Cardinality(e["cardinality"]["low"], e["cardinality"]["high"]),
            )
            for e in data["edges"]
        ]
        return Catalog(frozen(interfaces), frozen(nodes), frozen(edges), int(data["next_id"]))

    @staticmethod
    def from_json(text: str) -> Catalog:
        """Read a catalog back from `to_json`'s text."""
        return Catalog.from_dict(json.loads(text))


_Named = TypeVar("_Named", Property, Interface, NodeType, EdgeType)


def frozen(items: Iterable[_Named]) -> Mapping[str, _Named]:
    """A read-only mapping by name."""
    return MappingProxyType({item.name: item for item in items})


def _table_out(table: TableType) -> dict[str, Any]:
    return {
        "name": table.name,
        "id": table.id,
        "incarnation": table.incarnation,
        "properties": _properties_out(table.properties),
        "key": list(table.key),
        "uniques": [list(u) for u in table.uniques],
        "indexes": [
            {"property": i.property, "options": _pairs_out(i.options)} for i in table.indexes
        ],
        "ranges": [{"property": r.property, "low": r.low, "high": r.high} for r in table.ranges],
        "checks": [{"property": c.property, "pattern": c.pattern} for c in table.checks],
        "description": table.description,
        "instruction": table.instruction,
        "annotations": _annotations_out(table.annotations),
    }


def _table_in(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": data["name"],
        "id": data["id"],
        "incarnation": data["incarnation"],
        "properties": _properties_in(data["properties"]),
        "key": tuple(data["key"]),
        "uniques": tuple(tuple(u) for u in data["uniques"]),
        "indexes": tuple(Index(i["property"], _pairs_in(i["options"])) for i in data["indexes"]),
        "ranges": tuple(Range(r["property"], r["low"], r["high"]) for r in data["ranges"]),
        "checks": tuple(Check(c["property"], c["pattern"]) for c in data["checks"]),
        "description": data["description"],
        "instruction": data["instruction"],
        "annotations": _annotations_in(data["annotations"]),
    }


def _properties_out(properties: Mapping[str, Property]) -> list[dict[str, Any]]:
    return [
        {
            "name": p.name,
            "id": p.id,
            "type": p.type.to_dict(),
            "interface": p.interface,
            "description": p.description,
            "instruction": p.instruction,
            "embed": {"source": p.embed.source, "model": p.embed.model} if p.embed else None,
            "default": {"value": to_json(p.default)} if p.has_default else None,
            "annotations": _annotations_out(p.annotations),
        }
        for p in properties.values()
    ]


def _properties_in(data: list[dict[str, Any]]) -> Mapping[str, Property]:
    properties = []
    for item in data:
        type = ValueType.from_dict(item["type"])
        embed, default = item["embed"], item["default"]
        properties.append(
            Property(
                item["name"],
                type,
                item["id"],
                item["interface"],
                item["description"],
                item["instruction"],
                Embed(embed["source"], embed["model"]) if embed else None,
                default is not None,
                coerce(default["value"], type) if default else None,
                _annotations_in(item["annotations"]),
            )
        )
    return frozen(properties)


def _annotations_out(annotations: tuple[Annotation, ...]) -> list[dict[str, Any]]:
    return [
        {"name": a.name, "arguments": list(a.arguments), "options": _pairs_out(a.options)}
        for a in annotations
    ]


def _annotations_in(data: list[dict[str, Any]]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(a["name"], tuple(a["arguments"]), _pairs_in(a["options"])) for a in data
    )


def _pairs_out(pairs: tuple[tuple[str, Any], ...]) -> list[list[Any]]:
    return [[key, value] for key, value in pairs]


def _pairs_in(pairs: list[list[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, value) for key, value in pairs)


def _normal(compiled: dict[str, Any]) -> dict[str, Any]:
    """The compiled form with everything sorted whose order means nothing."""

    def table(data: dict[str, Any]) -> dict[str, Any]:
        result = {**data, "properties": sorted(data["properties"], key=_name)}
        for part in ("uniques", "indexes", "ranges", "checks"):
            if part in result:
                result[part] = sorted(result[part], key=_canonical)
        if "implements" in result:
            result["implements"] = sorted(result["implements"])
        return result

    return {
        **compiled,
        **{k: sorted(map(table, compiled[k]), key=_name) for k in ("interfaces", "nodes", "edges")},
    }


def _shape(compiled: dict[str, Any]) -> dict[str, Any]:
    """The normal form without identities."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in _IDENTITY}
        return value

    normal = {k: v for k, v in _normal(compiled).items() if k not in _IDENTITY}
    for kind in ("interfaces", "nodes", "edges"):
        normal[kind] = [
            {**strip(t), "properties": [strip(p) for p in t["properties"]]} for t in normal[kind]
        ]
        for table in normal[kind]:
            # A key's order follows property ids; as a shape it is a set.
            if "key" in table:
                table["key"] = sorted(table["key"])
    return normal


_IDENTITY = frozenset({"id", "incarnation", "next_id"})


def _name(data: dict[str, Any]) -> str:
    return str(data["name"])


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(data).encode()).hexdigest()
