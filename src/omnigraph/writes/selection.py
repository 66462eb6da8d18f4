"""Finding the rows that a predicate matches, by an index where one helps.

What the storage can test narrows the scan; the predicate itself is then evaluated in one place
for committed and for pending rows alike, so both mean the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pyarrow as pa

from omnigraph.compute.evaluate import Bindings, matches, value
from omnigraph.compute.keys import ids_of, physical
from omnigraph.compute.pushdown import push_down
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.query.expressions import (
    Checked,
    Column,
    Compare,
    Constant,
    Entity,
    Logic,
    Now,
    Parameter,
    PropertyOf,
)
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.writes.reads import Condition, ReadTable, columns_in, columns_of

#: A predicate that names more keys than this is not turned into a lookup of ids.
_MOST_IDS = 1000
#: From here on, a float equals several integers.
_EXACT_FLOAT = float(1 << 53)


def select_rows(
    type: NodeType | EdgeType,
    table: ReadTable,
    condition: Checked,
    bindings: Bindings,
    columns: Sequence[str],
) -> pa.Table:
    """Read columns, and the places, of the rows for which a condition is true."""
    needed = columns_in(type, condition)
    read = list(dict.fromkeys([*columns, *needed]))
    ids = _ids_named(type, condition, bindings)
    if ids is not None:
        batches: Iterable[pa.RecordBatch] = table.find("id", ids, read).to_batches()
    else:
        where = _narrowed(type, condition, bindings)
        batches = table.matching(Condition(type, condition, bindings), read, where)
    parts = []
    schema = None
    for batch in batches:
        schema = batch.schema
        parts.append(
            batch.filter(matches(condition, columns_of(type, batch), batch.num_rows, bindings))
        )
    if schema is None:
        rows = table.snapshot.read(read, "false", places=True)
    else:
        rows = pa.Table.from_batches(parts, schema)
    return rows.drop_columns([name for name in needed if name not in columns])


def _narrowed(type: NodeType | EdgeType, condition: Checked, bindings: Bindings) -> str | None:
    """A test for the storage that no matching row fails."""

    def name(expression: Column | PropertyOf | Entity) -> str | None:
        return physical(expression.name, type) if isinstance(expression, Column) else None

    pushed = push_down(condition, bindings, name)
    return None if pushed is None else pushed.sql


def _ids_named(
    type: NodeType | EdgeType, condition: Checked, bindings: Bindings
) -> pa.Array | None:
    """The ids a row must have one of, when the condition fixes the whole key.

    The index of ids always exists, those of other columns may not.
    """
    if not type.key:
        return None
    parts = condition.items if isinstance(condition, Logic) else (condition,)
    if isinstance(condition, Logic) and condition.operator != "and":
        return None
    fixed: dict[str, list[object]] = {}
    for part in parts:
        if not isinstance(part, Compare) or part.operator not in ("=", "in"):
            continue
        column, other = part.left, part.right
        if part.operator == "=" and isinstance(other, Column):
            column, other = other, column
        if isinstance(column, Column) and isinstance(other, Constant | Parameter | Now):
            values = value(other, bindings)
            values = values if part.operator == "in" else [values]
            fixed.setdefault(column.name, list(values or ()))
    if any(name not in fixed for name in type.key):
        return None
    tuples = list(itertools.islice(itertools.product(*(fixed[n] for n in type.key)), _MOST_IDS + 1))
    if len(tuples) > _MOST_IDS:
        return None
    if any(isinstance(v, float) and abs(v) >= _EXACT_FLOAT for t in tuples for v in t):
        return None
    try:
        columns = {
            physical(name, type): pa.array(
                [t[place] for t in tuples], arrow_type(type.columns[name]), from_pandas=False
            )
            for place, name in enumerate(type.key)
        }
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # A value that the column cannot hold, such as 1.5 for an integer: the test itself decides.
        return None
    return ids_of(type, columns).drop_null()
