"""Without: drops the matches for which a pattern matches; it binds nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.row_numbers import numbered
from omnigraph.query.operators.runner import run_steps
from omnigraph.query.steps import Without


def without(context: Context, step: Without, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Drop the matches for which the steps inside find something."""
    for frame in stream:
        dropped = np.zeros(frame.count, bool)
        start, row = numbered(frame, frozenset(step.outer))
        for block in run_steps(context, step.steps, start):
            dropped[block.columns[row]] = True
        yield frame.take(~dropped)
