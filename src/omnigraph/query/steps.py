"""The steps of a physical plan, as `explain` prints them.

A pattern is matched by steps, each of which takes blocks of matches and returns blocks of matches.
They are plain values; `operators` has what runs them, one a file.
"""

from __future__ import annotations

from msgspec import Struct

from omnigraph.language.query.expressions import Checked
from omnigraph.language.query.plan import Hop


class Scan(Struct, frozen=True, eq=False):
    """Bind a variable to all nodes of its types that pass the filters."""

    variable: str
    types: tuple[str, ...]
    filters: tuple[Checked, ...]
    estimate: float

    def __str__(self) -> str:
        return f"scan {self.variable}: {', '.join(self.types)}{_where(self.filters)}"


class Enumerate(Struct, frozen=True, eq=False):
    """Bind both ends of a hop, and perhaps the edge, to all edges of its type."""

    hop: Hop
    filters: tuple[Checked, ...]
    estimate: float

    def __str__(self) -> str:
        return f"edges {_hop(self.hop)}{_where(self.filters)}"


class Expand(Struct, frozen=True, eq=False):
    """Follow a hop from a bound variable to one that is not bound yet."""

    hop: Hop
    start: str
    filters: tuple[Checked, ...]
    estimate: float

    def __str__(self) -> str:
        return f"expand {_hop(self.hop)} from {self.start}{_where(self.filters)}"


class Probe(Struct, frozen=True, eq=False):
    """Keep the matches whose two bound ends are joined by a hop."""

    hop: Hop
    filters: tuple[Checked, ...]
    estimate: float

    def __str__(self) -> str:
        return f"probe {_hop(self.hop)}{_where(self.filters)}"


class Exists(Struct, frozen=True, eq=False):
    """Keep the matches from which a hop leads to anything."""

    hop: Hop
    start: str | None
    estimate: float

    def __str__(self) -> str:
        return f"exists {_hop(self.hop)}"


class Weigh(Struct, frozen=True, eq=False):
    """Count what hangs at a variable, instead of listing it."""

    variable: str
    hops: tuple[CountedHop, ...]
    estimate: float

    def __str__(self) -> str:
        return f"count {', '.join(map(str, self.hops))} at {self.variable}"


class CountedHop(Struct, frozen=True, eq=False):
    """A hop to a variable that is only counted, with what hangs at that one."""

    hop: Hop
    start: str
    end: str
    types: tuple[str, ...]
    filters: tuple[Checked, ...]
    hops: tuple[CountedHop, ...]

    def __str__(self) -> str:
        more = "".join(f" ({inner})" for inner in self.hops)
        return f"{_hop(self.hop)}{_where(self.filters)}{more}"


class Where(Struct, frozen=True, eq=False):
    """Keep the matches for which a condition is true."""

    condition: Checked
    estimate: float

    def __str__(self) -> str:
        return f"filter {self.condition}"


class Extend(Struct, frozen=True, eq=False):
    """Extend the matches by what an optional pattern finds, or by null."""

    steps: tuple[Step, ...]
    variables: tuple[str, ...]
    estimate: float

    def __str__(self) -> str:
        return f"optional {', '.join(self.variables)}"


class Without(Struct, frozen=True, eq=False):
    """Drop the matches for which a pattern matches."""

    steps: tuple[Step, ...]
    outer: tuple[str, ...]
    estimate: float

    def __str__(self) -> str:
        return f"not at {', '.join(self.outer)}" if self.outer else "not"


Step = Scan | Enumerate | Expand | Probe | Exists | Weigh | Where | Extend | Without


def _hop(hop: Hop) -> str:
    return str(hop).removeprefix("hop ")


def _where(filters: tuple[Checked, ...]) -> str:
    return f" where {' and '.join(str(f) for f in filters)}" if filters else ""
