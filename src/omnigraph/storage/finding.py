"""Looking for many values in a column that is read as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.keys import one_zero

#: Rows that are compared with what is looked for at a time; more when much is looked for, because
#: that is put in order each time.
_TOGETHER = 1 << 17
_PER_VALUE = 8
#: How many parts may wait to be compared: what is read faster than it is compared takes memory.
_WAITING = 4


def rows_with(
    batches: Iterable[pa.RecordBatch], column: str, values: pa.Array
) -> Iterator[pa.Table]:
    """The rows whose value is one of some; while some are compared, the next ones are read."""

    def chosen(table: pa.Table) -> pa.Table:
        return table.filter(pc.is_in(one_zero(table[column]), value_set=values))

    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(1) as pool:
        for table in gathered(batches, max(_TOGETHER, _PER_VALUE * len(values))):
            waiting.append(pool.submit(chosen, table))
            if len(waiting) > _WAITING:
                yield waiting.popleft().result()
        for part in waiting:
            yield part.result()


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches as tables of at least so many rows, but for the last one."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.Table.from_batches(pending)
            pending, count = [], 0
    if pending:
        yield pa.Table.from_batches(pending)
