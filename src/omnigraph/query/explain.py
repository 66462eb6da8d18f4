"""What a query is going to do, step by step, and what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.measurements import Measured, Measurements, Stage
from omnigraph.query.steps import Extend, Step, Without


class ExplainedStep(Struct, frozen=True):
    """A step of a plan, in the order of execution.

    Attributes:
        depth: How deep it is nested in `optional` and `not`.
        text: What it does.
        estimate: How many matches are thought to come out of it; None for what follows matching.
        rows: How many came out of it; None when it did not run.
        seconds: The time it took by itself; None when it did not run.
    """

    depth: int
    text: str
    estimate: float | None = None
    rows: int | None = None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain values."""
        return {
            "depth": self.depth,
            "step": self.text,
            "estimate": None if self.estimate is None else round(self.estimate),
            "rows": self.rows,
            "seconds": self.seconds,
        }


class Explanation(Struct, frozen=True):
    """How a query is run. `str` returns it as a table."""

    query: str
    commit: str
    steps: tuple[ExplainedStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {
            "query": self.query,
            "commit": self.commit,
            "steps": [step.to_dict() for step in self.steps],
        }

    def __str__(self) -> str:
        measured = any(step.rows is not None for step in self.steps)
        head = ["step", "estimate", *(["rows", "time"] if measured else [])]
        rows = [head]
        for step in self.steps:
            cells = ["  " * step.depth + step.text, _number(step.estimate)]
            rows.append(cells + ([_number(step.rows), _time(step.seconds)] if measured else []))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            ).rstrip()
            for row in rows
        )


def explained(
    plan: ReadPlan,
    steps: Sequence[Step],
    indexes: Mapping[Step, Sequence[str]],
    measured: Measurements | None = None,
    answer: Measured | None = None,
    search: str | None = None,
) -> tuple[ExplainedStep, ...]:
    """The steps of a plan; with what its operators and all of it did, if it ran.

    Args:
        plan: The plan.
        steps: How its pattern is matched.
        indexes: The names of the indexes that steps ask.
        measured: What the operators did.
        answer: What all of it did.
        search: How an index is asked, if it is.
    """
    explained = list(_matching(steps, indexes, None if measured is None else measured.steps, 0))
    if measured is None or answer is None:
        return (*explained, *(ExplainedStep(0, text) for _, text in _following(plan, search)))
    before = measured.steps.get(steps[-1], Measured()).seconds if steps else 0.0
    for stage, text in _following(plan, search):
        # As those of steps, clocks run from the start.
        clock = answer if stage is None else measured.stages.get(stage, Measured(0, before))
        seconds = max(0.0, clock.seconds - before)
        before = max(before, clock.seconds)
        explained.append(ExplainedStep(0, text, None, clock.rows, seconds))
    return tuple(explained)


def _following(plan: ReadPlan, search: str | None) -> Iterator[tuple[Stage | None, str]]:
    """What follows matching; what is returned comes last, and is no stage."""
    if search is not None:
        yield "search", search
    if plan.grouped:
        yield "group", f"group by {', '.join(plan.keys)}" if plan.keys else "group all matches"
    if plan.distinct:
        yield "distinct", "distinct"
    if plan.order:
        yield "order", f"order {', '.join(map(str, plan.order))}"
    if plan.limit is not None:
        offset = f" offset {plan.offset}" if plan.offset is not None else ""
        yield "limit", f"limit {plan.limit}{offset}"
    yield None, f"return {', '.join(map(str, plan.outputs))}"


def _matching(
    steps: Sequence[Step],
    indexes: Mapping[Step, Sequence[str]],
    measured: Mapping[Step, Measured] | None,
    depth: int,
) -> Iterator[ExplainedStep]:
    before = 0.0
    for step in steps:
        rows = seconds = None
        if measured is not None:
            did = measured.get(step, Measured())
            # A step's own clock runs while it waits for those before it.
            rows, seconds = did.rows, max(0.0, did.seconds - before)
            before = did.seconds
        names = indexes.get(step, ())
        text = f"{step} by {_named(names)}" if names else str(step)
        yield ExplainedStep(depth, text, step.estimate, rows, seconds)
        if isinstance(step, Extend | Without):
            yield from _matching(step.steps, indexes, measured, depth + 1)


def _named(indexes: Sequence[str]) -> str:
    return f"the index{'es' * (len(indexes) > 1)} {', '.join(indexes)}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{round(value):,}"


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.2f} ms"
