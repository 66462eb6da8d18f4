"""What the operators of one query share: what they read, its parameters, its budget, its clocks."""

from __future__ import annotations

from msgspec import Struct, field

from omnigraph.compute.evaluate import Bindings
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame
from omnigraph.query.live_variables import LiveAfter
from omnigraph.query.measurements import Measurements
from omnigraph.query.source import Source
from omnigraph.query.steps import CountedHop, Step
from omnigraph.query.tables.topology import Ints
from omnigraph.query.values import Types

#: What the names of columns begin with that number the rows of a frame; no variable's does.
ROW_NUMBERS = "__row"


class Context(Struct):
    """What the operators of one query share.

    Attributes:
        live_after: For each step the variables that are looked at afterwards.
        measured: What the operators did.
        ways: Of hops that were counted often: the number of ways from all positions.
        counted_edges: At how many edges each of them was counted.
    """

    source: Source
    types: Types
    parameters: Bindings
    budget: Budget
    live_after: LiveAfter = field(default_factory=dict)
    measured: Measurements = field(default_factory=Measurements)
    ways: dict[CountedHop, Ints] = field(default_factory=dict)
    counted_edges: dict[CountedHop, int] = field(default_factory=dict)

    def of_one(self, variable: str, type: str) -> Context:
        """The same for a pattern of one variable."""
        return Context(self.source, {variable: (type,)}, self.parameters, self.budget)

    def only_live(self, step: Step, frame: Frame) -> Frame:
        """The same matches without variables that nobody looks at after a step."""
        live = self.live_after.get(step)
        if live is None or frame.columns.keys() <= live:
            return frame
        return frame.only(live | {name for name in frame.columns if name.startswith(ROW_NUMBERS)})
