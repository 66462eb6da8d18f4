"""Sorted sets of numbers, as arrays: their union, and what two have in common.

When a good part of all numbers is in a set, a table of them is faster than looking for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.compute.arrays import distinct
from omnigraph.query.tables import policy

Ints = npt.NDArray[np.int64]


def union(sets: Sequence[npt.NDArray[Any]]) -> Ints:
    """All numbers of sorted sets, each once."""
    sets = [numbers for numbers in sets if len(numbers)]
    if not sets:
        return np.zeros(0, np.int64)
    if len(sets) == 1:
        return sets[0].astype(np.int64)
    first = min(int(numbers[0]) for numbers in sets)
    span = max(int(numbers[-1]) for numbers in sets) + 1 - first
    if span > policy.DENSE_SET * sum(map(len, sets)):
        return distinct(*sets).astype(np.int64)
    table = np.zeros(span, bool)
    for numbers in sets:
        table[numbers - first] = True
    return np.flatnonzero(table) + first


def common(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Where two sorted sets have the same numbers: places in the one, and in the other."""
    if not len(left) or not len(right):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(left) < len(right):
        in_right, in_left = common(right, left)
        return in_left, in_right
    # The numbers of the larger set that the smaller one can have at all.
    begin = int(np.searchsorted(left, left.dtype.type(right[0])))
    end = int(np.searchsorted(left, left.dtype.type(right[-1]), "right"))
    if end - begin == int(right[-1]) - int(right[0]) + 1:
        # It has all of them.
        return right.astype(np.int64) - (int(right[0]) - begin), np.arange(len(right))
    span = int(right[-1]) - int(right[0]) + 1
    if span <= policy.DENSE_SET * len(right):
        table = np.full(span, -1, np.int64)
        table[left[begin:end] - left.dtype.type(right[0])] = np.arange(begin, end)
        at = table[right - right[0]]
        shared = np.flatnonzero(at >= 0)
        return at[shared], shared
    at = np.searchsorted(left, right.astype(left.dtype))
    at = np.minimum(at, len(left) - 1)
    shared = np.flatnonzero(left[at] == right)
    return at[shared], shared


def among(wanted: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers of a sorted set are in another one."""
    flags = np.zeros(len(wanted), bool)
    flags[common(wanted, known)[0]] = True
    return flags
