"""Vectors and their distances to one: cosine distances, the same whatever else is compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from omnigraph.compute.arrays import as_numpy
from omnigraph.query.budget import run_long
from omnigraph.query.search.reading import is_few, is_small, read
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import Positions, TableColumns

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Vectors(Struct, frozen=True):
    """Vectors and their lengths.

    Attributes:
        numbers: The vectors, as they are in the table; anything where one is null.
        norms: How long each is; 0 where one is null.
        is_vector: Which ones are not null.
    """

    numbers: npt.NDArray[Any]
    norms: Floats
    is_vector: Flags

    @staticmethod
    def of(column: pa.Array, size: int) -> Vectors:
        """The vectors of a column, without a copy."""
        values = column.values[column.offset * size : (column.offset + len(column)) * size]
        numbers = as_numpy(values).reshape(-1, size)
        is_vector = as_numpy(column.is_valid())
        norms = np.empty(len(numbers))
        for part, block in _blocks(numbers):
            norms[part] = np.sqrt(np.einsum("ij,ij->i", block, block))
        norms[~is_vector] = 0
        return Vectors(numbers, norms, is_vector)

    def take(self, positions: Positions) -> Vectors:
        """Some of them, by ascending positions."""
        first, last = int(positions[0]), int(positions[-1])
        at: Positions | slice = positions
        if last - first + 1 == len(positions):
            # Without a copy.
            at = slice(first, last + 1)
        return Vectors(self.numbers[at], self.norms[at], self.is_vector[at])

    def distances(self, vector: Floats) -> Floats:
        """Cosine distances to one; not a number for none, 1 where one has no direction."""
        products = np.empty(len(self.numbers))
        for part, block in _blocks(self.numbers):
            # Not a product of matrices: equal vectors have to get exactly equal distances.
            products[part] = np.einsum("ij,j->i", block, vector)
        norms = self.norms * float(np.sqrt((vector * vector).sum()))
        cosines = np.divide(products, norms, out=np.zeros(len(norms)), where=norms > 0)
        distances: Floats = np.clip(1 - cosines, 0, 2)
        distances[~self.is_vector] = np.nan
        return distances


class VectorColumn(Struct):
    """The vectors of a column of one version of a table, once they are in memory. Safe to share."""

    vectors: Vectors | None = None
    guard: threading.Lock = field(default_factory=threading.Lock)

    def load(self, columns: TableColumns, name: str, size: int) -> Vectors:
        """The vectors by position, read when they are not there yet."""
        if self.vectors is not None:
            return self.vectors
        return run_long(
            "read vectors", columns.rows * size, lambda: self._load(columns, name, size)
        )

    def _load(self, columns: TableColumns, name: str, size: int) -> Vectors:
        with self.guard:
            if self.vectors is None:
                column = columns.columns([name])[name]
                self.vectors = Vectors.of(column, size)
                columns.grow(self.vectors.norms.nbytes + self.vectors.is_vector.nbytes)
            return self.vectors


class Nearness:
    """Distances of the vectors of a column to one, for one query."""

    def __init__(self, columns: TableColumns, column: str, vector: Floats) -> None:
        self._columns, self._column, self._vector = columns, column, vector
        #: The distances by position, when all of them were asked for.
        self._whole: Floats | None = None

    def at(self, positions: Positions) -> Floats:
        """The distances of some rows, by ascending positions; not a number without a vector."""
        columns = self._columns
        if not len(positions):
            return np.zeros(0)
        if self._whole is not None:
            return self._whole[positions]
        few = is_few(len(positions), columns.rows)
        if columns.has([self._column]) or (
            not few and columns.keeps([self._column], policy.VECTOR_BYTES)
        ):
            known = columns.search_data(VectorColumn, self._column)
            vectors = known.load(columns, self._column, len(self._vector))
            return vectors.take(positions).distances(self._vector)
        if few or is_small(columns):
            by_place = np.empty(len(positions))
            for rows, vectors in read(columns, self._column, positions):
                by_place[np.searchsorted(positions, rows)] = distances(vectors, self._vector)
            return by_place
        self._whole = np.full(columns.size, np.nan)
        for rows, vectors in read(columns, self._column):
            self._whole[rows] = distances(vectors, self._vector)
        return self._whole[positions]


def distances(vectors: pa.Array, vector: Floats) -> Floats:
    """Cosine distances of vectors to one; not a number for null, 1 where one has no direction."""
    return Vectors.of(vectors, len(vector)).distances(vector)


def _blocks(numbers: npt.NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
    """Vectors in parts of bounded size, with more digits."""
    step = max(1, policy.COMPARED_AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), step):
        part = slice(start, start + step)
        # What lies behind a null may be no number.
        with np.errstate(invalid="ignore"):
            block = numbers[part].astype(np.float64)
        yield part, block
