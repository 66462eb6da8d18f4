"""The present state of main in a small file, so that a new process need not read the manifest."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType

from omnigraph.history.manifest import FORMAT, ManifestState, PublishedTable, TableIdentity
from omnigraph.storage.kept import Stamp, keep
from omnigraph.storage.location import Location


class Remembered:
    """The file of one graph. Graphs on object stores have none."""

    def __init__(self, location: Location) -> None:
        self._file = Path(location.child("__cache/manifest.json")) if location.is_local else None

    def read(self, stamp: Stamp) -> tuple[str | None, ManifestState] | None:
        """Which graph it is, and the state at a version of the manifest, if it was remembered."""
        if self._file is None:
            return None
        try:
            found = json.loads(self._file.read_bytes())
            if found["stamp"] != str(stamp) or found["format"] != FORMAT:
                return None
            tables = [
                PublishedTable(TableIdentity.parse(identity), *rest)
                for identity, *rest in found["tables"]
            ]
            return found["graph"], ManifestState(
                stamp.version,
                MappingProxyType({table.identity: table for table in tables}),
                MappingProxyType(found["heads"]),
                MappingProxyType(found["tags"]),
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, stamp: Stamp, graph: str | None, state: ManifestState) -> None:
        """Remember the state at a version."""
        if self._file is None:
            return
        found = {
            "format": FORMAT,
            "stamp": str(stamp),
            "graph": graph,
            "tables": [
                [str(t.identity), t.key, t.path, t.version, t.branch, t.rows]
                for t in state.tables.values()
            ],
            "heads": dict(state.heads),
            "tags": dict(state.tags),
        }
        keep(self._file, json.dumps(found, separators=(",", ":")).encode())
