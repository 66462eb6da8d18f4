"""What is wrong with an input: where, which column, which kind of fault, and why.

The first hundred faults in the order of files and lines are told, all are counted by their kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

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

    def add(self, fault: LoadFault) -> None:
        """Note one fault; they come in the order of lines."""
        self.counts[fault.kind] += 1
        if len(self.shown) < MOST_SHOWN:
            self.shown.append(fault)

    def count(self, kind: str, more: int) -> None:
        """Note faults that are not told one by one."""
        if more:
            self.counts[kind] += more

    def moved(self, lines: int) -> Faults:
        """The same faults, with so many lines before them."""
        moved = [f if f.line is None else replace(f, line=f.line + lines) for f in self.shown]
        return Faults(moved, self.counts)


def together(parts: Iterable[Faults]) -> Faults:
    """The faults of several parts, in the order of files and lines."""
    shown: list[LoadFault] = []
    counts: Counter[str] = Counter()
    for part in parts:
        shown += part.shown
        counts.update(part.counts)
    shown.sort(key=lambda f: (f.file or "", f.line or 0, f.column or "", f.reason))
    return Faults(shown[:MOST_SHOWN], counts)
