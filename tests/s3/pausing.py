"""Real processes that are stopped in the middle of a write until their lease has run out."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial

from omnigraph import failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph import open
from tests.crash.scenarios import run_scenario

#: The child's lease: it ends soon after the child is stopped.
LEASE = "1.0"
POINTS = [p for p in failpoints.POINTS if p.startswith(("write.", "recovery."))]


def write_and_stop(
    environment: dict[str, str],
    place: str,
    name: str,
    branch: str,
    point: str,
    skip: int,
    dies_after: int,
) -> None:
    """One write that is stopped at a point, and after it went on dies some points later.

    Args:
        environment: Takes the place of the process's own.
        place: The graph.
        name: The scenario, on its `branch`.
        point: Where it is stopped, after passing it `skip` times.
        dies_after: At which point after that it is killed; 0 is never.
    """
    os.environ.update(environment, OMNIGRAPH_LEASE_SECONDS=LEASE)
    left, later = skip, -1

    def hit(here: str) -> None:
        nonlocal left, later
        if later >= 0:
            later += 1
            if later == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
        elif here == point:
            if left == 0:
                later = 0
                os.kill(os.getpid(), signal.SIGSTOP)
            left -= 1

    with ExitStack() as stack:
        for each in POINTS:
            stack.enter_context(failpoints.active(each, partial(hit, each)))
        try:
            with open(place) as graph:
                run_scenario(graph, name, branch, "child")
        except OmnigraphError:
            raise SystemExit(3) from None
