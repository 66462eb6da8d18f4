"""What one query reads: the tables of one snapshot, with what earlier queries left in caches."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from omnigraph.history.manifest import ManifestState, PublishedTable
from omnigraph.history.models import model_of
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog
from omnigraph.language.schema.arrow import table_schema
from omnigraph.query.tables.columns import TableColumns
from omnigraph.query.tables.open_table import OpenTable
from omnigraph.query.tables.topology import Adjacency, Topology
from omnigraph.query.tables.topology_cache import CachedTopology, EdgeTables
from omnigraph.query.tables.version_key import VersionKey

if TYPE_CHECKING:
    from omnigraph.query.search.searches import Searches
    from omnigraph.query.tables.caches import Caches
    from omnigraph.storage.tables import TableSnapshot


class Source:
    """One state of the graph, for one query."""

    def __init__(self, repository: Repository, state: ManifestState, caches: Caches) -> None:
        self._repository = repository
        self._state = state
        #: The schema of the state.
        self.catalog: Catalog = repository.catalog_of(state)
        self._caches = caches
        self._columns: dict[str, TableColumns] = {}
        self._topologies: dict[str, tuple[CachedTopology, Topology]] = {}
        #: What the query searches for, if it does.
        self.searches: Searches | None = None

    def with_searches(self, searches: Searches) -> Source:
        """The same with what a query searches for."""
        source = copy(self)
        source.searches = searches
        return source

    @property
    def magnitudes(self) -> tuple[int, ...]:
        """How large the tables are, in powers of two."""
        return self._state.magnitudes

    def embedding_model(self, type: str, property: str) -> str | None:
        """The model that made the vectors of a property, if that is known."""
        table = self.catalog.type(type)
        return model_of(self._repository.objects, table.properties[property])

    def rows(self, type: str) -> int:
        """How many rows a type has."""
        table = self._state.by_name(type)
        return table.rows if table is not None else 0

    def table(self, type: str) -> TableSnapshot:
        """The table of a type."""
        return self.columns(type).snapshot

    def columns(self, type: str) -> TableColumns:
        """The columns of a type's table, by position."""
        if type not in self._columns:
            table = self._state.by_name(type)
            assert table is not None
            self._columns[type] = self._caches.columns(
                self.key(type), lambda: self._new_columns(type, table)
            )
        return self._columns[type]

    def _new_columns(self, type: str, table: PublishedTable) -> TableColumns:
        declared = self.catalog.type(type)
        key, stamp = self._caches.key_of(table)
        tables = self._repository
        opened = OpenTable(
            key, table.rows, lambda: tables.tables.open(table.ref, table.version), stamp
        )
        return TableColumns(opened, table_schema(declared), self._caches.column_files(key))

    def release(self) -> None:
        """Let other queries have what was worked out, within the budget of memory."""
        topologies = [cached for cached, _ in self._topologies.values()]
        self._caches.memory.measure([*self._columns.values(), *topologies])

    def write_later(self) -> None:
        """Leave what was worked out in files for other processes, after the answer."""
        self._caches.write_later(self._columns.values(), self._repository.history)

    def topology(self, edge: str) -> Topology:
        """The topology of an edge type."""
        if edge not in self._topologies:
            self._topologies[edge] = self._caches.topologies.get(self._edge_tables(edge))
        return self._topologies[edge][1]

    def has_any_topology(self, edge: str) -> bool:
        """True when there is a topology of an edge type, of this version or of another one."""
        return self._caches.topologies.has_any(self._edge_tables(edge))

    def adjacency(self, edge: str, direction: str) -> Adjacency:
        """Neighbours along an edge type: `out`, `in`, or `both`."""
        topology = self.topology(edge)
        if direction == "out":
            return topology.out
        return topology.into if direction == "in" else topology.both

    def _edge_tables(self, edge: str) -> EdgeTables:
        type = self.catalog.edges[edge]
        return EdgeTables(self.columns(edge), self.columns(type.source), self.columns(type.target))

    def key(self, type: str) -> VersionKey:
        """What tells the version of a type's table from all others."""
        table = self._state.by_name(type)
        assert table is not None
        return self._caches.key_of(table)[0]
