"""Extend: what an optional pattern adds to matches; its variables are null where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.row_numbers import numbered
from omnigraph.query.operators.runner import run_steps
from omnigraph.query.steps import Extend


def extend(context: Context, step: Extend, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Extend the matches by what the steps inside find, or by null."""
    for frame in stream:
        extended = np.zeros(frame.count, bool)
        start, row = numbered(frame)
        for block in run_steps(context, step.steps, start):
            extended[block.columns[row]] = True
            yield block.only(frozenset(block.columns) - {row})
        others = frame.take(~extended)
        for variable in step.variables:
            nothing = np.full(others.count, -1, np.int64)
            kinds = np.zeros(others.count, np.int8)
            mixed = kinds if len(context.types[variable]) > 1 else None
            others = others.bind(variable, nothing, mixed)
        yield others
