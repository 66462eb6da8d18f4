"""The topology of a graph: for each edge table its neighbours by position, out and in.

Built once per version of an edge table from its ids, held in memory and on disk. When a few edges
change, the neighbours of the nodes at their ends are laid over the arrays of the version before:
nothing is built or copied that has not changed.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from omnigraph.compute.arrays import distinct, ranges
from omnigraph.compute.threads import in_threads
from omnigraph.query.budget import run_long
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.files import Part

Ints = npt.NDArray[np.int64]
Ends = npt.NDArray[np.int32]
#: Places and numbers of neighbours: 32 bits as long as that is enough. Half the memory is half the
#: work when arrays are copied to be patched.
Narrow = npt.NDArray[np.signedinteger[Any]]


class Lists:
    """Neighbours and their edges, by place. Those in a file are verified when they are used."""

    def __init__(self, neighbours: Ends, edges: Narrow) -> None:
        self._neighbours = neighbours
        self._edges = edges

    @property
    def neighbours(self) -> Ends:
        """Positions of neighbours."""
        return self._neighbours

    @property
    def edges(self) -> Narrow:
        """The row ids of the edges to them."""
        return self._edges

    @property
    def arrays(self) -> tuple[Part, ...]:
        """What is held in memory."""
        return self._neighbours, self._edges

    def __len__(self) -> int:
        return len(self._neighbours)


_NONE = np.zeros(0, np.int64)
_NOTHING = Lists(np.zeros(0, np.int32), _NONE)
#: What fits into 32 bits.
_NARROW = np.iinfo(np.int32).max
#: How many bits a number of 64 bits has that is 0 or more.
_POSITIVE_BITS = 63


class Adjacency:
    """Neighbours in one direction; those of one position are together and in ascending order.

    Every neighbour has a place. The places of `base` come first; then those of `over`, which has
    the neighbours of positions that have changed since.

    Attributes:
        first: Where the neighbours of each position start.
        degrees: How many neighbours each position has.
    """

    def __init__(
        self,
        first: Narrow,
        degrees: Narrow,
        base: Packed,
        over: Lists = _NOTHING,
        touched: Ints = _NONE,
    ) -> None:
        self.first = first
        self.degrees = degrees
        self._base = base
        self._over = over
        #: The positions whose neighbours are in `over`, ascending.
        self._touched = touched

    @staticmethod
    def build(sources: Narrow, targets: Narrow, edges: Narrow, size: int) -> Adjacency:
        """Sort edges by their source, then by their target; those of a pair stay in their order."""
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(sources, minlength=size), out=starts[1:])
        return Packed(starts, _in_order(sources, targets, edges)).adjacency

    @cached_property
    def count(self) -> int:
        """How many edges there are."""
        return int(self.degrees.sum())

    def __len__(self) -> int:
        return self.count

    @property
    def size(self) -> int:
        """How many positions there are."""
        return len(self.first)

    @property
    def state(self) -> int:
        """What grows when more was worked out."""
        own = vars(self)
        state = len(own) + self._base.state
        for name in ("packed", "distinct"):
            other = own.get(name)
            if other is not None and other is not self and other is not self._base:
                state += other.state
        return state

    # --- single neighbours ---

    def counts(self, positions: Positions) -> Ints:
        """How many neighbours each of some positions has."""
        # As unsigned numbers, those below 0 are beyond the end as well.
        inside = positions.view(np.uint64) < self.size
        if inside.all():
            return self.degrees[positions].astype(np.int64)
        if not self.size:
            return np.zeros(len(positions), np.int64)
        known = self.degrees[np.where(inside, positions, 0)].astype(np.int64)
        return np.where(inside, known, 0)

    def places(self, positions: Positions, counts: Ints) -> Ints:
        """Where the neighbours of some positions are, one position's after the other's."""
        filled = counts > 0
        if not filled.all():
            # They may be beyond those that are known.
            positions, counts = positions[filled], counts[filled]
        return ranges(self.first[positions], counts)

    def ends(self, places: Ints) -> Positions:
        """The neighbours at some places."""
        return self._at(places, self._base.lists.neighbours, self._over.neighbours)

    def edges(self, places: Ints) -> Ints:
        """The row ids of the edges to the neighbours at some places."""
        return self._at(places, self._base.lists.edges, self._over.edges)

    def _at(
        self, places: Ints, base: npt.NDArray[np.integer], over: npt.NDArray[np.integer]
    ) -> Ints:
        if not len(over):
            return base[places].astype(np.int64)
        values = np.empty(len(places), np.int64)
        below = places < len(base)
        values[below] = base[places[below]]
        values[~below] = over[places[~below] - len(base)]
        return values

    def between(self, sources: Positions, targets: Positions) -> tuple[Ints, Ints]:
        """Where the edges between pairs start, and how many there are."""
        wanted = (sources << 32) | targets
        keys = self._base.keys
        start = np.searchsorted(keys, wanted, "left")
        counts = np.searchsorted(keys, wanted, "right") - start
        if len(self._touched):
            over = np.isin(sources, self._touched)
            keys = (np.repeat(self._touched, self.degrees[self._touched]) << 32) | (
                self._over.neighbours
            )
            first = np.searchsorted(keys, wanted[over], "left")
            start[over] = first + len(self._base.lists)
            counts[over] = np.searchsorted(keys, wanted[over], "right") - first
        return start, counts

    # --- all neighbours ---

    def gather(self, weights: Ints) -> Ints:
        """For each position the sum of its neighbours' weights."""
        starts = self._base.starts
        sums = np.zeros(self.size, np.int64)
        sums[: len(starts) - 1] = _sums(weights, self._base.lists.neighbours, starts)
        if len(self._touched):
            starts = np.concatenate([[0], np.cumsum(self.degrees[self._touched])])
            sums[self._touched] = _sums(weights, self._over.neighbours, starts)
        return sums

    @cached_property
    def packed(self) -> Packed:
        """The same neighbours without anything laid over others."""
        if not len(self._touched) and self.size == len(self._base.starts) - 1:
            return self._base
        places = self.places(np.arange(self.size), self.degrees)
        starts = np.concatenate([[0], np.cumsum(self.degrees)])
        neighbours = self.ends(places).astype(np.int32)
        return Packed(starts, Lists(neighbours, _narrow(self.edges(places))))

    @cached_property
    def distinct(self) -> Adjacency:
        """Each neighbour once, however many edges lead there; which edge is not told."""
        if not len(self._touched):
            base = self._base.distinct
            return self if base is self._base else base.adjacency
        degrees = self.degrees[self._touched]
        over = _without_repeats(_starts(degrees), self._over)
        if self._base.is_set and len(over[1]) == len(self._over):
            return self
        base = self._base.distinct
        adjacency = Adjacency(
            _extended(base.starts[:-1], self.size), _extended(base.degrees, self.size), base
        )
        return adjacency._laid_over(self._touched, np.diff(over[0]), over[1])

    # --- changes ---

    def patched(
        self, removed: Ints, sources: Narrow, targets: Narrow, edges: Narrow, size: int
    ) -> Adjacency:
        """The same edges without some and with others.

        Args:
            removed: Row ids of edges to leave out.
            sources: Where new edges start.
            targets: Where they end.
            edges: Their row ids.
            size: How many positions there are now.
        """
        touched = distinct(self._touched, sources, self._starts_of(removed))
        known = touched[touched < self.size]
        counts = self.counts(known)
        places = self.places(known, counts)
        old_edges = self.edges(places)
        stays = ~np.isin(old_edges, removed) if len(removed) else np.ones(len(old_edges), bool)
        all_sources = np.concatenate([np.repeat(known, counts)[stays], sources])
        all_targets = np.concatenate([self.ends(places)[stays], targets])
        all_edges = np.concatenate([old_edges[stays], edges])
        over = _in_order(all_sources, all_targets, all_edges)
        at = np.searchsorted(touched, all_sources)
        adjacency = Adjacency(
            _extended(self.first, size), _extended(self.degrees, size), self._base
        )._laid_over(touched, np.bincount(at, minlength=len(touched)), over)
        # Much that is laid over makes everything slower than putting it in its place.
        return (
            adjacency.packed.adjacency
            if len(over) > max(policy.MOST_LAID_OVER, len(adjacency) // 8)
            else adjacency
        )

    def _laid_over(self, touched: Ints, degrees: Narrow, over: Lists) -> Adjacency:
        first, all_degrees = self.first.copy(), self.degrees.copy()
        if len(self._base.lists) + len(over) > _NARROW:
            first = first.astype(np.int64)
        first[touched] = len(self._base.lists) + _starts(degrees)[:-1]
        all_degrees[touched] = degrees
        return Adjacency(first, all_degrees, self._base, over, touched)

    def _starts_of(self, edges: Ints) -> Ints:
        """The positions that some edges start from."""
        if not len(edges):
            return _NONE
        base = np.flatnonzero(np.isin(self._base.lists.edges, edges))
        in_base = np.searchsorted(self._base.starts, base, "right") - 1
        over = np.isin(self._over.edges, edges)
        return np.concatenate(
            [in_base, np.repeat(self._touched, self.degrees[self._touched])[over]]
        )


class Packed:
    """Neighbours of all positions, one position's after the other's.

    Attributes:
        starts: Where the neighbours of each position start; one more than there are positions.
        lists: The neighbours.
    """

    def __init__(self, starts: Narrow, lists: Lists, *, is_set: bool | None = None) -> None:
        fits = starts.dtype == np.int32 or len(lists) > _NARROW
        self.starts: Narrow = starts if fits else starts.astype(np.int32)
        self.lists = lists
        self._is_set = is_set

    @property
    def state(self) -> int:
        """What grows when more was worked out."""
        own = vars(self)
        other = own.get("distinct")
        return len(own) + (0 if other is None or other is self else other.state)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours, as queries follow them."""
        return Adjacency(self.starts[:-1], self.degrees, self)

    @cached_property
    def degrees(self) -> Narrow:
        """How many neighbours each position has."""
        return np.diff(self.starts)

    @cached_property
    def keys(self) -> Ints:
        """Source and target of each edge as one number, ascending."""

        def keys() -> Ints:
            sources = np.repeat(np.arange(len(self.starts) - 1), self.degrees)
            return (sources << 32) | self.lists.neighbours

        return run_long("read edges", len(self.lists), keys)

    @property
    def is_set(self) -> bool:
        """True when no two edges join the same positions."""
        if self._is_set is None:
            self._is_set = not _repeats(self.starts, self.lists.neighbours).any()
        return self._is_set

    @cached_property
    def distinct(self) -> Packed:
        """Each neighbour once."""
        return run_long("read edges", len(self.lists), self._without_repeats)

    def _without_repeats(self) -> Packed:
        if self.is_set:
            return self
        return Packed(*_without_repeats(self.starts, self.lists), is_set=True)


class Topology(Struct, frozen=True, dict=True):
    """The edges of one version of an edge table, from either end."""

    out: Adjacency
    into: Adjacency

    @staticmethod
    def build(
        sources: Narrow, targets: Narrow, edges: Narrow, source_size: int, target_size: int
    ) -> Topology:
        """Sort edges from both ends."""
        edges = _narrow(edges)
        sides = [(sources, targets, edges, source_size), (targets, sources, edges, target_size)]
        if len(edges) < policy.EDGES_SORTED_APART:
            return Topology(*(Adjacency.build(*side) for side in sides))
        return Topology(*in_threads(lambda side: Adjacency.build(*side), sides))

    @cached_property
    def both(self) -> Adjacency:
        """Edges from both ends; one that starts and ends at the same node is there once."""
        return run_long("read edges", self.count, self._from_both_ends)

    def _from_both_ends(self) -> Adjacency:
        out = self.out.packed
        sources = np.repeat(np.arange(len(out.degrees)), out.degrees)
        targets = out.lists.neighbours.astype(np.int64)
        edges = out.lists.edges
        loops = sources == targets
        return Adjacency.build(
            np.concatenate([sources, targets[~loops]]),
            np.concatenate([targets, sources[~loops]]),
            np.concatenate([edges, edges[~loops]]),
            max(self.out.size, self.into.size),
        )

    @property
    def count(self) -> int:
        """How many edges there are."""
        return len(self.out)

    def sizes(self) -> dict[int, int]:
        """The bytes of all arrays, by what tells an array from others; some may be shared."""
        sizes: dict[int, int] = {}
        for part in self._parts():
            for value in vars(part).values():
                for array in _arrays(value):
                    # A view has the bytes of what it looks at.
                    whole = array.base if isinstance(array.base, np.ndarray) else array
                    sizes[id(whole)] = whole.nbytes
        return sizes

    @property
    def state(self) -> int:
        """What differs when more was worked out; every query looks at it."""
        state = len(vars(self)) + self.out.state + self.into.state
        both = vars(self).get("both")
        return state if both is None else state + both.state

    def _parts(self) -> list[Any]:
        """All that has arrays, as far as it was worked out."""
        parts: list[Any] = [self, self.out, self.into]
        # The list grows while it is gone through.
        for part in parts:
            for value in vars(part).values():
                if isinstance(value, Adjacency | Packed) and not any(value is p for p in parts):
                    parts.append(value)
        return parts

    def patched(
        self,
        removed: Ints,
        sources: Narrow,
        targets: Narrow,
        edges: Narrow,
        sizes: tuple[int, int],
    ) -> Topology:
        """The same edges without some and with others; see `Adjacency.patched`."""
        return Topology(
            self.out.patched(removed, sources, targets, edges, sizes[0]),
            self.into.patched(removed, targets, sources, edges, sizes[1]),
        )


def _arrays(value: Any) -> tuple[Part, ...]:
    if isinstance(value, Lists):
        return value.arrays
    return (value,) if isinstance(value, np.ndarray) else ()


def _in_order(sources: Narrow, targets: Narrow, edges: Narrow) -> Lists:
    """The targets and the edges, in the order of the sources, then of the targets."""
    count = len(edges)
    pairs = (sources.astype(np.int64) << 32) | targets
    if count < 2 or bool((pairs[1:] >= pairs[:-1]).all()):
        # As they were loaded from a sorted file.
        return Lists(targets.astype(np.int32), edges)
    target_bits, place_bits = int(targets.max()).bit_length(), count.bit_length()
    if int(sources.max()).bit_length() + target_bits + place_bits > _POSITIVE_BITS:
        order = np.argsort(pairs, kind="stable")
        return Lists(targets[order].astype(np.int32), edges[order])
    del pairs
    # Numbers are sorted in less than half of the time that it takes to find out their order. So
    # each has its place at its end.
    numbers = (sources.astype(np.int64) << target_bits) | targets
    numbers = (numbers << place_bits) | np.arange(count)
    numbers.sort()
    neighbours = ((numbers >> place_bits) & ((1 << target_bits) - 1)).astype(np.int32)
    return Lists(neighbours, edges[numbers & ((1 << place_bits) - 1)])


def _narrow(numbers: Narrow) -> Narrow:
    """Numbers that are 0 or more, in 32 bits if they fit."""
    fits = numbers.dtype.itemsize <= 4 or not len(numbers) or int(numbers.max()) <= _NARROW
    return numbers.astype(np.int32, copy=False) if fits else numbers


def _sums(weights: Ints, neighbours: Ends, starts: Narrow) -> Ints:
    """The sum of the weights of each list of neighbours."""
    sums = np.zeros(len(starts) - 1, np.int64)
    # By parts that stay in the processor's cache.
    cuts = np.searchsorted(starts, np.arange(0, len(neighbours), policy.SUMMED_AT_ONCE)).tolist()
    for low, high in pairwise([*cuts, len(sums)]):
        first, last = int(starts[low]), int(starts[high])
        if first == last:
            continue
        filled = np.flatnonzero(starts[low:high] < starts[low + 1 : high + 1])
        values = weights[neighbours[first:last]]
        sums[low + filled] = np.add.reduceat(values, starts[low:high][filled] - first)
    return sums


def _starts(degrees: Narrow) -> Ints:
    return np.concatenate([[0], np.cumsum(degrees)])


def _repeats(starts: Narrow, neighbours: Ends) -> npt.NDArray[np.bool_]:
    """Which neighbours are the same as the one before, of the same position."""
    again = np.zeros(len(neighbours), bool)
    again[1:] = neighbours[1:] == neighbours[:-1]
    inner = starts[1:-1]
    again[inner[inner < len(again)]] = False
    return again


def _without_repeats(starts: Narrow, lists: Lists) -> tuple[Ints, Lists]:
    """Lists with each neighbour once."""
    is_first = ~_repeats(starts, lists.neighbours)
    before = _starts(is_first.astype(np.int64))
    return before[starts], Lists(lists.neighbours[is_first], lists.edges[is_first])


def _extended(array: Narrow, size: int) -> Narrow:
    """An array with zeros for new positions."""
    if size <= len(array):
        return array
    return np.concatenate([array, np.zeros(size - len(array), array.dtype)])
