"""What the matches of a query are ordered by, as numbers.

Texts are properties of nodes and edges, so it is these that are ranked, each once, however many
matches it is in. Ties are broken by the ids of what is bound, of nodes of an interface after that
by their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import distinct_places
from omnigraph.compute.evaluate import evaluate
from omnigraph.compute.keys import physical
from omnigraph.language.query.expressions import Checked, Entity, PropertyOf
from omnigraph.query.computed import is_computed
from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.long_texts import ranks_of_long_texts
from omnigraph.query.operators.ranks import Ints, dense_ranks, numbers, ordered
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions
from omnigraph.query.tables.large_texts import joined
from omnigraph.query.values import Values, properties_in

#: Ranks are not larger than this, so that two of them fit into one number.
_MOST_RANKS = np.iinfo(np.int32).max


class SortKeys(Struct):
    """The order of one query's matches.

    Attributes:
        keys: What is ordered by, and whether descending.
    """

    context: Context
    keys: Sequence[tuple[Checked, bool]]
    #: Per variable and property the ranks of all rows of its types.
    _ranks: dict[tuple[str, str], list[npt.NDArray[np.uint32]]] = field(default_factory=dict)

    def order(self, frame: Frame, wanted: int | None) -> Ints:
        """The places of matches in their order, or of the first ones."""

        def ties(rows: Ints) -> list[Ints]:
            chosen = frame.take(rows)
            ranks = []
            for variable in self._bound(frame):
                ranks.append(self._local_ranks(variable, "id", chosen))
                if variable in chosen.kinds:
                    ranks.append(chosen.kinds[variable].astype(np.int64))
            return ranks

        def order() -> Ints:
            keys = []
            for expression, descending in self.keys:
                if _is_text(expression):
                    key = [self._local_ranks(expression.variable, _name(expression), frame)]
                else:
                    key = numbers(self._computed(expression, frame))
                keys += [~number for number in key] if descending else key
            return ordered(keys, ties, frame.count, wanted)

        return self.context.budget.apart("order", frame.count, order)

    def of(self, frame: Frame) -> list[Ints]:
        """Numbers by which matches of all blocks are ordered, with those that break ties."""
        return self.context.budget.apart("order", frame.count, lambda: self._of(frame))

    def _of(self, frame: Frame) -> list[Ints]:
        wide: list[Ints] = []
        #: Ranks that wait for another one to share a number with.
        narrow: Ints | None = None

        def add_rank(ranks: Ints) -> None:
            nonlocal narrow
            if narrow is None:
                narrow = ranks
            else:
                wide.append((narrow << 32) | ranks)
                narrow = None

        def flush() -> None:
            nonlocal narrow
            if narrow is not None:
                wide.append(narrow)
                narrow = None

        identified: set[str] = set()
        for expression, descending in self.keys:
            if _is_text(expression):
                ranks = self._ranks_of(expression.variable, _name(expression), frame)
                add_rank(_MOST_RANKS - ranks if descending else ranks)
                if self._identifies(expression.variable, _name(expression)):
                    identified.add(expression.variable)
                continue
            flush()
            nullable = expression.type is None or expression.type.nullable
            column = self._computed(expression, frame)
            mine = numbers(column, nullable=nullable)
            wide += [~number for number in mine] if descending else mine
        for variable in self._bound(frame):
            if variable not in identified:
                add_rank(self._ranks_of(variable, "id", frame))
            if variable in frame.kinds:
                add_rank(frame.kinds[variable].astype(np.int64))
        flush()
        return wide

    def _identifies(self, variable: str, name: str) -> bool:
        """True when a text is the id, or the key that the id is made of."""
        types = self.context.types[variable]
        table = self.context.source.catalog.type(types[0])
        return name == "id" or (len(types) == 1 and table.key == (name,))

    def _bound(self, frame: Frame) -> list[str]:
        """The variables, in the order in which the query names them."""
        return [variable for variable in self.context.types if variable in frame.columns]

    def _computed(self, expression: Checked, frame: Frame) -> pa.Array:
        values = Values(self.context.source, self.context.types, frame)
        values.prepare(properties_in(expression))
        return evaluate(expression, values.columns, frame.count, self.context.parameters)

    # --- texts ---

    def _local_ranks(self, variable: str, name: str, frame: Frame) -> Ints:
        """The ranks of a property among the matches of one block."""
        types = self.context.types[variable]
        positions = frame.columns[variable]
        if len(types) > 1:
            return dense_ranks(
                Values(self.context.source, self.context.types, frame).get(variable, name)
            )
        size = self.context.source.columns(types[0]).size
        if size > policy.SPARSE_POSITIONS * len(positions):
            used, back = distinct_places(positions)
            return self._text_ranks(types[0], name, used)[back]
        mask = np.zeros(size + 1, bool)
        # The last place is for null.
        mask[positions] = True
        used = np.flatnonzero(mask[:-1])
        ranks = np.zeros(size + 1, np.int64)
        ranks[used] = self._text_ranks(types[0], name, used)
        return ranks[positions]

    def _text_ranks(self, type: str, name: str, positions: Positions) -> Ints:
        """The ranks of a text of some rows among them."""
        column = self._column(type, name)
        columns = self.context.source.columns(type)
        if not columns.is_long(column, positions):
            return dense_ranks(columns.fetch(positions, [column])[column])
        return ranks_of_long_texts([(columns, positions)], column, self.context.budget)

    def _ranks_of(self, variable: str, name: str, frame: Frame) -> Ints:
        """The ranks of a property among all rows of the variable's types."""
        ranks = self._ranks.get((variable, name))
        if ranks is None:
            ranks = self._ranks[variable, name] = self._all_ranks(
                self.context.types[variable], name
            )
        positions = frame.columns[variable]
        if len(ranks) == 1:
            return ranks[0][positions].astype(np.int64)
        merged = np.zeros(frame.count, np.int64)
        for place, of_type in enumerate(ranks):
            rows = frame.kinds[variable] == place
            merged[rows] = of_type[positions[rows]]
        return merged

    def _all_ranks(self, types: tuple[str, ...], name: str) -> list[npt.NDArray[np.uint32]]:
        """For each type the ranks of its rows by position, with one more place for null."""
        column = self._column(types[0], name)
        tables = [self.context.source.columns(type) for type in types]
        whole = [(table, table.all_positions()) for table in tables]
        budget = self.context.budget
        with budget.using(24 * sum(table.size for table in tables), "order"):
            if any(table.is_long(column, positions) for table, positions in whole):
                ranks = ranks_of_long_texts(whole, column, budget)
            else:
                ranks = dense_ranks(joined([t.columns([column])[column] for t in tables]))
            ranks = ranks.astype(np.uint32)
        budget.keep(ranks.nbytes, "order")
        ends = np.cumsum([table.size for table in tables])[:-1]
        return [np.append(of_type, np.uint32(0)) for of_type in np.split(ranks, ends)]

    def _column(self, type: str, name: str) -> str:
        table = self.context.source.catalog.type(type)
        return physical(name, table)


def _is_text(expression: Checked) -> TypeGuard[Entity | PropertyOf]:
    """True for a text of a node or an edge."""
    if isinstance(expression, Entity):
        return True
    return (
        isinstance(expression, PropertyOf)
        and expression.type is not None
        and expression.type.is_text
        and not is_computed(expression.property)
    )


def _name(expression: Checked) -> str:
    return expression.property if isinstance(expression, PropertyOf) else "id"
