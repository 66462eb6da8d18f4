"""Rows of a small ledger: a key and a number."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from omnigraph.storage.table_ref import PRIMARY_KEY

SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8(), nullable=False, metadata={PRIMARY_KEY: "true"}),
        pa.field("value", pa.int64()),
    ],
    metadata={"format": "1"},
)


def entries(values: Mapping[str, int]) -> pa.Table:
    return pa.table({"object_id": list(values), "value": list(values.values())}, schema=SCHEMA)
