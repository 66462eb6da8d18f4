"""The rule about the number of edges: each source has as many as `@card` says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.writes.rules.keys import Broken, How, Ints, Lookup, distinct_keys, without
from omnigraph.writes.rules.violations import Violations

#: What is wrong with the number of edges, whoever counts them.
_REASON = "the number of edges from this {source} is {{number}}, allowed are {span}"


def is_bounded(type: NodeType | EdgeType) -> bool:
    """True for edges whose number per source is limited."""
    return isinstance(type, EdgeType) and (
        type.cardinality.low > 0 or type.cardinality.high is not None
    )


def needs_edges(type: NodeType | EdgeType, catalog: Catalog) -> bool:
    """True for nodes that have to have edges."""
    edges = catalog.edges.values()
    return any(edge.source == type.name and edge.cardinality.low > 0 for edge in edges)


def source_keys(rows: pa.Table, numbers: Ints | None = None) -> pa.Table:
    """The sources of edges: how many edges each has, and the last of them."""
    return distinct_keys(rows["src"].combine_chunks(), numbers)


def wrong_counts(
    edge: EdgeType,
    sources: pa.Array,
    written: Sequence[pa.Table],
    table: Lookup,
    *,
    new: pa.Array | None = None,
) -> pa.Table:
    """The sources that have too few or too many edges.

    Args:
        edge: The type of the edges.
        sources: Different sources that are looked at.
        written: Keys of edges that are written, as `source_keys` returns them.
        table: The other edges of the type.
        new: Sources that are new: the table has no edges from them.

    Returns:
        The sources as `text`, with the `number` of their edges.
    """
    numbers = np.zeros(len(sources), np.int64)
    old = sources if new is None else without(sources, new)
    if len(old):
        _count(numbers, sources, table.find("src", old, ["id", "src"])["src"], None)
    for keys in written:
        _count(numbers, sources, keys["text"], keys["count"].to_numpy())
    low, high = edge.cardinality.low, edge.cardinality.high
    wrong = numbers < low
    if high is not None:
        wrong |= numbers > high
    if not wrong.any():
        return pa.table({"text": sources.slice(0, 0), "number": numbers[:0]})
    return pa.table({"text": sources.filter(pa.array(wrong)), "number": numbers[wrong]})


def _count(numbers: Ints, sources: pa.Array, ends: pa.ChunkedArray, how_often: Ints | None) -> None:
    places = pc.index_in(ends.combine_chunks(), value_set=sources)
    known = places.is_valid().to_numpy(zero_copy_only=False)
    counts = 1 if how_often is None else how_often[known]
    np.add.at(numbers, places.drop_null().to_numpy(), counts)


def refuse_counts(edge: EdgeType, wrong: pa.Table, violations: Violations) -> None:
    """Note sources with wrong numbers of edges, as `wrong_counts` returns them."""
    text = reason(edge)
    violations.add_rows(
        edge.name,
        wrong["text"],
        "from",
        wrong["number"],
        pa.repeat(pa.scalar(True), wrong.num_rows),
        "cardinality",
        lambda number: text.format(number=number),
    )


def reason(edge: EdgeType) -> str:
    """What is wrong with a number of edges, with a place for the `{number}`."""
    low, high = edge.cardinality.low, edge.cardinality.high
    span = f"{low}..{'' if high is None else high}"
    return _REASON.format(source=edge.source, span=span)


def broken_counts(edge: EdgeType, type: str, column: str, how: How, keys: pa.Table) -> Broken:
    """Wrong numbers, reported at an edge from each source, or at the source itself."""
    return Broken("cardinality", type, (column,), "from", reason(edge), how, keys, edge.name)
