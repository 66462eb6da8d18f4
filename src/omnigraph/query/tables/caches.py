"""What the queries of one graph share: columns, topologies and plans of earlier ones."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

from omnigraph.compute.memory import set_up_memory
from omnigraph.history.manifest import PublishedTable
from omnigraph.history.store import History
from omnigraph.query.computed import GetEmbedder
from omnigraph.query.prepared import PreparedCache
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import TableColumns
from omnigraph.query.tables.disk import DiskBudget
from omnigraph.query.tables.files import ColumnFiles
from omnigraph.query.tables.memory import MemoryBudget
from omnigraph.query.tables.topology_cache import TopologyCache
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.query.tables.writer import CacheWriter
from omnigraph.storage.cache_budget import CacheBudget
from omnigraph.storage.cache_files import FOLDER, Stamp
from omnigraph.storage.location import Location
from omnigraph.storage.version_file import stamp_of


class Caches:
    """What queries of one graph share. Safe to share between threads."""

    def __init__(
        self,
        budget: CacheBudget,
        location: Location | None = None,
        embedder: GetEmbedder | None = None,
        epoch: int = 0,
    ) -> None:
        set_up_memory()
        #: Where the graph is, if cache files can be written there.
        self._location = location if location is not None and location.is_local else None
        #: How often the graph's folder was replaced before: what was left then is of no use.
        self.epoch = epoch
        self.budget = budget
        self.memory = MemoryBudget(budget.queries)
        folder = "" if self._location is None else self._location.child(FOLDER)
        self.disk = DiskBudget(folder, budget.query_files)
        self.topologies = TopologyCache(self._location, self.memory, self.disk.write)
        self.plans = PreparedCache()
        self.embedder = embedder
        self._guard = threading.Lock()
        self._keys: dict[tuple[str, str | None, int], tuple[VersionKey, Stamp | None]] = {}
        self._columns: OrderedDict[VersionKey, TableColumns] = OrderedDict()
        #: Tables of which something can be written to files.
        self._unwritten: dict[VersionKey, TableColumns] = {}
        self._history: History | None = None
        self.writer = CacheWriter(self._write)

    def anew(self, epoch: int) -> Caches:
        """Empty caches, for another epoch."""
        return Caches(self.budget, self._location, self.embedder, epoch)

    @property
    def has_files(self) -> bool:
        """True when something can be left in files."""
        return self._location is not None

    def columns(self, key: VersionKey, make: Callable[[], TableColumns]) -> TableColumns:
        """The columns of a version of a table, which are made when they are not known yet."""
        with self._guard:
            known = self._columns.get(key)
            if known is not None:
                self._columns.move_to_end(key)
                return known
        # Others do not wait while they are made.
        new = make()
        with self._guard:
            columns = self._columns.setdefault(key, new)
            versions = [known for known in self._columns if known.table == key.table]
            for old in versions[: -policy.VERSIONS_IN_MEMORY]:
                self.memory.forget(self._columns.pop(old))
            return columns

    def key_of(self, table: PublishedTable) -> tuple[VersionKey, Stamp | None]:
        """What tells a version of a table from all others, and the stamp that it has it from.

        It is looked up once: when the graph's folder is replaced, there are other caches.
        """
        place = (table.path, table.branch, table.version)
        known = self._keys.get(place)
        if known is None:
            stamp = None
            if self._location is not None:
                stamp = stamp_of(self._location, table.ref, table.version)
            known = VersionKey.of(table, "" if stamp is None else stamp.content), stamp
            if table.branch is None or known[0].lifetime:
                # Forks were once named like their branches, of which there may be another one.
                self._keys[place] = known
                while len(self._keys) > policy.KEYS_IN_MEMORY:
                    self._keys.pop(next(iter(self._keys)), None)
        return known

    def write_later(self, used: Iterable[TableColumns], history: History) -> None:
        """Leave what a query has worked out in files for other processes, after its answer."""
        unwritten = {columns.table.key: columns for columns in used if columns.can_be_written}
        if unwritten or self.topologies.can_be_written or history.can_be_written:
            self._unwritten |= unwritten
            self._history = history
            self.writer.start()

    def _write(self) -> None:
        rest = policy.WRITTEN_AT_ONCE
        while self._unwritten:
            columns = self._unwritten.popitem()[1]
            rest -= columns.write(rest)
        self.topologies.write()
        if self._history is not None:
            self._history.keep()

    def column_files(self, key: VersionKey) -> ColumnFiles | None:
        """The files with columns of a version of a table; None when there can be none."""
        if self._location is None or not key.stamp:
            return None
        return ColumnFiles(f"{self.disk.folder}/columns", key, self.disk.write)
