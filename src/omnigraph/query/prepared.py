"""What is known about a query before it runs: its steps, and what it groups and looks at.

Preparing takes longer than many a query, and depends on the graph only by how large its tables are.
So it is done once per plan, and again when a table has doubled.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from omnigraph.language.query.expressions import (
    Aggregate,
    Checked,
    Constant,
    Entity,
    PropertyOf,
    variables,
    walk,
)
from omnigraph.language.query.plan import Ordering, ReadPlan
from omnigraph.query.key_lookup import KeyLookup, key_lookup
from omnigraph.query.liveness import Kept, kept_after
from omnigraph.query.planner import Planner
from omnigraph.query.rewrite import replaced
from omnigraph.query.rewrites import rewritten
from omnigraph.query.searched import SearchCall, Searched, SearchNames
from omnigraph.query.source import Source
from omnigraph.query.steps import Step
from omnigraph.query.values import Types

#: How many plans are kept.
_KEPT = 512


class Prepared(Struct, frozen=True):
    """A read plan, ready to be run with any parameters.

    Attributes:
        plan: The plan, with properties instead of search functions.
        calls: The searches that those properties stand for.
        steps: How its pattern is matched.
        kept: What has to be kept after each step.
        types: The types of its variables.
        aggregates: What is computed for each group.
        order: What is ordered by.
        distances: The distances among what is ordered by.
        texts: The returned properties whose values differ in size: texts and lists.
        lookup: What is looked up by its key, if the plan does nothing else.
    """

    plan: ReadPlan
    calls: Mapping[str, SearchCall]
    steps: tuple[Step, ...]
    kept: Kept
    types: Types
    aggregates: tuple[Aggregate, ...]
    order: tuple[Checked, ...]
    distances: tuple[Searched, ...]
    texts: tuple[tuple[str, str], ...]
    lookup: KeyLookup | None


def prepare(plan: ReadPlan, source: Source) -> Prepared:
    """Prepare a plan for tables of the sizes that a source has."""
    names = SearchNames()
    plan = names.rewritten(rewritten(plan))
    aggregates: list[Aggregate] = []
    for output in plan.outputs:
        for part in walk(output.expression):
            if isinstance(part, Aggregate) and part not in aggregates:
                aggregates.append(part)
    order = tuple(_ordered_by(plan, ordering) for ordering in plan.order)
    planner = Planner(source)
    needed = _needed(plan, () if plan.grouped else order)
    steps = planner.plan(plan.pattern, frozenset(), needed, counted=plan.grouped)
    # Rows in an order are told apart by all their variables.
    everything = bool(plan.order) and not (plan.grouped or plan.distinct)
    kept = {} if everything else kept_after(steps, needed)
    distances = {part for expression in order for part in names.distances_in(expression)}
    return Prepared(
        plan,
        names.calls,
        steps,
        kept,
        planner.types,
        tuple(aggregates),
        order,
        tuple(sorted(distances, key=lambda part: part.property)),
        tuple(dict.fromkeys(_texts(plan))),
        key_lookup(plan, steps, source.catalog),
    )


class PreparedCache:
    """The plans used last. Safe to share between threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, tuple[int, ...]], tuple[ReadPlan, Prepared]] = (
            OrderedDict()
        )

    def get(self, plan: ReadPlan, source: Source) -> Prepared:
        """A plan as it was prepared before, or prepared now."""
        # The plan is kept, so that no other one can have the same number.
        key = (id(plan), source.magnitudes)
        with self._guard:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        made = prepare(plan, source)
        with self._guard:
            self._kept[key] = (plan, made)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made


def _ordered_by(plan: ReadPlan, ordering: Ordering) -> Checked:
    if ordering.output is None:
        return ordering.expression
    return next(o.expression for o in plan.outputs if o.name == ordering.output)


def _needed(plan: ReadPlan, order: tuple[Checked, ...]) -> frozenset[str]:
    """The variables that are looked at after matching."""
    found: set[str] = set()
    for output in plan.outputs:
        expression = output.expression
        for part in walk(expression):
            if isinstance(part, Aggregate) and _counts_matches(part):
                # Only their number matters.
                expression = replaced(expression, [(part, Constant(0, part.type))])
        found |= variables(expression)
    for expression in order:
        found |= variables(expression)
    return frozenset(found)


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
