"""The shape of a graph: for each edge table its neighbours by position, out and in.

Built once per version of an edge table from its ids, kept in memory and on disk. When a few edges
change, the arrays of the version before are patched instead of built anew.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from omnigraph.query.images import Positions

Ints = npt.NDArray[np.int64]


class Adjacency:
    """Neighbours in one direction.

    Attributes:
        starts: Where the neighbours of each position start; one more than there are positions.
    """

    def __init__(
        self,
        starts: Ints,
        arrays: tuple[npt.NDArray[np.int32], Ints] | Patch,
        *,
        is_set: bool | None = None,
    ) -> None:
        self.starts = starts
        self._arrays = arrays
        self._is_set = is_set
        self._guard = threading.Lock()

    @staticmethod
    def build(sources: Ints, targets: Ints, edges: Ints, size: int) -> Adjacency:
        """Sort edges by their source, then by their target."""
        order = np.argsort((sources << 32) | targets, kind="stable")
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(sources, minlength=size), out=starts[1:])
        return Adjacency(starts, (targets[order].astype(np.int32), edges[order]))

    @property
    def neighbours(self) -> npt.NDArray[np.int32]:
        """All neighbours, those of one position together and in ascending order."""
        return self._made()[0]

    @property
    def edges(self) -> Ints:
        """The edge of each neighbour, by its row id."""
        return self._made()[1]

    def _made(self) -> tuple[npt.NDArray[np.int32], Ints]:
        with self._guard:
            if isinstance(self._arrays, Patch):
                self._arrays = self._arrays.applied()
            return self._arrays

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def degrees(self) -> Ints:
        """How many edges each position has."""
        return np.diff(self.starts)

    @property
    def size(self) -> int:
        """How many positions there are."""
        return len(self.starts) - 1

    @cached_property
    def distinct(self) -> Adjacency:
        """Each neighbour once, however many edges lead there; which edge is not told."""
        if self._is_set or not len(self):
            return self
        neighbours = self.neighbours
        again = np.zeros(len(neighbours), bool)
        again[1:] = neighbours[1:] == neighbours[:-1]
        inner = self.starts[1:-1]
        again[inner[inner < len(again)]] = False
        self._is_set = not again.any()
        if self._is_set:
            return self
        kept = ~again
        before = np.concatenate([[0], np.cumsum(kept)])
        return Adjacency(before[self.starts], (neighbours[kept], self.edges[kept]), is_set=True)

    def has(self, source: int, target: int) -> bool:
        """True when there is an edge between two positions."""
        if source >= self.size:
            return False
        mine = self.neighbours[self.starts[source] : self.starts[source + 1]]
        at = int(np.searchsorted(mine, target))
        return at < len(mine) and int(mine[at]) == target

    def patched(
        self, removed: Ints, sources: Ints, targets: Ints, edges: Ints, size: int
    ) -> Adjacency:
        """The same edges without some and with others.

        The arrays are put together when somebody looks at them; how many neighbours a position
        has is known at once.

        Args:
            removed: Row ids of edges to leave out.
            sources: Where new edges start.
            targets: Where they end.
            edges: Their row ids.
            size: How many positions there are now.
        """
        starts = self.starts
        if size > self.size:
            starts = np.concatenate([starts, np.full(size - self.size, starts[-1])])
        drop = np.zeros(0, np.int64)
        if len(removed):
            drop = np.flatnonzero(np.isin(self.edges, removed))
        change = np.zeros(len(starts), np.int64)
        np.add.at(change, sources + 1, 1)
        if len(drop):
            np.add.at(change, np.searchsorted(starts, drop, "right"), -1)
        order = np.argsort((sources << 32) | targets, kind="stable")
        sources, targets, edges = sources[order], targets[order], edges[order]
        pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
        is_set = self._is_set and len(set(pairs)) == len(pairs)
        is_set = is_set and not any(self.has(a, b) for a, b in pairs)
        patch = Patch(self, starts, drop, sources, targets, edges)
        return Adjacency(starts + np.cumsum(change), patch, is_set=True if is_set else None)

    @cached_property
    def keys(self) -> Ints:
        """Source and target of each edge as one number, ascending."""
        sources = np.repeat(np.arange(self.size), self.degrees)
        return (sources << 32) | self.neighbours

    def counts(self, positions: Positions) -> Ints:
        """How many neighbours each of some positions has."""
        inside = (positions >= 0) & (positions < self.size)
        if inside.all():
            return self.starts[positions + 1] - self.starts[positions]
        safe = np.where(inside, positions, 0)
        if not self.size:
            return np.zeros(len(positions), np.int64)
        return np.where(inside, self.starts[safe + 1] - self.starts[safe], 0)

    def places(self, positions: Positions, counts: Ints) -> Ints:
        """Where the neighbours of some positions are, one position's after the other's."""
        total = int(counts.sum())
        if not total:
            return np.zeros(0, np.int64)
        filled = counts > 0
        first = self.starts[positions[filled]]
        sizes = counts[filled]
        steps = np.ones(total, np.int64)
        steps[0] = first[0]
        steps[np.cumsum(sizes)[:-1]] = first[1:] - (first[:-1] + sizes[:-1] - 1)
        return np.cumsum(steps)

    def between(self, sources: Positions, targets: Positions) -> tuple[Ints, Ints]:
        """Where the edges between pairs start, and how many there are."""
        wanted = (sources << 32) | targets
        start = np.searchsorted(self.keys, wanted, "left")
        return start, np.searchsorted(self.keys, wanted, "right") - start

    def gather(self, weights: Ints) -> Ints:
        """For each position the sum of its neighbours' weights."""
        sums = np.zeros(len(self) + 1, np.int64)
        np.cumsum(weights[self.neighbours], out=sums[1:])
        return sums[self.starts[1:]] - sums[self.starts[:-1]]


