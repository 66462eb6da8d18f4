"""What the processes of `test_cleanup.py` do."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from omnigraph import failpoints
from omnigraph.graph import open
from omnigraph.maintenance import cleanup
from omnigraph.writes import heartbeat
from tests.crash import loads

NOW = timedelta(0)


def clean_with(place: str, point: str, skip: int) -> None:
    """Clean up a few files at a time, and die on the way."""
    cleanup._PORTION = 2
    with open(place) as graph, failpoints.active(point, "kill", skip=skip):
        graph.cleanup(confirm=True, leftovers_older_than=NOW)


def delete_with(place: str, branch: str) -> None:
    """Delete a branch, and die before its forks are gone."""
    with open(place) as graph, failpoints.active("branch.deleted", "kill"):
        graph.branches.delete(branch)


def index_with(place: str) -> None:
    """Build indexes, and die before they are committed."""
    with open(place) as graph, failpoints.active("write.prepared", "kill"):
        graph.ensure_indices()


def load_slowly(place: str, source: str, mode: str, folder: str, pulse: float) -> None:
    """Load, and wait with everything staged until the test says to go on."""
    heartbeat.INTERVAL = pulse
    loads.small_parts()
    times = 0

    def wait() -> None:
        nonlocal times
        times += 1
        Path(folder, f"staged{times}").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.005)

    with open(place) as graph, failpoints.active("load.merged", wait):
        graph.load(source, mode=loads._mode(mode), engine="local", actor="child")
    Path(folder, "times").write_text(str(times))
