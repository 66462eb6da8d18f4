"""Which variables are live after each step: nobody looks at the others, so they are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from omnigraph.language.query.expressions import Checked, variables
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

#: For each step the variables that are looked at afterwards.
LiveAfter = Mapping[Step, frozenset[str]]


def live_after(steps: Sequence[Step], needed: frozenset[str]) -> dict[Step, frozenset[str]]:
    """The variables that are looked at after each step.

    Args:
        steps: Steps, in their order.
        needed: What is looked at after all of them.
    """
    after: dict[Step, frozenset[str]] = {}
    live = needed
    for step in reversed(steps):
        after[step] = live
        live = live | _looked_at(step)
        if isinstance(step, Without):
            # Of what matches inside only its existence matters.
            after |= live_after(step.steps, frozenset())
    return after


def _looked_at(step: Step) -> frozenset[str]:
    match step:
        case Scan():
            return _named(step.filters)
        case Enumerate() | Expand() | Probe():
            ends = (step.hop.source, step.hop.target, step.hop.variable)
            return _named(step.filters) | {end for end in ends if end is not None}
        case Exists():
            return frozenset() if step.start is None else frozenset({step.start})
        case Weigh():
            return frozenset({step.variable})
        case Where():
            return variables(step.condition)
        case Extend() | Without():
            return frozenset().union(*(_looked_at(inner) for inner in step.steps))


def _named(conditions: Iterable[Checked]) -> frozenset[str]:
    return frozenset().union(*(variables(condition) for condition in conditions))
