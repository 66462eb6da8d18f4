"""From a pattern to steps: where to start, which hop next, and what is only counted.

Sizes are estimated from row counts, declared keys and the kinds of filters. A plan is right
whatever the estimates are; they decide only how fast it is.
"""

from __future__ import annotations

from msgspec.structs import replace

from omnigraph.language.query.expressions import (
    Checked,
    Compare,
    Entity,
    IsNull,
    PropertyOf,
    variables,
    walk,
)
from omnigraph.language.query.plan import Hop, NodePattern, Pattern
from omnigraph.query.source import Source
from omnigraph.query.steps import (
    CountedHop,
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
from omnigraph.query.tables import policy

_FLIPPED = {"out": "in", "in": "out", "both": "both"}


class Planner:
    """Plans the patterns of one query."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.types: dict[str, tuple[str, ...]] = {}

    def plan(
        self,
        pattern: Pattern,
        bound: frozenset[str],
        needed: frozenset[str],
        *,
        counted: bool = False,
    ) -> tuple[Step, ...]:
        """Plan a pattern.

        Args:
            pattern: What to match.
            bound: Variables that are bound already.
            needed: Variables that are looked at afterwards.
            counted: Of other variables only the number of matches matters.
        """
        return _PatternPlan(self, self._source, pattern, bound, needed, counted).steps()


class _PatternPlan:
    """Plans one pattern."""

    def __init__(
        self,
        planner: Planner,
        source: Source,
        pattern: Pattern,
        bound: frozenset[str],
        needed: frozenset[str],
        counted: bool,
    ) -> None:
        self.planner = planner
        self.source = source
        self.pattern = pattern
        self.bound = set(bound)
        self.outer = bound
        self.nodes: dict[str, NodePattern] = {n.variable: n for n in pattern.nodes}
        planner.types.update({n.variable: n.types for n in pattern.nodes})
        for hop in pattern.hops:
            if hop.variable is not None:
                planner.types[hop.variable] = (hop.edge,)
        self.hops = list(pattern.hops)
        self.filters = list(pattern.filters)
        #: What each filter looks at; they are asked for it often.
        self.looks = {id(f): variables(f) for f in pattern.filters}
        nested = [v for p in (*pattern.optional, *pattern.absent) for v in _mentioned(p)]
        late = [v for f in pattern.late_filters for v in variables(f)]
        self.needed = needed | set(nested) | set(late)
        self.counted = counted
        self.size = 1.0
        self.planned: list[Step] = []

    def steps(self) -> tuple[Step, ...]:
        counted = self.collapse() if self.counted else {}
        # What can be checked at once comes first: all its variables are bound outside.
        self.settle()
        while True:
            step = self.next_step()
            if step is None:
                break
            self.add(step)
            self.settle()
        assert not self.filters and not self.hops, "a part of the pattern was left out"
        for variable, hanging in counted.items():
            self.add(Weigh(variable, tuple(hanging), self.size))
        for optional in self.pattern.optional:
            inner = self.planner.plan(
                optional, frozenset(self.bound), self.needed | frozenset(self.bound)
            )
            new = tuple(v for v in _bound_by(optional) if v not in self.bound)
            self.add(Extend(inner, new, self.size))
            self.bound.update(new)
        for absent in self.pattern.absent:
            outer = tuple(v for v in dict.fromkeys(_mentioned(absent)) if v in self.bound)
            inner = self.planner.plan(absent, frozenset(outer), frozenset())
            self.add(Without(inner, outer, self.size * 0.5))
        for late in self.pattern.late_filters:
            self.add(Where(late, self.size * _selectivity(late)))
        return tuple(self.planned)

    def add(self, step: Step) -> None:
        self.planned.append(step)
        self.size = max(step.estimate, 0.0)

    # --- what is only counted ---

    def collapse(self) -> dict[str, list[CountedHop]]:
        """Take out hops to variables that nobody looks at; returns them by where they hang."""
        hanging: dict[str, list[CountedHop]] = {}
        while True:
            outermost = self.leaf()
            if outermost is None:
                return hanging
            hop, leaf, anchor = outermost
            single = [f for f in self.filters if self.looks[id(f)] == {leaf}]
            self.filters = [f for f in self.filters if f not in single]
            self.hops.remove(hop)
            node = self.nodes.pop(leaf)
            oriented = hop if hop.source == anchor else _turned(hop)
            counted = CountedHop(
                oriented, anchor, leaf, node.types, tuple(single), tuple(hanging.pop(leaf, ()))
            )
            hanging.setdefault(anchor, []).append(counted)

    def leaf(self) -> tuple[Hop, str, str] | None:
        """A hop whose one end is used nowhere else: hop, that end, the other end."""
        used: dict[str, int] = {}
        for hop in self.hops:
            for end in {hop.source, hop.target} - {None}:
                used[str(end)] = used.get(str(end), 0) + 1
        looks = [self.looks[id(f)] for f in self.filters]
        crossing = {v for variables in looks if len(variables) != 1 for v in variables}
        best: tuple[float, Hop, str, str] | None = None
        for hop in self.hops:
            simple = (hop.low, hop.high) == (1, 1) and hop.source != hop.target
            if not simple or hop.source is None or hop.target is None:
                continue
            if hop.variable is not None and self.looked_at(hop.variable):
                continue
            for leaf, anchor in ((hop.target, hop.source), (hop.source, hop.target)):
                blocked = leaf in self.needed or leaf in self.outer or leaf in crossing
                if blocked or used[leaf] > 1 or leaf not in self.nodes or self.few(leaf):
                    continue
                # Leaves without filters first: their number is a degree.
                cost = float(any(leaf in self.looks[id(f)] for f in self.filters))
                if best is None or cost < best[0]:
                    best = (cost, hop, leaf, anchor)
        return None if best is None else best[1:]

    def few(self, variable: str) -> bool:
        """True when a variable is a good place to start from, rather than to be counted."""
        node = self.nodes[variable]
        rows = sum(self.source.rows(type) for type in node.types)
        filters = self.filters_for({variable})
        return bool(filters) and self.scanned(node, rows, filters) < max(
            2.0, policy.FEW_NODES * rows
        )

    def looked_at(self, variable: str) -> bool:
        return variable in self.needed or any(variable in self.looks[id(f)] for f in self.filters)

    # --- the order of steps ---

    def settle(self) -> None:
        """Add what needs no new variable, until there is nothing more of it."""
        before = -1
        while len(self.planned) != before:
            before = len(self.planned)
            self.settle_once()

    def settle_once(self) -> None:
        """Add filters of bound variables, and hops between them."""
        for condition in list(self.filters):
            if self.looks[id(condition)] <= self.bound:
                self.filters.remove(condition)
                self.add(Where(condition, self.size * _selectivity(condition)))
        for hop in list(self.hops):
            ends = [end for end in (hop.source, hop.target) if end is not None]
            if hop.variable is None and len(ends) < 2:
                if not ends or ends[0] in self.bound:
                    self.hops.remove(hop)
                    turned = hop if hop.source is not None or not ends else _turned(hop)
                    self.add(Exists(turned, ends[0] if ends else None, self.size * 0.9))
            elif len(ends) == 2 and all(end in self.bound for end in ends):
                self.hops.remove(hop)
                filters = self.filters_of({hop.variable} if hop.variable else set())
                if hop.variable:
                    self.bound.add(hop.variable)
                self.add(Probe(hop, filters, self.size * 0.1))

    def next_step(self) -> Step | None:
        options: list[tuple[float, Step]] = []
        for hop in self.hops:
            for start, end in ((hop.source, hop.target), (hop.target, hop.source)):
                if start is not None and start in self.bound:
                    oriented = hop if start == hop.source else _turned(hop)
                    new = {v for v in (end, hop.variable) if v is not None}
                    passing = self.passing(new)
                    size = self.size * self.fan_out(oriented) * passing
                    options.append((size, Expand(oriented, start, self.filters_for(new), size)))
        if not options:
            options = self.starts()
        if not options:
            return None
        step = min(options, key=lambda option: option[0])[1]
        if isinstance(step, Scan):
            self.bound.add(step.variable)
            self.filters_of({step.variable})
        else:
            assert isinstance(step, Expand | Enumerate)
            self.hops = [h for h in self.hops if not _same(h, step.hop)]
            new = {v for v in (step.hop.source, step.hop.target, step.hop.variable) if v}
            fresh = new - self.bound
            self.bound.update(new)
            self.filters_of(fresh)
        return step

    def starts(self) -> list[tuple[float, Step]]:
        options: list[tuple[float, Step]] = []
        for node in self.nodes.values():
            if node.variable not in self.bound:
                rows = sum(self.source.rows(type) for type in node.types)
                filters = self.filters_for({node.variable})
                size = self.size * self.scanned(node, rows, filters)
                options.append((size, Scan(node.variable, node.types, filters, size)))
        for hop in self.hops:
            # A hop between variables that have no pattern of their own, or to anything.
            ends = [end for end in (hop.source, hop.target) if end is not None]
            if hop.variable is not None and not ends:
                size = self.size * self.source.rows(hop.edge)
                filters = self.filters_for({hop.variable})
                options.append((size, Enumerate(hop, filters, size)))
        return options

    def filters_for(self, new: set[str]) -> tuple[Checked, ...]:
        """The filters that look at one of the new variables and at nothing else."""
        looks = self.looks
        return tuple(f for f in self.filters if len(looks[id(f)]) == 1 and looks[id(f)] <= new)

    def filters_of(self, new: set[str]) -> tuple[Checked, ...]:
        """The same, taken out of what is still to be done."""
        chosen = self.filters_for(new)
        self.filters = [f for f in self.filters if f not in chosen]
        return chosen

    # --- sizes ---

    def scanned(self, node: NodePattern, rows: int, filters: tuple[Checked, ...]) -> float:
        for type in node.types:
            key = self.source.catalog.nodes[type].key
            fixed = {
                f.left.property
                for f in filters
                if isinstance(f, Compare) and f.operator == "=" and isinstance(f.left, PropertyOf)
            }
            if "id" in fixed or (key and set(key) <= fixed):
                return 1.0
        return rows * self.passing({node.variable})

    def passing(self, new: set[str]) -> float:
        part = 1.0
        for condition in self.filters_for(new):
            part *= _selectivity(condition)
        return part

    def fan_out(self, hop: Hop) -> float:
        edge = self.source.catalog.edges[hop.edge]
        start = edge.source if hop.direction == "out" else edge.target
        degree = self.source.rows(hop.edge) / max(1, self.source.rows(start))
        degree *= 2 if hop.direction == "both" else 1
        high = 3 if hop.high is None else min(hop.high, 3)
        return float(max(degree, 0.01) ** max(1, high))


def _turned(hop: Hop) -> Hop:
    """The same hop, seen from its other end."""
    return replace(
        hop,
        source=hop.target,
        target=hop.source,
        direction=_FLIPPED[hop.direction],
    )


def _same(hop: Hop, other: Hop) -> bool:
    return hop in (other, _turned(other))


def _selectivity(condition: Checked) -> float:
    if isinstance(condition, Compare):
        return policy.PASSING.get(condition.operator, policy.PASSING_COMPARISON)
    if isinstance(condition, IsNull):
        return policy.PASSING_VALUE if condition.negated else policy.PASSING_NULL
    return policy.PASSING_CONDITION


def _bound_by(pattern: Pattern) -> list[str]:
    """The variables that a pattern binds, with those of its optional parts."""
    bound = [n.variable for n in pattern.nodes]
    bound += [h.variable for h in pattern.hops if h.variable is not None]
    for optional in pattern.optional:
        bound += _bound_by(optional)
    return list(dict.fromkeys(bound))


def _mentioned(pattern: Pattern) -> list[str]:
    """All variables that a pattern mentions."""
    mentioned = _bound_by(pattern)
    for hop in pattern.hops:
        mentioned += [end for end in (hop.source, hop.target) if end is not None]
    for condition in (*pattern.filters, *pattern.late_filters):
        mentioned += [e.variable for e in walk(condition) if isinstance(e, PropertyOf | Entity)]
    for inner in (*pattern.optional, *pattern.absent):
        mentioned += _mentioned(inner)
    return list(dict.fromkeys(mentioned))
