"""What one query reads from: the tables of one snapshot, with what earlier queries have left."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnigraph.history.manifest import ManifestState
from omnigraph.history.repository import Repository
from omnigraph.language import Catalog
from omnigraph.query.images import ImageCache, TableImage, TableKey
from omnigraph.query.shapes import EdgeTables, Shapes
from omnigraph.query.topology import Adjacency, Topology
from omnigraph.storage.tables import TableSnapshot


class Caches:
    """What queries of one graph share."""

    def __init__(self, image_bytes: int, folder: Path | None = None) -> None:
        self.images = ImageCache(image_bytes)
        self.shapes = Shapes(folder)


class Source:
    """One state of the graph, for one query."""

    def __init__(
        self, repository: Repository, state: ManifestState, identity: str, caches: Caches
    ) -> None:
        self._repository = repository
        self._state = state
        self._identity = identity
        self._caches = caches
        self._tables: dict[str, TableSnapshot] = {}
        self._images: dict[str, TableImage] = {}
        self._both: dict[str, Adjacency] = {}
        self._topologies: dict[str, Topology] = {}

    @property
    def catalog(self) -> Catalog:
        """The schema."""
        return self._repository.catalog

    def rows(self, type: str) -> int:
        """How many rows a type has."""
        table = self._state.by_name(type)
        return table.rows if table is not None else 0

    def table(self, type: str) -> TableSnapshot:
        """The table of a type."""
        if type not in self._tables:
            table = self._state.by_name(type)
            assert table is not None
            self._tables[type] = self._repository.tables.open(table.ref, table.version)
        return self._tables[type]

    def image(self, type: str) -> TableImage:
        """The table of a type, by position."""
        if type not in self._images:
            self._images[type] = self._caches.images.image(self._key(type), self.table(type))
        return self._images[type]

    def topology(self, edge: str) -> Topology:
        """The shape of an edge type."""
        if edge not in self._topologies:
            self._topologies[edge] = self._topology(edge)
        return self._topologies[edge]

    def adjacency(self, edge: str, direction: str) -> Adjacency:
        """Neighbours along an edge type: `out`, `in`, or `both`."""
        topology = self.topology(edge)
        if direction == "out":
            return topology.out
        if direction == "in":
            return topology.into
        if edge not in self._both:
            self._both[edge] = _undirected(topology)
        return self._both[edge]

    def _topology(self, edge: str) -> Topology:
        type = self.catalog.edges[edge]
        names = (edge, type.source, type.target)
        return self._caches.shapes.get(
            EdgeTables(
                (self._key(names[0]), self._key(names[1]), self._key(names[2])),
                self.table(edge),
                self.image(type.source),
                self.image(type.target),
            )
        )

    def _key(self, type: str) -> TableKey:
        table = self._state.by_name(type)
        assert table is not None
        # A branch of the same name, made later, has other tables under the same address.
        lifetime = None if table.branch is None else f"{table.branch} {self._identity}"
        return table.path, lifetime, table.version


def _undirected(topology: Topology) -> Adjacency:
    """Edges from both ends; one that starts and ends at the same node is there once."""
    out, into = topology.out, topology.into
    size = max(out.size, into.size)
    sources = np.repeat(np.arange(out.size), out.degrees)
    targets = out.neighbours.astype(np.int64)
    loops = sources == targets
    return Adjacency.build(
        np.concatenate([sources, targets[~loops]]),
        np.concatenate([targets, sources[~loops]]),
        np.concatenate([out.edges, out.edges[~loops]]),
        size,
    )
