"""What child processes do on an object store: take over the test's environment, then write."""

from __future__ import annotations

import os
from typing import Any

from tests.crash.scenarios import init_with, scenario_write


def in_env(environment: dict[str, str], *arguments: Any) -> None:
    """One write with one active failpoint."""
    os.environ.update(environment)
    scenario_write(*arguments)


def init_in_env(environment: dict[str, str], *arguments: Any) -> None:
    """Create a graph with one active failpoint."""
    os.environ.update(environment)
    init_with(*arguments)
