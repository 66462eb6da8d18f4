"""Vectors without a meaning, for tests: the same text always has the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.embedder import Purpose

MODEL = "mock"


@dataclass(frozen=True)
class Mock:
    """Makes vectors of any size from a hash of the text, the same for both purposes.

    Attributes:
        model: Any name, so that tests can stand in for the model of a schema.
    """

    model: str = MODEL
    name: str = "mock"
    place: str = ""
    batch: int = 1024

    def embed(
        self, texts: Sequence[str], purpose: Purpose, dimension: int, deadline: float | None
    ) -> npt.NDArray[np.float64]:
        """Make the vectors; see `Provider`."""
        rows = np.empty((len(texts), dimension))
        for row, text in enumerate(texts):
            data = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(4 * dimension)
            # Halfway between two numbers of the grid: never zero.
            rows[row] = (np.frombuffer(data, "<u4").astype(np.float64) + 0.5) / 2**31 - 1
        return rows
