"""How the process deals with the memory of arrays. It matters on Linux only, with its C library."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache

import numpy as np

from omnigraph.compute.threads import processors

#: The largest block that the C library learns from is of 32 MiB.
_BLOCK = 31 << 20
#: The number of the option of `mallopt` that says how many arenas there are.
_ARENAS = -8


@cache
def set_up_memory() -> None:
    """Hold on to the memory of arrays that are gone, for the next ones, but in few places.

    The C library gives large blocks back at once, and then every page of every array is waited for
    again, which doubles the time of many queries. It stops doing so for blocks of a size that it
    has seen come and go. The block that shows it is not touched, so it costs nothing.

    What is held on to is held in each arena, of which there are eight per processor unless told
    otherwise: threads that read and build would leave a hundred megabytes behind that nobody uses.
    """
    np.empty(_BLOCK, np.uint8)
    if sys.platform == "linux":
        # Other C libraries for Linux have no such option.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_ARENAS, max(2, processors()))
