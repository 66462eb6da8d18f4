"""Which embedding model computed the vectors of a property, where the schema does not say it.

The first time that texts are embedded for a property decides: vectors of two models cannot be
compared, so later loads and queries have to use the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.schema.catalog import Property

if TYPE_CHECKING:
    from omnigraph.storage.objects import Objects

_FOLDER = "__embeddings"


def model_of(objects: Objects, property: Property) -> str | None:
    """The model of a property's vectors: the schema's, or the one that was used first."""
    if property.embed is not None and property.embed.model is not None:
        return property.embed.model
    note = objects.read(f"{_FOLDER}/{property.id}")
    return None if note is None else note.data.decode()


def record_model(objects: Objects, property: Property, identifier: str) -> str:
    """Note the model that is about to be used for a property; returns the one that counts."""
    objects.create(f"{_FOLDER}/{property.id}", identifier.encode())
    return model_of(objects, property) or identifier
