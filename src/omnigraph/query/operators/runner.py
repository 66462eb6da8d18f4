"""Runs the steps of a pattern: each reads the blocks of the one before, and its time is measured.

After each step the variables are dropped that nobody looks at any more, and the budget's time is
checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame, concat
from omnigraph.query.measurements import Measured
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import keep_matching
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


def run_steps(context: Context, steps: Iterable[Step], start: Frame) -> Iterator[Frame]:
    """Run steps on a block of matches."""
    stream: Iterator[Frame] = iter([start])
    for step in steps:
        stream = _measured(context, step, _apply(context, step, stream))
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


def _apply(context: Context, step: Step, stream: Iterator[Frame]) -> Iterator[Frame]:
    match step:
        case Scan():
            return scan(context, step, stream)
        case Where():
            return (keep_matching(context, frame, (step.condition,)) for frame in stream)
        case Expand():
            from omnigraph.query.operators.expand import expand

            return expand(context, step, stream)
        case Weigh():
            from omnigraph.query.operators.weigh import weigh

            return weigh(context, step, stream)
        case Probe():
            from omnigraph.query.operators.probe import probe

            return probe(context, step, stream)
        case Exists():
            from omnigraph.query.operators.exists import exists

            return exists(context, step, stream)
        case Extend():
            from omnigraph.query.operators.extend import extend

            return extend(context, step, stream)
        case Without():
            from omnigraph.query.operators.without import without

            return without(context, step, stream)
        case Enumerate():
            from omnigraph.query.operators.enumerate import enumerate_edges

            return enumerate_edges(context, step, stream)


def gathered(stream: Iterable[Frame], budget: Budget, operator: str) -> Frame | None:
    """All blocks as one; None when there are none."""
    blocks = []
    for frame in stream:
        budget.keep(frame.bytes, operator)
        blocks.append(frame)
    return concat(blocks) if blocks else None
