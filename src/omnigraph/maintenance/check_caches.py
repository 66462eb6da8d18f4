"""Do the files in `__cache/` say what the tables say that they were worked out from?

A file that is damaged fails its checksum and is not used. What is looked at here is the content of
those that would be: columns, which rows there are, orders and numbers of values, topologies, and
the present state of main.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.compute.arrays import as_arrow
from omnigraph.compute.equality import unequal
from omnigraph.errors import StorageError
from omnigraph.history.branch_state import MANIFEST, BranchState
from omnigraph.history.manifest import MAIN, PublishedTable
from omnigraph.history.manifest_cache import ManifestCache
from omnigraph.history.repository import Repository
from omnigraph.language.schema.arrow import table_schema
from omnigraph.query.tables.columns import TableColumns
from omnigraph.query.tables.files import ColumnFiles
from omnigraph.query.tables.memory import MemoryBudget
from omnigraph.query.tables.open_table import OpenTable
from omnigraph.query.tables.topology import Adjacency
from omnigraph.query.tables.topology_cache import EdgeTables, TopologyCache, build
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import FOLDER
from omnigraph.storage.tables import TableSnapshot
from omnigraph.storage.version_file import newest_stamp, stamp_of

#: What the files of a column are named after it.
_CODES, _VALUES, _ORDER, _ALIVE = "#codes", "#values", "#order", "#alive"


def cache_problems(
    repository: Repository, branch: BranchState, tables: Sequence[PublishedTable]
) -> Iterator[tuple[str | None, str]]:
    """What is wrong with the cache of a branch: the table, and what differs.

    Args:
        repository: The graph. On an object store it has no cache.
        branch: The branch.
        tables: Those of its tables that can be read.
    """
    if not repository.location.is_local:
        return
    if branch.name == MAIN and not _agrees_on_main(repository, branch):
        yield None, _text("manifest.json")
    catalog = repository.catalog_of(branch.state)
    known: dict[str, TableColumns] = {}
    for table in tables:
        stamp = stamp_of(repository.location, table.ref, table.version)
        type = catalog.table(table.name)
        if stamp is None or type is None:
            continue
        key = VersionKey.of(table, stamp.content)
        opened = OpenTable(key, table.rows, partial(_open, repository, table), stamp)
        schema = table_schema(type)
        known[table.name] = columns = TableColumns(opened, schema)
        files = ColumnFiles(repository.location.child(f"{FOLDER}/columns"), key)
        for name in sorted(files.names):
            if not _agrees(files, name, columns, schema):
                yield table.key, _text(f"columns/{key.family}@{key.version}-{key.stamp}/{name}")
    topologies = TopologyCache(repository.location, MemoryBudget(0))
    for edge in catalog.edges.values():
        if {edge.name, edge.source, edge.target} <= known.keys():
            ends = EdgeTables(known[edge.name], known[edge.source], known[edge.target])
            if topologies.has_any(ends) and not _agree(topologies, ends):
                yield edge.table_key, _text("topology/ has a file of the edges, which")


def _agrees_on_main(repository: Repository, main: BranchState) -> bool:
    """True when the cache has the present state of main, or does not have it."""
    newest = newest_stamp(repository.location, MANIFEST)
    cached = None if newest is None else ManifestCache(repository.location).read(newest)
    if cached is None or cached.state.version != main.state.version:
        return True
    return all(
        dict(getattr(cached.state, name)) == dict(getattr(main.state, name))
        for name in ("tables", "heads", "tags")
    ) and (cached.state.schema == main.state.schema)


def _text(what: str) -> str:
    return f"{FOLDER}/{what} differs from the tables; delete {FOLDER}/, which is made again"


def _open(repository: Repository, table: PublishedTable) -> TableSnapshot:
    return repository.tables.open(table.ref, table.version)


def _agrees(files: ColumnFiles, name: str, columns: TableColumns, schema: pa.Schema) -> bool:
    """True when a file says what the table says, or is not used."""
    if name == _ALIVE:
        arrays = files.arrays(name)
        return arrays is None or np.array_equal(np.flatnonzero(arrays[0]), columns.positions())
    column, mark, kind = name.partition("#")
    if column not in schema.names:
        return True
    real = columns.columns([column])[column]
    if not kind:
        stored = files.column(name, real.type)
        return stored is None or _same(stored, real)
    if mark + kind == _VALUES:
        codes, values = files.arrays(column + _CODES), files.column(name, real.type)
        return codes is None or values is None or _same(values.take(as_arrow(codes[0])), real)
    if mark + kind == _ORDER:
        arrays = files.arrays(name)
        return arrays is None or _is_order(as_arrow(arrays[0]), real)
    return True


def _same(stored: pa.Array, real: pa.Array) -> bool:
    if len(stored) != len(real):
        return False
    # Nothing is equal to NaN.
    return not unequal(pa.chunked_array([stored]), pa.chunked_array([real])).any()


def _is_order(order: pa.Array, real: pa.Array) -> bool:
    """True when some positions are those of all values, in the order of the values."""
    if len(order) != len(real) - real.null_count or len(order.unique()) != len(order):
        return False
    values = real.take(order)
    in_order = pc.all(pc.less_equal(values[:-1], values[1:]), min_count=0)
    return values.null_count == 0 and bool(in_order.as_py())


def _agree(topologies: TopologyCache, ends: EdgeTables) -> bool:
    """True when a query finds the edges that the tables have, also by a file of another version."""
    try:
        real, cached = build(ends), topologies.get(ends)[1]
    except StorageError:
        # An edge has lost an end, which is reported as that.
        return True
    return _edges(cached.out) == _edges(real.out) and _edges(cached.into) == _edges(real.into)


def _edges(side: Adjacency) -> list[bytes]:
    """All edges in one direction, in an order that does not depend on how they came."""
    packed = side.packed
    sources = np.repeat(np.arange(len(packed.degrees)), packed.degrees)
    ends, edges = packed.lists.neighbours.astype(np.int64), packed.lists.edges.astype(np.int64)
    order = np.lexsort((edges, ends, sources))
    return [part[order].tobytes() for part in (sources.astype(np.int64), ends, edges)]
