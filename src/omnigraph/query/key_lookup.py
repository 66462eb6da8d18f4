"""Queries that look up one node by its key: the commonest of all, so they take a short way.

It is the same as the scan with one filter that they are planned as, without what a query of many
rows needs: blocks, stages and estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct

from omnigraph.compute.keys import physical
from omnigraph.language import Catalog
from omnigraph.language.query.expressions import Checked, Compare, Constant, Parameter, PropertyOf
from omnigraph.language.query.plan import ReadPlan
from omnigraph.query.budget import Budget
from omnigraph.query.source import Source
from omnigraph.query.steps import Scan, Step
from omnigraph.results.few_rows import FewRows


class KeyLookup(Struct, frozen=True):
    """Some properties of the node that has a key.

    Attributes:
        type: The node's type.
        key: The column of its key.
        sought: The value of the key.
        columns: The columns of the table that are returned.
        texts: Which of them are texts, by their places.
        has_lists: Some of them are lists or vectors.
    """

    type: str
    key: str
    sought: Constant | Parameter
    columns: tuple[str, ...]
    texts: tuple[int, ...]
    has_lists: bool

    def rows(
        self,
        source: Source,
        parameters: Mapping[str, Any],
        budget: Budget,
        *,
        in_memory: bool = False,
    ) -> FewRows | None:
        """The node, if there is one; None when the keys are not in order: then it is scanned for.

        Args:
            source: What is read.
            parameters: The values of the query's parameters.
            budget: That of the query.
            in_memory: Only look at what is in memory; None when that is not enough.

        Raises:
            ResourceLimit: The answer is too large.
        """
        sought = self.sought
        value = parameters[sought.name] if isinstance(sought, Parameter) else sought.value
        columns = source.columns(self.type)
        if in_memory and self.has_lists:
            return None
        positions = columns.find_in_order(self.key, value, in_memory=in_memory)
        if positions is None:
            return None
        if in_memory:
            rows = columns.rows_in_memory(positions, self.columns)
            if rows is None:
                return None
            budget.keep_answer(self._size(rows))
            return FewRows(rows)
        arrays = list(columns.fetch(positions, self.columns).values())
        budget.keep_answer(sum(array.get_total_buffer_size() for array in arrays))
        return FewRows([[array[place] for array in arrays] for place in range(len(positions))])

    def _size(self, rows: Sequence[Sequence[pa.Scalar]]) -> int:
        """How many bytes rows without lists take, about."""
        size = 8 * len(rows) * len(self.columns)
        for row in rows:
            for place in self.texts:
                text = row[place].as_buffer()
                size += 0 if text is None else text.size
        return size


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
        assert isinstance(expression, PropertyOf) and expression.type is not None
        columns.append(physical(expression.property, table))
        types.append(expression.type)
    return KeyLookup(
        table.name,
        physical(named.property, table),
        sought,
        tuple(columns),
        tuple(place for place, type in enumerate(types) if type.is_text),
        not all(type.is_scalar and not type.is_blob for type in types),
    )


def _is_stored(expression: Checked) -> bool:
    """True for a property in a column of its table; those of searches are of another class."""
    return expression.__class__ is PropertyOf and expression.type is not None
