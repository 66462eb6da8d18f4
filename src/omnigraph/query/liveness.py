"""Which variables are still looked at after each step: the others are not carried along."""

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
Kept = Mapping[Step, frozenset[str]]


def kept_after(steps: Sequence[Step], needed: frozenset[str]) -> dict[Step, frozenset[str]]:
    """Tell what has to be kept after each step.

    Args:
        steps: Steps, in their order.
        needed: What is looked at after all of them.
    """
    found: dict[Step, frozenset[str]] = {}
    alive = needed
    for step in reversed(steps):
        found[step] = alive
        alive = alive | _looked_at(step)
        if isinstance(step, Without):
            # Of what is found inside only that it is there matters.
            found |= kept_after(step.steps, frozenset())
    return found


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
