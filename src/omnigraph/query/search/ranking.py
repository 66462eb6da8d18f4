"""Ranks of rows by a score: of equal scores the least id is the first, then the first type."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from omnigraph.query.operators.ranks import ranks
from omnigraph.query.source import Source
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions, TableColumns
from omnigraph.query.tables.large_texts import joined

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class _Ids(Struct):
    """The places of ids in their order, by position, once they are known. Safe to share."""

    places: npt.NDArray[np.int32] | None = None
    guard: threading.Lock = field(default_factory=threading.Lock)


def ranked(source: Source, scores: Mapping[str, tuple[Positions, Floats]]) -> dict[str, Ints]:
    """The ranks of rows, from 1 for the lowest score.

    Args:
        source: Where the rows are.
        scores: Per type some positions, and their scores.
    """
    score = np.concatenate([mine for _, mine in scores.values()])
    sizes = [len(mine) for _, mine in scores.values()]
    order = np.argsort(score)
    in_order = score[order]
    same = in_order[1:] == in_order[:-1]
    if same.any():
        tied = np.zeros(len(score), bool)
        tied[1:] = same
        tied[:-1] |= same
        new = np.ones(len(score), np.int64)
        new[1:] = ~same
        order[tied] = _untied(source, scores, order[tied], np.cumsum(new)[tied])
    places = np.empty(len(score), np.int64)
    places[order] = np.arange(1, len(score) + 1)
    return dict(zip(scores, np.split(places, np.cumsum(sizes)[:-1]), strict=True))


def _untied(
    source: Source, scores: Mapping[str, tuple[Positions, Floats]], rows: Ints, groups: Ints
) -> Ints:
    """Rows of all types in the order of groups, which they are in already, and then of ids."""
    positions = np.concatenate([mine for mine, _ in scores.values()])[rows]
    if len(scores) == 1:
        (type,) = scores
        columns = source.columns(type)
        places = _places(columns, positions)
        return rows[np.argsort(groups * (int(places.max()) + 1) + places)]
    ends = np.cumsum([len(mine) for mine, _ in scores.values()])
    kinds = np.searchsorted(ends, rows, "right")
    ids, at = [], []
    for kind, type in enumerate(scores):
        mine = np.flatnonzero(kinds == kind)
        ids.append(source.columns(type).fetch(positions[mine], ["id"])["id"])
        at.append(mine)
    places = np.empty(len(rows), np.int64)
    places[np.concatenate(at)] = ranks(joined(ids), False)
    return rows[np.lexsort([kinds, places, groups])]


def _places(columns: TableColumns, positions: Positions) -> Ints:
    """Numbers that order rows like their ids do."""
    known = columns.search_data(_Ids, "id")
    if known.places is None and len(positions) * policy.RANKED_PART < columns.rows:
        return ranks(columns.fetch(positions, ["id"])["id"], False).astype(np.int64)
    with known.guard:
        if known.places is None:
            known.places = ranks(columns.columns(["id"])["id"], False).astype(np.int32)
            columns.grow(known.places.nbytes)
    return known.places[positions].astype(np.int64)
