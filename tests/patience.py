"""How long a test waits for what has to happen, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

#: In seconds. Only what hangs takes as long; pytest's own timeout comes later, so that a test can
#: say what it is.
PATIENCE = 240.0


def wait_until(condition: Callable[[], object], what: str, every: float = 0.005) -> None:
    """Wait for a condition that no event announces, such as the state of another process.

    Args:
        condition: Is asked again and again.
        what: Says what does not happen, if it does not.
        every: The pause before it is asked again, in seconds.
    """
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(every)
