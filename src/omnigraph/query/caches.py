"""What the queries of one graph share: tables, shapes and plans that earlier ones have left."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from omnigraph.query.images import ImageCache
from omnigraph.query.kept_columns import KeptColumns, TableKey
from omnigraph.query.prepared import PreparedCache
from omnigraph.query.searched import GetEmbedder
from omnigraph.query.shapes import Shapes
from omnigraph.storage.kept import Stamp
from omnigraph.storage.location import Location

#: The largest block that the C library learns from is of 32 MiB.
_BLOCK = 31 << 20


class Caches:
    """What queries of one graph share. Safe to share between threads."""

    def __init__(
        self,
        image_bytes: int,
        location: Location | None = None,
        embedder: GetEmbedder | None = None,
        epoch: int = 0,
    ) -> None:
        _hold_memory()
        #: Where the graph is, if files can be kept there.
        self._location = location if location is not None and location.is_local else None
        self._image_bytes = image_bytes
        #: How often the graph's folder was replaced before: what was left then is of no use.
        self.epoch = epoch
        self.images = ImageCache(image_bytes)
        self.shapes = Shapes(self._location)
        self.plans = PreparedCache()
        self.embedder = embedder

    def anew(self, epoch: int) -> Caches:
        """Empty caches, for another epoch."""
        return Caches(self._image_bytes, self._location, self.embedder, epoch)

    def kept_columns(self, key: TableKey, stamp: Stamp | None) -> KeptColumns | None:
        """The files with columns of a version of a table; None when there can be none."""
        if self._location is None or stamp is None:
            return None
        return KeptColumns(Path(self._location.child("__cache/columns")), key, stamp)


def _hold_memory() -> None:
    """Let the process hold on to the memory of arrays that are gone, for the next ones.

    The C library of Linux gives large blocks back at once, and then every page of every array is
    waited for again, which doubles the time of many queries. It stops doing so for blocks of a size
    that it has seen come and go. This one is not touched, so it costs nothing.
    """
    np.empty(_BLOCK, np.uint8)
