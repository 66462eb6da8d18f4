"""What is known about a query before it runs: its steps, and what it groups and looks at.

Preparing takes longer than many a query, and depends on the graph only by how large its tables are.
So it is done once per plan, and again when a table has doubled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from omnigraph.language.query.expressions import (
    Aggregate,
    Checked,
    Constant,
    Entity,
    PropertyOf,
    Rank,
    variables,
    walk,
)
from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.computed import (
    ComputedProperty,
    SearchCall,
    Share,
    distances_in,
    search_calls,
)
from omnigraph.query.key_lookup import KeyLookup, key_lookup
from omnigraph.query.live_variables import LiveAfter, live_after
from omnigraph.query.planner import Planner
from omnigraph.query.rewrites import rewritten
from omnigraph.query.source import Source
from omnigraph.query.steps import Step
from omnigraph.query.substitution import expressions_of, substitute
from omnigraph.query.tables import policy
from omnigraph.query.values import Types, properties_in


class Prepared(Struct, frozen=True):
    """A read plan, ready to be run with any parameters.

    Attributes:
        plan: The plan after all rewrites.
        calls: The searches that its computed properties stand for.
        steps: How its pattern is matched.
        live_after: The variables that are looked at after each step.
        types: The types of its variables.
        aggregates: What is computed for each group.
        distances: The distances among what is ordered by.
        returned: The variables with the properties that are returned.
        texts: The returned properties whose values differ in size: texts and lists.
        lookup: What is looked up by its key, if the plan does nothing else.
        nearest: The distance that an index can order by.
    """

    plan: ReadPlan
    calls: Mapping[str, SearchCall]
    steps: tuple[Step, ...]
    live_after: LiveAfter
    types: Types
    aggregates: tuple[Aggregate, ...]
    distances: tuple[ComputedProperty, ...]
    returned: frozenset[tuple[str, str]]
    texts: tuple[tuple[str, str], ...]
    lookup: KeyLookup | None
    nearest: ComputedProperty | None


def prepare(plan: ReadPlan, source: Source) -> Prepared:
    """Prepare a plan for tables of the sizes that a source has."""
    plan = rewritten(plan)
    aggregates: list[Aggregate] = []
    for output in plan.outputs:
        for part in walk(output.expression):
            if isinstance(part, Aggregate) and part not in aggregates:
                aggregates.append(part)
    order = [ordering.expression for ordering in plan.order]
    planner = Planner(source)
    needed = _needed(plan, [] if plan.grouped else order)
    steps = planner.plan(plan.pattern, frozenset(), needed, counted=plan.grouped)
    # Ties of an order are broken by all variables.
    everything = bool(plan.order) and not (plan.grouped or plan.distinct)
    distances = distances_in(order)
    return Prepared(
        plan,
        search_calls(expressions_of(plan)),
        steps,
        {} if everything else live_after(steps, needed),
        planner.types,
        tuple(aggregates),
        tuple(distances[name] for name in sorted(distances)),
        frozenset(properties_in(*(output.expression for output in plan.outputs))),
        tuple(dict.fromkeys(_texts(plan))),
        key_lookup(plan, steps, source.catalog),
        _nearest(plan),
    )


class PreparedCache:
    """The plans used last. Safe to share between threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._plans: OrderedDict[tuple[int, tuple[int, ...]], tuple[ReadPlan, Prepared]] = (
            OrderedDict()
        )

    def known(self, plan: ReadPlan, source: Source) -> Prepared | None:
        """A plan as it was prepared before; None when it was not."""
        key = (id(plan), source.magnitudes)
        with self._guard:
            entry = self._plans.get(key)
            if entry is None:
                return None
            self._plans.move_to_end(key)
            return entry[1]

    def get(self, plan: ReadPlan, source: Source) -> Prepared:
        """A plan as it was prepared before, or prepared now."""
        prepared = self.known(plan, source)
        if prepared is not None:
            return prepared
        prepared = prepare(plan, source)
        with self._guard:
            # The plan is referred to, so that no other one can have the same number.
            self._plans[id(plan), source.magnitudes] = (plan, prepared)
            while len(self._plans) > policy.PLANS_IN_MEMORY:
                self._plans.popitem(last=False)
        return prepared


def _needed(plan: ReadPlan, order: Iterable[Checked]) -> frozenset[str]:
    """The variables that are looked at after matching."""
    needed: set[str] = set()
    for output in plan.outputs:
        expression = output.expression
        for part in walk(expression):
            if isinstance(part, Aggregate) and _counts_matches(part):
                # Only their number matters.
                expression = substitute(expression, [(part, Constant(0, part.type))])
        needed |= variables(expression)
    for expression in order:
        needed |= variables(expression)
    return frozenset(needed)


def _nearest(plan: ReadPlan) -> ComputedProperty | None:
    """The distance whose lowest values are all that a plan needs, if that is so."""
    if plan.grouped or plan.distinct or plan.limit is None or not plan.order:
        return None
    first = plan.order[0]
    distances = distances_in(ordering.expression for ordering in plan.order)
    if first.descending or len(distances) != 1:
        return None
    distance = first.expression
    if not isinstance(distance, ComputedProperty) or not isinstance(distance.call, Rank):
        return None
    fuses = any(isinstance(c, Share) for c in search_calls(expressions_of(plan)).values())
    is_by_index = distance.call.function == "nearest" and not distance.call.exact
    return distance if is_by_index and not fuses else None


def _texts(plan: ReadPlan) -> Iterator[tuple[str, str]]:
    for output in plan.outputs:
        for part in walk(output.expression):
            if isinstance(part, Entity):
                yield part.variable, "id"
            elif isinstance(part, PropertyOf):
                type = part.type
                if type is None or not type.is_scalar or type.is_text:
                    yield part.variable, part.property


def _counts_matches(aggregate: Aggregate) -> bool:
    argument = aggregate.argument
    return (
        aggregate.function == "count"
        and not aggregate.distinct
        and isinstance(argument, Entity)
        and argument.type is not None
        and not argument.type.nullable
    )