@dataclass(frozen=True)
class Patch:
    """A change of the neighbours of another version.

    Attributes:
        base: What is changed.
        starts: Its starts, for the positions there are now.
        drop: The places of neighbours to leave out.
        sources: Where new edges start, in ascending order; `targets` and `edges` go with them.
    """

    base: Adjacency
    starts: Ints
    drop: Ints
    sources: Ints
    targets: Ints
    edges: Ints

    def applied(self) -> tuple[npt.NDArray[np.int32], Ints]:
        """The arrays with the change."""
        neighbours, edges = self.base.neighbours, self.base.edges
        at = np.empty(len(self.sources), np.int64)
        for place, (source, target) in enumerate(
            zip(self.sources.tolist(), self.targets.tolist(), strict=True)
        ):
            first, last = self.starts[source], self.starts[source + 1]
            at[place] = first + np.searchsorted(neighbours[first:last], target, "right")
        neighbours = np.insert(neighbours, at, self.targets.astype(np.int32))
        edges = np.insert(edges, at, self.edges)
        if len(self.drop):
            # What is left out moved on by what was put in before it.
            moved = self.drop + np.searchsorted(at, self.drop, "right")
            neighbours, edges = np.delete(neighbours, moved), np.delete(edges, moved)
        return neighbours, edges


@dataclass(frozen=True)
class Topology:
    """The edges of one version of an edge table, from either end."""

    out: Adjacency
    into: Adjacency

    @staticmethod
    def build(
        sources: Ints, targets: Ints, edges: Ints, source_size: int, target_size: int
    ) -> Topology:
        """Sort edges from both ends."""
        return Topology(
            Adjacency.build(sources, targets, edges, source_size),
            Adjacency.build(targets, sources, edges, target_size),
        )

    @cached_property
    def both(self) -> Adjacency:
        """Edges from both ends; one that starts and ends at the same node is there once."""
        out = self.out
        sources = np.repeat(np.arange(out.size), out.degrees)
        targets = out.neighbours.astype(np.int64)
        loops = sources == targets
        return Adjacency.build(
            np.concatenate([sources, targets[~loops]]),
            np.concatenate([targets, sources[~loops]]),
            np.concatenate([out.edges, out.edges[~loops]]),
            max(out.size, self.into.size),
        )

    @property
    def count(self) -> int:
        """How many edges there are."""
        return len(self.out)

    def patched(
        self,
        removed: Ints,
        sources: Ints,
        targets: Ints,
        edges: Ints,
        sizes: tuple[int, int],
    ) -> Topology:
        """The same edges without some and with others; see `Adjacency.patched`."""
        return Topology(
            self.out.patched(removed, sources, targets, edges, sizes[0]),
            self.into.patched(removed, targets, sources, edges, sizes[1]),
        )
