"""The cache of topologies: in memory, on disk, and patched from the version before.

A topology depends on the edges, and on which row of a node table an id is. Row ids of nodes stay as
they are until a table is written anew as a whole; then, or when much has changed, the topology is
built again from the ids.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, ValidationError

from omnigraph.compute.arrays import as_arrow, as_numpy
from omnigraph.compute.threads import in_threads, processors
from omnigraph.errors import StorageError
from omnigraph.query.budget import run_long
from omnigraph.query.tables import policy
from omnigraph.query.tables.columns import TableColumns
from omnigraph.query.tables.files import MappedArrays, Write, map_file, write_arrays
from omnigraph.query.tables.large_texts import in_one_piece, joined
from omnigraph.query.tables.memory import Held, MemoryBudget
from omnigraph.query.tables.open_table import OpenTable
from omnigraph.query.tables.topology import (
    Adjacency,
    Ends,
    Ints,
    Lists,
    Narrow,
    Packed,
    Topology,
)
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.storage.cache_files import FOLDER, remove_file
from omnigraph.storage.location import Location
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.version_file import stamp_of

if TYPE_CHECKING:
    from omnigraph.storage.snapshot import FragmentState
    from omnigraph.storage.tables import TableSnapshot

Keys = tuple[VersionKey, VersionKey, VersionKey]

#: Where the arrays of a direction begin in a file: where neighbours start, neighbours, edges.
_FIRST_ARRAYS = (0, 3)
_IDS = pa.schema([("id", pa.string())])


class EdgeVersions(Struct, frozen=True):
    """An edge table and the node tables at its ends, each at one version."""

    edges: OpenTable
    source: OpenTable
    target: OpenTable

    @property
    def keys(self) -> Keys:
        """What tells the versions from all others."""
        return self.edges.key, self.source.key, self.target.key


class EdgeTables(Struct, frozen=True):
    """The same with columns that were read."""

    edges: TableColumns
    source: TableColumns
    target: TableColumns

    @property
    def keys(self) -> Keys:
        """What tells the versions from all others."""
        return self.versions.keys

    @property
    def versions(self) -> EdgeVersions:
        """The tables without their columns."""
        return EdgeVersions(self.edges.table, self.source.table, self.target.table)


class CachedTopology:
    """A topology in memory, with the tables from which later versions can be told apart.

    Attributes:
        content: Both; None when they were let go.
        used: When it was last used.
    """

    def __init__(self, versions: EdgeVersions, topology: Topology) -> None:
        self.content: tuple[EdgeVersions, Topology] | None = (versions, topology)
        self.used = time.monotonic()

    @property
    def state(self) -> tuple[int, int]:
        """What differs when something else is held."""
        content = self.content
        if content is None:
            return 0, 0
        versions, topology = content
        tables = versions.edges.is_open + versions.source.is_open + versions.target.is_open
        return tables, topology.state

    def held(self) -> list[Held]:
        """What is held, which is let go together."""
        content = self.content
        if content is None:
            return []
        versions, topology = content
        tables = (versions.edges, versions.source, versions.target)
        sizes = {id(table): table.bytes for table in tables}
        return [Held("", self.used, sizes | topology.sizes())]

    def let_go(self, name: str) -> None:
        """Let go of it. Who uses it at the moment still has it."""
        self.content = None


class TopologyCache:
    """The topologies of one graph. Safe to share between threads."""

    def __init__(
        self, location: Location | None, memory: MemoryBudget, write: Write = write_arrays
    ) -> None:
        self._location = location
        self._memory = memory
        self._write_arrays = write
        self._folder = None if location is None else location.child(f"{FOLDER}/topology")
        self._guard = threading.Lock()
        #: By edge table, held while a topology of it is made.
        self._locks: dict[tuple[str, str | None, str], threading.Lock] = {}
        self._cached: dict[Keys, CachedTopology] = {}
        #: What could be on disk and is not.
        self._unwritten: dict[Keys, CachedTopology] = {}

    def get(self, tables: EdgeTables) -> tuple[CachedTopology, Topology]:
        """The topology of an edge table, and what holds it."""
        keys = tables.keys
        return self._in_memory(keys) or run_long(
            "read edges", tables.edges.rows, lambda: self._add(tables)
        )

    def _add(self, tables: EdgeTables) -> tuple[CachedTopology, Topology]:
        """Read or build a topology that is not in memory."""
        keys = tables.keys
        # Who comes second waits, instead of doing the same work.
        with self._locks.setdefault(keys[0].table, threading.Lock()):
            return self._in_memory(keys) or self._new(tables)

    def has_any(self, tables: EdgeTables) -> bool:
        """True when there is a topology of the edge table, of this version or of another one."""
        return self._base(tables.keys) is not None or bool(self._stored(tables.keys))

    def _in_memory(self, keys: Keys) -> tuple[CachedTopology, Topology] | None:
        known = self._cached.get(keys)
        content = None if known is None else known.content
        if known is None or content is None:
            return None
        known.used = time.monotonic()
        return known, content[1]

    def _new(self, tables: EdgeTables) -> tuple[CachedTopology, Topology]:
        keys = tables.keys
        topology = self._read(tables.versions)
        is_wanted = False
        if topology is None:
            base = self._base(keys) or self._stored_base(tables)
            topology = None if base is None else _patched(*base, tables)
            if base is None or topology is None:
                topology = build(tables)
                is_wanted = True
            elif topology is base[1]:
                # Only indexes are new. One file is enough, of the version that is read from now on.
                with self._guard:
                    is_wanted = self._unwritten.pop(base[0].keys, None) is not None
            else:
                is_wanted = abs(topology.count - base[1].count) > policy.MOST_CHANGES
            is_wanted = is_wanted or topology.count < policy.LARGE_TOPOLOGY_EDGES
        cached = CachedTopology(tables.versions, topology)
        with self._guard:
            if (previous := self._cached.get(keys)) is not None:
                self._memory.forget(previous)
            self._cached[keys] = cached
            if is_wanted:
                self._unwritten[keys] = cached
            self._drop_old(keys)
        return cached, topology

    def _base(self, keys: Keys) -> tuple[EdgeVersions, Topology] | None:
        """What was used last of the same edge table."""
        with self._guard:
            mine = [c for k, c in self._cached.items() if k[0].table == keys[0].table]
        bases = [(c.used, c.content) for c in mine if c.content is not None]
        return max(bases, key=lambda base: base[0])[1] if bases else None

    def _drop_old(self, keys: Keys) -> None:
        """Drop what was let go, and all but a few versions of an edge table."""
        gone = [k for k, cached in self._cached.items() if cached.content is None]
        mine = [(c.used, k) for k, c in self._cached.items() if k[0].table == keys[0].table]
        mine.sort(key=lambda entry: entry[0])
        for old in {*gone, *(k for _, k in mine[: -policy.VERSIONS_IN_MEMORY])}:
            self._memory.forget(self._cached.pop(old))
            self._unwritten.pop(old, None)

    @property
    def can_be_written(self) -> bool:
        """True when there is something to write to files now."""
        if self._folder is None or not self._unwritten:
            return False
        with self._guard:
            return any(map(_is_worth_a_file, self._unwritten.values()))

    def write(self) -> None:
        """Leave topologies in files: large ones, and those of versions that stay for a while."""
        with self._guard:
            chosen = {k: c for k, c in self._unwritten.items() if _is_worth_a_file(c)}
            self._unwritten = {k: c for k, c in self._unwritten.items() if k not in chosen}
        for keys, cached in chosen.items():
            if (content := cached.content) is not None:
                self._write(keys, content[1])

    # --- on disk ---

    def _stored_base(self, tables: EdgeTables) -> tuple[EdgeVersions, Topology] | None:
        """The newest topology on disk of the same tables at other versions."""
        stored = self._stored(tables.keys)
        mapped = map_file(stored[-1]) if stored else None
        if mapped is None or self._location is None:
            return None
        try:
            keys = [VersionKey.from_list(key) for key in mapped.about["keys"]]
        except (KeyError, TypeError, ValidationError):
            return None
        if [key.table for key in keys] != [key.table for key in tables.keys]:
            return None
        stamps = [stamp_of(self._location, key.ref, key.version) for key in keys]
        if [stamp and stamp.content for stamp in stamps] != [key.stamp for key in keys]:
            # The versions were made anew, such as after a backup was put back.
            return None
        now = (tables.edges, tables.source, tables.target)
        try:
            before = EdgeVersions(*(_at(one, key) for one, key in zip(now, keys, strict=True)))
        except StorageError:
            # The version is gone.
            return None
        topology = StoredTopology(mapped, before).topology()
        return None if topology is None else (before, topology)

    def _read(self, versions: EdgeVersions) -> Topology | None:
        keys = versions.keys
        if self._folder is None or not keys[0].stamp:
            return None
        mapped = map_file(f"{self._folder}/{_file_name(keys)}")
        if mapped is None or mapped.about.get("keys") != [key.to_list() for key in keys]:
            return None
        return StoredTopology(mapped, versions).topology()

    def _write(self, keys: Keys, topology: Topology) -> None:
        """Leave a topology on disk. It can be made again, so nothing depends on this."""
        if self._folder is None:
            return
        sides = (topology.out.packed, topology.into.packed)
        arrays = [
            array
            for side in sides
            for array in (side.starts, side.lists.neighbours, side.lists.edges)
        ]
        file = f"{self._folder}/{_file_name(keys)}"
        described = [key.to_list() for key in keys]
        if self._write_arrays(file, arrays, keys=described, is_set=topology.out.packed.is_set):
            for old in self._stored(keys)[: -policy.VERSIONS_ON_DISK]:
                remove_file(old)

    def _stored(self, keys: Keys) -> list[str]:
        """Where topologies of the same edge table are, the newest last."""
        if self._folder is None:
            return []
        prefix = f"{keys[0].family}@"
        try:
            entries = [e for e in os.scandir(self._folder) if e.name.startswith(prefix)]
            entries.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        except OSError:
            return []
        return [entry.path for entry in entries]


def _is_worth_a_file(cached: CachedTopology) -> bool:
    content = cached.content
    if content is None:
        return False
    return content[1].count >= policy.LARGE_TOPOLOGY_EDGES or content[0].edges.is_settled


def _at(now: TableColumns, key: VersionKey) -> OpenTable:
    """Another version of a table."""
    snapshot = now.snapshot.at(key.version)
    return OpenTable(key, snapshot.count(), lambda: snapshot)


class StoredTopology:
    """A topology in a file: neighbours and edges are verified when a query first needs them.

    Most queries need those of one direction, and no edges. What is damaged is made from the tables.
    """

    def __init__(self, mapped: MappedArrays, versions: EdgeVersions) -> None:
        self._mapped = mapped
        self._versions = versions

    def topology(self) -> Topology | None:
        """The topology; None when it cannot be used."""
        starts = [self._mapped.array(first) for first in _FIRST_ARRAYS]
        if starts[0] is None or starts[1] is None:
            return None
        is_set = self._mapped.about["is_set"]
        out = Packed(starts[0], StoredLists(self, 0), is_set=is_set)
        into = Packed(starts[1], StoredLists(self, 1), is_set=is_set)
        return Topology(out.adjacency, into.adjacency)

    def unverified(self, direction: int, part: int) -> Narrow:
        """An array, only for its length: neighbours (1) or edges (2)."""
        return self._mapped.unverified(_FIRST_ARRAYS[direction] + part)

    def verified(self, direction: int, part: int) -> Narrow:
        """An array that can be used."""
        array = self._mapped.array(_FIRST_ARRAYS[direction] + part)
        return self._again[direction][part - 1] if array is None else array

    @cached_property
    def _again(self) -> list[tuple[Ends, Narrow]]:
        """Neighbours and edges of both directions, made again.

        Neighbours are in the same places. So are the edges, but for those that join the same nodes:
        these may be in another order, which does not matter as long as it is the same for all.
        """
        remove_file(self._mapped.file)
        versions = self._versions
        tables = EdgeTables(
            *(TableColumns(t, _IDS) for t in (versions.edges, versions.source, versions.target))
        )
        topology = run_long("read edges", versions.edges.rows, lambda: build(tables))
        sides = [side.packed.lists for side in (topology.out, topology.into)]
        if any(len(lists) != len(self.unverified(n, 1)) for n, lists in enumerate(sides)):
            raise StorageError(f"the edges of {versions.edges.key.ref} do not stay as they are")
        return [(lists.neighbours, lists.edges) for lists in sides]


class StoredLists(Lists):
    """Neighbours and their edges in one direction of a topology in a file."""

    def __init__(self, stored: StoredTopology, direction: int) -> None:
        super().__init__(stored.unverified(direction, 1), stored.unverified(direction, 2))
        self._stored = stored
        self._direction = direction

    @cached_property
    def neighbours(self) -> Ends:
        """Positions of neighbours."""
        return self._stored.verified(self._direction, 1)

    @cached_property
    def edges(self) -> Narrow:
        """The row ids of the edges to them."""
        return self._stored.verified(self._direction, 2)


def build(tables: EdgeTables) -> Topology:
    """Make a topology from the ids of the edges' ends.

    Raises:
        StorageError: The node at an end of an edge is not there: a table is damaged.
    """
    fragments = tables.edges.snapshot.fragments().values()
    ends = _resolved(tables, list(fragments))
    return Topology.build(*ends, tables.source.size, tables.target.size)


def _resolved(
    tables: EdgeTables, fragments: Sequence[FragmentState]
) -> tuple[Narrow, Narrow, Narrow]:
    """The positions of both ends, and the row ids, of all edges in some fragments."""
    table = tables.edges.snapshot
    ids = [nodes.columns(["id"])["id"] for nodes in (tables.source, tables.target)]

    def resolve(group: list[int]) -> list[Narrow]:
        rows = table.read(["src", "dst"], places=True, fragments=group)
        ends: list[Narrow] = []
        for column, known_ids in zip(("src", "dst"), ids, strict=True):
            positions = pc.index_in(rows[column], value_set=known_ids)
            if positions.null_count:
                raise StorageError(f"a node at `{column}` of an edge in {table.ref} is not there")
            ends.append(as_numpy(positions))
        return [*ends, as_numpy(rows[ROW_ID]).astype(np.int64)]

    parts = in_threads(resolve, _in_groups(fragments))
    if not parts:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    sources, targets, edges = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return sources, targets, edges


def _in_groups(fragments: Sequence[FragmentState]) -> list[list[int]]:
    """Fragments in their order, in groups that are resolved at once."""
    rows = sum(fragment.rows for fragment in fragments)
    most = min(policy.ENDS_RESOLVED_AT_ONCE, -(-rows // processors()))
    groups: list[list[int]] = []
    room = 0
    for fragment in fragments:
        if room <= 0:
            groups.append([])
            room = most
        groups[-1].append(fragment.id)
        room -= fragment.rows
    return groups


def _patched(before: EdgeVersions, topology: Topology, now: EdgeTables) -> Topology | None:
    try:
        return patched(before, topology, now)
    except StorageError:
        # A cleanup has removed the version of before.
        return None


def patched(before: EdgeVersions, topology: Topology, now: EdgeTables) -> Topology | None:
    """Make a topology from that of another version; None when too much has changed for that."""
    after = now.versions
    if not _keeps_rows(before.source, after.source) or not _keeps_rows(before.target, after.target):
        return None
    newer, older = now.edges.snapshot, before.edges.snapshot
    came = newer.appended(older, ["src", "dst"])
    if came is not None:
        return _with_edges(topology, now, came, np.zeros(0, np.int64))
    old, new = older.fragments(), newer.fragments()
    added = [new[name] for name in new.keys() - old.keys()]
    touched = [name for name in old if name not in new or old[name].deleted != new[name].deleted]
    if not added and not touched:
        # New nodes have no edges yet.
        return topology
    most = max(
        policy.FEWEST_CHANGES, min(policy.MOST_CHANGES, len(topology.out) // policy.CHANGED_PART)
    )
    count = sum(f.rows for f in added)
    if count > most:
        if touched or count > len(topology.out) // policy.ADDED_PART:
            return None
        # Many came, and all others stay as they are: only the new ones are resolved.
        ends = _resolved(now, sorted(added, key=lambda f: f.id))
        sizes = (_size(topology.out, ends[0]), _size(topology.into, ends[1]))
        return topology.patched(np.zeros(0, np.int64), *ends, sizes)
    removed = np.zeros(0, np.int64)
    rows = newer.read(["src", "dst"], places=True, fragments=[f.id for f in added])
    if touched:
        shared = [new[name].id for name in touched if name in new]
        was = _row_ids(older, [old[name].id for name in touched])
        still = _row_ids(newer, shared)
        removed = np.setdiff1d(was, still, assume_unique=True)
        # An earlier version has edges that were deleted since.
        restored = np.setdiff1d(still, was, assume_unique=True)
        if len(removed) + len(restored) > most:
            return None
        if len(restored):
            kept = newer.read(["src", "dst"], places=True, fragments=shared)
            is_restored = np.isin(as_numpy(kept[ROW_ID]).astype(np.int64), restored)
            rows = pa.concat_tables([rows, kept.filter(as_arrow(is_restored))])
    return _with_edges(topology, now, rows, removed)


def _with_edges(
    topology: Topology, now: EdgeTables, rows: pa.Table, removed: Ints
) -> Topology | None:
    """A topology with more edges, and without some; None when a node at an end is not there."""
    ends = _positions(now, in_one_piece(rows["src"]), in_one_piece(rows["dst"]))
    if ends is None:
        return None
    edges: Ints = as_numpy(rows[ROW_ID]).astype(np.int64)
    sizes = (_size(topology.out, ends[0]), _size(topology.into, ends[1]))
    return topology.patched(removed, ends[0], ends[1], edges, sizes)


def _positions(tables: EdgeTables, *ids: pa.Array) -> list[Ints] | None:
    """The positions of the nodes at both ends of some edges; None when one is not there."""
    nodes = (tables.source, tables.target)
    node_rows: list[pa.Table] = []
    for place, (columns, mine) in enumerate(zip(nodes, ids, strict=True)):
        if place and nodes[0] is columns:
            node_rows.append(node_rows[0])
        else:
            both = joined(ids) if nodes[0] is nodes[1] else mine
            node_rows.append(columns.snapshot.find("id", both.unique(), ["id"]))
    ends: list[Ints] = []
    for table, mine in zip(node_rows, ids, strict=True):
        at = pc.index_in(mine, value_set=table["id"])
        positions = table[ROW_ID].combine_chunks().take(at)
        if positions.null_count:
            return None
        ends.append(as_numpy(positions).astype(np.int64))
    return ends


def _size(side: Adjacency, ends: Narrow) -> int:
    return max(side.size, int(ends.max()) + 1 if len(ends) else 0)


def _keeps_rows(old: OpenTable, new: OpenTable) -> bool:
    """True when a node that is in both versions surely has the same row id in both."""
    if old.key == new.key or not old.rows:
        return True
    return not old.snapshot.fragments().keys().isdisjoint(new.snapshot.fragments())


def _row_ids(table: TableSnapshot, fragments: list[int]) -> Ints:
    if not fragments:
        return np.zeros(0, np.int64)
    read = table.read([], places=True, fragments=fragments)
    ids: Ints = as_numpy(read[ROW_ID]).astype(np.int64)
    return ids


def _file_name(keys: Keys) -> str:
    described = repr([key.to_list() for key in keys])
    return f"{keys[0].family}@{hashlib.sha256(described.encode()).hexdigest()[:16]}"
