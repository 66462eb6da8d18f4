"""What a query did: how many rows came out of each operator, and how long that took."""

from __future__ import annotations

import time
from typing import Literal

from msgspec import Struct, field

from omnigraph.query.steps import Step

#: What may follow matching, in this order.
Stage = Literal["search", "group", "distinct", "order", "limit"]


class Measured(Struct):
    """What an operator did: how many rows came out of it, and the time that it took."""

    rows: int = 0
    seconds: float = 0.0


class Measurements(Struct):
    """What the operators of one query did. All clocks run from its start.

    Attributes:
        steps: Of the steps of matching.
        stages: Of what followed.
        returning: How many seconds it took to return what is returned so far.
    """

    steps: dict[Step, Measured] = field(default_factory=dict)
    stages: dict[Stage, Measured] = field(default_factory=dict)
    returning: float = 0.0
    _started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """How long the query has been running."""
        return time.perf_counter() - self._started

    def finish(self, stage: Stage, rows: int) -> None:
        """Note that so many rows have come out of a stage by now."""
        self.stages[stage] = Measured(rows, self.seconds - self.returning)
