"""Sets of keys: for rules that need all rows, a part of a load sends its keys, not its rows.

A set belongs to a rule and a type. Its keys are divided into buckets by their text, so that each
bucket can be checked alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.compute.arrays import one_array
from omnigraph.language import EdgeType, NodeType
from omnigraph.writes.rules.cardinality import is_bounded, source_keys
from omnigraph.writes.rules.ends import end_keys, targets
from omnigraph.writes.rules.ids import id_keys
from omnigraph.writes.rules.keys import Ints, combined, every_key, only_keys
from omnigraph.writes.rules.uniques import unique_keys


@dataclass(frozen=True, order=True)
class KeySet:
    """Which keys: the rule they are for, and the type of the rows that have them.

    Attributes:
        rule: `id`, `end`, `unique` or `from`.
        type: The type of the rows; for `end` the type of the nodes that the ends are.
        place: Of a unique group, its place among those of the type.
        bad: Something else is wrong with the rows; they are left out if that is allowed.
    """

    rule: str
    type: str
    place: int = 0
    bad: bool = False


def keys_of(
    type: NodeType | EdgeType,
    rows: pa.Table,
    ids: pa.Array,
    lines: Ints,
    *,
    with_ids: bool,
    merge: bool,
    bad: bool,
) -> Iterator[tuple[KeySet, pa.Table]]:
    """The keys of rows, for all sets that they belong to.

    Args:
        type: The rows' type.
        rows: The rows.
        ids: Their ids; null where the load has made them.
        lines: Their lines, by which they are found again.
        with_ids: Ids may be there twice, and not only new ones.
        merge: Of rows with one id the last one counts.
        bad: Something is wrong with the rows.
    """
    if with_ids:
        yield KeySet("id", type.name, bad=bad), id_keys(rows, lines)
    if isinstance(type, EdgeType):
        for column, target in targets(type).items():
            yield KeySet("end", target, bad=bad), only_keys(end_keys(rows, column))
        if is_bounded(type):
            key = KeySet("from", type.name, bad=bad)
            if merge:
                # Which of the rows count is decided by their ids.
                texts = rows["src"].combine_chunks()
                keys = every_key(texts, lines)
                known = texts.is_valid()
                yield key, keys.append_column("id", ids.filter(known) if texts.null_count else ids)
            else:
                yield key, source_keys(rows, lines)
    for place in range(len(type.uniques)):
        keys = unique_keys(type, place, rows, ids, lines, whole=False)
        yield KeySet("unique", type.name, place, bad), keys


def joined(key: KeySet, tables: list[pa.Table]) -> pa.Table:
    """The keys of one set, of several blocks of a part."""
    keys = pa.concat_tables(tables)
    if key.rule == "end":
        return only_keys(keys["text"])
    return keys if "id" in keys.column_names else combined(keys)


def buckets_of(texts: pa.ChunkedArray | pa.Array, buckets: int) -> Ints:
    """The bucket of each text, by its last bytes."""
    array = one_array(texts)
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
        long_enough = ends - back >= starts
        byte = np.zeros(len(array), np.uint64)
        byte[long_enough] = data[ends[long_enough] - back]
        numbers = numbers * np.uint64(1099511628211) + byte
    numbers ^= numbers >> np.uint64(29)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    return ((numbers >> np.uint64(33)) % np.uint64(buckets)).astype(np.int64)
