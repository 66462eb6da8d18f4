"""A catalog as a table of its types: plain text for pipes, coloured for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.cli.output import counted
from omnigraph.cli.text import columns, indented, width
from omnigraph.language.syntax import range_text
from omnigraph.language.values import literal_text, quote

if TYPE_CHECKING:
    from omnigraph.language.schema.catalog import Catalog, EdgeType, NodeType, Property


@dataclass(frozen=True, slots=True)
class Section:
    """What is shown of one type: its name, what it says, and a row for each property."""

    kind: str
    name: str
    heading: str
    about: str | None
    rows: tuple[tuple[str, str, str], ...]


def summary(catalog: Catalog) -> str:
    """Count what the schema declares."""
    parts = [counted(len(catalog.nodes), "node type"), counted(len(catalog.edges), "edge type")]
    if catalog.interfaces:
        parts.append(counted(len(catalog.interfaces), "interface"))
    return ", ".join(parts)


def sections(catalog: Catalog) -> Iterator[Section]:
    """Return interfaces, node types and edge types, in the order of the schema."""
    for interface in catalog.interfaces.values():
        by = ", ".join(catalog.implementers[interface.name])
        rows = tuple(
            (p.name, str(p.type), ", ".join(_own_rules(p))) for p in interface.properties.values()
        )
        yield Section("interface", interface.name, f"of {by}" if by else "of no type", None, rows)
    for node in catalog.nodes.values():
        heading = f"implements {', '.join(node.implements)}" if node.implements else ""
        yield Section("node", node.name, heading, node.description, _rows(node))
    for edge in catalog.edges.values():
        heading = f"{edge.source} -> {edge.target}"
        card = edge.cardinality
        if (card.low, card.high) != (0, None):
            heading += f", {range_text(card.low, card.high)} per {edge.source}"
        yield Section("edge", edge.name, heading, edge.description, _rows(edge))


def plain(catalog: Catalog) -> str:
    """Return the table as text."""
    parts = []
    for section in sections(catalog):
        lines = [f"{section.kind} {section.name}  {section.heading}".rstrip()]
        if section.about:
            lines.append(indented(section.about, "  "))
        if section.rows:
            lines.append(columns(section.rows, "    "))
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, summary(catalog)])


def print_rich(catalog: Catalog) -> None:
    """Print the table on a terminal, with colours."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(width=width(), highlight=False)
    everything = list(sections(catalog))
    cells = [[len(cell) for cell in row] for section in everything for row in section.rows]
    # All tables share their column widths, so that the eye can run down the page.
    names, types = (max((row[i] for row in cells), default=1) for i in (0, 1))
    for section in everything:
        name, heading = (section.name, "bold"), (section.heading, "dim")
        console.print(Text.assemble((section.kind, "magenta"), " ", name, "  ", heading))
        if section.about:
            console.print(Padding(Text(section.about, style="italic"), (0, 0, 0, 2)))
        if section.rows:
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
            table.add_column(width=min(names, 30), style="cyan", overflow="fold")
            table.add_column(width=min(types, width() // 3), style="green", overflow="fold")
            table.add_column(overflow="fold")
            for row in section.rows:
                table.add_row(*(Text(cell) for cell in row))
            console.print(Padding(table, (0, 0, 0, 4)))
        console.print()
    console.print(Text(summary(catalog), style="bold"))


def _rows(table: NodeType | EdgeType) -> tuple[tuple[str, str, str], ...]:
    rows = [
        (p.name, str(p.type), ", ".join([*_table_rules(table, p.name), *_own_rules(p)]))
        for p in table.properties.values()
    ]
    joint = [("key", table.key)] if len(table.key) > 1 else []
    joint += [("unique", names) for names in table.uniques if len(names) > 1]
    rows += [("", "", f"{rule} ({', '.join(names)})") for rule, names in joint]
    return tuple(rows)


def _table_rules(table: NodeType | EdgeType, name: str) -> Iterator[str]:
    if table.key == (name,):
        yield "key"
    if (name,) in table.uniques:
        yield "unique"
    if any(index.property == name for index in table.indexes):
        yield "index"
    for bounds in table.ranges:
        if bounds.property == name:
            yield f"range {range_text(bounds.low, bounds.high)}"
    for check in table.checks:
        if check.property == name:
            yield f"check {quote(check.pattern)}"


def _own_rules(property: Property) -> Iterator[str]:
    if property.has_default:
        yield f"default {literal_text(property.default)}"
    if property.embed:
        model = f" ({property.embed.model})" if property.embed.model else ""
        yield f"embeds {property.embed.source}{model}"
    if property.interface:
        yield f"from {property.interface}"
    if property.description:
        yield property.description
