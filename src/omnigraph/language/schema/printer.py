"""Catalog → schema text in canonical style.

The text compiles to the same catalog again. Properties that a type has from an interface are not
repeated, and neither are the constraints the interface brings along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from omnigraph.language.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    EdgeType,
    Index,
    Interface,
    NodeType,
    Property,
    TableType,
)
from omnigraph.language.syntax import range_text
from omnigraph.language.values import literal_text, quote

_INDENT = "  "
#: On interfaces these stay annotations: see `check`.
_FLAGS = (Annotation("key"), Annotation("unique"), Annotation("index"))


def print_schema(catalog: Catalog) -> str:
    """Write a catalog as the text of a schema."""
    blocks = [_interface(i) for i in catalog.interfaces.values()]
    blocks += [_node(n, catalog.interfaces) for n in catalog.nodes.values()]
    blocks += [_edge(e) for e in catalog.edges.values()]
    return "\n".join(blocks)


def _interface(interface: Interface) -> str:
    lines = []
    for p in interface.properties.values():
        flags = [f"@{a.name}" for a in p.annotations if a in _FLAGS]
        others = tuple(a for a in p.annotations if a not in _FLAGS)
        lines.append(_property(replace(p, annotations=others), flags))
    return _block(f"interface {interface.name}", lines)


def _node(node: NodeType, interfaces: Mapping[str, Interface]) -> str:
    head = f"node {node.name}{_described(node)}"
    if node.implements:
        head += f" implements {', '.join(node.implements)}"
    return _block(head, _members(node, [interfaces[name] for name in node.implements]))


def _edge(edge: EdgeType) -> str:
    head = f"edge {edge.name}: {edge.source} -> {edge.target}"
    if edge.cardinality != Cardinality():
        head += f" @card({range_text(edge.cardinality.low, edge.cardinality.high)})"
    head += _described(edge)
    lines = _members(edge, [])
    return _block(head, lines) if lines else f"{head}\n"


def _block(head: str, lines: list[str]) -> str:
    if not lines:
        return f"{head} {{}}\n"
    return "\n".join([f"{head} {{", *(_INDENT + line for line in lines), "}\n"])


def _described(table: TableType) -> str:
    parts = _texts(table.description, table.instruction) + _others(table.annotations)
    return "".join(f" {part}" for part in parts)


def _members(table: TableType, interfaces: list[Interface]) -> list[str]:
    """The lines of a body: the type's own properties, then its constraints."""
    own = [p for p in table.properties.values() if p.interface is None]
    flags: dict[str, list[str]] = {p.name: [] for p in own}
    lines: list[str] = []

    def say(name: str, members: tuple[str, ...]) -> None:
        if len(members) == 1 and members[0] in flags:
            flags[members[0]].append(f"@{name}")
        else:
            lines.append(f"@{name}({', '.join(members)})")

    if table.key and not (len(table.key) == 1 and _asked(interfaces, "key", table.key[0])):
        say("key", table.key)
    for group in table.uniques:
        if not (len(group) == 1 and _asked(interfaces, "unique", group[0])):
            say("unique", group)
    for name, indexes in _by_property(table.indexes).items():
        if indexes == [Index(name)] and _asked(interfaces, "index", name):
            continue
        for index in indexes:
            if index.options:
                options = [f"{key}={plain_text(value)}" for key, value in index.options]
                lines.append(f"@index({', '.join([name, *options])})")
            else:
                say("index", (name,))
    lines += [f"@range({r.property}, {range_text(r.low, r.high)})" for r in table.ranges]
    lines += [f"@check({c.property}, {quote(c.pattern)})" for c in table.checks]
    return [_property(p, flags[p.name]) for p in own] + lines


def _asked(interfaces: Iterable[Interface], flag: str, name: str) -> bool:
    """True when an interface declares its property with this flag."""
    wanted = Annotation(flag)
    declarations = (i.properties[name] for i in interfaces if name in i.properties)
    return any(wanted in p.annotations for p in declarations)


def _by_property(indexes: Iterable[Index]) -> dict[str, list[Index]]:
    by_property: dict[str, list[Index]] = {}
    for index in indexes:
        by_property.setdefault(index.property, []).append(index)
    return by_property


def _property(p: Property, flags: Iterable[str] = ()) -> str:
    parts = [f"{p.name}: {p.type}", *flags]
    if p.has_default:
        parts.append(f"@default({literal_text(p.default)})")
    if p.embed is not None:
        model = f", model={quote(p.embed.model)}" if p.embed.model is not None else ""
        parts.append(f"@embed({quote(p.embed.source)}{model})")
    parts += _texts(p.description, p.instruction)
    parts += _others(p.annotations)
    return " ".join(parts)


def _texts(description: str | None, instruction: str | None) -> list[str]:
    texts = (("description", description), ("instruction", instruction))
    return [f"@{name}({quote(text)})" for name, text in texts if text is not None]


def _others(annotations: Iterable[Annotation]) -> list[str]:
    parts = []
    for a in annotations:
        inside = [plain_text(v) for v in a.arguments]
        inside += [f"{key}={plain_text(value)}" for key, value in a.options]
        parts.append(f"@{a.name}({', '.join(inside)})" if inside else f"@{a.name}")
    return parts


def plain_text(value: Any) -> str:
    """Write an argument of an annotation that is kept as plain JSON (see `annotations`)."""
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind == "name":
            return str(inner)
        if kind == "range":
            return range_text(inner[0], inner[1])
        return f"{kind}({quote(inner)})"
    if isinstance(value, list):
        return f"[{', '.join(plain_text(v) for v in value)}]"
    return literal_text(value)
