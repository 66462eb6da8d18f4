"""The Arrow form of a type's table: its physical columns, exactly as Lance stores them.

The table and its types come from the catalog; nothing here depends on Lance itself. Only code
that handles data imports this module, so that compiling a schema does not wait for Arrow.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.language.schema.catalog import EdgeType, Property, TableType
from omnigraph.language.types import Scalar, ValueType

#: Field metadata with a property's stable id, as decimal text.
PROPERTY_ID = b"omnigraph.stable_property_id"

_BLOB_NAME = "lance.blob.v2"
_PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
_BLOB = {b"ARROW:extension:name": _BLOB_NAME.encode(), b"ARROW:extension:metadata": b""}
_SCALARS: dict[Scalar, pa.DataType] = {
    Scalar.STRING: pa.utf8(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.timestamp("ms", tz="UTC"),
    Scalar.BLOB: pa.struct(
        [
            pa.field("data", pa.large_binary()),
            pa.field("uri", pa.utf8()),
            pa.field("position", pa.uint64()),
            pa.field("size", pa.uint64()),
        ]
    ),
}


def table_schema(table: TableType) -> pa.Schema:
    """Return the columns of a type's table: `id`, an edge's `src` and `dst`, the properties.

    Properties stand in the order of their stable ids, which never changes, and carry them in
    their metadata.
    """
    fields = [pa.field("id", pa.utf8(), nullable=False, metadata=_PRIMARY_KEY)]
    if isinstance(table, EdgeType):
        fields += [pa.field(end, pa.utf8(), nullable=False) for end in ("src", "dst")]
    fields += [property_field(p) for p in table.stored_properties]
    return pa.schema(fields)


def property_field(property: Property) -> pa.Field:
    """Return the column of one property."""
    metadata = {PROPERTY_ID: str(property.id).encode()}
    if property.type.is_blob:
        metadata |= _BLOB
    return pa.field(
        property.name,
        arrow_type(property.type),
        nullable=property.type.nullable,
        metadata=metadata,
    )


def arrow_type(type: ValueType) -> pa.DataType:
    """Return the Arrow type of a value type; that of a blob is its storage struct."""
    scalar = _SCALARS[type.scalar]
    if type.dimension is not None:
        return pa.list_(scalar, type.dimension)
    if type.is_list:
        return pa.list_(scalar)
    return scalar


def value_type(field: pa.Field) -> ValueType:
    """Return the type of a table's column; what is an enum in the schema is a String here."""
    type = field.type
    if isinstance(type, pa.BaseExtensionType) and type.extension_name == _BLOB_NAME:
        return ValueType(Scalar.BLOB, field.nullable)
    if pa.types.is_fixed_size_list(type):
        return ValueType(Scalar.F32, field.nullable, dimension=type.list_size)
    if pa.types.is_list(type):
        return ValueType(_BY_ARROW[type.value_type], field.nullable, is_list=True)
    return ValueType(_BY_ARROW[type], field.nullable)


_BY_ARROW = {type: scalar for scalar, type in _SCALARS.items()}
