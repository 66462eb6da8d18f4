"""Order: puts matches, or groups and distinct rows, into the order that a query asks for.

The order is total: ties are broken by what is bound, or by all columns. Of matches more may be
ordered than fit into memory; of the first few of many the others are dropped on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Protocol

import pyarrow as pa

from omnigraph.language.query.plan import Ordering, ReadPlan
from omnigraph.query.frames import Frame, concat
from omnigraph.query.operators.context import Context
from omnigraph.query.operators.ranks import Ints, numbers, ordered
from omnigraph.query.operators.sort_keys import SortKeys
from omnigraph.query.operators.sorted_runs import SortedRuns
from omnigraph.query.tables import policy


class Rows(Protocol):
    """Rows that stand for no single match."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    def column(self, name: str) -> pa.Array:
        """A column of the answer."""

    def take(self, rows: Ints) -> Rows:
        """Some of the rows, by their places."""


def order_matches(
    context: Context,
    order: Sequence[Ordering],
    stream: Iterable[Frame],
    needed: int | None,
    check_size: Callable[[int], None] | None,
) -> Iterator[Frame]:
    """All matches in their order, or at least the first ones that are needed.

    Args:
        context: What the operators share.
        order: What is ordered by.
        stream: The matches.
        needed: How many of the first matches are needed; None is all.
        check_size: Is called with the number of matches so far when they are many.
    """
    budget = context.budget
    keys = [(ordering.expression, ordering.descending) for ordering in order]
    sort = SortKeys(context, keys)
    few = needed is not None and needed <= budget.sorted_rows // policy.FEW_OF_SORTED
    frames: list[Frame] = []
    count = total = 0
    with closing(SortedRuns(budget)) as runs:
        for frame in _at_most(stream, budget.sorted_rows):
            budget.keep(frame.bytes, "order")
            frames.append(frame)
            count += frame.count
            total += frame.count
            if check_size is not None and total > policy.MANY_ANSWER_ROWS:
                check_size(total)
            if count < budget.sorted_rows:
                continue
            whole = concat(frames)
            budget.free(whole.bytes)
            frames, count = [], 0
            if few:
                whole = whole.take(sort.order(whole, needed))
                budget.keep(whole.bytes, "order")
                frames, count = [whole], whole.count
            else:
                runs.add(whole)
        last = concat(frames) if frames else None
        if last is not None and (few or not runs):
            first_rows = last.take(sort.order(last, needed))
            context.measured.finish("order", total)
            yield first_rows
            return
        if last is not None:
            budget.free(last.bytes)
            runs.add(last)
        del last, frames
        for frame in runs.merged(sort.of):
            context.measured.finish("order", total)
            yield frame


def order_rows(plan: ReadPlan, rows: Rows, needed: int | None) -> Ints:
    """The places of rows that stand for no single match, in their order."""
    keys: list[Ints] = []
    for ordering in plan.order:
        key = numbers(rows.column(str(ordering.output)))
        keys += [~number for number in key] if ordering.descending else key

    def ties(places: Ints) -> list[Ints]:
        chosen = rows.take(places)
        return [n for o in plan.outputs for n in numbers(chosen.column(o.name))]

    return ordered(keys, ties, rows.count, needed)


def _at_most(frames: Iterable[Frame], rows: int) -> Iterator[Frame]:
    """The same matches in blocks of at most so many rows."""
    for frame in frames:
        for start in range(0, frame.count, rows):
            yield frame if frame.count <= rows else frame.slice(start, start + rows)
