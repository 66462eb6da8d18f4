"""Queries that look up one node by its key: the commonest of all, so they take a short way.

It is the same as the scan with one filter that they are planned as, without what a query of many
rows needs: blocks, stages and estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.compute.keys import physical
from omnigraph.language import Catalog
from omnigraph.language.query.expressions import Checked, Compare, Constant, Parameter, PropertyOf
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.query.budget import Budget
from omnigraph.query.source import Source
from omnigraph.query.steps import Scan, Step


class KeyLookup(Struct, frozen=True):
    """Some properties of the node that has a key.

    Attributes:
        type: The node's type.
        key: The column of its key.
        sought: The value of the key.
        names: What the returned columns are called.
        columns: The columns of the table that they are.
        types: Their types.
    """

    type: str
    key: str
    sought: Constant | Parameter
    names: list[str]
    columns: list[str]
    types: list[pa.DataType]

    def table(
        self, source: Source, parameters: Mapping[str, Any], budget: Budget
    ) -> pa.Table | None:
        """The answer; None when the keys are not in order, and the query has to be run as others.

        Raises:
            ResourceLimit: The answer is too large.
        """
        sought = self.sought
        value = parameters[sought.name] if isinstance(sought, Parameter) else sought.value
        node_columns = source.columns(self.type)
        positions = node_columns.find_in_order(self.key, value)
        if positions is None:
            return None
        values = node_columns.fetch(positions, self.columns)
        answer = [values[name] for name in self.columns]
        for place, type in enumerate(self.types):
            if answer[place].type != type:
                answer[place] = answer[place].cast(type)
        budget.keep_answer(sum(column.get_total_buffer_size() for column in answer))
        return pa.Table.from_arrays(answer, names=self.names)


def key_lookup(plan: ReadPlan, steps: tuple[Step, ...], catalog: Catalog) -> KeyLookup | None:
    """What a plan looks up, if it does nothing else."""
    changes_rows = plan.grouped or plan.distinct or plan.order
    is_cut = plan.limit is not None or plan.offset is not None
    if changes_rows or is_cut or len(steps) != 1 or not plan.outputs:
        return None
    scan = steps[0]
    if not isinstance(scan, Scan) or len(scan.types) != 1 or len(scan.filters) != 1:
        return None
    table = catalog.nodes[scan.types[0]]
    condition = scan.filters[0]
    if not isinstance(condition, Compare) or condition.operator != "=" or len(table.key) != 1:
        return None
    named, sought = condition.left, condition.right
    if not _is_stored(named) or not isinstance(sought, Constant | Parameter):
        return None
    assert isinstance(named, PropertyOf)
    returned = [output.expression for output in plan.outputs]
    if named.property != table.key[0] or not all(map(_is_stored, returned)):
        return None
    columns, types = [], []
    for expression in returned:
        assert isinstance(expression, PropertyOf)
        assert expression.type is not None
        columns.append(physical(expression.property, table))
        types.append(arrow_type(expression.type))
    names = [output.name for output in plan.outputs]
    return KeyLookup(table.name, physical(named.property, table), sought, names, columns, types)


def _is_stored(expression: Checked) -> bool:
    """True for a property in a column of its table; those of searches are of another class."""
    return expression.__class__ is PropertyOf and expression.type is not None
