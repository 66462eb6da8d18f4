"""Keeping shapes: in memory, on disk, and patched from the version before.

A shape depends on the edges, and on which row of a node table an id is. Row ids of nodes stay as
they are until a table is written anew as a whole; then, or when much has changed, the shape is
built again from the ids.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, ValidationError

from omnigraph.compute.arrays import as_numpy
from omnigraph.errors import StorageError
from omnigraph.query.images import TableImage
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import Part, map_arrays, write_arrays
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.query.topology import Adjacency, Ints, Lists, Packed, Topology
from omnigraph.storage.cache_files import FOLDER, remove_file
from omnigraph.storage.location import Location
from omnigraph.storage.table_ref import ROW_ID
from omnigraph.storage.version_file import stamp_of

if TYPE_CHECKING:
    from omnigraph.storage.tables import TableSnapshot

#: How many shapes are kept in memory.
_KEPT = 32
#: Larger shapes are kept on disk at once when they were built; smaller ones, also patched ones,
#: when the version of the edges has been there for a moment.
_WORTH_A_FILE = 20_000
#: A shape is patched when at most this many edges, and this part of all, have changed.
_MOST_CHANGES = 4096
_FEWEST_CHANGES = 16
_PART = 8


class EdgeTables(Struct, frozen=True):
    """An edge table with the node tables at its ends, each at one version."""

    keys: tuple[VersionKey, VersionKey, VersionKey]
    edges: TableImage
    source: TableImage
    target: TableImage

    @property
    def lineage(self) -> tuple[str, str | None, str]:
        """What stays the same from version to version."""
        return self.keys[0].table


class Shapes:
    """The shapes of one graph. Safe to share between threads."""

    def __init__(self, location: Location | None) -> None:
        self._location = location
        self._folder = None if location is None else location.child(f"{FOLDER}/topology")
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[VersionKey, ...], tuple[EdgeTables, Topology]] = OrderedDict()
        #: Per edge table what was used last: the base of a patch.
        self._last: dict[tuple[str, str | None, str], tuple[VersionKey, ...]] = {}
        #: What could be on disk and is not.
        self._unkept: dict[tuple[VersionKey, ...], tuple[EdgeTables, Topology]] = {}

    def get(self, tables: EdgeTables) -> Topology:
        """The shape of an edge table."""
        with self._guard:
            if tables.keys in self._kept:
                self._kept.move_to_end(tables.keys)
                return self._kept[tables.keys][1]
            base = self._kept.get(self._last.get(tables.lineage, ()))
        found = self._read(tables)
        if found is None:
            base = base or self._stored_base(tables)
            found = patched(*base, tables) if base is not None else None
            is_built = found is None
            found = found or build(tables)
            if is_built or found.count < _WORTH_A_FILE:
                self._unkept[tables.keys] = (tables, found)
        with self._guard:
            self._kept[tables.keys] = (tables, found)
            self._last[tables.lineage] = tables.keys
            while len(self._kept) > _KEPT:
                self._unkept.pop(self._kept.popitem(last=False)[0], None)
        return found

    @property
    def can_be_written(self) -> bool:
        """True when there is something to write to files now."""
        return self._folder is not None and any(
            shape.count >= _WORTH_A_FILE or tables.edges.is_settled
            for tables, shape in list(self._unkept.values())
        )

    def write(self) -> None:
        """Leave shapes in files: large ones, and those of versions that will stay for a while."""
        for keys, (tables, shape) in list(self._unkept.items()):
            if shape.count >= _WORTH_A_FILE or tables.edges.is_settled:
                self._unkept.pop(keys, None)
                self._write(tables, shape)

    # --- on disk ---

    def _stored_base(self, tables: EdgeTables) -> tuple[EdgeTables, Topology] | None:
        """The newest shape on disk of the same tables at other versions."""
        stored = self._stored(tables)
        if not stored or self._location is None:
            return None
        found = map_arrays(stored[-1])
        if found is None:
            return None
        try:
            keys = [VersionKey.from_list(key) for key in found[1]["keys"]]
        except (KeyError, TypeError, ValidationError):
            return None
        if [key.table for key in keys] != [key.table for key in tables.keys]:
            return None
        stamps = [stamp_of(self._location, key.ref, key.version) for key in keys]
        if [stamp and stamp.content for stamp in stamps] != [key.stamp for key in keys]:
            # The versions were made anew, such as after a backup was put back.
            return None
        try:
            edges, source, target = (key.version for key in keys)
            then = EdgeTables(
                tables.keys,
                TableImage.of(tables.edges.snapshot.at(edges)),
                TableImage.of(tables.source.snapshot.at(source)),
                TableImage.of(tables.target.snapshot.at(target)),
            )
        except StorageError:
            # The version is gone.
            return None
        return then, _shape(*found)

    def _read(self, tables: EdgeTables) -> Topology | None:
        if self._folder is None:
            return None
        found = map_arrays(f"{self._folder}/{_file_name(tables)}")
        if found is None or found[1].get("keys") != [key.to_list() for key in tables.keys]:
            return None
        return _shape(*found)

    def _write(self, tables: EdgeTables, shape: Topology) -> None:
        """Keep a shape on disk. It can be made again, so nothing depends on this."""
        if self._folder is None:
            return
        sides = (shape.out.packed, shape.into.packed)
        arrays = [
            array
            for side in sides
            for array in (side.starts, side.lists.neighbours, side.lists.edges)
        ]
        file = f"{self._folder}/{_file_name(tables)}"
        keys = [key.to_list() for key in tables.keys]
        if write_arrays(file, arrays, keys=keys, is_set=shape.out.packed.is_set):
            for old in self._stored(tables)[: -policy.VERSIONS_ON_DISK]:
                remove_file(old)

    def _stored(self, tables: EdgeTables) -> list[str]:
        """Where shapes of the same edge table are, the newest last."""
        if self._folder is None:
            return []
        prefix = f"{tables.keys[0].family}@"
        try:
            entries = [e for e in os.scandir(self._folder) if e.name.startswith(prefix)]
            entries.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        except OSError:
            return []
        return [entry.path for entry in entries]


def _shape(arrays: list[Part], about: Mapping[str, Any]) -> Topology:
    """The shape in a file."""
    is_set = about["is_set"]
    out = Packed(arrays[0], Lists(arrays[1], arrays[2]), is_set=is_set)
    into = Packed(arrays[3], Lists(arrays[4], arrays[5]), is_set=is_set)
    return Topology(out.adjacency, into.adjacency)


def build(tables: EdgeTables) -> Topology:
    """Make a shape from the ids of the edges' ends."""
    read = tables.edges.snapshot.read(["src", "dst"], places=True)
    ends = []
    for column, image in (("src", tables.source), ("dst", tables.target)):
        at = pc.index_in(read[column].combine_chunks(), value_set=image.columns(["id"])["id"])
        ends.append(as_numpy(at).astype(np.int64))
    edges: Ints = as_numpy(read[ROW_ID]).astype(np.int64)
    return Topology.build(ends[0], ends[1], edges, tables.source.size, tables.target.size)


