"""Vectors that an input omits, made from the texts that `@embed` names, during the load."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.providers import embedder_of
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.pipeline.formats.json_reader import Rows
from omnigraph.settings import Settings
from omnigraph.storage.objects import Objects
from omnigraph.writes.vectors import embedded, fill_vectors

_embedders: dict[Settings, Embedder] = {}


@dataclass(frozen=True)
class TextEmbedding:
    """How texts are embedded, wherever it happens."""

    settings: Settings

    def embedder(self) -> Embedder:
        """What does it, one per process."""
        if self.settings not in _embedders:
            _embedders[self.settings] = embedder_of(self.settings, None)
        return _embedders[self.settings]


def embedding_for(catalog: Catalog, settings: Settings) -> TextEmbedding | None:
    """How the texts of a graph are embedded; None when no type asks for it."""
    asked = any(map(embedded, catalog.tables()))
    return TextEmbedding(settings) if asked else None


def embed_rows(
    type: NodeType | EdgeType, rows: Rows, embedding: TextEmbedding, objects: Objects
) -> pa.Table:
    """Fill vectors that are omitted, and note which model made them.

    Raises:
        UsageError: Another model is configured than made the vectors that are there.
        EmbeddingError: The provider failed.
    """
    return fill_vectors(type, rows.table, embedded(type), embedding.embedder, objects, rows.nulls)
