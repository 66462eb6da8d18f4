"""Columns of JSON values, converted to the types of properties by the rules of `coerce`.

The usual spellings are converted a column at a time. A column with any other one is converted
value by value, so that both ways always agree.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.types import Scalar, ValueType
from omnigraph.language.values import Value, ValueFault, coerce

Mask = npt.NDArray[np.bool_]

_F32_MAX = float(np.finfo(np.float32).max)
_MINUS_ZERO = re.compile(rb"-0[,\]}\s]")
_HOUR = "([01][0-9]|2[0-3])"
_OFFSET = f"(Z|[+-]{_HOUR}:?[0-5][0-9])"
#: Spellings that Arrow and `coerce` read alike.
_USUAL = {
    Scalar.DATE: "^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$",
    Scalar.DATETIME: (
        f"^[1-8][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_HOUR}:[0-5][0-9]"
        rf"(:[0-5][0-9](\.[0-9]{{1,9}})?)?{_OFFSET}$"
    ),
    Scalar.I32: "^(0|-?[1-9][0-9]{0,18})$",
    Scalar.I64: "^(0|-?[1-9][0-9]{0,18})$",
    Scalar.U32: "^(0|[1-9][0-9]{0,19})$",
    Scalar.U64: "^(0|[1-9][0-9]{0,19})$",
}


def stored_array(values: list[Value], type: ValueType) -> pa.Array:
    """Checked values of one property as a column."""
    if type.is_blob:
        # A blob is its bytes, or the address of them.
        forms = {bytes: "data", str: "uri"}
        values = [None if v is None else {forms[v.__class__]: v} for v in values]
    return pa.array(values, arrow_type(type))


def converted(array: pa.Array, type: ValueType, chunk: bytes) -> tuple[pa.Array, Mask | None]:
    """Convert a column to the type of a property.

    Args:
        array: What Arrow's JSON reader returns: texts, booleans, integers, 64-bit floats, or lists.
        type: What the property is.
        chunk: The lines themselves.

    Returns:
        The column, and which of its values do not fit or are in doubt, if any.
    """
    if type.is_vector:
        return _vectors(array, type, chunk)
    if type.is_list:
        return _lists(array, type, chunk)
    return _scalars(array, type, chunk)


def _scalars(array: pa.Array, type: ValueType, chunk: bytes) -> tuple[pa.Array, Mask | None]:
    scalar = type.scalar
    if scalar in (Scalar.F32, Scalar.F64):
        return _floats(array, scalar, chunk)
    if scalar in (Scalar.STRING, Scalar.BOOL) or array.type == arrow_type(type):
        return array, None
    if scalar in _USUAL and pc.all(pc.match_substring_regex(array, _USUAL[scalar])).as_py():
        texts = array
        if scalar is Scalar.DATETIME:
            texts = pc.replace_substring_regex(array, r"(\.[0-9]{3})[0-9]+", r"\1")
        try:
            return texts.cast(arrow_type(type)), None
        except pa.ArrowInvalid:
            pass
    return _by_value(array, type)


def _by_value(array: pa.Array, type: ValueType) -> tuple[pa.Array, Mask | None]:
    type = type.as_nullable()
    wrong: list[int] = []
    values: list[Value] = []
    for place, value in enumerate(array.to_pylist()):
        try:
            values.append(coerce(value, type))
        except ValueFault:
            wrong.append(place)
            values.append(None)
    return stored_array(values, type), _mask(len(values), wrong) if wrong else None


def _mask(count: int, places: Any) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[places] = True
    return mask


def _floats(array: pa.Array, scalar: Scalar, chunk: bytes) -> tuple[pa.Array, Mask | None]:
    numbers = _numbers(array)
    wrong = _wrong_floats(numbers, scalar, chunk)
    if scalar is Scalar.F32:
        array = _cast32(numbers, array)
    return array, wrong


def _numbers(array: pa.Array) -> npt.NDArray[np.float64]:
    numbers: npt.NDArray[np.float64] = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False)
    return numbers


def _wrong_floats(numbers: npt.NDArray[np.float64], scalar: Scalar, chunk: bytes) -> Mask | None:
    right = np.abs(numbers) <= _F32_MAX if scalar is Scalar.F32 else np.isfinite(numbers)
    if _MINUS_ZERO.search(chunk):
        # As an integer it has no sign; Arrow's reader adds one.
        right &= (numbers != 0) | ~np.signbit(numbers)
    return None if right.all() else ~right


def _cast32(numbers: npt.NDArray[np.float64], array: pa.Array) -> pa.Array:
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(small, pa.float32(), mask=nulls)


def _lists(array: pa.Array, type: ValueType, chunk: bytes) -> tuple[pa.Array, Mask | None]:
    elements = array.flatten()
    values, wrong_values = _scalars(elements, type.element, chunk)
    wrong = _rows_with(array, elements, wrong_values)
    if values is elements:
        return array, wrong
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(array.offsets, values, mask=mask), wrong


def _rows_with(array: pa.Array, values: pa.Array, wrong: Mask | None) -> Mask | None:
    """The lists with a null or a wrong value in them."""
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        wrong = nulls if wrong is None else wrong | nulls
    if wrong is None:
        return None
    return _mask(len(array), pc.list_parent_indices(array).to_numpy()[wrong])


def _vectors(array: pa.Array, type: ValueType, chunk: bytes) -> tuple[pa.Array, Mask | None]:
    assert type.dimension is not None
    elements = array.flatten()
    numbers = _numbers(elements)
    wrong = _rows_with(array, elements, _wrong_floats(numbers, Scalar.F32, chunk))
    offsets = array.offsets.to_numpy()
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    fitting = np.diff(offsets) == type.dimension
    if not (fitting | nulls).all():
        unfit = ~(fitting | nulls)
        wrong = unfit if wrong is None else wrong | unfit
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    if not fitting.all():
        in_fitting = np.repeat(fitting, np.diff(offsets))
        full = np.zeros((len(array), type.dimension), np.float32)
        full[fitting] = small[in_fitting].reshape(-1, type.dimension)
        small = full.reshape(-1)
    mask = pa.array(~fitting) if not fitting.all() else None
    values = pa.array(small, pa.float32())
    return pa.FixedSizeListArray.from_arrays(values, type.dimension, mask=mask), wrong
