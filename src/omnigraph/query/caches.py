"""What the queries of one graph share: tables, shapes and plans that earlier ones have left."""

from __future__ import annotations

from pathlib import Path

from omnigraph.query.images import ImageCache
from omnigraph.query.prepared import PreparedCache
from omnigraph.query.search import GetEmbedder
from omnigraph.query.shapes import Shapes


class Caches:
    """What queries of one graph share. Safe to share between threads."""

    def __init__(
        self, image_bytes: int, folder: Path | None = None, embedder: GetEmbedder | None = None
    ) -> None:
        self.images = ImageCache(image_bytes)
        self.shapes = Shapes(folder)
        self.plans = PreparedCache()
        self.embedder = embedder
