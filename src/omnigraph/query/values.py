"""Values of what a frame's variables are bound to, for expressions."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow
from omnigraph.compute.evaluate import Columns
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import Checked, Column, Entity, PropertyOf, walk
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import STRING
from omnigraph.query.computed import IDENTITY, is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.source import Source
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.large_texts import has_texts, joined, take

#: Per variable the node or edge types it may be bound to.
Types = dict[str, tuple[str, ...]]


def properties_in(*expressions: Checked) -> set[tuple[str, str]]:
    """The variables of expressions with the properties that are asked of them."""
    return {
        (e.variable, e.property if isinstance(e, PropertyOf) else "id")
        for expression in expressions
        for e in walk(expression)
        if isinstance(e, PropertyOf | Entity)
    }


def identities(source: Source, types: tuple[str, ...], variable: str, frame: Frame) -> pa.Array:
    """Numbers that tell nodes or edges of any types apart; null for none."""
    numbers = {table.name: place for place, table in enumerate(source.catalog.tables())}
    positions = frame.columns[variable]
    identities = positions * len(numbers)
    if len(types) == 1:
        identities = identities + numbers[types[0]]
    else:
        kinds = np.array([numbers[type] for type in types])
        identities = identities + kinds[frame.kinds[variable]]
    return as_arrow(identities, positions < 0)


def in_parts(
    source: Source, types: Types, frame: Frame, properties: set[tuple[str, str]]
) -> Iterator[Frame]:
    """Parts of a frame; the texts of each, of some properties, take a bounded memory."""
    start = 0
    while not start or start < frame.count:
        rows = frame.count
        for variable in {variable for variable, _ in properties}:
            names = [n for v, n in properties if v == variable and not is_computed(n)]
            for type in types[variable]:
                table = source.catalog.type(type)
                columns = source.columns(type)
                rows = columns.rows_at_once(rows, [physical(name, table) for name in names])
        if rows >= frame.count:
            yield frame
            return
        yield frame.slice(start, min(start + rows, frame.count))
        start += rows


class Values:
    """The values of one frame; each column is read once."""

    def __init__(self, source: Source, types: Types, frame: Frame) -> None:
        self._source = source
        self._types = types
        self._frame = frame
        self._read: dict[tuple[str, str], pa.Array] = {}

    def prepare(self, wanted: AbstractSet[tuple[str, str]]) -> None:
        """Read several properties at once: one visit of the table per variable."""
        by_variable: dict[str, list[str]] = {}
        for variable, name in sorted(wanted - self._read.keys()):
            if is_computed(name):
                self._read[variable, name] = self._computed(variable, name)
            else:
                by_variable.setdefault(variable, []).append(name)
        for variable, names in by_variable.items():
            types = self._types[variable]
            if len(types) == 1:
                table = self._source.catalog.type(types[0])
                columns = [physical(name, table) for name in names]
                positions = self._frame.columns[variable]
                values = self._source.columns(types[0]).fetch(positions, columns)
                for name, column in zip(names, columns, strict=True):
                    self._read[variable, name] = values[column]
            else:
                for name in names:
                    self._read[variable, name] = self._mixed(variable, types, name)

    def get(self, variable: str, name: str) -> pa.Array:
        """The values of a property, of an end, or of the id."""
        if (variable, name) not in self._read:
            self.prepare({(variable, name)})
        return self._read[variable, name]

    @property
    def columns(self) -> Columns:
        """The values, as expressions ask for them."""

        def column(expression: Column | PropertyOf | Entity) -> pa.Array:
            assert not isinstance(expression, Column)
            name = expression.property if isinstance(expression, PropertyOf) else "id"
            return self.get(expression.variable, name)

        return column

    def _computed(self, variable: str, name: str) -> pa.Array:
        """The result of a search, or which node it is."""
        types = self._types[variable]
        if name == IDENTITY:
            return identities(self._source, types, variable, self._frame)
        if len(types) > 1:
            return self._mixed(variable, types, name)
        return self._search_result(types[0], self._frame.columns[variable], name)

    def _search_result(self, type: str, positions: Positions, name: str) -> pa.Array:
        assert self._source.searches is not None
        return self._source.searches.column(name, type, positions)

    def _mixed(self, variable: str, types: tuple[str, ...], name: str) -> pa.Array:
        """A property of a variable whose type differs from row to row."""
        positions, kinds = self._frame.columns[variable], self._frame.kinds[variable]
        parts, order = [], []
        for place, type in enumerate(types):
            mine = np.flatnonzero(kinds == place)
            if is_computed(name):
                parts.append(self._search_result(type, positions[mine], name))
            else:
                parts.append(self._source.columns(type).fetch(positions[mine], [name])[name])
            order.append(mine)
        table = self._source.catalog.type(types[0])
        wanted = arrow_type(table.columns.get(name, STRING))
        if is_computed(name):
            wanted = parts[0].type
        whole = joined([p if has_texts(p.type) else pc.cast(p, wanted) for p in parts])
        back = np.empty(len(positions), np.int64)
        back[np.concatenate(order)] = np.arange(len(positions))
        return take(whole, as_arrow(back))
