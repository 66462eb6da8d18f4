"""Sorting more rows than memory should hold: sorted runs, in memory or in a file, that are merged.

A row is the numbers that it is ordered by and the positions of its variables, so it is small
whatever it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from omnigraph.errors import ResourceLimit
from omnigraph.query.budget import Budget
from omnigraph.query.frames import Frame
from omnigraph.query.operators.ranks import Ints, sort_order
from omnigraph.query.tables import policy

Columns = list[npt.NDArray[Any]]

_NARROW = np.iinfo(np.int32).max


class SortedRuns:
    """Rows in runs, which are sorted when all of them are complete. Close it to remove its file."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._runs: list[_Run] = []
        self._file: IO[bytes] | None = None
        self._end = 0
        #: How much memory the runs use that are not in the file.
        self._bytes = 0
        self._like = Frame(0, {}, {})

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, frame: Frame) -> None:
        """Put matches away as a run; they are few enough to be sorted in memory."""
        self._like = frame.slice(0, 0)
        self._runs.append(
            self._stored([*map(_narrow, frame.columns.values()), *frame.kinds.values()])
        )

    def merged(self, keys: Callable[[Frame], list[Ints]]) -> Iterator[Frame]:
        """The matches of all runs in the order of their keys, in blocks."""
        width = 0
        for number, run in enumerate(self._runs):
            self._budget.check_time("order")
            columns = run.read(0, run.count)
            numbers = keys(self._frame(columns))
            width = len(numbers)
            self._forget(run)
            self._runs[number] = self._stored(self._in_order([*numbers, *columns], width))
        part = max(policy.LEAST_RUN_PART, self._budget.block_rows // max(1, len(self._runs)))
        read = [0] * len(self._runs)
        rest: Columns | None = None
        while True:
            self._budget.check_time("order")
            loaded = [] if rest is None else [rest]
            waiting = set() if rest is None else _origins(rest)
            for number, run in enumerate(self._runs):
                if number not in waiting and read[number] < run.count:
                    stop = min(read[number] + part, run.count)
                    origin = np.full(stop - read[number], number, np.int32)
                    loaded.append([*run.read(read[number], stop), origin])
                    read[number] = stop
            if not loaded:
                return
            whole = [np.concatenate(columns) for columns in zip(*loaded, strict=True)]
            whole = self._in_order(whole, width)
            cut = len(whole[0])
            for number, run in enumerate(self._runs):
                if read[number] < run.count:
                    # What follows the last row that was read of a run may come before others.
                    cut = min(cut, int(np.flatnonzero(whole[-1] == number)[-1]) + 1)
            yield self._frame([column[:cut] for column in whole[width:-1]])
            rest = [column[cut:] for column in whole] if cut < len(whole[0]) else None

    def close(self) -> None:
        """Remove the file, if there is one."""
        if self._file is not None:
            self._file.close()
        self._runs.clear()

    def _in_order(self, columns: Columns, keys: int) -> Columns:
        """Rows in the order of their first columns."""

        def rows() -> Columns:
            order = sort_order(columns[:keys])
            return [column[order] for column in columns]

        return self._budget.apart("order", len(columns[0]), rows)

    def _stored(self, columns: Columns) -> _Run:
        size = sum(column.nbytes for column in columns)
        if self._budget.has_room(policy.RUNS_IN_MEMORY_PART * (self._bytes + size)):
            self._bytes += size
            self._budget.keep(size, "order")
            return _Run(len(columns[0]), columns, None, ())
        if self._file is None:
            import tempfile

            # It has no name, so nothing is left when the process dies.
            self._file = tempfile.TemporaryFile(prefix="omnigraph-sort-")  # noqa: SIM115
        places = []
        for column in columns:
            places.append((self._end, column.dtype))
            self._write(column)
        return _Run(len(columns[0]), None, self._file, tuple(places))

    def _forget(self, run: _Run) -> None:
        """Account for a run that is not used any more."""
        if run.columns is not None:
            size = sum(column.nbytes for column in run.columns)
            self._bytes -= size
            self._budget.free(size)

    def _write(self, column: npt.NDArray[Any]) -> None:
        assert self._file is not None
        try:
            self._file.seek(self._end)
            self._file.write(np.ascontiguousarray(column).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            from tempfile import gettempdir

            raise ResourceLimit(
                f"the rows to order need more than {self._end >> 20} MiB in"
                f" {gettempdir()}: {error.strerror}. Make room, or set TMPDIR to a larger"
                " disk",
                resource="disk",
                limit=self._end,
            ) from None
        self._end += column.nbytes

    def _frame(self, columns: Columns) -> Frame:
        positions = columns[: len(self._like.columns)]
        kinds = columns[len(positions) :]
        return Frame(
            len(columns[0]),
            {n: c.astype(np.int64) for n, c in zip(self._like.columns, positions, strict=True)},
            dict(zip(self._like.kinds, kinds, strict=True)),
        )


class _Run(Struct, frozen=True):
    """Rows that are put away.

    Attributes:
        columns: The rows, if they are in memory.
        file: The file that they are in else.
        places: Where each column starts in the file, and its type.
    """

    count: int
    columns: Columns | None
    file: IO[bytes] | None
    places: tuple[tuple[int, np.dtype[Any]], ...]

    def read(self, start: int, stop: int) -> Columns:
        if self.columns is not None:
            return [column[start:stop] for column in self.columns]
        assert self.file is not None
        columns = []
        for place, type in self.places:
            self.file.seek(place + start * type.itemsize)
            data = self.file.read((stop - start) * type.itemsize)
            columns.append(np.frombuffer(data, type))
        return columns


def _narrow(positions: Ints) -> npt.NDArray[np.signedinteger[Any]]:
    if len(positions) and int(positions.max()) > _NARROW:
        return positions
    return positions.astype(np.int32)


def _origins(rows: Columns) -> set[int]:
    """The numbers of the runs that rows are from."""
    return set(np.flatnonzero(np.bincount(rows[-1])).tolist())
