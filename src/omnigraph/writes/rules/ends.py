"""The rule about ends: both nodes of every edge exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import PHYSICAL_ENDS
from omnigraph.language import Catalog, EdgeType
from omnigraph.language.values import show
from omnigraph.writes.rules.keys import Broken, Lookup, without
from omnigraph.writes.rules.violations import MOST_SHOWN, Violations

#: The columns of an edge's ends, and what users call them.
ENDS = {column: name for name, column in PHYSICAL_ENDS.items()}


def targets(edge: EdgeType) -> dict[str, str]:
    """By the column of an end, the type of the nodes there."""
    return {"src": edge.source, "dst": edge.target}


def end_keys(rows: pa.Table, column: str) -> pa.Array:
    """The different ends of edges, of one side."""
    return pc.unique(rows[column]).drop_null()


def missing_ends(ends: pa.Array, written: Iterable[pa.Array], table: Lookup) -> pa.Array:
    """The ends that do not exist.

    Args:
        ends: Different ids of nodes of one type.
        written: The ids of nodes that are written as well.
        table: The other nodes of the type.
    """
    for ids in written:
        ends = without(ends, ids)
    return without(ends, table.find("id", ends, ["id"])["id"]) if len(ends) else ends


def broken_ends(catalog: Catalog, target: str, missing: pa.Array) -> list[Broken]:
    """What is wrong with the edges of all types that end at nodes that do not exist."""
    keys = pa.table({"text": missing, "part": pa.repeat(pa.scalar(-1), len(missing))})
    reason = f"there is no {target} {{value}}"
    return [
        Broken("end", edge.name, (column,), ENDS[column], reason, "every", keys)
        for edge in catalog.edges.values()
        for column, node in targets(edge).items()
        if node == target and len(missing)
    ]


def loose_edges(edge: EdgeType, column: str, removed: pa.Array, table: Lookup) -> pa.Table:
    """The edges that stay although a node at their end goes: `id` and the column of the end."""
    return table.find(column, removed, ["id", column]).select(["id", column])


def refuse_loose(edge: EdgeType, column: str, loose: pa.Table, violations: Violations) -> None:
    """Note edges that would lose an end; of many, those with the first ids are described."""
    if loose.num_rows > MOST_SHOWN:
        loose = loose.sort_by("id")
    reason = f"the {targets(edge)[column]} {{}} would be gone and leave this edge loose"
    violations.add_rows(
        edge.name,
        loose["id"],
        ENDS[column],
        loose[column],
        pa.repeat(pa.scalar(True), loose.num_rows),
        "end",
        lambda id: reason.format(show(id)) + "; remove it as well",
    )


def together(arrays: Sequence[pa.Array]) -> pa.Array:
    """Different texts of several arrays."""
    if len(arrays) == 1:
        return arrays[0]
    return pc.unique(pa.chunked_array(arrays, pa.utf8()))
