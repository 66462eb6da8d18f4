"""Ranks of texts of which memory cannot hold all: by how they begin, and only then by the rest.

Equal texts are told by their digests, so that only different ones which begin alike are read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import distinct_places
from omnigraph.query.budget import Budget
from omnigraph.query.operators.ranks import Ints, dense_ranks
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.query.tables.large_texts import joined

#: Tables, and the positions of some rows of each.
Rows = Sequence[tuple[TableColumns, Positions]]


def ranks_of_long_texts(rows: Rows, column: str, budget: Budget) -> Ints:
    """The place of each text among the different texts, from 1; 0 is null.

    Args:
        rows: Whose texts, of all tables together; a position below 0 has none.
        column: The column of the texts.
        budget: Of the query.

    Raises:
        ResourceLimit: Too many different texts begin alike.
    """
    count = sum(len(positions) for _, positions in rows)
    length = max(policy.LEAST_PREFIX, policy.TEXT_BYTES_AT_ONCE // max(1, count))
    starts: list[pa.Array] = []
    digests: list[bytes] = []
    with budget.using(count * length, "order"):
        for texts in _read(rows, column):
            budget.check_time("order")
            prefixes = pc.binary_slice(texts.cast(pa.large_binary()), 0, length)
            starts.append(prefixes)
            digests += [
                b"" if (data := text.as_buffer()) is None else _digest(data) for text in texts
            ]
        ranks = dense_ranks(pa.concat_arrays(starts))
    numbers = dense_ranks(pa.array(digests, pa.binary()))
    order = np.argsort(ranks, kind="stable")
    places = np.zeros(count, np.int64)
    for group in np.split(order, np.flatnonzero(np.diff(ranks[order])) + 1):
        if len(group) == 1:
            continue
        _, first, same = np.unique(numbers[group], return_index=True, return_inverse=True)
        if len(first) > 1:
            places[group] = _whole_ranks(rows, column, group[first], budget)[same]
    together = distinct_places(ranks * (count + 1) + places)[1]
    return together if (ranks == 0).any() else together + 1


def _whole_ranks(rows: Rows, column: str, places: Ints, budget: Budget) -> Ints:
    """The ranks of different texts that begin alike."""
    texts: list[pa.Array] = []
    size = 0
    order = np.argsort(places)
    try:
        for part in _read(_chosen(rows, places[order]), column):
            # Sorting makes a copy of them.
            budget.keep(2 * part.nbytes, "order")
            size += 2 * part.nbytes
            texts.append(part)
        ranks = np.empty(len(places), np.int64)
        ranks[order] = dense_ranks(joined(texts))
        return ranks
    finally:
        budget.free(size)


def _chosen(rows: Rows, places: Ints) -> Rows:
    """Some of the rows, by their places among those of all tables, ascending."""
    chosen = []
    start = 0
    for table, positions in rows:
        first, last = np.searchsorted(places, [start, start + len(positions)])
        chosen.append((table, positions[places[first:last] - start]))
        start += len(positions)
    return chosen


def _read(rows: Rows, column: str) -> Iterator[pa.Array]:
    """The texts of rows, some at a time."""
    for table, positions in rows:
        start = 0
        while start < len(positions):
            stop = start + table.rows_at_once(len(positions), [column])
            yield table.fetch(positions[start:stop], [column])[column]
            start = stop


def _digest(text: pa.Buffer | None) -> bytes:
    return b"" if text is None else hashlib.blake2b(text, digest_size=16).digest()
