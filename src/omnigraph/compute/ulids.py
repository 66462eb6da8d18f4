"""New ids: ULIDs, one or thousands in a column. They sort by the millisecond they were made in."""

from __future__ import annotations

import os
import time

import numpy as np
import pyarrow as pa

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALPHABET = np.frombuffer(_DIGITS.encode(), np.uint8)
_LENGTH = 26
#: A ULID has 128 bits; its text has 130, of which the first two are 0.
_BITS, _PADDING = 128, 2


def mint_ulids(count: int, at: float | None = None) -> pa.Array:
    """Give new ULIDs, of this moment or of another one (seconds since 1970)."""
    stamp = int((time.time() if at is None else at) * 1000).to_bytes(6, "big")
    raw = np.empty((count, _BITS // 8), np.uint8)
    raw[:, :6] = np.frombuffer(stamp, np.uint8)
    raw[:, 6:] = np.frombuffer(os.urandom(count * 10), np.uint8).reshape(count, 10)
    bits = np.zeros((count, _PADDING + _BITS), np.uint8)
    bits[:, _PADDING:] = np.unpackbits(raw, axis=1)
    digits = bits.reshape(count, _LENGTH, 5) @ np.array([16, 8, 4, 2, 1], np.uint8)
    text = _ALPHABET[digits]
    offsets = np.arange(0, (count + 1) * _LENGTH, _LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def new_ulid(at: float | None = None) -> str:
    """Give one new ULID."""
    return str(mint_ulids(1, at)[0].as_py())


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
