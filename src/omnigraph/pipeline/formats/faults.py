"""What is wrong with an input: violations with the lines they are on.

The first hundred in the order of files and lines are described, all are counted by their rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from omnigraph.errors import Violation
from omnigraph.writes.rules import MOST_SHOWN

__all__ = ["MOST_SHOWN", "Faults", "together"]


@dataclass
class Faults:
    """The faults of a part of an input, with lines that count from the part's first one."""

    shown: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @staticmethod
    def of(faults: Sequence[Violation]) -> Faults:
        """All faults of a part: the first are reported, however it was cut out of its input."""
        return Faults(sorted(faults, key=_order)[:MOST_SHOWN], Counter(f.rule for f in faults))

    def count(self, rule: str, more: int) -> None:
        """Count faults that are not reported one by one."""
        if more:
            self.counts[rule] += more

    def moved(self, lines: int) -> Faults:
        """The same faults, with so many lines before them."""
        moved = [f if f.line is None else replace(f, line=f.line + lines) for f in self.shown]
        return Faults(moved, self.counts)


def together(parts: Iterable[Faults]) -> Faults:
    """The faults of several parts, in the order of files and lines.

    What is wrong with a whole column is reported once, however many parts have it.
    """
    shown: list[Violation] = []
    counts: Counter[str] = Counter()
    for part in parts:
        shown += part.shown
        counts.update(part.counts)
    once = list({str(fault): fault for fault in shown if fault.line is None}.values())
    lined = [fault for fault in shown if fault.line is not None]
    counts.subtract(fault.rule for fault in shown if fault.line is None)
    counts.update(fault.rule for fault in once)
    return Faults(sorted(once + lined, key=_order)[:MOST_SHOWN], counts)


def _order(fault: Violation) -> tuple[str, int, str, str]:
    return fault.file or "", fault.line or 0, fault.property or "", fault.message
