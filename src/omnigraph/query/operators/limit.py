"""Limit: the rows from the offset up to the limit; what comes later is not computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from omnigraph.compute.evaluate import Bindings, value
from omnigraph.errors import UsageError
from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.frames import Frame
from omnigraph.query.measurements import Measurements


class Limit(Struct, frozen=True):
    """How many rows are returned (None is all), and how many are left out before them."""

    rows: int | None
    offset: int

    @staticmethod
    def of(plan: ReadPlan, parameters: Bindings) -> Limit:
        """The limit of a plan.

        Raises:
            UsageError: It is negative or null.
        """
        return Limit(_count(plan.limit, parameters), _count(plan.offset, parameters) or 0)

    @property
    def needed(self) -> int | None:
        """How many of the first rows are needed; None is all."""
        return None if self.rows is None else self.rows + self.offset

    def cut(self, frames: Iterable[Frame], measured: Measurements) -> Iterator[Frame]:
        """The matches from the offset up to the limit."""
        skipped = returned = 0
        for frame in frames:
            start = min(self.offset - skipped, frame.count)
            skipped += start
            stop = frame.count
            if self.rows is not None:
                stop = min(stop, start + self.rows - returned)
            returned += stop - start
            measured.finish("limit", returned)
            if stop - start == frame.count:
                yield frame
            elif stop > start:
                yield frame.slice(start, stop)
            if self.rows is not None and returned >= self.rows:
                return


def _count(expression: Any, parameters: Bindings) -> int | None:
    if expression is None:
        return None
    count = value(expression, parameters)
    if count is None or count < 0:
        raise UsageError(f"limit and offset are 0 or more, not {count}")
    return int(count)
