"""The present state of main in a small file, so that a new process need not read the manifest."""

from __future__ import annotations

import json
import zlib
from types import MappingProxyType

from msgspec import Struct

from omnigraph.history.manifest import FORMAT, ManifestState, PublishedTable, TableIdentity
from omnigraph.storage.cache_files import FOLDER, Stamp, read_file, write_file
from omnigraph.storage.location import Location


class CachedManifest(Struct, frozen=True):
    """What a version of the manifest says.

    Attributes:
        graph: Which graph it is, if the manifest says so.
        format: The version of the manifest's own shape.
        state: The state of main.
    """

    graph: str | None
    format: int
    state: ManifestState


class ManifestCache:
    """The file of one graph. Graphs on object stores have none."""

    def __init__(self, location: Location) -> None:
        self._file = location.child(f"{FOLDER}/manifest.json") if location.is_local else None

    def read(self, stamp: Stamp) -> CachedManifest | None:
        """What a version of the manifest says, if that is cached."""
        content = None if self._file is None else read_file(self._file)
        verified = None if content is None else _verified(content)
        if verified is None:
            return None
        try:
            entry = json.loads(verified)
            if entry["stamp"] != str(stamp) or entry["format"] not in range(1, FORMAT + 1):
                return None
            tables = [
                PublishedTable(TableIdentity.parse(identity), *rest)
                for identity, *rest in entry["tables"]
            ]
            state = ManifestState(
                stamp.version,
                MappingProxyType({table.identity: table for table in tables}),
                MappingProxyType(entry["heads"]),
                MappingProxyType(entry["tags"]),
                entry["schema"],
            )
            return CachedManifest(entry["graph"], entry["format"], state)
        except (ValueError, TypeError, KeyError):
            return None

    def write(self, stamp: Stamp, manifest: CachedManifest) -> None:
        """Cache what a version says."""
        if self._file is None:
            return
        state = manifest.state
        entry = {
            "format": manifest.format,
            "stamp": str(stamp),
            "graph": manifest.graph,
            "tables": [
                [str(t.identity), t.key, t.path, t.version, t.branch, t.rows]
                for t in state.tables.values()
            ],
            "heads": dict(state.heads),
            "tags": dict(state.tags),
            "schema": state.schema,
        }
        content = json.dumps(entry, separators=(",", ":")).encode()
        write_file(self._file, _opening(content), content, b"}")


def _opening(state: bytes) -> bytes:
    """What stands before a state in the file; the whole is JSON."""
    return b'{"checksum":"%08x","state":' % zlib.crc32(state)


def _verified(content: bytes) -> bytes | None:
    """The state in a file, if it is as it was written."""
    state = content[len(_opening(b"")) : -1]
    return state if content == _opening(state) + state + b"}" else None
