"""Checksums of large arrays, at the speed of memory.

A checksum is a sum of 64-bit words, each times an odd number that depends on its place. So a
change of one word always changes the sum, and every other damage does with all but one chance in
2**60 or so. NumPy computes it at 10 GB/s and more (`zlib.crc32` reaches 1 to 4, SHA-256 0.4 to 2),
so that files of 100 MB can be verified before they are used. It is no protection against somebody
who wants to deceive: who can write the cache can write the tables as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]

#: Words that are summed up together, and their bytes: a part that stays near the processor.
_WORDS = 2048
_BYTES = 8 * _WORDS
_STEP = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_MIX_AGAIN = np.uint64(0x94D049BB133111EB)


def checksum(array: npt.NDArray[Any]) -> int:
    """The checksum of the bytes of an array."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = len(data) // _BYTES
    last = np.zeros(_BYTES, np.uint8)
    last[: len(data) - whole * _BYTES] = data[whole * _BYTES :]
    sums = np.empty(whole + 1, np.uint64)
    if whole:
        words = data[: whole * _BYTES].view("<u8").reshape(whole, _WORDS)
        np.einsum("ij,j->i", words, _weights(), out=sums[:whole])
    sums[whole] = np.einsum("j,j->", last.view("<u8"), _weights()) + np.uint64(len(data))
    mixed = _mixed(sums)
    return checksum(mixed.astype("<u8")) if whole else int(mixed[0])


@lru_cache(maxsize=1)
def _weights() -> _Words:
    """The numbers that words are multiplied with: arbitrary, odd, always the same."""
    steps: _Words = np.arange(1, _WORDS + 1, dtype=np.uint64) * np.uint64(_STEP)
    return _mixed(steps) | np.uint64(1)


def _mixed(words: _Words) -> _Words:
    """Words of which each bit depends on all bits of before (the mixing of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * _MIX
    words = (words ^ (words >> np.uint64(27))) * _MIX_AGAIN
    return words ^ (words >> np.uint64(31))
