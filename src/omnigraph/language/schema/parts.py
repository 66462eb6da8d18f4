"""A catalog taken apart, for merging: nested parts by ids, and back.

A part is a dict (merged by key), a frozenset (merged by element), or anything else (merged as a
whole). Only a thing itself has its name: others refer to it by its id.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.language.schema.catalog import (
    Annotation,
    Catalog,
    Check,
    EdgeType,
    Embed,
    Index,
    Interface,
    NodeType,
    Property,
    Range,
    frozen,
)
from omnigraph.language.schema.pair import Member, member
from omnigraph.language.types import Scalar, ValueType

Parts = dict[str, Any]
Path = tuple[Any, ...]
Table = NodeType | EdgeType


class Unplaced(Exception):
    """A part refers to something that is not there."""

    def __init__(self, type: str, property: str | None, what: str) -> None:
        super().__init__(f"{what} of `{type}` needs what the other side has dropped")
        self.type = type
        self.property = property


class Place(Struct, frozen=True):
    """What a path means to people."""

    type: str | None
    property: str | None
    part: str | None
    text: str


def parts_of(catalog: Catalog) -> Parts:
    """Take a schema apart."""
    return {
        "interfaces": {i.name: dict(i.properties) for i in catalog.interfaces.values()},
        "types": {t.id: _table_parts(t, catalog) for t in catalog.tables()},
    }


def _table_parts(table: Table, catalog: Catalog) -> Parts:
    parts: Parts = {
        "name": table.name,
        "incarnation": table.incarnation,
        "properties": {p.id: _property_parts(table, p) for p in table.properties.values()},
        "key": tuple(member(table, n) for n in table.key),
        "uniques": frozenset(frozenset(member(table, n) for n in u) for u in table.uniques),
        "indexes": {(member(table, i.property), repr(i.options)): i.options for i in table.indexes},
        "ranges": {member(table, r.property): (r.low, r.high) for r in table.ranges},
        "checks": frozenset((member(table, c.property), c.pattern) for c in table.checks),
        "description": table.description,
        "instruction": table.instruction,
        "annotations": {a.name: a for a in table.annotations},
    }
    if isinstance(table, NodeType):
        # Their order says which of two interfaces a property comes from.
        return {**parts, "kind": "node", "implements": dict.fromkeys(table.implements, True)}
    ends = (catalog.nodes[table.source].id, catalog.nodes[table.target].id)
    return {**parts, "kind": "edge", "ends": ends, "cardinality": table.cardinality}


def _property_parts(table: Table, p: Property) -> Parts:
    values = p.type.values
    embed = None if p.embed is None else (member(table, p.embed.source), p.embed.model)
    return {
        "name": p.name,
        "type": replace(p.type, nullable=False, values=None),
        "nullable": p.type.nullable,
        "values": None if values is None else frozenset(values),
        "interface": p.interface,
        "description": p.description,
        "instruction": p.instruction,
        "embed": embed,
        "default": (p.default,) if p.has_default else None,
        "annotations": {a.name: a for a in p.annotations},
    }


# --- and back ---


def catalog_of(parts: Parts, next_id: int) -> Catalog:
    """Put a schema together.

    Raises:
        Unplaced: A part refers to something that is not there.
    """
    types = parts["types"]
    interfaces = [
        Interface(name, frozen(properties.values()))
        for name, properties in parts["interfaces"].items()
    ]
    nodes = [_node(id, t) for id, t in types.items() if t["kind"] == "node"]
    edges = [_edge(id, t, types) for id, t in types.items() if t["kind"] == "edge"]
    return Catalog(frozen(interfaces), frozen(nodes), frozen(edges), next_id)


def _node(id: int, parts: Parts) -> NodeType:
    return NodeType(**_table(id, parts), implements=tuple(parts["implements"]))


def _edge(id: int, parts: Parts, types: Parts) -> EdgeType:
    names = []
    for end in parts["ends"]:
        if end not in types:
            raise Unplaced(parts["name"], None, "an end")
        names.append(types[end]["name"])
    return EdgeType(
        **_table(id, parts), source=names[0], target=names[1], cardinality=parts["cardinality"]
    )


def _table(id: int, parts: Parts) -> Parts:
    owner, by_id = parts["name"], parts["properties"]

    def name(of: Member, what: str) -> str:
        if isinstance(of, str):
            return of
        if of not in by_id:
            raise Unplaced(owner, None, what)
        return str(by_id[of]["name"])

    def property(number: int, p: Parts) -> Property:
        embed = p["embed"] and Embed(
            name(p["embed"][0], f"`@embed` of `{p['name']}`"), p["embed"][1]
        )
        values = p["values"]
        type = p["type"]
        if values is not None:
            type = ValueType(Scalar.STRING, values=tuple(sorted(values)))
        return Property(
            p["name"],
            type.as_nullable(p["nullable"]),
            number,
            p["interface"],
            p["description"],
            p["instruction"],
            embed,
            p["default"] is not None,
            p["default"][0] if p["default"] is not None else None,
            _annotations(p["annotations"]),
        )

    uniques = [tuple(name(n, "`@unique`") for n in group) for group in parts["uniques"]]
    return {
        "name": owner,
        "id": id,
        "incarnation": parts["incarnation"],
        "properties": frozen(property(number, p) for number, p in by_id.items()),
        "key": tuple(name(n, "`@key`") for n in parts["key"]),
        "uniques": tuple(sorted(uniques)),
        "indexes": tuple(
            Index(name(of, "`@index`"), options) for (of, _), options in parts["indexes"].items()
        ),
        "ranges": tuple(
            Range(name(of, "`@range`"), *bounds) for of, bounds in parts["ranges"].items()
        ),
        "checks": tuple(
            Check(name(of, "`@check`"), pattern)
            for of, pattern in sorted(parts["checks"], key=repr)
        ),
        "description": parts["description"],
        "instruction": parts["instruction"],
        "annotations": _annotations(parts["annotations"]),
    }


def _annotations(by_name: dict[str, Annotation]) -> tuple[Annotation, ...]:
    return tuple(by_name[name] for name in sorted(by_name))


# --- for people ---


def place(path: Path, *sides: Catalog) -> Place:
    """Say what a path means, with the names of the first side that has it."""
    if path[0] == "interfaces":
        name = path[1] if len(path) > 1 else None
        property = path[2] if len(path) > 2 else None
        text = f"`{property}` of interface `{name}`" if property else f"interface `{name}`"
        return Place(name, property, None, text)
    table = next(t for side in sides for t in side.tables() if t.id == path[1])
    word = "node type" if isinstance(table, NodeType) else "edge type"
    whole = f"{word} `{table.name}`"
    if len(path) == 2:
        return Place(table.name, None, None, whole)
    if path[2] != "properties":
        return Place(table.name, None, path[2], f"the {path[2]} of {whole}")
    found = next(
        p
        for side in sides
        for t in side.tables()
        if t.id == path[1]
        for p in t.properties.values()
        if p.id == path[3]
    )
    if len(path) == 4:
        return Place(table.name, found.name, None, f"`{table.name}.{found.name}`")
    return Place(table.name, found.name, path[4], f"the {path[4]} of `{table.name}.{found.name}`")
