"""Ctrl-C in the middle of something."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from tests.patience import wait_until


def interrupt_when(marker: Path) -> threading.Thread:
    """Press Ctrl-C as soon as a file is there."""

    def press() -> None:
        wait_until(marker.exists, f"{marker} does not appear")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread
