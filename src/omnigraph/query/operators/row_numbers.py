"""Numbers for the rows of a frame, by which nested patterns say which of them they are about."""

from __future__ import annotations

from itertools import count

import numpy as np

from omnigraph.query.frames import Frame
from omnigraph.query.operators.context import ROW_NUMBERS


def numbered(frame: Frame, variables: frozenset[str] | None = None) -> tuple[Frame, str]:
    """A frame, or some of its variables, with a column of row numbers, and that column's name."""
    # Patterns may be nested, so it may have other such columns.
    name = next(n for i in count() if (n := f"{ROW_NUMBERS}{i}") not in frame.columns)
    chosen = frame if variables is None else frame.only(variables)
    return chosen.bind(name, np.arange(frame.count)), name
