"""What is wrong with an input: where, which column, which kind of fault, and why.

The first hundred faults in the order of files and lines are told, all are counted by their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from omnigraph.errors import LoadFault

MOST_SHOWN = 100


@dataclass
class Faults:
    """The faults of a part of an input, with lines that count from the part's first one."""

    shown: list[LoadFault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @staticmethod
    def of(faults: Sequence[LoadFault]) -> Faults:
        """All faults of a part: the first are told, however it was cut out of its input."""
        return Faults(sorted(faults, key=_order)[:MOST_SHOWN], Counter(f.kind for f in faults))

    def count(self, kind: str, more: int) -> None:
        """Note faults that are not told one by one."""
        if more:
            self.counts[kind] += more

    def moved(self, lines: int) -> Faults:
        """The same faults, with so many lines before them."""
        moved = [f if f.line is None else replace(f, line=f.line + lines) for f in self.shown]
        return Faults(moved, self.counts)


def together(parts: Iterable[Faults]) -> Faults:
    """The faults of several parts, in the order of files and lines.

    What is wrong with a whole column is told once, however many parts have it.
    """
    shown: list[LoadFault] = []
    counts: Counter[str] = Counter()
    for part in parts:
        shown += part.shown
        counts.update(part.counts)
    once = list(dict.fromkeys(fault for fault in shown if fault.line is None))
    lined = [fault for fault in shown if fault.line is not None]
    counts.subtract(fault.kind for fault in shown if fault.line is None)
    counts.update(fault.kind for fault in once)
    return Faults(sorted(once + lined, key=_order)[:MOST_SHOWN], counts)


def _order(fault: LoadFault) -> tuple[str, int, str, str]:
    return fault.file or "", fault.line or 0, fault.column or "", fault.reason
