"""Finding the nodes of one type that pass some filters, by an index or by whole columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.compute.arrays import as_numpy
from omnigraph.compute.evaluate import Bindings, matches, value
from omnigraph.compute.keys import physical
from omnigraph.compute.pushdown import push_down
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
from omnigraph.query.frames import Frame
from omnigraph.query.searched import is_computed
from omnigraph.query.source import Source
from omnigraph.query.tables.columns import Positions
from omnigraph.query.values import Values
from omnigraph.storage.table_ref import ROW_ID

NodeMask = Callable[[str, str, Checked], npt.NDArray[np.bool_]]


def scan_positions(
    source: Source,
    variable: str,
    type: str,
    filters: tuple[Checked, ...],
    given: Bindings,
    node_mask: NodeMask,
) -> Positions:
    """The positions of the nodes of a type that pass all filters."""
    searches = tuple(f for f in filters if any(map(_is_search, walk(f))))
    if searches:
        # The others first: they may leave few texts to look at.
        others = tuple(f for f in filters if f not in searches)
        positions = scan_positions(source, variable, type, others, given, node_mask)
        for condition in searches:
            positions = _passing(source, variable, type, condition, given, positions)
        return positions
    image = source.image(type)
    if not filters:
        return image.positions()
    needed = sorted({e.property for f in filters for e in walk(f) if isinstance(e, PropertyOf)})
    table = source.catalog.nodes[type]
    columns = [physical(name, table) for name in needed]
    if not image.keeps(columns):
        found = _looked_up(source, variable, type, filters, given)
        if found is not None:
            return found
    for condition in filters:
        found = _with_value(source, type, condition, given)
        if found is not None:
            for other in filters:
                if other is not condition:
                    found = _passing(source, variable, type, other, given, found)
            return found
    keep: npt.NDArray[np.bool_] | None = image.alive
    for condition in filters:
        mask = node_mask(variable, type, condition)
        keep = mask if keep is None else keep & mask
    assert keep is not None
    return np.flatnonzero(keep)


def _looked_up(
    source: Source, variable: str, type: str, filters: tuple[Checked, ...], given: Bindings
) -> Positions | None:
    """Let the storage find the nodes, when it can test at least a part of the filters."""
    table = source.catalog.nodes[type]
    condition = filters[0] if len(filters) == 1 else Logic("and", filters)

    def name(expression: Column | PropertyOf | Entity) -> str | None:
        return physical(expression.property, table) if isinstance(expression, PropertyOf) else "id"

    pushed = push_down(condition, given, name)
    if pushed is None:
        return None
    found = source.table(type).read([], pushed.sql, places=True)
    positions: Positions = as_numpy(found[ROW_ID]).astype(np.int64)
    if pushed.exact:
        return positions
    return _passing(source, variable, type, condition, given, positions)


def _with_value(source: Source, type: str, condition: Checked, given: Bindings) -> Positions | None:
    """The nodes of which a property is equal to a value, by the order of the property's values."""
    if not isinstance(condition, Compare) or condition.operator != "=":
        return None
    named, other = condition.left, condition.right
    if not isinstance(named, PropertyOf) or not isinstance(other, Constant | Parameter):
        return None
    wanted = value(other, given)
    column = physical(named.property, source.catalog.nodes[type])
    image = source.image(type)
    held = image.type_of(column)
    if pa.types.is_integer(held) and isinstance(wanted, int):
        return image.find(column, wanted)
    if pa.types.is_string(held) and isinstance(wanted, str):
        return image.find(column, wanted)
    return None


def _passing(
    source: Source,
    variable: str,
    type: str,
    condition: Checked,
    given: Bindings,
    positions: Positions,
) -> Positions:
    """The positions among some that pass a filter."""
    frame = Frame(len(positions), {variable: positions}, {})
    values = Values(source, {variable: (type,)}, frame)
    mask = matches(condition, values.columns, frame.count, given)
    passing: Positions = positions[np.asarray(as_numpy(mask), bool)]
    return passing


def _is_search(expression: Checked) -> bool:
    return isinstance(expression, PropertyOf) and is_computed(expression.property)
