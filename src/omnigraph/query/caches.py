"""What the queries of one graph share: tables, shapes and plans that earlier ones have left."""

from __future__ import annotations

from pathlib import Path

from omnigraph.query.images import ImageCache
from omnigraph.query.kept_columns import KeptColumns, TableKey
from omnigraph.query.prepared import PreparedCache
from omnigraph.query.searched import GetEmbedder
from omnigraph.query.shapes import Shapes
from omnigraph.storage.kept import Stamp


class Caches:
    """What queries of one graph share. Safe to share between threads."""

    def __init__(
        self, image_bytes: int, folder: Path | None = None, embedder: GetEmbedder | None = None
    ) -> None:
        self._folder = folder
        self.images = ImageCache(image_bytes)
        self.shapes = Shapes(None if folder is None else folder / "topology")
        self.plans = PreparedCache()
        self.embedder = embedder

    def kept_columns(self, key: TableKey, stamp: Stamp | None) -> KeptColumns | None:
        """The files with columns of a version of a table; None when there can be none."""
        if self._folder is None or stamp is None:
            return None
        return KeptColumns(self._folder / "columns", key, stamp)
