"""NumPy arrays as Arrow arrays, without a copy.

`pyarrow.array` does the same, but loads NumPy's masked arrays when it is called for the first time,
which takes longer than most queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def as_arrow(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers or truth values as an Arrow array.

    Args:
        values: The values.
        missing: Which of them are null.
    """
    valid = None
    if missing is not None:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    if values.dtype == np.bool_:
        data = np.packbits(values, bitorder="little")
    else:
        data = np.ascontiguousarray(values)
    type = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type, len(values), [valid, pa.py_buffer(data)])
