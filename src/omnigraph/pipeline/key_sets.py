"""Keys that travel: for rules that need all rows, a part tells its different keys, not its rows.

A set of keys belongs to a rule: the ids of a type, the ends that edges have in a type, the values
of a unique group, the sources of edges whose number is limited. Keys are divided into buckets by
their text, so that each bucket can be checked alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import key_text, one_zero, physical
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.writes.validate.values import is_proper

Ints = npt.NDArray[np.int64]
_ENDS = ("src", "dst")


@dataclass(frozen=True, order=True)
class KeySet:
    """Which keys: the rule they are for, the type of the rows that have them, and their column.

    Attributes:
        rule: `id`, `end`, `unique` or `from`.
        type: The type of the rows; for `end` the type of the nodes that the ends are.
        place: Of a unique group, its place among those of the type.
    """

    rule: str
    type: str
    place: int = 0


def bounded(type: NodeType | EdgeType) -> bool:
    """True for edges whose number per source is limited."""
    return isinstance(type, EdgeType) and (
        type.cardinality.low > 0 or type.cardinality.high is not None
    )


def needs_edges(type: NodeType | EdgeType, catalog: Catalog) -> bool:
    """True for nodes that have to have edges."""
    edges = catalog.edges.values()
    return any(edge.source == type.name and edge.cardinality.low > 0 for edge in edges)


def group_columns(type: NodeType | EdgeType, place: int) -> list[str]:
    """The columns of a unique group."""
    return [physical(name, type) for name in type.uniques[place]]


def group_texts(type: NodeType | EdgeType, place: int, rows: pa.Table) -> pa.Array:
    """The values of a unique group as texts; null when one of them is null or not proper."""
    texts = []
    for name in group_columns(type, place):
        column = one_zero(rows[name].combine_chunks())
        text = key_text(column)
        if not pa.types.is_string(column.type):
            proper = pc.fill_null(is_proper(column), False)
            text = pc.if_else(proper, text, pa.scalar(None, pa.utf8()))
        texts.append(text)
    if len(texts) == 1:
        return texts[0]
    sizes = [pc.cast(pc.utf8_length(text), pa.utf8()) for text in texts]
    # With their lengths before them, different values never have the same text together.
    parts = [part for pair in zip(sizes, texts, strict=True) for part in pair]
    return pc.binary_join_element_wise(*parts, "\x1f")


def texts_of(type: NodeType | EdgeType, key: KeySet, column: str, rows: pa.Table) -> pa.Array:
    """The keys of rows, for one set."""
    if key.rule == "unique":
        return group_texts(type, key.place, rows)
    return rows[column].combine_chunks()


def key_sets(type: NodeType | EdgeType) -> list[tuple[KeySet, str]]:
    """The sets that rows of a type have keys for, and the column they come from."""
    found = [(KeySet("id", type.name), "id")]
    if isinstance(type, EdgeType):
        found += [(KeySet("end", type.source), "src"), (KeySet("end", type.target), "dst")]
        if bounded(type):
            found.append((KeySet("from", type.name), "src"))
    found += [(KeySet("unique", type.name, n), "id") for n in range(len(type.uniques))]
    return found


def distinct_keys(texts: pa.Array, start: int) -> pa.Table:
    """Different keys: how often each is there, and the last row that has it.

    Args:
        texts: The keys of rows; null is none.
        start: The number of the first row.
    """
    rows = start + np.arange(len(texts))
    if texts.null_count:
        there = texts.is_valid()
        rows = rows[there.to_numpy(zero_copy_only=False)]
        texts = texts.filter(there)
    ones = np.ones(len(texts), np.int64)
    return combined(pa.table({"text": texts, "row": rows, "count": ones}))


def only_keys(texts: pa.Array) -> pa.Table:
    """Different keys, of which only that they are there matters."""
    found = pc.unique(texts).drop_null()
    zeros = np.zeros(len(found), np.int64)
    return pa.table({"text": found, "row": zeros, "count": zeros + 1})


def every_key(texts: pa.Array, start: int) -> pa.Table:
    """The keys of all rows, each with its row; see `distinct_keys`."""
    table = pa.table({"text": texts, "row": start + np.arange(len(texts))})
    table = table.filter(pc.is_valid(texts)) if texts.null_count else table
    return table.append_column("count", pa.array(np.ones(table.num_rows, np.int64)))


def combined(table: pa.Table) -> pa.Table:
    """The same keys, each once."""
    if len(pc.unique(table["text"])) == table.num_rows:
        return table
    made = table.group_by("text", use_threads=False).aggregate([("row", "max"), ("count", "sum")])
    return made.rename_columns(["text", "row", "count"])


def buckets_of(texts: pa.ChunkedArray | pa.Array, buckets: int) -> Ints:
    """The bucket of each text, by its last bytes."""
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if buckets == 1 or not len(array):
        return np.zeros(len(array), np.int64)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    )
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    numbers = (ends - starts).astype(np.uint64)
    for back in range(1, 9):
        there = ends - back >= starts
        byte = np.zeros(len(array), np.uint64)
        byte[there] = data[ends[there] - back]
        numbers = numbers * np.uint64(1099511628211) + byte
    numbers ^= numbers >> np.uint64(29)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    return ((numbers >> np.uint64(33)) % np.uint64(buckets)).astype(np.int64)
