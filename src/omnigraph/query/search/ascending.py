"""Sets of numbers as ascending arrays: what they have in common, and all of them together.

When a good part of all numbers is there, a table of them is faster than looking for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.compute.arrays import distinct

Ints = npt.NDArray[np.int64]

#: A table is made when it has at most this many numbers for each that is there.
_DENSE = 8


def union(sets: Sequence[npt.NDArray[Any]]) -> Ints:
    """All numbers of ascending sets, each once."""
    sets = [some for some in sets if len(some)]
    if not sets:
        return np.zeros(0, np.int64)
    if len(sets) == 1:
        return sets[0].astype(np.int64)
    first = min(int(some[0]) for some in sets)
    span = max(int(some[-1]) for some in sets) + 1 - first
    if span > _DENSE * sum(map(len, sets)):
        return distinct(*sets).astype(np.int64)
    there = np.zeros(span, bool)
    for some in sets:
        there[some - first] = True
    return np.flatnonzero(there) + first


def common(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Where two ascending sets have the same numbers: places in the one, and in the other."""
    if not len(left) or not len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(left) < len(right):
        there, here = common(right, left)
        return here, there
    # The numbers of the larger set that the smaller one can have at all.
    begin = int(np.searchsorted(left, left.dtype.type(right[0])))
    end = int(np.searchsorted(left, left.dtype.type(right[-1]), "right"))
    if end - begin == int(right[-1]) - int(right[0]) + 1:
        # It has all of them.
        return right.astype(np.int64) - (int(right[0]) - begin), np.arange(len(right))
    span = int(right[-1]) - int(right[0]) + 1
    if span <= _DENSE * len(right):
        table = np.full(span, -1, np.int64)
        table[left[begin:end] - left.dtype.type(right[0])] = np.arange(begin, end)
        at = table[right - right[0]]
        there = np.flatnonzero(at >= 0)
        return at[there], there
    at = np.searchsorted(left, right.astype(left.dtype))
    at = np.minimum(at, len(left) - 1)
    there = np.flatnonzero(left[at] == right)
    return at[there], there


def among(wanted: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers of an ascending set are in another one."""
    found = np.zeros(len(wanted), bool)
    found[common(wanted, known)[0]] = True
    return found
