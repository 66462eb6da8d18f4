"""Numbers for groups: equal keys have equal numbers, in every block of matches.

Keys are compared as numbers and not as values: a node's position tells it from others, and a
column that is in memory has its values numbered already. Only what is computed is numbered here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from omnigraph.compute.arrays import as_arrow, as_numpy, filled
from omnigraph.compute.evaluate import evaluate
from omnigraph.compute.keys import one_zero, physical
from omnigraph.language.query.expressions import Checked, Entity, PropertyOf
from omnigraph.language.schema.catalog import TableType
from omnigraph.query.budget import Budget
from omnigraph.query.computed import is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.tables import policy
from omnigraph.query.tables.large_texts import joined
from omnigraph.query.tables.topology import Ints
from omnigraph.query.values import Values, identities

#: Keys are put together into numbers below this, so that they fit into 64 bits.
_MOST = 1 << 62


class Numbering:
    """Gives each different value a number, the same in every block."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._known: pa.Array | None = None

    def numbers(self, column: pa.Array) -> Ints:
        """The numbers of some values. Null is a value, and lists are compared by their texts."""
        if pa.types.is_nested(column.type):
            texts = [None if value is None else repr(value) for value in column.to_pylist()]
            column = pa.array(texts, pa.utf8())
        encoded = one_zero(column).dictionary_encode(null_encoding="encode")
        places: Ints = as_numpy(encoded.indices).astype(np.int64)
        fresh = encoded.dictionary
        if self._known is None:
            self._known = self._counted(fresh)
            return places
        at = pc.index_in(fresh, value_set=self._known)
        new = at.is_null()
        count = len(self._known)
        if pc.any(new).as_py():
            self._known = joined([self._known, self._counted(fresh.filter(new))])
        at = filled(at.cast(pa.int64()), 0)
        numbers: Ints = as_numpy(at).copy()
        mask = np.asarray(as_numpy(new), bool)
        numbers[mask] = count + np.arange(int(mask.sum()))
        return numbers[places]

    def _counted(self, values: pa.Array) -> pa.Array:
        self._budget.keep(values.nbytes, "group")
        return values


class Groups(Struct, frozen=True):
    """To which group each match of a block belongs.

    Attributes:
        numbers: The number of each match's group.
        size: One more than the largest number there can be; None when that is not known.
        alone: No two matches of the block are in one group.
    """

    numbers: Ints
    size: int | None
    alone: bool = False


class KeyNumbers(Struct):
    """Numbers matches by their keys."""

    context: Context
    keys: Sequence[Checked]
    #: Per key how it is numbered: by a column as a whole, or else here.
    _whole: dict[int, bool] = field(default_factory=dict)
    _numberings: dict[int, Numbering] = field(default_factory=dict)
    _pairs: dict[int, tuple[Numbering, Numbering, Numbering]] = field(default_factory=dict)

    def groups(self, frame: Frame, values: Values) -> Groups:
        """Number the matches of a block."""
        total: Ints | None = None
        size: int | None = 1
        alone = False
        for place, key in self._telling():
            numbers, count = self._numbers(place, key, frame, values)
            if isinstance(key, Entity | PropertyOf) and self._identifies(key):
                # One variable that is somewhere else in every match tells all of them apart.
                alone = alone or _all_differ(numbers)
            if total is None:
                total, size = numbers, count
            elif size is not None and count is not None and size * count < _MOST:
                total, size = total * count + numbers, size * count
            else:
                total, size = self._paired(place, total, numbers), None
        assert total is not None
        return Groups(total, size, alone)

    def _paired(self, place: int, first: Ints, second: Ints) -> Ints:
        """Numbers for pairs of numbers; each is numbered anew before, so that both fit into one."""
        new = (self._numbering(), self._numbering(), self._numbering())
        numberings = self._pairs.setdefault(place, new)
        outer = numberings[0].numbers(as_arrow(first))
        inner = numberings[1].numbers(as_arrow(second))
        return numberings[2].numbers(as_arrow((outer << 31) | inner))

    def looked_at(self) -> list[Checked]:
        """The keys that are numbered by their values."""
        return [
            key
            for _, key in self._telling()
            if not isinstance(key, Entity | PropertyOf)
            or not (isinstance(key, Entity) or self._identifies(key) or self._is_coded(key))
        ]

    def _is_coded(self, key: PropertyOf) -> bool:
        """True when the values of a property are numbered already."""
        types = self.context.types[key.variable]
        if len(types) != 1 or is_computed(key.property):
            return False
        column = physical(key.property, self._table(types[0]))
        return self.context.source.columns(types[0]).has_coded(column)

    def _numbering(self) -> Numbering:
        return Numbering(self.context.budget)

    def _telling(self) -> list[tuple[int, Checked]]:
        """The keys without those that follow from others: a node has one value of a property."""
        fixed = {
            key.variable
            for key in self.keys
            if isinstance(key, Entity | PropertyOf) and self._identifies(key)
        }
        telling: list[tuple[int, Checked]] = []
        for place, key in enumerate(self.keys):
            follows = isinstance(key, PropertyOf) and key.variable in fixed
            if not follows or (isinstance(key, PropertyOf) and self._identifies(key)):
                telling.append((place, key))
        return telling

    def _identifies(self, key: Entity | PropertyOf) -> bool:
        """True when a key tells any two nodes or edges of its variable apart."""
        types = self.context.types[key.variable]
        if len(types) != 1:
            return False
        if isinstance(key, Entity) or key.property == "id":
            return True
        return self._table(types[0]).key == (key.property,)

    def _table(self, type: str) -> TableType:
        table = self.context.source.catalog.type(type)
        return table

    def _numbers(
        self, place: int, key: Checked, frame: Frame, values: Values
    ) -> tuple[Ints, int | None]:
        if isinstance(key, Entity | PropertyOf):
            positions = frame.columns[key.variable]
            types = self.context.types[key.variable]
            if self._identifies(key):
                return positions + 1, self.context.source.columns(types[0]).size + 1
            if isinstance(key, Entity):
                column = identities(self.context.source, types, key.variable, frame)
                return self._numberings.setdefault(place, self._numbering()).numbers(column), None
            if self._as_whole(place, key, frame):
                column = physical(key.property, self._table(types[0]))
                coded = self.context.source.columns(types[0]).coded(column)
                return coded.at(positions).astype(np.int64), len(coded.values)
        numbering = self._numberings.setdefault(place, self._numbering())
        return numbering.numbers(
            evaluate(key, values.columns, frame.count, self.context.parameters)
        ), None

    def _as_whole(self, place: int, key: PropertyOf, frame: Frame) -> bool:
        """True when the column of a property is numbered as a whole; the first block decides."""
        if place not in self._whole:
            self._whole[place] = self._worth_whole(key, frame)
        return self._whole[place]

    def _worth_whole(self, key: PropertyOf, frame: Frame) -> bool:
        types = self.context.types[key.variable]
        if len(types) != 1 or is_computed(key.property):
            return False
        columns = self.context.source.columns(types[0])
        column = physical(key.property, self._table(types[0]))
        if pa.types.is_nested(columns.type_of(column)):
            return False
        return self._is_coded(key) or (
            frame.count * policy.NUMBERED_PART >= columns.rows and columns.keeps([column])
        )


def _all_differ(numbers: Ints) -> bool:
    """True when all numbers differ; they are positions, so none is very large."""
    if len(numbers) < 2 or bool((numbers[1:] > numbers[:-1]).all()):
        return True
    return int(np.bincount(numbers).max()) == 1
