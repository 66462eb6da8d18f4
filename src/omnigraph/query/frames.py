"""Frames: blocks of matches, as columns of positions, one per variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from omnigraph.query.tables.columns import Positions


class Frame(Struct, frozen=True):
    """A block of matches.

    Attributes:
        count: How many matches there are.
        columns: Per variable the position of what it is bound to; -1 is null.
        kinds: Of variables that may have several types: which one, by its place among them.
        weights: How many matches each row stands for; None is one.
    """

    count: int
    columns: dict[str, Positions]
    kinds: dict[str, npt.NDArray[np.int8]]
    weights: npt.NDArray[np.int64] | None = None

    def take(self, at: npt.NDArray[Any]) -> Frame:
        """Rows by their places, or by a mask."""
        count = int(at.sum()) if at.dtype == np.bool_ else len(at)
        return Frame(
            count,
            {name: column[at] for name, column in self.columns.items()},
            {name: kind[at] for name, kind in self.kinds.items()},
            None if self.weights is None else self.weights[at],
        )

    def slice(self, start: int, stop: int) -> Frame:
        """Rows that follow each other; nothing is copied."""
        return Frame(
            min(stop, self.count) - start,
            {name: column[start:stop] for name, column in self.columns.items()},
            {name: kind[start:stop] for name, kind in self.kinds.items()},
            None if self.weights is None else self.weights[start:stop],
        )

    def only(self, names: frozenset[str]) -> Frame:
        """The same rows with fewer variables."""
        return Frame(
            self.count,
            {name: column for name, column in self.columns.items() if name in names},
            {name: kind for name, kind in self.kinds.items() if name in names},
            self.weights,
        )

    def bind(
        self, name: str, positions: Positions, kinds: npt.NDArray[np.int8] | None = None
    ) -> Frame:
        """The same rows with one more variable."""
        all_kinds = dict(self.kinds)
        if kinds is not None:
            all_kinds[name] = kinds
        return Frame(self.count, {**self.columns, name: positions}, all_kinds, self.weights)

    def weighted(self, weights: npt.NDArray[np.int64]) -> Frame:
        """The same rows, each standing for more matches."""
        total = weights if self.weights is None else self.weights * weights
        return Frame(self.count, self.columns, self.kinds, total)

    @property
    def bytes(self) -> int:
        """How much memory the columns use."""
        size = sum(c.nbytes for c in self.columns.values())
        size += sum(k.nbytes for k in self.kinds.values())
        return size if self.weights is None else size + self.weights.nbytes


def concat(frames: list[Frame]) -> Frame:
    """Put frames with the same variables together."""
    if len(frames) == 1:
        return frames[0]
    first = frames[0]
    weights = None
    if any(f.weights is not None for f in frames):
        weights = np.concatenate(
            [np.ones(f.count, np.int64) if f.weights is None else f.weights for f in frames]
        )
    return Frame(
        sum(f.count for f in frames),
        {name: np.concatenate([f.columns[name] for f in frames]) for name in first.columns},
        {name: np.concatenate([f.kinds[name] for f in frames]) for name in first.kinds},
        weights,
    )
