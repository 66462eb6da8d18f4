"""Opening a graph to write to it.

An older format is brought up to date, and what was interrupted is finished or undone first. Mostly
there is neither, and what it would take is not even loaded.
"""

from __future__ import annotations

from omnigraph.history.manifest import FORMAT
from omnigraph.history.repository import (
    INIT_CLAIM,
    Repository,
    open_repository,
)
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.location import Location
from omnigraph.storage.lock import LockTimes
from omnigraph.writes.sidecar import list_sidecars


def open_for_writing(
    location: Location, *, times: LockTimes, cache: CacheBudget | None = None
) -> Repository:
    """Open a graph to write to it.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        RecoveryRequired: An interrupted write needs a person.
    """
    repository = open_repository(location, times=times, cache=cache)
    if repository.history.present().format < FORMAT:
        from omnigraph.history.formats import migrate

        with repository.lock():
            migrate(location)
        repository = open_repository(location, times=times, cache=cache)
    _show_schema(repository)
    objects = repository.objects
    if list_sidecars(objects) or objects.read(INIT_CLAIM) is not None:
        from omnigraph.writes.recovery import resolved

        with resolved(repository):
            objects.delete(INIT_CLAIM)
    return repository


def _show_schema(repository: Repository) -> None:
    """Let the files of main show its schema, if the writer that changed it did not get to it."""
    history = repository.history
    schema = history.present().state.schema
    if not schema or history.schemas.shown_hash() == schema:
        return
    from omnigraph.writes.schema_effects import show_schema

    with repository.lock() as lock:
        show_schema(repository, lock)
