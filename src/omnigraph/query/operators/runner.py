"""Runs the steps of a pattern: each reads the blocks of the one before, and its time is measured.

After each step the variables are dropped that nobody looks at any more, and the budget's time is
checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame, concat
from omnigraph.query.measurements import Measured
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import where
from omnigraph.query.operators.scan import scan
from omnigraph.query.steps import (
    Enumerate,
    Exists,
    Expand,
    Extend,
    Probe,
    Scan,
    Step,
    Weigh,
    Where,
    Without,
)

Operator = Callable[[Context, Any, Iterator[Frame]], Iterator[Frame]]


def run_steps(context: Context, steps: Iterable[Step], start: Frame) -> Iterator[Frame]:
    """Run steps on a block of matches."""
    stream: Iterator[Frame] = iter([start])
    for step in steps:
        stream = _measured(context, step, _operator(type(step))(context, step, stream))
    return stream


def _measured(context: Context, step: Step, stream: Iterator[Frame]) -> Iterator[Frame]:
    measured = context.measured.steps.setdefault(step, Measured())
    while True:
        begun = time.perf_counter()
        frame = next(stream, None)
        measured.seconds += time.perf_counter() - begun
        if frame is None:
            return
        measured.rows += frame.count
        context.budget.check_time(step)
        if frame.count:
            yield context.only_live(step, frame)


@cache
def _operator(kind: type[Step]) -> Operator:
    """What runs the steps of a kind; imported once, when the first of them is run."""
    if kind is Scan:
        return scan
    if kind is Where:
        return where
    if kind is Expand:
        from omnigraph.query.operators.expand import expand

        return expand
    if kind is Weigh:
        from omnigraph.query.operators.weigh import weigh

        return weigh
    if kind is Probe:
        from omnigraph.query.operators.probe import probe

        return probe
    if kind is Exists:
        from omnigraph.query.operators.exists import exists

        return exists
    if kind is Extend:
        from omnigraph.query.operators.extend import extend

        return extend
    if kind is Without:
        from omnigraph.query.operators.without import without

        return without
    assert kind is Enumerate
    from omnigraph.query.operators.enumerate import enumerate_edges

    return enumerate_edges


def gathered(stream: Iterable[Frame], budget: Budget, operator: str) -> Frame | None:
    """All blocks as one; None when there are none."""
    blocks = []
    for frame in stream:
        budget.keep(frame.bytes, operator)
        blocks.append(frame)
    return concat(blocks) if blocks else None
