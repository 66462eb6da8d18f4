"""What the queries of one graph share: tables, shapes and plans that earlier ones have left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from omnigraph.history.store import History
from omnigraph.query.images import ImageCache, TableImage
from omnigraph.query.prepared import PreparedCache
from omnigraph.query.searched import GetEmbedder
from omnigraph.query.shapes import Shapes
from omnigraph.query.tables import policy
from omnigraph.query.tables.files import ColumnFiles
from omnigraph.query.tables.version_key import VersionKey
from omnigraph.query.tables.writer import CacheWriter
from omnigraph.storage.cache_files import FOLDER
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
        #: Tables of which something can be written to files.
        self._unwritten: dict[VersionKey, TableImage] = {}
        self._history: History | None = None
        self.writer = CacheWriter(self._write)

    def anew(self, epoch: int) -> Caches:
        """Empty caches, for another epoch."""
        return Caches(self._image_bytes, self._location, self.embedder, epoch)

    def write_later(self, images: Mapping[VersionKey, TableImage], history: History) -> None:
        """Leave what a query has worked out in files for other processes, after its answer."""
        unwritten = {key: image for key, image in images.items() if image.can_be_written}
        if unwritten or self.shapes.can_be_written or history.can_be_written:
            self._unwritten |= unwritten
            self._history = history
            self.writer.start()

    def _write(self) -> None:
        rest = policy.WRITTEN_AT_ONCE
        while self._unwritten:
            image = self._unwritten.popitem()[1]
            rest -= image.write(rest)
        self.shapes.write()
        if self._history is not None:
            self._history.keep()

    def column_files(self, key: VersionKey) -> ColumnFiles | None:
        """The files with columns of a version of a table; None when there can be none."""
        if self._location is None or not key.stamp:
            return None
        return ColumnFiles(self._location.child(f"{FOLDER}/columns"), key)


def _hold_memory() -> None:
    """Let the process hold on to the memory of arrays that are gone, for the next ones.

    The C library of Linux gives large blocks back at once, and then every page of every array is
    waited for again, which doubles the time of many queries. It stops doing so for blocks of a size
    that it has seen come and go. This one is not touched, so it costs nothing.
    """
    np.empty(_BLOCK, np.uint8)
