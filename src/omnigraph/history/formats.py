"""Versions of the manifest's own shape, and the steps from each to the next.

Each step is idempotent, also when two processes run it at once, and runs on a read-write open
before anything looks at branches. The stamp is written after the step has done its work on every
branch, so that a step that was killed runs again.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph.history.branch_state import MANIFEST, format_of
from omnigraph.history.manifest import FORMAT, FORMAT_KEY
from omnigraph.history.names import RUN_PREFIX
from omnigraph.history.schemas import Schemas
from omnigraph.storage.ledger import Ledger
from omnigraph.storage.location import Location


def _declare_key(ledger: Ledger) -> None:
    """1 → 2: the key column was not declared, so two inserts of one key did not conflict."""
    for branch in (None, *ledger.branches()):
        if not ledger.has_key(branch):
            ledger.set_key(branch)


def _sweep_runs(ledger: Ledger) -> None:
    """2 → 3: branches `__run__…` of an early way of loading were left behind."""
    while True:
        known = ledger.branches()
        parents = {details["parent_branch"] for details in known.values()}
        # One that a user's branch was created from has to stay; it is hidden.
        free = [b for b in known if b.startswith(RUN_PREFIX) and b not in parents]
        if not free:
            return
        for branch in free:
            ledger.delete_branch(branch)


def _store_schema(ledger: Ledger) -> None:
    """3 → 4: a graph had one schema, and no state or commit said which."""
    Schemas(ledger.location).store_origin()


_STEPS: dict[int, Callable[[Ledger], None]] = {
    1: _declare_key,
    2: _sweep_runs,
    3: _store_schema,
}


def stamp_of(location: Location) -> int:
    """The format a graph is in.

    Raises:
        UpgradeRequired: It is newer than this Omnigraph.
    """
    return format_of(Ledger(location, MANIFEST).metadata(None))


def migrate(location: Location) -> list[int]:
    """Bring a graph to the newest format; returns the formats it went through.

    The caller holds the effect lock.
    """
    ledger = Ledger(location, MANIFEST)
    passed = []
    for number in range(stamp_of(location), FORMAT):
        _STEPS[number](ledger)
        for branch in (*ledger.branches(), None):
            ledger.set_metadata(branch, {FORMAT_KEY: str(number + 1)})
        passed.append(number + 1)
    return passed
