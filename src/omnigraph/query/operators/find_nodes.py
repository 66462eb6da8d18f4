"""Finds the nodes of one type that pass filters: by an index, by sorted values, or by columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.evaluate import value
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import (
    Checked,
    Column,
    Compare,
    Constant,
    Entity,
    Logic,
    Parameter,
    PropertyOf,
    walk,
)
from omnigraph.query.computed import is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.filter import computed_flags, node_flags
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.storage.table_ref import ROW_ID

if TYPE_CHECKING:
    from omnigraph.compute.pushdown import Pushed


def find_nodes(
    context: Context, variable: str, type: str, filters: tuple[Checked, ...]
) -> Positions:
    """The positions of the nodes of a type that pass all filters."""
    searches = tuple(f for f in filters if any(map(_is_search, walk(f))))
    if searches:
        # The others first: they may leave few texts to look at.
        others = tuple(f for f in filters if f not in searches)
        by_search = None if others else _by_search(context, type, searches[0])
        if by_search is None:
            positions = find_nodes(context, variable, type, others)
        else:
            positions, searches = by_search, searches[1:]
        for condition in searches:
            positions = _passing(context, variable, type, condition, positions)
        return positions
    columns = context.source.columns(type)
    if not filters:
        return columns.positions()
    names = _columns_of(context, type, filters)
    if not columns.keeps(names):
        by_index = _by_index(context, variable, type, filters)
        if by_index is not None:
            is_selective = len(by_index) * policy.SELECTIVE_PART < columns.rows
            if is_selective and not any(map(_is_equality, filters)) and columns.has_index(names):
                columns.ask_less(names)
            return by_index
    for condition in filters:
        by_value = _by_value(context, type, condition)
        if by_value is not None:
            for other in filters:
                if other is not condition:
                    by_value = _passing(context, variable, type, other, by_value)
            return by_value
    passing: npt.NDArray[np.bool_] | None = columns.alive
    for condition in filters:
        flags = node_flags(context, variable, type, condition)
        passing = flags if passing is None else passing & flags
    assert passing is not None
    return np.flatnonzero(passing)


def _by_search(context: Context, type: str, condition: Checked) -> Positions | None:
    """The nodes that a text search finds by an index; None to look at all of them."""
    searches = context.source.searches
    if searches is None or not isinstance(condition, PropertyOf) or not _is_search(condition):
        return None
    return searches.matching_rows(condition.property, type)


def indexes_for(context: Context, type: str, filters: tuple[Checked, ...]) -> list[str]:
    """The names of the indexes that `find_nodes` is going to ask."""
    names = []
    for condition in filters:
        for part in walk(condition):
            if context.source.searches is not None and _is_search(part):
                assert isinstance(part, PropertyOf)
                names += context.source.searches.index_names(part.property, type)
    others = tuple(f for f in filters if not any(map(_is_search, walk(f))))
    columns = context.source.columns(type)
    if others and not columns.would_keep(_columns_of(context, type, others)):
        pushed = _pushed(context, type, others)
        names += [] if pushed is None else columns.snapshot.indexes_for(pushed.sql)
    return list(dict.fromkeys(names))


def _columns_of(context: Context, type: str, filters: tuple[Checked, ...]) -> list[str]:
    table = context.source.catalog.nodes[type]
    properties = {e.property for f in filters for e in walk(f) if isinstance(e, PropertyOf)}
    return [physical(name, table) for name in sorted(properties)]


def _pushed(context: Context, type: str, filters: tuple[Checked, ...]) -> Pushed | None:
    """What the storage can test of filters."""
    from omnigraph.compute.pushdown import push_down

    table = context.source.catalog.nodes[type]

    def name(expression: Column | PropertyOf | Entity) -> str | None:
        return physical(expression.property, table) if isinstance(expression, PropertyOf) else "id"

    return push_down(_all_of(filters), context.parameters, name)


def _all_of(filters: tuple[Checked, ...]) -> Checked:
    return filters[0] if len(filters) == 1 else Logic("and", filters)


def _by_index(
    context: Context, variable: str, type: str, filters: tuple[Checked, ...]
) -> Positions | None:
    """Let the storage find the nodes, when it can test at least a part of the filters."""
    pushed = _pushed(context, type, filters)
    if pushed is None:
        return None
    rows = context.source.table(type).read([], pushed.sql, places=True)
    positions: Positions = as_numpy(rows[ROW_ID]).astype(np.int64)
    if pushed.exact:
        return positions
    return _passing(context, variable, type, _all_of(filters), positions)


def _by_value(context: Context, type: str, condition: Checked) -> Positions | None:
    """The nodes of which a property is equal to a value, by the order of the property's values."""
    if not isinstance(condition, Compare) or condition.operator != "=":
        return None
    left, right = condition.left, condition.right
    if not isinstance(left, PropertyOf) or not isinstance(right, Constant | Parameter):
        return None
    wanted = value(right, context.parameters)
    column = physical(left.property, context.source.catalog.nodes[type])
    columns = context.source.columns(type)
    stored = columns.type_of(column)
    if pa.types.is_integer(stored) and isinstance(wanted, int):
        return columns.find(column, wanted)
    if pa.types.is_string(stored) and isinstance(wanted, str):
        return columns.find(column, wanted)
    return None


def _passing(
    context: Context, variable: str, type: str, condition: Checked, positions: Positions
) -> Positions:
    """The positions among some that pass a filter."""
    frame = Frame(len(positions), {variable: positions}, {})
    passing: Positions = positions[computed_flags(context.of_one(variable, type), frame, condition)]
    return passing


def _is_equality(condition: Checked) -> bool:
    return isinstance(condition, Compare) and condition.operator == "="


def _is_search(expression: Checked) -> bool:
    return isinstance(expression, PropertyOf) and is_computed(expression.property)
