"""A graph on storage: its files, its tables, its history, and the schema it has accepted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.history.branch_state import MANIFEST
from omnigraph.history.manifest import ManifestState
from omnigraph.history.schemas import SCHEMA_STATE
from omnigraph.history.store import History
from omnigraph.language import Catalog
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.links import refuse_links
from omnigraph.storage.location import Location
from omnigraph.storage.lock import EffectLock, LockTimes, effect_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.turns import Turns

if TYPE_CHECKING:
    from omnigraph.storage.tables import Tables

INIT_CLAIM = "__init_claim.json"
RESTORE_CLAIM = "__restore_claim.json"
_RESTORING = "its restore was interrupted; run `omnigraph restore` again to finish it"
TABLE_FOLDERS = ("nodes", "edges", MANIFEST)


class Repository(Struct, frozen=True, dict=True, eq=False):
    """One graph.

    What queries that find all they need in `__cache/` do without is loaded when it is used.
    """

    location: Location
    history: History
    lock_times: LockTimes
    external_blobs: tuple[str, ...] = ()
    cache: CacheBudget = CacheBudget()
    #: The writes of this process that wait for the effect lock.
    turns: Turns[Any] = field(default_factory=Turns)

    @cached_property
    def objects(self) -> Objects:
        """The control objects."""
        return Objects.at(self.location)

    @property
    def tables(self) -> Tables:
        """The tables; others when the graph's folder was replaced."""
        from omnigraph.storage.tables import Tables

        epoch = self.history.epoch
        known: tuple[int, Tables] | None = self.__dict__.get("_tables")
        if known is None or known[0] != epoch:
            known = self.__dict__["_tables"] = (epoch, Tables(self.location, self.cache))
        return known[1]

    @property
    def cached_bytes(self) -> int:
        """How much memory is used for what storage has read before."""
        known: tuple[int, Tables] | None = self.__dict__.get("_tables")
        return self.history.cached_bytes + (0 if known is None else known[1].cached_bytes)

    def catalog_of(self, state: ManifestState) -> Catalog:
        """The schema of a state."""
        return self.history.schemas.catalog(state.schema)

    def catalog_on(self, branch: str) -> Catalog:
        """The schema that a branch has now."""
        return self.catalog_of(self.history.present(branch).state)

    def close(self) -> None:
        """Close the tables and the manifest; they are opened again when they are used."""
        self.__dict__.pop("_tables", None)
        self.history.close()

    @contextmanager
    def lock(self) -> Iterator[EffectLock]:
        """Hold the effect lock.

        Raises:
            NotFound: The graph is gone, or its folder holds another one.
        """
        # Locking makes the folder, which should stay away if it was removed.
        self.history.verify()
        with effect_lock(self.location, self.objects, self.lock_times) as held:
            self.history.verify()
            yield held


def open_repository(
    location: Location, *, times: LockTimes, cache: CacheBudget | None = None
) -> Repository:
    """Open a graph; looks only, changes nothing.

    Raises:
        NotFound: There is no graph.
        UpgradeRequired: A newer Omnigraph wrote it.
        StorageError: A file of it is damaged; the message names it.
    """
    refuse_file(location)
    refuse_links(location)
    cache = cache or CacheBudget()
    history = History(location, cache)
    try:
        present = history.present()
    except NotFound:
        hint = f"create one with `omnigraph init {location} --schema FILE`"
        objects = Objects.at(location)
        if objects.read(INIT_CLAIM) is not None:
            hint = "its creation was interrupted; run `omnigraph init` again to finish it"
        elif objects.read(RESTORE_CLAIM) is not None:
            hint = _RESTORING
        elif objects.read(SCHEMA_STATE) is not None:
            raise StorageError(f"{location.child(MANIFEST)} is missing from the graph") from None
        raise NotFound(f"there is no graph at {location}; {hint}") from None
    try:
        keys = history.schemas.tables(present.state.schema)
    except StorageError:
        if Objects.at(location).read(RESTORE_CLAIM) is not None:
            raise NotFound(f"there is no graph at {location}; {_RESTORING}") from None
        raise
    for identity, key in keys.items():
        if identity not in present.state.tables:
            raise StorageError(
                f"the schema of the graph at {location} has the type {key.partition(':')[2]}, which"
                " the manifest does not know: the two do not belong together"
            )
    return Repository(location, history, times, cache=cache)


def refuse_file(location: Location) -> None:
    """Refuse a place that is a file."""
    if location.is_local and os.path.isfile(location.uri):
        raise UsageError(f"{location} is a file; a graph is a folder")
