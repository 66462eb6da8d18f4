"""Blob properties of nodes and edges: finding the value of one row.

What a type and its properties are is asked of the table itself, not of today's schema, so that a
value of an old commit is found as it was then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omnigraph.diagnostics import with_hint
from omnigraph.errors import NotFound, UsageError
from omnigraph.history.manifest import PublishedTable
from omnigraph.plain import Plain
from omnigraph.storage.blobs import BlobStream, ByteRange, blob_columns, open_blob
from omnigraph.storage.tables import TableSnapshot

#: What a row is.
EntityKind = Literal["node", "edge"]


@dataclass(frozen=True, slots=True)
class BlobStat(Plain):
    """What is known of a blob value without reading it.

    Attributes:
        type: The node or edge type.
        id: The node or edge.
        property: The property.
        size: How many bytes the value has.
        is_external: True when the graph has only a reference to it.
        uri: What the reference says, or None.
    """

    type: str
    id: str
    property: str
    size: int
    is_external: bool
    uri: str | None


def check_kind(published: PublishedTable, kind: EntityKind) -> None:
    """Refuse a type that is not of the kind that was asked for."""
    if kind not in ("node", "edge"):
        raise UsageError(f"kind is `node` or `edge`, not `{kind}`")
    real = published.key.partition(":")[0]
    if real != kind:
        article = {"node": "a", "edge": "an"}
        raise UsageError(
            f"{published.name} is {article[real]} {real} type, not {article[kind]} {kind} type"
        )


def open_value(
    table: TableSnapshot, type: str, id: str, property: str, range: ByteRange | None = None
) -> BlobStream:
    """Open the value of a blob property.

    Raises:
        NotFound: There is no such property or row, or the value is null.
        UsageError: The property is not a Blob, or the range is not within the value.
    """
    _check_property(table, type, property)
    text = id.replace("'", "''")
    row_ids = table.read(["_rowid"], where=f"id = '{text}'")["_rowid"].to_pylist()
    if not row_ids:
        raise NotFound(f"there is no {type} with the id `{id}`")
    stream = open_blob(table, property, row_ids[0], range)
    if stream is None:
        raise NotFound(f"`{property}` of the {type} `{id}` is null: it has no value to read")
    return stream


def _check_property(table: TableSnapshot, type: str, property: str) -> None:
    if property in blob_columns(table):
        return
    names = table.schema.names
    if property in names:
        blobs = ", ".join(blob_columns(table)) or "none"
        raise UsageError(f"`{property}` of {type} is not a Blob; its Blob properties: {blobs}")
    raise NotFound(with_hint(f"{type} has no property `{property}`", property, names))