def patched(before: EdgeTables, shape: Topology, now: EdgeTables) -> Topology | None:
    """Make a shape from that of another version; None when too much has changed for that."""
    if not _keeps_rows(before.source, now.source) or not _keeps_rows(before.target, now.target):
        return None
    newer, older = now.edges.snapshot, before.edges.snapshot
    came = newer.appended(older, ["src", "dst"])
    if came is not None:
        return _with_edges(shape, now, came, np.zeros(0, np.int64))
    old, new = older.fragments(), newer.fragments()
    added = [new[name] for name in new.keys() - old.keys()]
    touched = [name for name in old if name not in new or old[name].deleted != new[name].deleted]
    if not added and not touched:
        # New nodes have no edges yet.
        return shape
    most = max(_FEWEST_CHANGES, min(_MOST_CHANGES, len(shape.out) // _PART))
    if sum(f.rows for f in added) > most:
        return None
    removed = np.zeros(0, np.int64)
    if touched:
        was = _row_ids(older, [old[name].id for name in touched])
        still = _row_ids(newer, [new[name].id for name in touched if name in new])
        removed = np.setdiff1d(was, still, assume_unique=True)
        if len(removed) > most:
            return None
    rows = newer.read(["src", "dst"], places=True, fragments=[f.id for f in added])
    return _with_edges(shape, now, rows, removed)


def _with_edges(shape: Topology, now: EdgeTables, rows: pa.Table, removed: Ints) -> Topology | None:
    """A shape with more edges, and without some; None when a node at an end is not there."""
    ends = _positions(now, rows["src"].combine_chunks(), rows["dst"].combine_chunks())
    if ends is None:
        return None
    edges: Ints = as_numpy(rows[ROW_ID]).astype(np.int64)
    sizes = (_size(shape.out, ends[0]), _size(shape.into, ends[1]))
    return shape.patched(removed, ends[0], ends[1], edges, sizes)


def _positions(tables: EdgeTables, *ids: pa.Array) -> list[Ints] | None:
    """The positions of the nodes at both ends of some edges; None when one is not there."""
    images = (tables.source, tables.target)
    found: list[pa.Table] = []
    for place, (image, mine) in enumerate(zip(images, ids, strict=True)):
        if place and images[0] is image:
            found.append(found[0])
        else:
            both = pa.concat_arrays(ids) if images[0] is images[1] else mine
            found.append(image.snapshot.find("id", both.unique(), ["id"]))
    ends: list[Ints] = []
    for table, mine in zip(found, ids, strict=True):
        at = pc.index_in(mine, value_set=table["id"].combine_chunks())
        positions = table[ROW_ID].combine_chunks().take(at)
        if positions.null_count:
            return None
        ends.append(as_numpy(positions).astype(np.int64))
    return ends


def _size(side: Adjacency, ends: Ints) -> int:
    return max(side.size, int(ends.max()) + 1 if len(ends) else 0)


def _keeps_rows(old: TableImage, new: TableImage) -> bool:
    """True when a node that is in both versions surely has the same row id in both."""
    if old is new or not old.rows:
        return True
    return not old.snapshot.fragments().keys().isdisjoint(new.snapshot.fragments())


def _row_ids(table: TableSnapshot, fragments: list[int]) -> Ints:
    if not fragments:
        return np.zeros(0, np.int64)
    read = table.read([], places=True, fragments=fragments)
    ids: Ints = as_numpy(read[ROW_ID]).astype(np.int64)
    return ids


def _file_name(tables: EdgeTables) -> str:
    keys = repr([key.to_list() for key in tables.keys])
    return f"{tables.keys[0].family}@{hashlib.sha256(keys.encode()).hexdigest()[:16]}"
