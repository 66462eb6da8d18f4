"""Vectors that an input leaves out, made from the texts that `@embed` names, during the load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embedding.embedder import Embedder
from omnigraph.embedding.providers import embedder_of
from omnigraph.errors import UsageError
from omnigraph.history.models import model_of, record_model
from omnigraph.language import Catalog, EdgeType, NodeType
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import Property
from omnigraph.pipeline.formats.json_reader import Rows
from omnigraph.settings import Settings
from omnigraph.storage.objects import Objects

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
    asked = any(p.embed is not None for t in catalog.tables() for p in t.stored_properties)
    return TextEmbedding(settings) if asked else None


def embed_rows(
    type: NodeType | EdgeType, given: Rows, embedding: TextEmbedding, objects: Objects
) -> pa.Table:
    """Fill vectors that are left out, and note which model made them.

    Raises:
        UsageError: Another model is configured than made the vectors that are there.
        EmbeddingError: The provider failed.
    """
    rows = given.table
    for property in type.stored_properties:
        embed = property.embed
        if embed is None:
            continue
        kind = arrow_type(property.type)
        if property.name not in rows.column_names:
            # Rows that get no vector are told one by one, if they need one.
            rows = rows.append_column(property.name, pa.nulls(rows.num_rows, kind))
        vectors = rows[property.name].combine_chunks()
        texts = _source(type.properties[embed.source], rows)
        if not pa.types.is_string(texts.type):
            continue
        wanted = pc.and_(
            pc.is_null(vectors),
            pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False),
        )
        if property.name in given.nulls:
            wanted = pc.and_(wanted, pc.invert(pa.array(given.nulls[property.name])))
        if not pc.any(wanted).as_py():
            continue
        embedder = embedding.embedder()
        model = model_of(objects, property) or record_model(objects, property, embedder.identifier)
        if not embedder.is_model(model):
            raise UsageError(
                f"the vectors `{property.name}` of {type.name} are made with the model"
                f" `{model}`, but `{embedder.identifier}` is configured; set"
                " OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL, or give the vectors"
            )
        dimension = property.type.dimension
        assert dimension is not None
        made = embedder.embed(texts.filter(wanted).to_pylist(), dimension, "document")
        flat = pa.array(np.asarray(made, np.float32).ravel())
        new = pa.FixedSizeListArray.from_arrays(flat, dimension)
        places = np.cumsum(np.asarray(wanted.to_numpy(zero_copy_only=False), np.int64)) - 1
        at = pa.array(places + rows.num_rows)
        keep = pa.array(np.arange(rows.num_rows))
        both = pa.concat_arrays([vectors.cast(kind), new.cast(kind)])
        whole = both.take(pc.if_else(wanted, at, keep))
        rows = rows.set_column(rows.column_names.index(property.name), property.name, whole)
    return rows


def _source(property: Property, rows: pa.Table) -> pa.Array:
    """The texts that are embedded; what all rows leave out is the default."""
    if property.name in rows.column_names:
        return rows[property.name].combine_chunks()
    return pa.repeat(pa.scalar(property.default, pa.utf8()), rows.num_rows)
