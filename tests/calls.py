"""Counting calls of functions: how much Python does for something, on however busy a machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C, while something is done."""
    count = 0

    def note(_frame: object, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
