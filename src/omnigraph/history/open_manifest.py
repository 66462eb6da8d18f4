"""The open manifest of a graph, and noticing that the graph's folder was replaced."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omnigraph.compute.ulids import new_ulid
from omnigraph.errors import NotFound
from omnigraph.history.branch_state import MANIFEST, BranchState, Present, native
from omnigraph.history.lineage import Lineage
from omnigraph.history.manifest import GRAPH_KEY, MAIN
from omnigraph.history.manifest_cache import ManifestCache
from omnigraph.history.manifest_rows import PACKED_FILTER, as_table
from omnigraph.history.packing import unpacked
from omnigraph.history.recent import Recent
from omnigraph.history.schemas import Schemas
from omnigraph.history.touched import TouchedIds
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.cache_files import Stamp
from omnigraph.storage.forks import refuse_fork
from omnigraph.storage.location import Location
from omnigraph.storage.newest_version import NewestVersion
from omnigraph.storage.table_ref import TableRef
from omnigraph.storage.version_file import remote_stamp, stamp_of

if TYPE_CHECKING:
    from omnigraph.storage.ledger import Ledger


class OpenManifest:
    """The manifest of an open graph, and what was read of it.

    The folder of a graph may be removed, recreated or restored while it is open. Versions are
    therefore identified by the stamps of their files, never by their numbers alone. Each read and
    write looks whether the newest version that was seen still exists.

    Attributes:
        epoch: How often the folder was seen replaced. What was read in an earlier one is void.
        touched: What the last commits have touched.
        schemas: The schemas that states of the graph have.
    """

    def __init__(self, location: Location, cache: CacheBudget | None = None) -> None:
        self.location = location
        self._cache_budget = cache or CacheBudget()
        self.schemas = Schemas(location)
        self._process = os.getpid()
        self.epoch = 0
        self._known_graph: list[str | None] = []
        #: The newest version of main that was seen, and the head it had.
        self._anchor: tuple[Stamp, str] | None = None
        self._cache: dict[str, tuple[BranchState, Stamp | None]] = {}
        self._open_ledger: Ledger | None = None
        self._lineages: dict[str, Lineage] = {}
        self._newest = NewestVersion(location, MANIFEST)
        self._manifest_cache = ManifestCache(location)
        self._recent = Recent(location, self._cache_budget.recent_files)
        self.touched = TouchedIds()
        #: Which commits only the second one of two commits comes from, as last looked up.
        self._walked: dict[tuple[str, str], list[str]] = {}
        #: What readers have last seen of main.
        self._seen: tuple[Stamp, Present] | None = None
        #: What could be written to the cache, and is not.
        self._unwritten: tuple[Stamp, Present] | None = None
        self._guard = threading.Lock()
        self._verifying = threading.Lock()

    @property
    def _ledger(self) -> Ledger:
        if self.location.is_local:
            # It costs next to nothing. Object stores are asked once per read, not per request.
            self.verify()
        ledger = self._open_ledger
        if ledger is None:
            ledger = self._open_ledger = self._new_ledger()
        return ledger

    def _new_ledger(self) -> Ledger:
        # Imported here: a reader of cached states does not need Lance.
        from omnigraph.storage.ledger import Ledger

        return Ledger(self.location, MANIFEST, self._cache_budget)

    @property
    def cached_bytes(self) -> int:
        """How much memory Lance uses for what it has read of the manifest."""
        return 0 if self._open_ledger is None else self._open_ledger.cached_bytes

    def exists(self) -> bool:
        """True when there is a graph."""
        return self._ledger.exists()

    def create(self, rows: Iterable[dict[str, Any]]) -> None:
        """Create the manifest: the moment from which the graph exists."""
        graph = new_ulid()
        table = as_table(rows)
        metadata = {**table.schema.metadata, GRAPH_KEY: graph}
        self._ledger.create(table.replace_schema_metadata(metadata))
        self._identify(graph)

    def verify(self) -> int:
        """Look whether the folder still holds the graph; returns the epoch.

        If the graph was restored to another moment of its history, everything is read anew.

        Raises:
            NotFound: The graph is gone, or the folder holds another one.
            UsageError: The graph was opened before this process was forked.
        """
        refuse_fork(self._process)
        if not self._is_intact():
            with self._verifying:
                if not self._is_intact():
                    self._look_closer()
        return self.epoch

    def confirm(self, epoch: int) -> None:
        """Check that what was read in an epoch is still what the folder holds.

        Raises:
            NotFound: It is not.
        """
        if self.verify() != epoch:
            raise NotFound(
                f"the graph at {self.location} was restored to another moment of its history since"
                " this was read; take a new snapshot, or run it again"
            )

    def _is_intact(self) -> bool:
        anchor = self._anchor
        return anchor is None or self._stamp(MAIN, anchor[0].version) == anchor[0]

    def _look_closer(self) -> None:
        assert self._anchor is not None
        ledger = self._new_ledger()
        try:
            self._identify(ledger.metadata(None).get(GRAPH_KEY))
        except NotFound as error:
            if ledger.exists():
                raise
            raise NotFound(
                f"the graph at {self.location} is no longer there: it was removed or moved while it"
                " was open"
            ) from error
        version = ledger.version(None)
        stamp = self._stamp(MAIN, version)
        if not self._is_trimmed(ledger, MAIN, *self._anchor):
            self._forget()
        self._anchor = None if stamp is None else (stamp, self._anchor[1])

    def _is_trimmed(self, ledger: Ledger, branch: str, seen: Stamp, head: str) -> bool:
        """True when a version is gone only because there are so many after it."""
        return (
            self._stamp(branch, seen.version) is None
            and ledger.version(native(branch)) > seen.version
            and self._has_commit(ledger, branch, head)
        )

    def _has_commit(self, ledger: Ledger, branch: str, id: str) -> bool:
        if ledger.rows(native(branch), f"object_id = '{id}'").num_rows:
            return True
        # A cleanup may have packed it, if others have committed since.
        packed = ledger.rows(native(branch), PACKED_FILTER).to_pylist()
        return any(commit.id == id for row in packed for commit in unpacked(row))

    def close(self) -> None:
        """Close the manifest, and drop what was read of it; it is read again when it is used."""
        with self._guard:
            self._drop()

    def _forget(self) -> None:
        with self._guard:
            self.epoch += 1
            self._drop()

    def _drop(self) -> None:
        self._cache.clear()
        self._lineages.clear()
        self._walked = {}
        self._seen = self._unwritten = None
        self.touched = TouchedIds()
        # Lance, too, identifies some things by numbers: it gets a new session.
        self._open_ledger = None

    def _identify(self, graph: str | None) -> None:
        """Check that it is the graph that was opened; the first one is."""
        with self._guard:
            if not self._known_graph:
                self._known_graph.append(graph)
        if self._known_graph[0] != graph:
            raise NotFound(
                f"the graph that was opened at {self.location} is no longer there: the folder holds"
                " another graph now; open it again"
            )

    def _stamp(self, branch: str, version: int) -> Stamp | None:
        ref = TableRef(MANIFEST, native(branch))
        ask = stamp_of if self.location.is_local else remote_stamp
        return ask(self.location, ref, version)
