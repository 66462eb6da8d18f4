"""Filter: keeps the matches for which conditions are true.

A condition on one property that has few different values is tested once for each value, and one on
a variable that is bound to few nodes once for each node; the answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.evaluate import matches
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import Checked
from omnigraph.query.computed import is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.steps import Where
from omnigraph.query.tables.columns import Coded
from omnigraph.query.values import Values, in_parts, properties_in

Flags = npt.NDArray[np.bool_]


def where(context: Context, step: Where, stream: Iterator[Frame]) -> Iterator[Frame]:
    """Keep the matches for which the condition of a step is true."""
    return (keep_matching(context, frame, (step.condition,)) for frame in stream)


def keep_matching(context: Context, frame: Frame, conditions: tuple[Checked, ...]) -> Frame:
    """Keep the matches for which all conditions are true."""
    for condition in conditions:
        if frame.count:
            frame = frame.take(match_flags(context, frame, condition))
    return frame


def match_flags(context: Context, frame: Frame, condition: Checked) -> Flags:
    """For which matches a condition is true."""
    properties = properties_in(condition)
    variables = {variable for variable, _ in properties}
    if len(variables) == 1:
        (variable,) = variables
        types = context.types[variable]
        by_value = _by_value(context, properties, condition)
        if by_value is not None:
            coded, passing = by_value
            return passing[coded.at(frame.columns[variable])]
        # Many matches of few nodes: it is cheaper to look at each node once.
        if len(types) == 1 and frame.count > context.source.rows(types[0]):
            of_nodes = node_flags(context, variable, types[0], condition)
            positions = frame.columns[variable]
            if positions.min() >= 0:
                return of_nodes[positions]
    return computed_flags(context, frame, condition)


def computed_flags(context: Context, frame: Frame, condition: Checked) -> Flags:
    """For which matches a condition is true, from the values of each match."""
    properties = properties_in(condition)
    flags = []
    for part in in_parts(context.source, context.types, frame, properties):
        context.budget.check_time(f"filter {condition}")
        values = Values(context.source, context.types, part)
        values.prepare(properties)
        passing = matches(condition, values.columns, part.count, context.parameters)
        flags.append(np.asarray(as_numpy(passing), bool))
    return flags[0] if len(flags) == 1 else np.concatenate(flags)


def node_flags(context: Context, variable: str, type: str, condition: Checked) -> Flags:
    """For which positions of a type a condition on one variable is true."""
    alone = context.of_one(variable, type)
    by_value = _by_value(alone, properties_in(condition), condition)
    if by_value is not None:
        coded, passing = by_value
        return passing[coded.codes]
    positions, rows = context.source.columns(type).all_positions(), context.budget.block_rows
    flags = np.zeros(len(positions), bool)
    for start in range(0, len(flags), rows):
        block = positions[start : start + rows]
        frame = Frame(len(block), {variable: block}, {})
        flags[start : start + rows] = computed_flags(alone, frame, condition)
    return flags


def _by_value(
    context: Context, properties: set[tuple[str, str]], condition: Checked
) -> tuple[Coded, Flags] | None:
    """A column of few values, and for which of them a condition on it is true."""
    if len(properties) != 1:
        return None
    ((variable, name),) = properties
    types = context.types[variable]
    if len(types) != 1 or is_computed(name):
        return None
    table = context.source.catalog.type(types[0])
    coded = context.source.columns(types[0]).coded_often(physical(name, table))
    if coded is None:
        return None
    flags = matches(condition, lambda _: coded.values, len(coded.values), context.parameters)
    return coded, np.asarray(as_numpy(flags), bool)
