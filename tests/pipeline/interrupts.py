"""Ctrl-C in the middle of something."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path


def interrupt_when(marker: Path) -> threading.Thread:
    """Press Ctrl-C as soon as a file is there."""

    def press() -> None:
        deadline = time.monotonic() + 60
        while not marker.exists():
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread
