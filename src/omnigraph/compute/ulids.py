"""New ids: ULIDs, one or thousands in a column.

They sort by the millisecond they were made in, and those of one column in its order, so that a
column of new ids is in order already, and compresses well.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
#: Behind the time come 80 random bits; ids of one column count on in the last 40 of them.
_RANDOM_BYTES, _COUNTED_BITS = 10, 40
#: All pairs of digits, as numbers of two bytes: two digits are written at a time.
_PAIRS = np.frombuffer("".join(a + b for a in _DIGITS for b in _DIGITS).encode(), np.uint16)
_PAIR_BITS, _PAIR_MASK = 10, 1023
#: A ULID has 128 bits; its text has 130, of which the first two are 0.
_BITS = 130


def mint_ulids(count: int, at: float | None = None) -> pa.Array:
    """Return new ULIDs, ascending, of this moment or of another one (seconds since 1970)."""
    stamp = int((time.time() if at is None else at) * 1000)
    random = int.from_bytes(os.urandom(_RANDOM_BYTES), "big")
    # Wherever it begins, counting on never touches the digits before.
    first = random % ((1 << _COUNTED_BITS) - count)
    constant = stamp << _COUNTED_BITS | random >> _COUNTED_BITS
    numbers = first + np.arange(count)
    text = np.empty((count, _LENGTH // 2), np.uint16)
    for place in range(_LENGTH // 2):
        shift = _BITS - _PAIR_BITS * (place + 1)
        if shift < _COUNTED_BITS:
            text[:, place] = _PAIRS[numbers >> shift & _PAIR_MASK]
        else:
            text[:, place] = _PAIRS[constant >> (shift - _COUNTED_BITS) & _PAIR_MASK]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def new_ulid(at: float | None = None) -> str:
    """Return one new ULID."""
    stamp = int((time.time() if at is None else at) * 1000)
    number = stamp << _RANDOM_BYTES * 8 | int.from_bytes(os.urandom(_RANDOM_BYTES), "big")
    return "".join(_DIGITS[number >> shift & 31] for shift in range(_BITS - 5, -5, -5))


def made_at(ulid: str) -> float:
    """When a ULID was made, in seconds since 1970.

    Raises:
        ValueError: It is none.
    """
    digits = [_DIGITS.find(letter) for letter in ulid.upper()]
    if len(digits) != _LENGTH or min(digits) < 0 or digits[0] > 7:
        raise ValueError(f"`{ulid}` is no ULID")
    stamp = 0
    for digit in digits[:10]:
        stamp = stamp << 5 | digit
    return stamp / 1000


def is_ulid(text: str) -> bool:
    """True for the text of a ULID."""
    try:
        made_at(text)
    except ValueError:
        return False
    return True
