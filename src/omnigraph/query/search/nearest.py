"""The first rows of an order by nearness, by an index of the vectors.

An index returns candidates, and their own vectors decide. If too few of them match, or some that
are as near may be missing, it is asked for more; when that would take longer than comparing all
matches with the vector, these are compared. So a filter never leaves out rows, and all that an
index can change is which rows it takes for candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from omnigraph.compute.arrays import as_arrow, as_numpy, distinct
from omnigraph.query.budget import run_long
from omnigraph.query.frames import Frame, concat
from omnigraph.query.measurements import Measured
from omnigraph.query.operators.context import Context
from omnigraph.query.search.sorted_sets import among
from omnigraph.query.search.vectors import Floats, Nearness, distances
from omnigraph.query.steps import Scan
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.storage.table_ref import ROW_ID

if TYPE_CHECKING:
    from omnigraph.query.computed import ComputedProperty
    from omnigraph.query.search.searches import Searches
    from omnigraph.query.tables.columns import TableColumns


#: Why an index is not asked.
_SLOWER = "asking the index would take longer"


class VectorIndex(Struct, frozen=True):
    """The index of a column of vectors."""

    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class KnownIndex(Struct):
    """The index of a column of one version of a table, once it was looked for."""

    is_known: bool = False
    index: VectorIndex | None = None


class NearestRows(Struct):
    """Takes the matches that can be among the first of an order by nearness.

    Attributes:
        distance: What is ordered by.
        type: The type of its variable.
        index: What finds candidates.
        needed: How many of the first matches are needed.
        is_exact: True when all matches had to be compared after all.
    """

    context: Context
    searches: Searches
    distance: ComputedProperty
    type: str
    index: VectorIndex
    needed: int
    is_exact: bool = False

    @staticmethod
    def of(
        context: Context, searches: Searches, distance: ComputedProperty, needed: int
    ) -> NearestRows | str:
        """How the first matches are found; a text says why all of them are compared."""
        types = context.types[distance.variable]
        if len(types) != 1:
            return "they are of several types"
        columns = context.source.columns(types[0])
        if columns.rows < policy.VECTORS_WITHOUT_INDEX:
            return f"{types[0]} has few rows"
        column = searches.column_of(distance.property)
        index = vector_index(columns, column)
        if index is None:
            return f"{types[0]}.{column} has no index"
        rows = NearestRows(context, searches, distance, types[0], index, needed)
        is_slower = rows._is_slower(columns.rows, rows._candidates(columns.rows))
        return _SLOWER if not needed or is_slower else rows

    def __str__(self) -> str:
        if self.is_exact:
            return compared([self.distance], _SLOWER)
        return f"search {self.distance} by the index {self.index}"

    @property
    def is_without_direction(self) -> bool:
        """True when everything is as near to what is compared with."""
        return self.searches.is_without_direction(self.distance.property)

    def all_rows(self, scan: Scan) -> Iterator[Frame] | None:
        """The first rows that a scan would find; None when they have to be compared one by one."""
        columns = self.context.source.columns(self.type)
        positions = self._first(columns.rows, None)
        if positions is None:
            return None
        self.context.measured.steps[scan] = Measured(len(positions))
        return iter([Frame(len(positions), {self.distance.variable: positions}, {})])

    def among(self, stream: Iterable[Frame]) -> Iterator[Frame]:
        """Those of some matches that can be among the first ones; all when that is not known."""
        budget, blocks, size = self.context.budget, [], 0
        stream = iter(stream)
        for frame in stream:
            blocks.append(frame)
            size += frame.bytes
            if not budget.has_room(2 * size):
                # They are ordered in parts.
                self.is_exact = True
                return chain(blocks, stream)
        if not blocks:
            self.is_exact = True
            return iter(())
        whole = concat(blocks)
        positions = whole.columns[self.distance.variable]
        different = distinct(positions)
        first = self._first(len(different[different >= 0]), positions)
        if first is None:
            return iter([whole])
        return iter([whole.take(_is_among(positions, first))])

    def _first(self, matched: int, positions: Positions | None) -> Positions | None:
        """Different positions, ascending, with those of the first matches.

        Args:
            matched: How many different rows match.
            positions: The positions of the matches; None stands for all rows, each once.
        """
        wanted = self._candidates(matched)
        while not self._is_slower(matched, wanted):
            candidates, near = self._ask(wanted)
            self.searches.remember(self.distance.property, self.type, candidates, near)
            kept = near
            if positions is not None:
                kept = near[_places(candidates, positions)]
            if self._is_enough(kept, near):
                return candidates
            wanted *= policy.MORE_CANDIDATES
        self.is_exact = True
        return None

    def _candidates(self, matched: int) -> int:
        """How many candidates are likely to contain the first matches."""
        rows = self.context.source.rows(self.type)
        refined = policy.REFINED.get(self.index.kind, policy.REFINED_MOST)
        return int(self.needed * refined * rows / max(matched, 1)) + 1

    def _is_slower(self, matched: int, wanted: int) -> bool:
        """True when comparing all matches is faster than asking for so many candidates."""
        columns = self.context.source.columns(self.type)
        is_read = columns.has([self.searches.column_of(self.distance.property)])
        exact = matched * (1 if is_read else policy.COMPARED_PER_READ)
        by_index = policy.VECTORS_WITHOUT_INDEX + policy.COMPARED_PER_CANDIDATE * wanted
        return wanted >= columns.rows or exact <= by_index

    def _is_enough(self, kept: Floats, near: Floats) -> bool:
        """True when the first matches are certainly among those that are candidates."""
        if len(kept) < self.needed:
            return False
        last = float(np.partition(kept, self.needed - 1)[self.needed - 1])
        # What is as near as the last candidate may be missing; and no index has the vectors without
        # a direction, whose distance is 1.
        return last < float(near.max()) and last < 1

    def _ask(self, wanted: int) -> tuple[Positions, Floats]:
        """Candidates by ascending position, and their distances by their own vectors."""
        columns = self.context.source.columns(self.type)
        column = self.searches.column_of(self.distance.property)
        vector = self.searches.vector_of(self.distance.property)
        assert vector is not None
        # Vectors that are in memory need not be read again.
        is_read = columns.has([column])
        wanted_columns = [ROW_ID] if is_read else [ROW_ID, column]
        partitions = max(1, int(columns.rows**0.5))
        probes = max(
            policy.PROBES,
            partitions // policy.PROBED_PART,
            policy.PROBED_MORE * wanted * partitions // columns.rows,
        )
        rows = run_long(
            f"search by the index {self.index.name}",
            policy.VECTORS_WITHOUT_INDEX,
            lambda: columns.snapshot.nearest(
                column, vector.tolist(), wanted, columns=wanted_columns, probes=probes
            ),
        )
        if is_read:
            positions = distinct(as_numpy(rows[ROW_ID]).astype(np.int64))
            return positions, Nearness(columns, column, vector).at(positions)
        positions, places = np.unique(as_numpy(rows[ROW_ID]).astype(np.int64), return_index=True)
        vectors = rows[column].combine_chunks().take(as_arrow(places))
        return positions, distances(vectors, vector)


def compared(distances: Sequence[ComputedProperty], reason: str) -> str:
    """What is explained when all matches are compared, and why they are."""
    return f"compare {', '.join(map(str, distances))} for each match: {reason}"


def vector_index(columns: TableColumns, column: str) -> VectorIndex | None:
    """The index of a column of vectors, if there is one."""
    known = columns.search_data(KnownIndex, column)
    if not known.is_known:
        indexes = [
            VectorIndex(index.name, index.kind)
            for index in columns.snapshot.indices()
            if index.column == column and index.kind.startswith("ivf")
        ]
        known.index = indexes[0] if len(indexes) == 1 else None
        known.is_known = True
    return known.index


def _is_among(positions: Positions, some: Positions) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which positions, in any order, are among some different ones in order."""
    different, back = np.unique(positions, return_inverse=True)
    return among(different, some)[back]


def _places(some: Positions, positions: Positions) -> Positions:
    """Where positions, in any order, are among some different ones in order; without the others."""
    if not len(some):
        return some
    places = np.minimum(np.searchsorted(some, positions), len(some) - 1)
    common: Positions = places[some[places] == positions]
    return common
