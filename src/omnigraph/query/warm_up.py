"""What the first queries after a load need, worked out while nobody waits for it.

A load tells which tables it has written. Their topologies and the order of their keys are made in a
thread of its own, which begins when the rows are published and goes on while indexes are built.
Then they are in memory for this process, and in files of the cache for others. Nothing depends on
it: what is not there, because it failed or is too large, is made by the first query that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import Struct

from omnigraph.compute.keys import physical
from omnigraph.history.repository import Repository
from omnigraph.history.revisions import head_of
from omnigraph.language import EdgeType
from omnigraph.query.source import Source
from omnigraph.query.tables import policy
from omnigraph.query.tables.caches import Caches
from omnigraph.query.tables.writer import CacheWriter


class LoadedRows(Struct, frozen=True):
    """What a load has written.

    Attributes:
        branch: Where to.
        written: By type, how many rows it has written.
        is_final: Nothing is going to follow, such as indexes; keys and files are of use now.
    """

    branch: str
    written: Mapping[str, int]
    is_final: bool


class WarmUp:
    """Prepares what loads have written for queries. Safe to share between threads."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._waiting: list[tuple[Caches, LoadedRows]] = []
        self._worker = CacheWriter(self._work, delay=0.0)

    def start(self, caches: Caches, loaded: LoadedRows) -> None:
        """Have the tables of a load prepared soon."""
        large = max(loaded.written.values(), default=0) >= policy.LOADED_EDGES
        if large and caches.has_files and caches.memory.limit:
            self._waiting.append((caches, loaded))
            self._worker.start()

    def finish(self) -> None:
        """Wait until all is prepared that was asked for."""
        self._worker.finish()

    def _work(self) -> None:
        while self._waiting:
            caches, loaded = self._waiting.pop(0)
            # Whatever happens here, the load stands; a query reports what is wrong with a table.
            with suppress(Exception):
                self._prepare(caches, loaded)

    def _prepare(self, caches: Caches, loaded: LoadedRows) -> None:
        head = head_of(self._repository.history, loaded.branch)
        if head.epoch != caches.epoch:
            # The graph's folder was replaced meanwhile.
            return
        source = Source(self._repository, head.state, caches)
        try:
            for edge in self._edges(source, caches, loaded):
                with suppress(Exception):
                    source.topology(edge)
            if loaded.is_final:
                self._prepare_keys(source, loaded)
        finally:
            source.release()
        if loaded.is_final:
            self._repository.history.keep(at_once=True)
            source.write_later()

    def _edges(self, source: Source, caches: Caches, loaded: LoadedRows) -> Iterator[str]:
        """The edge types whose topologies are going to be asked for, and fit into the cache."""
        for edge in source.catalog.edges.values():
            count = source.rows(edge.name)
            nodes = source.rows(edge.source) + source.rows(edge.target)
            written = loaded.written.get(edge.name, 0)
            is_new = written >= policy.LOADED_EDGES and written * policy.LOADED_PART >= count
            is_touched = not loaded.written.keys().isdisjoint((edge.name, edge.source, edge.target))
            if count * policy.EDGE_BYTES + nodes * policy.NODE_BYTES > caches.memory.limit:
                continue
            if is_new or (is_touched and source.has_any_topology(edge.name)):
                yield edge.name

    def _prepare_keys(self, source: Source, loaded: LoadedRows) -> None:
        """Put the keys of nodes in order."""
        for name in loaded.written:
            type = source.catalog.table(name)
            if type is None or isinstance(type, EdgeType) or len(type.key) != 1:
                continue
            with suppress(Exception):
                source.columns(name).prepare_keys(physical(type.key[0], type))
