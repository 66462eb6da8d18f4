"""Opening a graph to write to it.

An older format is brought up to date, and what was interrupted is finished or undone first.
"""

from __future__ import annotations

from omnigraph.errors import NotFound
from omnigraph.history.formats import migrate, stamp_of
from omnigraph.history.manifest import FORMAT
from omnigraph.history.repository import (
    INIT_CLAIM,
    TABLE_FOLDERS,
    Repository,
    open_repository,
    refuse_file,
)
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.relocation import is_moved, settle
from omnigraph.writes.recovery import recover_all
from omnigraph.writes.sidecar import list_sidecars


def open_for_writing(location: Location, *, times: LockTimes) -> Repository:
    """Open a graph to write to it.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        RecoveryRequired: An interrupted write needs a person.
    """
    refuse_file(location)
    if Objects(location).top_level() and _needs_migration(location):
        with effect_lock(location, Objects(location), times):
            migrate(location)
    repository = open_repository(location, times=times)
    objects = repository.objects
    moved = is_moved(objects)
    if moved or list_sidecars(objects) or objects.read(INIT_CLAIM) is not None:
        with repository.lock() as lock:
            if moved:
                settle(objects, TABLE_FOLDERS)
            recover_all(repository, lock)
            objects.delete(INIT_CLAIM)
    return repository


def _needs_migration(location: Location) -> bool:
    try:
        return stamp_of(location) < FORMAT
    except NotFound:
        return False
