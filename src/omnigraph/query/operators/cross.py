"""Cross: all pairs of the matches of two frames, in blocks; scans and enumerations need it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame


def cross(budget: Budget, frame: Frame, other: Frame, operator: object) -> Iterator[Frame]:
    """All pairs of matches; `operator` is named when the time is over."""
    most = budget.block_rows
    step = max(1, most // max(1, other.count))
    for start in range(0, frame.count, step):
        rows = np.arange(start, min(start + step, frame.count))
        for first in range(0, other.count, most):
            budget.check_time(operator)
            right = other.slice(first, first + most)
            left = frame.take(np.repeat(rows, right.count))
            right = right.take(np.tile(np.arange(right.count), len(rows)))
            yield Frame(
                left.count,
                {**left.columns, **right.columns},
                {**left.kinds, **right.kinds},
                left.weights,
            )
