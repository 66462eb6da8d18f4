"""All branches of a graph, as those who look after it see them."""

from __future__ import annotations

from contextlib import suppress

from omnigraph.errors import NotFound
from omnigraph.history.branch_state import BranchState
from omnigraph.history.manifest import MAIN
from omnigraph.history.names import is_internal
from omnigraph.history.store import History


def branch_states(history: History) -> list[BranchState]:
    """All branches as they are now, main first."""
    states = []
    for name in (MAIN, *(b for b in history.branch_names() if not is_internal(b))):
        # One that is deleted meanwhile is left out.
        with suppress(NotFound):
            states.append(history.read(name))
    return states
