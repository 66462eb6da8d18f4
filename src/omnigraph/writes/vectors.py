"""Vectors that rows omit, computed from the texts that `@embed` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import UsageError
from omnigraph.history.models import model_of, record_model
from omnigraph.language import EdgeType, NodeType
from omnigraph.language.schema.arrow import arrow_type
from omnigraph.language.schema.catalog import Property
from omnigraph.storage.objects import Objects

if TYPE_CHECKING:
    from omnigraph.embedding.embedder import Embedder


def embedded(type: NodeType | EdgeType) -> list[Property]:
    """The properties of a type whose vectors are computed from a text."""
    return [property for property in type.stored_properties if property.embed is not None]


def fill_vectors(
    type: NodeType | EdgeType,
    rows: pa.Table,
    properties: Iterable[Property],
    embedder: Callable[[], Embedder],
    objects: Objects,
    nulls: Mapping[str, Any],
) -> pa.Table:
    """Fill vectors that are omitted, and note which model computed them.

    Args:
        type: The type of the rows.
        rows: The rows. Rows with a blank text, or none, get no vector.
        properties: Which vectors; see `embedded`.
        embedder: Returns what makes them; called if there are any.
        objects: Where the model is noted.
        nulls: By property, a mask of the rows whose vector is null because somebody says so.

    Raises:
        UsageError: Another model is configured than computed the existing vectors.
        EmbeddingError: The provider failed.
    """
    for property in properties:
        embed = property.embed
        assert embed is not None
        kind = arrow_type(property.type)
        if property.name not in rows.column_names:
            # Rows that get no vector are reported one by one, if they need one.
            rows = rows.append_column(property.name, pa.nulls(rows.num_rows, kind))
        vectors = rows[property.name].combine_chunks()
        texts = _source(type.properties[embed.source], rows)
        if not pa.types.is_string(texts.type):
            continue
        wanted = pc.and_(
            pc.is_null(vectors),
            pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), False),
        )
        if property.name in nulls:
            wanted = pc.and_(wanted, pc.invert(pa.array(nulls[property.name])))
        if pc.any(wanted).as_py():
            new_vectors = _embedded(type, property, texts.filter(wanted), embedder(), objects)
            whole = _put(vectors.cast(kind), wanted, new_vectors.cast(kind))
            rows = rows.set_column(rows.column_names.index(property.name), property.name, whole)
    return rows


def _source(property: Property, rows: pa.Table) -> pa.Array:
    """The texts that are embedded; what all rows leave out is the default."""
    if property.name in rows.column_names:
        return rows[property.name].combine_chunks()
    return pa.repeat(pa.scalar(property.default, pa.utf8()), rows.num_rows)


def _embedded(
    type: NodeType | EdgeType,
    property: Property,
    texts: pa.Array,
    embedder: Embedder,
    objects: Objects,
) -> pa.Array:
    """The vectors of texts, by the model that makes those of the property."""
    model = model_of(objects, property) or record_model(objects, property, embedder.identifier)
    if not embedder.is_model(model):
        raise UsageError(
            f"the vectors `{property.name}` of {type.name} are made with the model"
            f" `{model}`, but `{embedder.identifier}` is configured; set"
            " OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL, or give the vectors"
        )
    dimension = property.type.dimension
    assert dimension is not None
    vectors = embedder.embed(texts.to_pylist(), dimension, "document")
    flat = pa.array(np.asarray(vectors, np.float32).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, dimension)


def _put(column: pa.Array, mask: pa.Array, values: pa.Array) -> pa.Array:
    """A column with values, one after the other, where a mask says so."""
    places = np.cumsum(np.asarray(mask.to_numpy(zero_copy_only=False), np.int64)) - 1
    at = pa.array(places + len(column))
    same = pa.array(np.arange(len(column)))
    return pa.concat_arrays([column, values]).take(pc.if_else(mask, at, same))
